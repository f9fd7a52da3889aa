"""What each process may do, as a person reads it."""

from __future__ import annotations

from typer.testing import CliRunner

from pipeline.cli import app
from pipeline.kafka.acls import OPERATOR, Operation, Resource, permissions
from pipeline.topics import READ_BY, REQUESTS


def test_what_a_group_commits_offsets_of_it_may_read() -> None:
    allowed = {(each.role, each.name) for each in permissions("a") if each.operation is Operation.READ}
    assert {(role, topic) for role, topics in READ_BY.items() for topic in topics} <= allowed
    assert {(role, f"a-{role}") for role in READ_BY} <= allowed


def test_only_the_gateway_and_an_operator_ask() -> None:
    writers = {
        each.role for each in permissions("a") if (each.operation, each.name) == (Operation.WRITE, REQUESTS)
    }
    assert writers == {"gateway", OPERATOR}


def test_nothing_is_named_twice_and_only_transactional_ids_by_their_beginning() -> None:
    listed = list(permissions("a"))
    assert len(listed) == len(set(listed))
    assert {each.resource for each in listed if each.prefixed} == {Resource.TRANSACTIONAL_ID}


def test_the_command_prints_options_of_kafkas_own_tool() -> None:
    said = CliRunner().invoke(app, ["topics", "acls", "--principal", "User:CN={role}"]).output
    lines = said.splitlines()
    assert (
        "--add --allow-principal User:CN=worker --operation Write --transactional-id tallystream-worker- "
        "--resource-pattern-type prefixed"
    ) in lines
    assert len(lines) == len(list(permissions("tallystream")))
