"""From many samples to one answer: pure functions, without Kafka, clock or I/O.

The same samples give the same verdict whatever the order in which they arrive. `check_code` is not pure, it runs a
program in a sandbox; it lives in `pipeline.sandbox` and is only named here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.fusion.agreement import CheckedProgram, ProgramStanding, rank_by_agreement, rank_by_tests
from pipeline.fusion.calibration import Calibration
from pipeline.fusion.canonical import canonical
from pipeline.fusion.code_samples import extract_program, own_tests
from pipeline.fusion.code_verdict import CodeLimits, CodeReason, CodeVerdict
from pipeline.fusion.confidence import Confidence, estimate_confidence
from pipeline.fusion.early_stop import decided
from pipeline.fusion.equivalence import equivalent
from pipeline.fusion.extract import extract_answer
from pipeline.fusion.forms import Canonical
from pipeline.fusion.policy import EarlyStop, Measure, ReviewOptions, Rule, VoteOptions, VotePolicy
from pipeline.fusion.vote import Verdict, vote

if TYPE_CHECKING:
    from pipeline.sandbox import check_code

__all__ = [
    "Calibration",
    "Canonical",
    "CheckedProgram",
    "CodeLimits",
    "CodeReason",
    "CodeVerdict",
    "Confidence",
    "EarlyStop",
    "Measure",
    "ProgramStanding",
    "ReviewOptions",
    "Rule",
    "Verdict",
    "VoteOptions",
    "VotePolicy",
    "canonical",
    "check_code",
    "decided",
    "equivalent",
    "estimate_confidence",
    "extract_answer",
    "extract_program",
    "own_tests",
    "rank_by_agreement",
    "rank_by_tests",
    "vote",
]


def __getattr__(name: str) -> Any:
    # Late, so that who only votes loads nothing that starts processes.
    if name == "check_code":
        from pipeline.sandbox import check_code

        return check_code
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
