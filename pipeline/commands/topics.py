"""``tallystream topics``: make the topics, and say what differs."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline.admin import create_topics
from pipeline.commands.console import connected_settings, out
from pipeline.kafka.acls import permissions
from pipeline.settings import load_settings

topics = typer.Typer(help="The topics of the pipeline.", no_args_is_help=True)


@topics.callback()
def group() -> None:
    """The topics of the pipeline."""


@topics.command()
def create() -> None:
    """Create what is missing; change nothing that is there, but say what differs.

    Exit codes: 0 all is as declared, 1 something differs.
    """
    report = create_topics(connected_settings())
    for name in report.created:
        out.print(f"created  {name}")
    for name in report.present:
        out.print(f"present  {name}", style="dim")
    for difference in report.differences:
        out.print(f"differs  {difference}", style="yellow")
    raise typer.Exit(1 if report.differences else 0)


@topics.command()
def acls(
    principal: Annotated[
        str, typer.Option(help="Who a process is to Kafka; {role} stands for its role.")
    ] = "User:{role}",
) -> None:
    """Print what each process has to be allowed, as options of Kafka's own kafka-acls.sh, a line each."""
    for each in permissions(load_settings().app):
        pattern = " --resource-pattern-type prefixed" if each.prefixed else ""
        out.print(
            f"--add --allow-principal {principal.replace('{role}', each.role)} --operation {each.operation.title()} "
            f"--{each.resource} {each.name}{pattern}",
            soft_wrap=True,
            markup=False,
            highlight=False,
        )
