"""Conversations as records: what they are told on ``turns``, and what is kept of them on ``sessions``.

A conversation is its head, at ``user NUL session``, and its waiting turns, at ``user NUL session NUL place``, each
as it was asked; names hold no control characters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import structlog

from pipeline.errors import DecodeError
from pipeline.events import Conversation, InferenceRequest, Turn
from pipeline.kafka.codec import Codec
from pipeline.kafka.records import Output
from pipeline.scheduling.conversation import Talk, Waiting, new_talk
from pipeline.topics import SESSIONS, TURNS, session_key, session_shard

log = structlog.get_logger(__name__)

SessionKey = bytes


def turn_record(turn: Turn, shards: int, codec: Codec) -> Output:
    """A word for the conversation's owner; a call of a sink writes it once."""
    partition = session_shard(turn.user, turn.session, shards)
    identity = (("turn", turn.kind, turn.request_id, turn.run),)
    return Output(TURNS, partition, session_key(turn.user, turn.session), codec.encode(turn), identity)


def kept_records(
    key: SessionKey, before: Talk | None, after: Talk | None, partition: int, codec: Codec
) -> Iterator[Output]:
    """What brings ``sessions`` from one state of a conversation to another; ``None``: nothing is kept."""
    held = {one.place: one for one in before.waiting} if before else {}
    wanted = {one.place: one for one in after.waiting} if after else {}
    for place in held.keys() - wanted.keys():
        yield Output(SESSIONS, partition, _waiting_key(key, place), None)
    for place in wanted.keys() - held.keys():
        value = codec.encode(wanted[place].turn)
        yield Output(SESSIONS, partition, _waiting_key(key, place), value)
    if (before and before.kept) != (after and after.kept):
        yield Output(SESSIONS, partition, key, codec.encode(after.kept) if after else None)


def restored(kept: Mapping[bytes, bytes], codec: Codec) -> dict[SessionKey, Talk]:
    """The conversations of one partition from what it holds.

    Raises:
        RegistryDownError: a schema can not be looked up now.
    """
    talks: dict[SessionKey, Talk] = {}
    waiting: list[tuple[SessionKey, Waiting]] = []
    for raw, value in kept.items():
        try:
            event = codec.decode(value)
            if isinstance(event, Conversation):
                talks[raw] = Talk(event)
            elif isinstance(event, Turn):
                key, _, place = raw.rpartition(b"\0")
                waiting.append((key, Waiting(int(place), event, request_of(event, codec))))
        except (DecodeError, ValueError):
            log.warning("not a record of a conversation", topic=SESSIONS, key=raw)
    for key, one in sorted(waiting, key=lambda found: found[1].place):
        talk = talks.setdefault(key, new_talk(one.turn.user, one.turn.session))
        talks[key] = replace(talk, waiting=(*talk.waiting, one))
    return talks


def request_of(turn: Turn, codec: Codec) -> InferenceRequest:
    """What a turn asks.

    Raises:
        DecodeError: it holds no request.
        RegistryDownError: that can not be said now.
    """
    event = codec.decode(turn.request or b"")
    if not isinstance(event, InferenceRequest):
        raise DecodeError(f"a {type(event).__name__} in a turn")
    return event


def _waiting_key(key: SessionKey, place: int) -> bytes:
    return key + f"\0{place}".encode()
