"""What a record that was read back stands for."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import Message

from pipeline.errors import DecodeError
from pipeline.events import Batch, Control, ControlAction, Opened, Result
from pipeline.kafka.clients import value_of
from pipeline.kafka.codec import Codec
from pipeline.kafka.dead_letters import dead_letter_identities
from pipeline.kafka.fenced_sink import Identify
from pipeline.kafka.records import (
    Identity,
    cancel_identity,
    content_identity,
    opened_identity,
    result_identity,
    task_identity,
)
from pipeline.topics import DEAD_LETTERS


def identify_with(codec: Codec) -> Identify:
    """The identities in one record of any output topic of a fenced sink."""

    def identify(message: Message) -> Iterable[Identity]:
        if message.topic() == DEAD_LETTERS:
            yield from dead_letter_identities(message)
            return
        try:
            event = codec.decode(value_of(message))
        except DecodeError:
            return  # somebody else's record
        match event:
            case Opened():
                yield opened_identity(event.request_id, event.run)
                yield content_identity(event.request_id, event.run, event.content)
            case Batch():
                for group in event.groups:
                    for task in group.tasks:
                        yield task_identity(group.request_id, group.run, task.sample_index)
            case Result():
                yield result_identity(event.request_id, event.run, event.revision)
            case Control(action=ControlAction.CANCEL):
                yield cancel_identity(event.request_id, event.run, event.at)
            case _:
                pass

    return identify
