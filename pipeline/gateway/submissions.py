"""Letting a task in: its key's limits, its Idempotency-Key, what waits already, and then Kafka."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from pipeline.client import request_record
from pipeline.errors import DependencyDownError, OverloadedError, TooManyRequestsError
from pipeline.events import InferenceRequest, Mode, Status
from pipeline.gateway.arrivals import Arrivals
from pipeline.gateway.idempotency import Turns, check_same, keyed_id
from pipeline.gateway.intake import Accepted, Intake
from pipeline.gateway.keys import Principal
from pipeline.gateway.limits import check_limits
from pipeline.ids import new_request_id
from pipeline.kafka.codec import Codec
from pipeline.scheduling.admission import Admission, wait_for
from pipeline.scheduling.modes import profile_of
from pipeline.settings import Settings
from pipeline.store.rows import Stored
from pipeline.store.store import Store
from pipeline.store.tasks import Load, Task


@dataclass(frozen=True, slots=True)
class Submitted:
    """A task that is let in.

    Attributes:
        replayed: its Idempotency-Key had named it before.
    """

    request: InferenceRequest
    status: Status
    replayed: bool = False


class Submissions:
    """Lives on the event loop.

    Args:
        clock: ms since 1970.
    """

    def __init__(
        self, settings: Settings, codec: Codec, store: Store, intake: Intake, clock: Callable[[], int]
    ) -> None:
        self._settings, self._codec, self._store, self._intake = settings, codec, store, intake
        self._clock = clock
        self._admission = Admission.of(settings.gateway.backlog_limit, settings.batching.max_batch)
        self._arrivals = Arrivals(clock)
        self._turns = Turns()

    def seen(self, stored: Sequence[Stored]) -> None:
        """The view shows these now; called on the loop."""
        self._arrivals.seen(stored)

    async def submit(
        self, request: InferenceRequest, principal: Principal, key: str | None = None
    ) -> Submitted:
        """Let a task in; returns when Kafka has it.

        Args:
            request: with any id; it gets its own.
            key: its Idempotency-Key.

        Raises:
            InvalidRequestError: names the field.
            ForbiddenError: the key of who asks does not allow this; names the field.
            IdempotencyError: the Idempotency-Key names another task.
            GoneError: the Idempotency-Key names a task that is not kept any more.
            TooManyRequestsError: too many tasks of the tenant wait.
            OverloadedError: too many tasks wait.
            DependencyDownError: it can not be said whether it was let in, or whether the Idempotency-Key has named
                a task before.
        """
        check_limits(request, principal.limits, request.sampling.n or profile_of(request).samples)
        if key is None:
            request = replace(request, request_id=new_request_id(self._clock()))
            await self._let_in(request, principal)
            return Submitted(request, Status.PENDING)
        async with self._turns.of(f"{principal.tenant}\0{key}"):
            return await self._submit_keyed(request, principal, key)

    async def _submit_keyed(self, request: InferenceRequest, principal: Principal, key: str) -> Submitted:
        request_id, known = await self._named(principal.tenant, key)
        request = replace(request, request_id=request_id)
        if known is not None:
            check_same(known, request)
            return Submitted(known.request, known.status, replayed=True)
        accepted = await self._let_in(request, principal)
        first = await self._first(request_id, accepted)
        if first is not None:  # another gateway may have been quicker, with another body
            check_same(first, request)
        return Submitted(request, first.status if first is not None else Status.PENDING)

    async def _named(self, tenant: str, key: str) -> tuple[str, Task | None]:
        """The task that the key names now, or the id of the one that it is to name."""
        oldest = self._clock() - round(1000 * self._settings.gateway.idempotency_ttl)
        turn = 0
        while True:
            request_id = keyed_id(tenant, key, turn)
            task = await self._store.fresh_task(request_id)
            if task is None or task.accepted_at > oldest:
                return request_id, task
            turn += 1

    async def _first(self, request_id: str, accepted: Accepted) -> Task | None:
        """The task as the first record of its id has it; ``None`` when the view is behind: it is accepted anyhow."""
        with suppress(DependencyDownError):
            await self._store.read_to({(accepted.topic, accepted.partition): accepted.offset + 1})
            return await self._store.task(request_id)
        return None

    async def _let_in(self, request: InferenceRequest, principal: Principal) -> Accepted:
        record = request_record(self._settings, self._codec, request)
        await self._check_waiting(principal)
        self._check_load(request.mode)
        with self._arrivals.arriving(request):
            return await self._intake.write(record)

    async def _check_waiting(self, principal: Principal) -> None:
        most = principal.limits.waiting
        if most is None:
            return
        before = self._arrivals.of(principal.tenant)  # one of them may go over into the view meanwhile
        shown = await self._store.waiting_of(principal.tenant)
        waiting = shown + max(before, self._arrivals.of(principal.tenant))
        if waiting >= most:
            wait = wait_for(waiting - most + 1, self._store.load().finished_per_second)
            raise TooManyRequestsError(
                f"{waiting} tasks of this tenant wait, and its key allows {most}", retry_after=wait
            )

    def _check_load(self, mode: Mode) -> None:
        load = self._load()
        self._admission = self._admission.after(load)
        wait = self._admission.refusal(mode, load)
        if wait is not None:
            raise OverloadedError(
                f"{load.waiting} tasks wait already; this one was not taken", retry_after=wait
            )

    def _load(self) -> Load:
        """What the view counts, and what it does not show yet: read by nobody or still on its way to Kafka."""
        load = self._store.load()
        return replace(load, unread=max(load.unread, len(self._arrivals)))
