"""Every error that Tallystream raises on purpose.

TallystreamError
├── ConfigError                 the settings are wrong; fix them and start again
├── MissingDependencyError      a program or package is not installed
│   └── SandboxUnavailableError  nothing here can confine a program, so none is run
├── InvalidRequestError         the request is wrong; names the field (HTTP 422)
│   ├── PayloadTooLargeError    does not fit a Kafka record (HTTP 413)
│   ├── ConflictingRequestError  its id was asked before, with other content (HTTP 422)
│   ├── IdempotencyError        the same for its Idempotency-Key (HTTP 422)
│   ├── MalformedError          it can not even be read as what it says it is (HTTP 400)
│   ├── BodyTooLargeError       its body, also once unpacked (HTTP 413)
│   └── UnsupportedMediaError   its body is of a type that is not taken here (HTTP 415)
├── AuthenticationError         who asks has no valid key (HTTP 401)
├── ForbiddenError              who asks may not do this (HTTP 403)
├── NotFoundError               there is no such thing, or it is somebody else's (HTTP 404)
│   ├── ModelNotFoundError      no model of this name answers here (HTTP 404)
│   └── GoneError               there was, and it was kept for as long as such things are (HTTP 410)
├── RequestTimedOutError        its body did not come in time (HTTP 408)
├── TooManyRequestsError        more than the key allows (HTTP 429)
├── OverloadedError             more waits than can be served soon (HTTP 503)
├── TaskFailedError             who waited for its answer gets none: it has ended without (HTTP 500)
├── WaitLimitError              who waits is let go, and it goes on (HTTP 504)
├── DecodeError                 these bytes are not an event of ours; goes to dead-letters
│   ├── TooShortError
│   ├── BadMagicError
│   ├── UnknownSchemaError
│   ├── TrailingBytesError
│   ├── RecordTooLargeError     was compressed to fit; what it leads to would fit nowhere
│   └── WrongPartitionError     decodable, but not where its priority and id put it
├── PoisonRecordError           a record that process after process died of; goes to dead-letters
├── DependencyDownError         a server is away; wait and retry, lose nothing (HTTP 503)
│   ├── BrokerDownError
│   ├── RegistryDownError
│   ├── ModelServerDownError    the server that draws the samples does not answer
│   └── GatewayDownError        the gateway that a command calls does not answer, or not now
├── NotPermittedError           Kafka does not let who asks do this (HTTP 502)
├── RefusedError                a gateway will not do what a command asks of it
├── SignatureError              a callback was not signed by us (HTTP 401)
├── FencedError                 a newer owner has taken over; reopen, never patch
├── IllegalMoveError            a request can not go from this state to that one: a bug
├── GroupInUseError             a consumer group has members, or an open transaction; stop them first
├── EngineError                 a model could not be loaded or run
│   ├── ModelLoadError
│   └── GenerationError         one sample failed; its neighbours go on
│       ├── InvalidSamplingError
│       ├── UnsupportedSamplingError  another engine could do it
│       ├── BadImageError       can not be read, or may not be
│       ├── EmptyPromptError
│       ├── BadMessagesError
│       ├── ContextExceededError
│       ├── NonFiniteLogitsError
│       ├── OutOfMemoryError
│       └── ServerRefusedError  the model server refuses this sample
│           └── ServerAccessError  or any: key, URL or model name are wrong
└── DeliveryError               a callback can not be sent
    ├── ForbiddenUrlError       where it would go is not allowed
    └── UnknownSecretError      the secret that should sign it is not known here
"""

from __future__ import annotations

from typing import ClassVar


