"""Asking Kafka about the agents' consumer groups, and setting their offsets. Blocking."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from pipeline.errors import BrokerDownError, GroupInUseError
from pipeline.kafka.clients import admin_client, assigned_consumer, kafka_error, patiently
from pipeline.kafka.in_flight import Position
from pipeline.kafka.records import Place
from pipeline.offsets.standing import Committed, Group, Member
from pipeline.settings import Settings
from pipeline.topics import READ_BY, declared_topics

_TIMEOUT = 10.0
_IN_USE = (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.NON_EMPTY_GROUP, KafkaError.REBALANCE_IN_PROGRESS)
_T = TypeVar("_T")


class Groups:
    """The groups of one pipeline, on its Kafka.

    Raises:
        BrokerDownError: Kafka does not answer, as every call here.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        partitions = {spec.name: spec.partitions for spec in declared_topics(settings.shards, settings.app)}
        self._places = {
            role: [(topic, partition) for topic in topics for partition in range(partitions[topic])]
            for role, topics in READ_BY.items()
        }
        # Asked first, and not the admin client, which can abort the process while Kafka is away.
        self._asked(lambda consumer: consumer.list_topics(timeout=_TIMEOUT))
        self._admin: Any = admin_client(settings)

    def name(self, role: str) -> str:
        return f"{self._settings.app}-{role}"

    def read(self, role: str) -> Group:
        """Who is in the group of a role, and where it stands in all that it reads or has read."""
        group = self.name(role)
        members = self._members(group)
        committed = self._committed(group)
        places = sorted({*self._places[role], *committed})
        stable = self._committed(group, places)
        unstable = {place for place, tp in stable.items() if tp.error is not None}
        ends = self._asked(partial(_ends, places))
        offsets = tuple(
            Committed(place, _position(committed.get(place)), *ends[place], place not in unstable)
            for place in places
        )
        return Group(role, group, members, offsets)

    def at(self, places: Sequence[Place], when: int) -> Mapping[Place, int]:
        """The offset of the first record at or after a time (broker's ms) in each partition, or the end."""
        found = self._asked(
            lambda consumer: consumer.offsets_for_times(
                [TopicPartition(*place, when) for place in places], timeout=_TIMEOUT
            )
        )
        ends = self._asked(partial(_ends, places))
        return {
            (tp.topic, tp.partition): tp.offset if tp.offset >= 0 else ends[tp.topic, tp.partition][1]
            for tp in found
        }

    def set(self, role: str, offsets: Mapping[Place, int]) -> None:
        """Commit exactly these offsets, without metadata; Kafka refuses it while the group has a member.

        Raises:
            GroupInUseError: it has one; nothing was set.
        """
        wanted = ConsumerGroupTopicPartitions(
            self.name(role), [TopicPartition(*place, offset) for place, offset in offsets.items()]
        )
        asked = self._admin.alter_consumer_group_offsets([wanted], request_timeout=_TIMEOUT)
        try:
            answer = next(iter(asked.values())).result()
            refused = next((tp.error for tp in answer.topic_partitions if tp.error is not None), None)
        except KafkaException as exception:
            refused = kafka_error(exception)
        if refused is not None and refused.code() in _IN_USE:
            raise GroupInUseError(f"{self.name(role)} has a member; stop its agents first")
        if refused is not None:
            raise BrokerDownError(f"{self.name(role)}: {refused.str()}")

    def _members(self, group: str) -> tuple[Member, ...]:
        def describe() -> Any:
            try:
                return self._admin.describe_consumer_groups([group], request_timeout=_TIMEOUT)[group].result()
            except KafkaException as exception:
                if kafka_error(exception).code() == KafkaError.GROUP_ID_NOT_FOUND:
                    return None
                raise

        described = patiently(describe, deadline=_TIMEOUT)
        return tuple(
            Member(each.group_instance_id or each.client_id, each.host, len(each.assignment.topic_partitions))
            for each in (described.members if described else ())
        )

    def _committed(self, group: str, stable: Sequence[Place] = ()) -> Mapping[Place, Any]:
        """Everything that the group has committed, whatever an open transaction is about to change of it.

        Args:
            stable: only these, with an error where a transaction is open: Kafka names one that would commit the first
                offset of a partition only to who asks for that partition.
        """
        wanted = (
            ConsumerGroupTopicPartitions(group, [TopicPartition(*place) for place in stable])
            if stable
            else ConsumerGroupTopicPartitions(group)
        )

        def ask() -> Any:
            asked = self._admin.list_consumer_group_offsets(
                [wanted], require_stable=bool(stable), request_timeout=_TIMEOUT
            )
            return asked[group].result()

        answer = patiently(ask, deadline=_TIMEOUT)
        return {(tp.topic, tp.partition): tp for tp in answer.topic_partitions or ()}

    def _asked(self, question: Callable[[Consumer], _T]) -> _T:
        consumer = assigned_consumer(self._settings, isolation_level="read_uncommitted")
        try:
            return patiently(partial(question, consumer), deadline=_TIMEOUT)
        finally:
            consumer.close()


def _ends(places: Sequence[Place], consumer: Consumer) -> dict[Place, tuple[int, int]]:
    return {
        place: consumer.get_watermark_offsets(TopicPartition(*place), timeout=_TIMEOUT) for place in places
    }


def _position(committed: TopicPartition | None) -> Position | None:
    if committed is None or committed.offset < 0:
        return None
    return Position(committed.offset, committed.metadata or "")
