"""From many samples to one answer: pure functions, without Kafka, clock or I/O.

The same samples give the same verdict whatever the order in which they arrive.
"""

from pipeline.fusion.canonical import canonical
from pipeline.fusion.early_stop import decided
from pipeline.fusion.equivalence import equivalent
from pipeline.fusion.extract import extract_answer
from pipeline.fusion.forms import Canonical
from pipeline.fusion.policy import Rule, VotePolicy
from pipeline.fusion.vote import Verdict, vote

__all__ = [
    "Canonical",
    "Rule",
    "Verdict",
    "VotePolicy",
    "canonical",
    "decided",
    "equivalent",
    "extract_answer",
    "vote",
]
