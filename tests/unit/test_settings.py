from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.errors import ConfigError
from pipeline.settings import EngineName, load_settings


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in list(os.environ):
        if name.startswith("TALLYSTREAM_"):
            monkeypatch.delenv(name)


def test_the_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "BOOTSTRAP": "a:1,b:2",
        "SHARDS": "4",
        "LOG_JSON": "true",
        "HOME": "/tmp/h",
        "BATCHING__MAX_BATCH": "3",
        "ENGINE__NAME": "scripted",
        "WORKER__QUOTAS": "[6, 5, 4, 3, 2, 1]",
        "WORKER__TENANT_WEIGHTS": '{"Gold": 4}',
        "WEBHOOK__RETRY_SCHEDULE": "[0.5, 2]",
    }.items():
        monkeypatch.setenv(f"TALLYSTREAM_{name}", value)
    settings = load_settings()
    assert (settings.bootstrap, settings.shards, settings.log_json) == ("a:1,b:2", 4, True)
    assert (settings.batching.max_batch, settings.batching.max_wait_ms) == (3, 100)
    assert settings.home == Path("/tmp/h")
    assert settings.engine.name is EngineName.SCRIPTED
    assert settings.worker.quotas == (6, 5, 4, 3, 2, 1)
    assert (settings.worker.tenant_weights, settings.worker.max_lane_wait) == ({"Gold": 4}, 60.0)
    assert settings.webhook.retry_schedule == (0.5, 2.0)


def test_overrides_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TALLYSTREAM_SHARDS", "4")
    assert load_settings(shards=2).shards == 2


def test_caches_go_where_the_desktop_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/c")
    assert load_settings().home == Path("/var/c/tallystream")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SHARDS", "0"),
        ("SHARDS", "many"),
        ("LOG_LEVEL", "loud"),
        ("BATCHING__MAX_BATCH", "0"),
        ("ENGINE__DTYPE", "int8"),
        ("ENGINE__NAME", "magic"),
        ("WORKER__QUOTAS", "[4, 3]"),
        ("WORKER__QUOTAS", "4,3,2,1,1,1"),
        ("WORKER__QUOTAS", "[4, 3, 2, 1, 1, 0]"),
        ("WORKER__MAX_LANE_WAIT", "0"),
        ("WORKER__TENANT_WEIGHTS", '{"gold": 0}'),
        ("WEBHOOK__JITTER", "2"),
        ("ENGINE", "slots"),
        ("TRACING__ENDPOINT", "collector:4318"),
        ("TRACING__SHARE", "2"),
    ],
)
def test_a_wrong_value_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"TALLYSTREAM_{name}", value)
    with pytest.raises(ConfigError) as caught:
        load_settings()
    assert name in caught.value.message


def test_every_wrong_value_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TALLYSTREAM_SHARDS", "x")
    monkeypatch.setenv("TALLYSTREAM_ENGINE__ROWS", "0")
    with pytest.raises(ConfigError, match=r"TALLYSTREAM_SHARDS: .*; TALLYSTREAM_ENGINE__ROWS: "):
        load_settings()


def test_a_member_may_not_poll_less_often_than_its_session_lasts() -> None:
    with pytest.raises(ConfigError, match=r"MAX_POLL_INTERVAL_MS.*SESSION_TIMEOUT_MS, which is 8000"):
        load_settings(max_poll_interval_ms=7_999)
    assert load_settings(max_poll_interval_ms=8_000).max_poll_interval_ms == 8_000


def test_home_is_the_same_wherever_a_child_process_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TALLYSTREAM_HOME", "here")
    assert load_settings().home == tmp_path / "here"
    monkeypatch.setenv("TALLYSTREAM_HOME", "~/there")
    assert load_settings().home == Path.home() / "there"
