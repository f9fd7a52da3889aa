"""What each mode draws: how many samples, how warm, how long, and on which prompt paths."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pipeline.events import InferenceRequest, Kind, Message, Mode, Role
from pipeline.language import language_of
from pipeline.scheduling.prompt_paths import prompt_paths


@dataclass(frozen=True, slots=True)
class Profile:
    """One mode.

    Attributes:
        samples: how many, the first answer among them.
        paths: names of prompt paths, taken in turn.
        first: whether sample 0 is an early first answer, drawn as ``fast`` draws.
    """

    samples: int
    temperature: float
    max_new_tokens: int
    paths: tuple[str, ...] = ("direct",)
    first: bool = False


PROFILES: dict[Mode, Profile] = {
    Mode.FAST: Profile(1, 0.3, 512),
    Mode.STANDARD: Profile(3, 0.5, 1024),
    Mode.DEEP: Profile(5, 0.4, 2048, ("chain_of_thought", "step_by_step", "code_verification"), first=True),
    Mode.OPEN: Profile(2, 0.5, 1024),
}


VISION_PATHS = ("whole", "whole_and_centre", "whole_and_quarters")
"""What a sample of kind vision sees of each image, in turn; the words are those of the path ``direct``."""


def profile_of(request: InferenceRequest) -> Profile:
    profile = PROFILES[request.mode]
    return replace(profile, paths=VISION_PATHS) if request.kind is Kind.VISION else profile


def role_of(profile: Profile, sample_index: int) -> Role:
    return Role.FIRST if profile.first and sample_index == 0 else Role.ANSWER


def path_of(profile: Profile, sample_index: int) -> str:
    """The prompt path of a sample; the first answer goes straight."""
    if role_of(profile, sample_index) is Role.FIRST:
        return "direct"
    return profile.paths[(sample_index - profile.first) % len(profile.paths)]


def messages_on(path: str, request: InferenceRequest) -> tuple[Message, ...]:
    """The request's turns as this path puts them to the model."""
    turns = request.messages or (Message("user", request.prompt),)
    words = "direct" if path in VISION_PATHS else path
    return prompt_paths()[words].on(turns, language_of(turns[-1].content))
