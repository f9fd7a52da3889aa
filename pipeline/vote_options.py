"""What the settings say about votes, as the votes take it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pipeline.embedding import Embedder, packaged_model
from pipeline.errors import ConfigError
from pipeline.fusion import Calibration, ReviewOptions, VoteOptions
from pipeline.fusion.similarity import token_overlap
from pipeline.settings import ReviewSettings, Settings


def vote_options(settings: Settings) -> VoteOptions:
    """The options of this process; the calibration map is read once, so a new one needs a new start.

    Raises:
        ConfigError: the map or the embedding model can not be read; names variable and file.
        MissingDependencyError: the embedding model's packages are not installed.
    """
    path = settings.vote.calibration
    return VoteOptions(
        measure=settings.vote.confidence,
        early_stop=settings.vote.early_stop,
        calibration=None if path is None else _read(path),
        min_share=settings.vote.min_share,
        min_confidence=settings.vote.min_confidence,
        review=_review(settings.review) if settings.review.enabled else None,
        similarity=_similarity(settings.vote.embedding),
    )


def _review(review: ReviewSettings) -> ReviewOptions:
    return ReviewOptions(
        agreement=review.agreement,
        candidates=review.candidates,
        weight=review.weight,
        budget_share=review.budget_share,
        deadline_share=review.deadline_share,
    )


def _similarity(embedding: str) -> Callable[[str, str], float]:
    if not embedding:
        return token_overlap
    return Embedder(packaged_model() if embedding == "package" else Path(embedding)).similarity


def _read(path: Path) -> Calibration:
    where = f"TALLYSTREAM_VOTE__CALIBRATION: {path}"
    try:
        return Calibration.from_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{where}: {error.strerror}") from error
    except (UnicodeDecodeError, ConfigError) as error:
        reason = error.message if isinstance(error, ConfigError) else "not UTF-8 text"
        raise ConfigError(f"{where}: {reason}") from error
