from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipeline.cli import app
from pipeline.gateway.key_file import read_keys
from pipeline.gateway.keys import principal_of_key


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TALLYSTREAM_HOME", str(tmp_path))
    return tmp_path


def run(*argv: str) -> tuple[int, str]:
    ran = CliRunner().invoke(app, ["keys", *argv])
    return ran.exit_code, ran.stdout


def test_a_key_is_shown_once(home: Path) -> None:
    assert run("list")[0] == 1
    code, text = run("add", "--tenant", "acme", "--rate", "2.5", "--priorities", "1,3-4", "--admin")
    keys = {key.id: key for key in read_keys(home / "keys.json")}
    principal = principal_of_key(text.strip(), keys)
    assert code == 0 and principal is not None
    assert (principal.tenant, principal.admin, principal.limits.rate) == ("acme", True, 2.5)
    assert principal.limits.priorities == (1, 3, 4)
    code, listed = run("list", "--json")
    assert code == 0
    assert json.loads(listed)["id"] == principal.key_id
    assert text.strip().split("_", 2)[2] not in listed + run("list")[1]
    assert "digest" not in listed


def test_a_key_is_revoked(home: Path) -> None:
    for tenant in ("a", "b"):
        run("add", "--tenant", tenant)
    first, second = read_keys(home / "keys.json")
    assert run("revoke", first.id)[0] == 0
    assert read_keys(home / "keys.json") == (second,)
    assert run("revoke", first.id)[0] == 1


@pytest.mark.parametrize(
    "argv",
    [
        ("--tenant", ""),
        ("--tenant", "a\nb"),
        ("--tenant", "a", "--priorities", "6"),
        ("--tenant", "a", "--priorities", "x"),
        ("--tenant", "a", "--priorities", "3-1"),
        ("--tenant", "a", "--rate", "0"),
        ("--tenant", "a", "--waiting", "0"),
        (),
    ],
)
def test_wrong_arguments_make_no_key(home: Path, argv: tuple[str, ...]) -> None:
    assert run("add", *argv)[0] == 2
    assert not (home / "keys.json").exists()


def test_a_broken_file_is_one_line(home: Path) -> None:
    (home / "keys.json").write_text("[")
    ran = CliRunner().invoke(app, ["keys", "list"])
    assert "keys.json" in str(ran.exception)
