"""A transactional producer whose every call ends: each runs on a thread of its own under an outer deadline.

librdkafka's own time-outs are not enough: ``send_offsets_to_transaction`` ignores the one it is given while
the coordinator is away (librdkafka#5456). A call that has not returned by its deadline is abandoned with its
thread, and its outcome is unknown: the owner closes this producer and opens another under the same
transactional id, which ends whatever the abandoned call still does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from pipeline import metrics
from pipeline.errors import BrokerDownError, FencedError, NotPermittedError, RecordTooLargeError
from pipeline.kafka.clients import kafka_error, repeat, transactional_producer, write
from pipeline.kafka.records import Output
from pipeline.settings import Settings

_Call = Callable[[], None]
_NOT_PERMITTED = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)


class TransactionalProducer:
    """Writes outputs, and offsets with them, in one transaction a call. Blocking, for one thread."""

    def __init__(self, settings: Settings, transactional_id: str) -> None:
        self._id = transactional_id
        # The broker ends a transaction after its own time-out: repeating its calls for longer is in vain.
        timeout = settings.transaction_timeout_ms / 1000
        self._call_timeout, self._patience, self._deadline = timeout / 4, timeout, timeout + 1
        self._producer: Producer = transactional_producer(settings, transactional_id)
        self._calls: SimpleQueue[tuple[Future[None], _Call] | None] = SimpleQueue()
        threading.Thread(target=_serve, args=(self._calls,), name=transactional_id, daemon=True).start()

    def fence(self) -> None:
        """End every older producer of this transactional id: its transactions, and all its later calls.

        Raises:
            KafkaException: refused.
            BrokerDownError: no answer.
        """
        self._within_deadline(lambda: self._producer.init_transactions(self._patience))

    def commit(
        self, outputs: Sequence[Output], offsets: Sequence[TopicPartition] = (), group: Any = None
    ) -> None:
        """Write everything in one transaction: begun late, committed when this returns.

        Args:
            group: the consumer's group metadata, with which its generation is checked (KIP-447).

        Raises:
            KafkaException: the transaction failed; ``abort`` tells whether this producer can go on.
            RecordTooLargeError: an output is larger than its topic takes; the same again would fail again.
            BrokerDownError: no answer; the outcome is unknown and this producer is of no more use.
        """
        began = time.monotonic()
        try:
            self._within_deadline(lambda: self._transaction(outputs, list(offsets), group))
        except KafkaException as exception:
            error = kafka_error(exception)
            metrics.TRANSACTIONS.labels("fenced" if error.fatal() else "failed").inc()
            if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                raise RecordTooLargeError(f"{self._id}: {error.str()}") from exception
            raise
        except BrokerDownError:
            metrics.TRANSACTIONS.labels("unanswered").inc()
            raise
        metrics.committed(outputs, time.monotonic() - began)

    def abort(self) -> None:
        """End a transaction that failed.

        Raises:
            KafkaException: this producer is of no more use.
            BrokerDownError: likewise.
        """
        self._within_deadline(
            lambda: repeat(lambda: self._producer.abort_transaction(self._call_timeout), self._until())
        )

    def close(self) -> None:
        """Let the producer go; an open transaction is left to be fenced or timed out."""
        self._producer.purge()
        self._calls.put(None)

    def _transaction(self, outputs: Sequence[Output], offsets: list[TopicPartition], group: Any) -> None:
        producer, until = self._producer, self._until()
        repeat(producer.begin_transaction, until)
        for out in outputs:
            write(producer, out)
        if offsets:
            repeat(lambda: producer.send_offsets_to_transaction(offsets, group, self._call_timeout), until)
        repeat(lambda: producer.commit_transaction(self._call_timeout), until)

    def _until(self) -> float:
        return time.monotonic() + self._patience

    def _within_deadline(self, call: _Call) -> None:
        done: Future[None] = Future()
        self._calls.put((done, call))
        try:
            done.result(self._deadline)
        except TimeoutError as error:
            raise BrokerDownError(f"{self._id}: no answer within {self._deadline:.0f} s") from error


def said_plainly(call: Callable[[], None], *, fenced: str, down: str) -> None:
    """Make a call of a producer for a command, whose user reads what went wrong.

    Args:
        fenced: what is said when a newer command has fenced this one.
        down: what is said after Kafka's own words when a repetition can help.

    Raises:
        FencedError: a newer command writes under the same transactional id.
        NotPermittedError: Kafka does not let this user.
        BrokerDownError: Kafka is away.
    """
    try:
        call()
    except KafkaException as exception:
        error = kafka_error(exception)
        if error.code() in _NOT_PERMITTED:
            message = f"{error.str()}; `tallystream topics acls` lists what has to be allowed, and to whom"
            raise NotPermittedError(message) from exception
        if error.fatal():
            raise FencedError(fenced) from exception
        raise BrokerDownError(f"{error.str()}; {down}") from exception


def _serve(calls: SimpleQueue[tuple[Future[None], _Call] | None]) -> None:
    while (item := calls.get()) is not None:
        done, call = item
        try:
            call()
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(None)
