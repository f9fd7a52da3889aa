from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.running import announced, read_running
from pipeline.settings import load_settings


def test_a_pipeline_is_found_while_it_runs(tmp_path: Path) -> None:
    settings = load_settings(home=tmp_path / "new", bootstrap="here:1", shards=3, app="a")
    assert read_running(settings) is None
    with announced(settings):
        found = read_running(load_settings(home=tmp_path / "new"))
        assert found == {
            "bootstrap": "here:1",
            "registry_url": settings.registry_url,
            "app": "a",
            "shards": 3,
        }
    assert read_running(settings) is None


def test_the_announcement_of_a_dead_process_is_ignored(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    (tmp_path / "running.json").write_text(json.dumps({"bootstrap": "b:1", "pid": process.pid}))
    assert read_running(load_settings(home=tmp_path)) is None


@pytest.mark.parametrize("text", ["", "{", "{}", "\xff"])
def test_a_broken_announcement_is_ignored(tmp_path: Path, text: str) -> None:
    (tmp_path / "running.json").write_text(text, encoding="latin-1")
    assert read_running(load_settings(home=tmp_path)) is None
