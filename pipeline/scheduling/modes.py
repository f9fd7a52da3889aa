"""What each mode draws: how many samples, how warm, how long, and on which prompt paths."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.events import InferenceRequest, Message, Mode, Role


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

_PATH_SUFFIX: dict[str, str] = {
    "direct": "",
    "chain_of_thought": "Think it through, then finish with one line: The answer is …",
    "step_by_step": "Work step by step, one short step a line, then finish with one line: The answer is …",
    "code_verification": "Check the result as a program would, then finish with one line: The answer is …",
}


def profile_of(request: InferenceRequest) -> Profile:
    return PROFILES[request.mode]


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
    suffix = _PATH_SUFFIX[path]
    if not suffix:
        return turns
    last = turns[-1]
    return (*turns[:-1], Message(last.role, f"{last.content}\n\n{suffix}"))
