"""What the settings say about votes, as the votes take it."""

from __future__ import annotations

from pathlib import Path

from pipeline.errors import ConfigError
from pipeline.fusion import Calibration, VoteOptions
from pipeline.settings import Settings


def vote_options(settings: Settings) -> VoteOptions:
    """The options of this process; the calibration map is read once, so a new one needs a new start.

    Raises:
        ConfigError: the map can not be read; names variable and file.
    """
    path = settings.vote.calibration
    return VoteOptions(
        measure=settings.vote.confidence,
        early_stop=settings.vote.early_stop,
        calibration=None if path is None else _read(path),
    )


def _read(path: Path) -> Calibration:
    where = f"TALLYSTREAM_VOTE__CALIBRATION: {path}"
    try:
        return Calibration.from_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{where}: {error.strerror}") from error
    except (UnicodeDecodeError, ConfigError) as error:
        reason = error.message if isinstance(error, ConfigError) else "not UTF-8 text"
        raise ConfigError(f"{where}: {reason}") from error
