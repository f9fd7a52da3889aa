"""``python -m pipeline.kafka.prepare``: fetch Kafka ahead of time and make its starts fast."""

from __future__ import annotations

import sys

from pipeline.errors import TallystreamError
from pipeline.jars import require
from pipeline.kafka.kafka_jars import class_archive, kafka_jars
from pipeline.kafka.local_broker import LocalBroker, Say
from pipeline.run_folder import RunFolder
from pipeline.settings import Settings, load_settings


def prepare(settings: Settings, say: Say) -> None:
    """Do what is not done yet; nothing when ``TALLYSTREAM_BOOTSTRAP`` names a Kafka that makes it needless.

    Raises:
        MissingDependencyError: Java or Maven is not installed.
        DependencyDownError: Maven could not fetch Kafka, or it does not start.
    """
    if settings.bootstrap:
        return
    require("java")
    archive = class_archive(kafka_jars(settings.home, say))
    if archive.exists():
        return
    say("preparing fast starts of Kafka (once) …")
    scratch = RunFolder(settings.home, "archive")
    try:
        made = scratch.path / archive.name
        # Java writes the classes that a whole life of a broker loaded, at its end.
        with LocalBroker(settings.home, jvm=[f"-XX:ArchiveClassesAtExit={made}"]):
            pass
        if made.exists():
            made.rename(archive)
    finally:
        scratch.remove()


def main() -> None:
    """Prepare, or end with one line that says what is missing."""
    try:
        prepare(load_settings(), print)
    except TallystreamError as error:
        sys.exit(f"error: {error.message}")


if __name__ == "__main__":
    main()