class TallystreamError(Exception):
    """Root of the tree.

    Attributes:
        code: stable, machine readable, in snake_case.
        http_status: the status with which it reaches an HTTP client.
        retriable: whether the same call can work later.
        field: the field of the input that is at fault, if one is.
        retry_after: seconds for which it makes no sense to try again, where that is known.
    """

    code: ClassVar[str] = "internal_error"
    http_status: ClassVar[int] = 500
    retriable: ClassVar[bool] = False

    def __init__(self, message: str, *, field: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.retry_after = retry_after


class ConfigError(TallystreamError):
    code = "bad_config"


class MissingDependencyError(TallystreamError):
    code = "missing_dependency"


class SandboxUnavailableError(MissingDependencyError):
    """This machine offers no way to confine a program; the message says what to install or allow."""

    code = "sandbox_unavailable"


class InvalidRequestError(TallystreamError):
    code = "invalid_request"
    http_status = 422


class PayloadTooLargeError(InvalidRequestError):
    code = "payload_too_large"
    http_status = 413


class ConflictingRequestError(InvalidRequestError):
    code = "conflicting_request"


class IdempotencyError(InvalidRequestError):
    """An Idempotency-Key names the request that it came with first."""

    code = "idempotency_conflict"


class MalformedError(InvalidRequestError):
    """The message says where."""

    code = "malformed"
    http_status = 400


class BodyTooLargeError(InvalidRequestError):
    code = "body_too_large"
    http_status = 413


class UnsupportedMediaError(InvalidRequestError):
    code = "unsupported_media_type"
    http_status = 415


class AuthenticationError(TallystreamError):
    code = "unauthorized"
    http_status = 401


class ForbiddenError(TallystreamError):
    code = "forbidden"
    http_status = 403


class NotFoundError(TallystreamError):
    code = "not_found"
    http_status = 404


class ModelNotFoundError(NotFoundError):
    code = "model_not_found"


class GoneError(NotFoundError):
    code = "gone"
    http_status = 410


class RequestTimedOutError(TallystreamError):
    code = "request_timed_out"
    http_status = 408
    retriable = True


class TooManyRequestsError(TallystreamError):
    code = "too_many_requests"
    http_status = 429
    retriable = True


class OverloadedError(TallystreamError):
    code = "overloaded"
    http_status = 503
    retriable = True


class TaskFailedError(TallystreamError):
    code = "task_failed"
    http_status = 500


class WaitLimitError(TallystreamError):
    code = "wait_limit"
    http_status = 504


class DecodeError(TallystreamError):
    code = "decode_error"
    http_status = 422


class TooShortError(DecodeError):
    code = "too_short"


class BadMagicError(DecodeError):
    code = "bad_magic"


class UnknownSchemaError(DecodeError):
    code = "unknown_schema"


class TrailingBytesError(DecodeError):
    code = "trailing_bytes"


class RecordTooLargeError(DecodeError):
    code = "record_too_large"
    http_status = 413


class WrongPartitionError(DecodeError):
    code = "wrong_partition"


class PoisonRecordError(TallystreamError):
    code = "poison_record"


class DependencyDownError(TallystreamError):
    code = "dependency_down"
    http_status = 503
    retriable = True


class BrokerDownError(DependencyDownError):
    code = "broker_down"


class RegistryDownError(DependencyDownError):
    code = "registry_down"


class ModelServerDownError(DependencyDownError):
    """A call of the model server has failed and can be repeated; ``retry_after`` is what the server asked for."""

    code = "model_server_down"


class GatewayDownError(DependencyDownError):
    code = "gateway_down"


class NotPermittedError(TallystreamError):
    """What each process has to be allowed is listed by ``tallystream topics acls``."""

    code = "not_permitted"
    http_status = 502


class RefusedError(TallystreamError):
    """Its problem document says why, and which field is at fault."""

    code = "refused"
    http_status = 502


class SignatureError(TallystreamError):
    """This message was not signed by us, was changed, or is too old."""

    code = "bad_signature"
    http_status = 401


class FencedError(TallystreamError):
    code = "fenced"
    retriable = True


class IllegalMoveError(TallystreamError):
    """Nothing is written of it; ``pipeline.scheduling.states`` has the moves that there are."""

    code = "illegal_move"


class GroupInUseError(TallystreamError):
    """What a member of the group is about to commit would be lost, or undo this."""

    code = "group_in_use"
    retriable = True


class EngineError(TallystreamError):
    code = "engine_error"


class ModelLoadError(EngineError):
    code = "model_load_failed"


class GenerationError(EngineError):
    code = "generation_failed"


class InvalidSamplingError(GenerationError):
    """A parameter is out of its range; the message names it."""

    code = "invalid_sampling"


class UnsupportedSamplingError(GenerationError):
    """A parameter is right, but this engine can not do it; the message names both."""

    code = "unsupported_sampling"


class BadImageError(GenerationError):
    """An image is broken, too large, or lies where none may be read; the message says which one."""

    code = "bad_image"


class EmptyPromptError(GenerationError):
    """No turn but the system's has any text."""

    code = "empty_prompt"


class BadMessagesError(GenerationError):
    """The model's chat template refuses these turns."""

    code = "bad_messages"


class ContextExceededError(GenerationError):
    """The prompt leaves no room for an answer in the model's context."""

    code = "prompt_too_long"


class NonFiniteLogitsError(GenerationError):
    """The model gave NaN or infinity for this sample."""

    code = "non_finite_logits"


class OutOfMemoryError(GenerationError):
    """Not even one row fits."""

    code = "out_of_memory"
    retriable = True


class ServerRefusedError(GenerationError):
    """The model server answers that it will not draw this sample, now or later."""

    code = "server_refused"


class ServerAccessError(ServerRefusedError):
    """The model server would refuse any sample: key, URL or model name in the settings are wrong."""

    code = "server_access"


class DeliveryError(TallystreamError):
    code = "delivery_failed"


class ForbiddenUrlError(DeliveryError):
    code = "forbidden_url"
    http_status = 422


class UnknownSecretError(DeliveryError):
    """A callback names a secret that this process does not have."""

    code = "unknown_secret"
