"""The one settings tree. Every value can be set by an environment variable.

The prefix is ``TALLYSTREAM_`` and ``__`` steps into a section: ``TALLYSTREAM_BOOTSTRAP``,
``TALLYSTREAM_BATCHING__MAX_BATCH``. Durations are in seconds unless a name ends in ``_ms``.
"""

from __future__ import annotations

import os
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from pipeline.errors import ConfigError
from pipeline.vote_choices import EarlyStop, Measure


def _default_home() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tallystream"


_Quota = Annotated[int, Field(ge=1)]
_Weight = Annotated[int, Field(ge=1, le=1000)]


class EngineName(StrEnum):
    """Which engine draws the samples."""

    SLOTS = "slots"
    TRANSFORMERS = "transformers"
    HTTP = "http"
    VISION = "vision"
    SCRIPTED = "scripted"


class Weights(StrEnum):
    """How the weights of a model's linear layers are kept."""

    FULL = "full"
    INT8 = "int8"


class Security(StrEnum):
    """How a connection to Kafka is protected; the names are Kafka's own."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"


class SaslMechanism(StrEnum):
    """How a client shows who it is."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


class KafkaSettings(BaseModel):
    """How Kafka is spoken to."""

    security: Security = Security.PLAINTEXT
    sasl_mechanism: SaslMechanism = SaslMechanism.SCRAM_SHA_512
    username: str = ""
    password: SecretStr = SecretStr("")
    password_file: Path | None = Field(None, description="a file that holds it; wins over password")
    ca_file: Path | None = Field(
        None, description="PEM of who signs the brokers; empty: whom the system trusts"
    )
    certificate_file: Path | None = Field(
        None, description="PEM of this client, for brokers that ask for one"
    )
    key_file: Path | None = Field(None, description="PEM of its key; empty: it is in certificate_file")
    check_host_name: bool = Field(True, description="whether a broker's certificate must name its host")


class BatchingSettings(BaseModel):
    """When the batcher closes a batch."""

    max_batch: int = Field(8, ge=1, le=256, description="requests in one batch")
    max_wait_ms: int = Field(100, ge=0, description="from the first request, where that fills the batch")
    burst_wait_ms: int = Field(10, ge=0, description="the same when requests come ten times as fast as usual")
    max_bytes: int = Field(900_000, ge=10_000, description="encoded size of one batch record")
    max_tokens: int = Field(
        65_536,
        ge=1,
        description="of all samples of one batch, each at its longest; a larger request goes alone",
    )


class LimitSettings(BaseModel):
    """What a request may ask for."""

    max_samples: int = Field(64, ge=1)
    max_new_tokens: int = Field(4096, ge=1)
    max_record_bytes: int = Field(1_000_000, ge=1024, description="largest record that is produced")
    deadline_ms: int = Field(300_000, ge=1)
    deadline_deep_ms: int = Field(420_000, ge=1)


class EngineSettings(BaseModel):
    """How the worker draws samples."""

    name: EngineName = EngineName.SLOTS
    rows: int = Field(8, ge=1, le=512, description="samples that decode side by side")
    threads: int = Field(0, ge=0, description="torch threads; 0 is one less than the cores, at least one")
    dtype: str = Field("float32", pattern="^(float32|bfloat16|float16)$")
    weights: Weights = Field(Weights.FULL, description="int8 is refused where it harms the model")
    device: str = "cpu"
    packed: bool = Field(True, description="on a CPU: weights lie as its kernels read them; faster steps")
    deterministic: bool = Field(False, description="same seed, same bits, at any load; costs speed")
    lookup_tokens: int = Field(
        0,
        ge=0,
        le=4096,
        description="guessed from the text so far and tried at once, all rows together; 0: none",
    )
    lookup_ngram: int = Field(3, ge=1, le=16, description="last tokens that have to be the same for a guess")
    context: int = Field(2048, ge=16, description="tokens of prompt and answer together, at most the model's")
    prefill_chunk: int = Field(128, ge=16, le=65_536, description="prompt tokens read between two steps")
    prefix_bytes: int = Field(
        268_435_456, ge=0, description="of read prompts kept for others that begin alike; 0: none are"
    )
    cache_tokens: int = Field(
        0, ge=0, description="that all rows hold at most, 64 at least; what does not fit waits; 0: no bound"
    )
    cache_bytes: int = Field(0, ge=0, description="the same bound in bytes of keys and values; 0: no bound")
    sample_timeout: float = Field(60.0, gt=0, description="of one sample, from its begin")
    long_sample_timeout: float = Field(90.0, gt=0, description="of one that may have more than 1,024 tokens")
    attempts: int = Field(3, ge=1, description="at a sample that fails by the engine's fault, not its own")
    breaker_failures: int = Field(
        5, ge=0, description="by the engine's fault in a row, after which it is only probed; 0: never"
    )
    breaker_wait: float = Field(10.0, gt=0, description="from a failure to the next probe")
    give_up_after: float = Field(
        120.0,
        ge=0,
        description="of nothing but failures, then the worker ends, to be started afresh; 0: never",
    )
    image_folder: Path | None = Field(None, description="below it lie the images that requests may name")
    script: str = Field("", description="JSON options of the scripted engine")

    @field_validator("lookup_tokens")
    @classmethod
    def _keeps_the_bits(cls, value: int, info: ValidationInfo) -> int:
        if value and info.data.get("deterministic"):
            raise ValueError(
                "must be 0 with TALLYSTREAM_ENGINE__DETERMINISTIC: tokens tried change a sum's order"
            )
        return value


class HttpEngineSettings(BaseModel):
    """Which OpenAI-compatible server draws the samples of the engine ``http``, and how it is called."""

    url: str = Field("", description="the API's root, e.g. http://127.0.0.1:8000/v1")
    model: str = Field("", description="the server's name of the model; empty: the first that it lists")
    api_key: SecretStr = SecretStr("")
    api_key_file: Path | None = Field(None, description="a file that holds the key; wins over api_key")
    connect_timeout: float = Field(10.0, gt=0)
    idle_timeout: float = Field(
        60.0, gt=0, description="longest silence of a server before or between tokens"
    )
    start_timeout: float = Field(
        60.0, gt=0, description="how long a worker waits for the server at its start"
    )
    retry_delay: float = Field(0.5, gt=0, description="before the second attempt; doubles with each one")
    retry_delay_most: float = Field(15.0, gt=0)
    share_calls_ms: int = Field(
        0, ge=0, description="unseeded samples of one prompt that come within so long share a call; needs n"
    )
    logprobs: bool = Field(True, description="ask for log-probabilities, of which confidence is made")


class WorkerSettings(BaseModel):
    """How the worker serves its lanes."""

    quotas: tuple[_Quota, _Quota, _Quota, _Quota, _Quota, _Quota] = (4, 3, 2, 1, 1, 1)
    prefetch: int = Field(4, ge=1, description="batches of one lane held unserved")
    max_lane_wait: float = Field(
        60.0, gt=0, description="of a lane's oldest sample; then the lane has turns beside its quota"
    )
    cache_bytes: int = Field(
        16_777_216, ge=0, description="of answers kept for requests that allow the cache; 0: none are"
    )
    cache_ttl: float = Field(1_800.0, gt=0, description="for how long an answer is given again")
    tenant_weights: dict[str, _Weight] = Field(
        default_factory=dict[str, int], description="within a lane; who is not named has 1"
    )


class WindowSettings(BaseModel):
    """How the aggregator keeps and closes windows."""

    sweep_ms: int = Field(250, ge=10, description="how often deadlines are looked at")
    keep_closed: float = Field(3600.0, gt=0, description="how long a closed window remembers its identity")


class ConversationSettings(BaseModel):
    """What a session keeps, and how its turns wait for each other."""

    ttl: float = Field(
        1800.0, gt=0, le=86_400, description="from a session's last turn, after which it is forgotten"
    )
    max_tokens: int = Field(
        1024,
        ge=0,
        le=16_384,
        description="of the history, estimated; the oldest turns go first, the system's words stay",
    )
    max_wait: float = Field(
        60.0, ge=0, description="of a turn for those before it, and at most half of its time"
    )
    max_waiting: int = Field(16, ge=1, le=32, description="turns behind one that runs; the next is refused")


class WebhookSettings(BaseModel):
    """How callbacks are sent."""

    retry_schedule: tuple[float, ...] = (5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400)
    jitter: float = Field(0.1, ge=0, le=1)
    attempt_timeout: float = Field(15.0, gt=0)
    per_endpoint: int = Field(4, ge=1, description="attempts at one endpoint at once")
    per_endpoint_rate: float = Field(
        0.0, ge=0, description="attempts that begin at one endpoint in a second, at most; 0: no limit"
    )
    total: int = Field(64, ge=1, description="attempts in all at once")
    breaker_failures: int = Field(
        5, ge=0, description="in a row, after which an endpoint is only probed; 0: never"
    )
    breaker_wait: float = Field(30.0, gt=0, description="from a failure to the next probe")
    disable_after: float = Field(
        432_000.0, ge=0, description="of nothing but failures, then an endpoint gets nothing more; 0: never"
    )
    allow_private: bool = Field(False, description="callbacks to loopback and private networks")
    allowed_ports: tuple[int, ...] = Field((), description="empty: every port")
    secrets_file: Path | None = Field(None, description="JSON object of secret_id to whsec_… secrets")


class VoteSettings(BaseModel):
    """How votes are weighed and when they end."""

    confidence: Measure = Field(
        Measure.ESTIMATED,
        description="of a sample: from its tokens, arithmetic and repeats; logprob: tokens alone",
    )
    early_stop: EarlyStop = Field(EarlyStop.LOSSLESS, description="beta and esc save more and can be wrong")
    calibration: Path | None = Field(
        None, description="map written by `tallystream calibrate`; none: raw confidence is published"
    )
    min_share: float = Field(
        0.4, ge=0, le=1, description="of the votes; a leader with less is asked back about, not published"
    )
    min_confidence: float = Field(
        0.0, ge=0, le=1, description="the same for calibrated confidence; without calibration: no floor"
    )
    embedding: str = Field(
        "", description="how open answers are compared: empty: by words; package, or the folder of a model"
    )


class ReviewSettings(BaseModel):
    """When samples judge each other (modes deep and open), and what that may cost."""

    enabled: bool = True
    agreement: float = Field(0.7, ge=0, le=1, description="a leader with this share of votes is not reviewed")
    candidates: int = Field(3, ge=2, le=8, description="best groups compared, each with each, in both orders")
    weight: float = Field(0.25, ge=0, le=1, description="of comparisons won in a group's score")
    budget_share: float = Field(0.25, gt=0, le=1, description="of the request's tokens, at most")
    deadline_share: float = Field(0.25, gt=0, le=1, description="of the request's time, at most")


class CodeSettings(BaseModel):
    """What running the programs of one request may use (kind code)."""

    cpu_seconds: int = Field(5, ge=1, description="of one program")
    wall_seconds: float = Field(10.0, gt=0, description="of one program, all tests together")
    workers: int = Field(2, ge=1, description="programs at once")


class HealthSettings(BaseModel):
    """Where each agent serves /healthz."""

    enabled: bool = True
    host: str = "127.0.0.1"
    port: int = Field(0, ge=0, le=65_535, description="0: a free one, which the log names")


class GatewaySettings(BaseModel):
    """The front door: HTTP, and the view of the topics that it answers from."""

    host: str = Field("127.0.0.1", description="anything but loopback needs keys")
    port: int = Field(8080, ge=0, le=65_535, description="0: a free one, which the log names")
    keys_file: Path | None = Field(None, description="written by `tallystream keys`; none: keys.json in home")
    folder: Path | None = Field(None, description="of the view; none: gateway-<slot> in home")
    body_limit: int = Field(1_048_576, ge=1024, description="bytes of a request's body, also once unpacked")
    header_timeout: float = Field(
        15.0, gt=0, description="from a connection, or the last answer on it, to a request's last header"
    )
    read_timeout: float = Field(10.0, gt=0, description="from the headers to the last byte of the body")
    acknowledge_timeout: float = Field(5.0, gt=0, description="of Kafka, then a task is refused with 503")
    catch_up: float = Field(2.0, ge=0, description="longest wait for the view to hold what was just accepted")
    result_ttl: float = Field(86_400.0, gt=0, description="from a task's end, after which it is gone (410)")
    forget_after: float = Field(604_800.0, gt=0, description="from then, after which it is unknown (404)")
    idempotency_ttl: float = Field(86_400.0, gt=0, description="for which an Idempotency-Key names one task")
    backlog_limit: int = Field(500, ge=1, description="requests that wait, from which new ones get 503")
    listener_queue: int = Field(
        1_000, ge=1, description="events that a listener may lag before it is dropped"
    )
    sse_heartbeat: float = Field(15.0, gt=0)
    wait_limit: float = Field(
        300.0, gt=0, description="of an OpenAI client's call for its answer; the task goes on"
    )
    files_folder: Path | None = Field(
        None, description="of uploaded files and batches; all gateways share it; none: files in home"
    )
    file_limit: int = Field(104_857_600, ge=1024, description="bytes of an uploaded file")
    file_ttl: float = Field(2_592_000.0, gt=0, description="from a file's or batch's creation")
    batch_window: int = Field(100, ge=1, description="lines of one batch that wait or run at once")


class WatchdogSettings(BaseModel):
    """When an agent that stands still ends itself, to be started afresh."""

    stall_after: float = Field(
        120.0, ge=0, description="seconds with lag and no movement; above the longest sample; 0: never"
    )


class TracingSettings(BaseModel):
    """Where spans are told."""

    endpoint: str = Field(
        "", description="a collector of OTLP over HTTP, e.g. http://127.0.0.1:4318; empty: nothing is told"
    )
    share: float = Field(
        1.0, ge=0, le=1, description="of the traces that begin here; one that came decides itself"
    )

    @field_validator("endpoint")
    @classmethod
    def _over_http(cls, value: str) -> str:
        if value and not value.startswith(("http://", "https://")):
            raise ValueError("must begin with http:// or https://")
        return value.rstrip("/")


class Settings(BaseSettings):
    """Everything that can be set; see the sections for the rest."""

    model_config = SettingsConfigDict(env_prefix="TALLYSTREAM_", env_nested_delimiter="__", frozen=True)

    bootstrap: str = Field("", description="Kafka's host:port list; empty: a local broker is started")
    registry_url: str = Field("", description="schema registry; empty: Avro single-object encoding")
    app: str = Field("tallystream", description="prefix of consumer groups and transactional ids")
    shards: int = Field(1, ge=1, le=1024)
    replication: int = Field(1, ge=1)
    model: str = Field(
        "", description="path, hub name, or abacus; empty: SmolLM2-135M-Instruct from its package"
    )
    home: Path = Field(default_factory=_default_home, description="jars, models, crash journals")
    slot: int = Field(0, ge=0, description="which of several processes of one role this is")
    session_timeout_ms: int = Field(8_000, ge=1_000)
    max_poll_interval_ms: int = Field(
        300_000, ge=1_000, description="of worker and webhook; Kafka's own default"
    )
    transaction_timeout_ms: int = Field(10_000, ge=1_000)
    log_level: str = Field("info", pattern="^(debug|info|warning|error)$")
    log_json: bool = False
    kafka: KafkaSettings = KafkaSettings()  # pyright: ignore[reportCallIssue]
    batching: BatchingSettings = BatchingSettings()  # pyright: ignore[reportCallIssue]
    limits: LimitSettings = LimitSettings()  # pyright: ignore[reportCallIssue]
    engine: EngineSettings = EngineSettings()  # pyright: ignore[reportCallIssue]
    http_engine: HttpEngineSettings = HttpEngineSettings()  # pyright: ignore[reportCallIssue]
    worker: WorkerSettings = WorkerSettings()  # pyright: ignore[reportCallIssue]
    window: WindowSettings = WindowSettings()  # pyright: ignore[reportCallIssue]
    vote: VoteSettings = VoteSettings()  # pyright: ignore[reportCallIssue]
    review: ReviewSettings = ReviewSettings()  # pyright: ignore[reportCallIssue]
    code: CodeSettings = CodeSettings()  # pyright: ignore[reportCallIssue]
    conversation: ConversationSettings = ConversationSettings()  # pyright: ignore[reportCallIssue]
    webhook: WebhookSettings = WebhookSettings()  # pyright: ignore[reportCallIssue]
    health: HealthSettings = HealthSettings()  # pyright: ignore[reportCallIssue]
    watchdog: WatchdogSettings = WatchdogSettings()  # pyright: ignore[reportCallIssue]
    gateway: GatewaySettings = GatewaySettings()  # pyright: ignore[reportCallIssue]
    tracing: TracingSettings = TracingSettings()  # pyright: ignore[reportCallIssue]

    @field_validator("home")
    @classmethod
    def _wherever_a_child_runs(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @field_validator("max_poll_interval_ms")
    @classmethod
    def _outlasts_the_session(cls, value: int, info: ValidationInfo) -> int:
        session = info.data.get("session_timeout_ms", 0)
        if value < session:
            raise ValueError(f"must be at least TALLYSTREAM_SESSION_TIMEOUT_MS, which is {session}")
        return value


def load_settings(**overrides: Any) -> Settings:
    """Read the environment; overrides win.

    Raises:
        ConfigError: names each variable that is wrong and why.
    """
    try:
        return Settings(**overrides)
    except ValidationError as error:
        lines = [
            f"TALLYSTREAM_{'__'.join(str(part) for part in item['loc']).upper()}: {item['msg']}"
            for item in error.errors()
        ]
        raise ConfigError("; ".join(lines)) from error
    except SettingsError as error:
        name = str(error).partition('"')[2].partition('"')[0].upper()
        sections = [variable for variable in os.environ if variable.startswith(f"TALLYSTREAM_{name}")]
        named = ", ".join(sorted(sections)) or f"TALLYSTREAM_{name}"
        raise ConfigError(
            f"{named}: lists and sections are written as JSON, e.g. [4, 3, 2, 1, 1, 1]"
        ) from error


@lru_cache(maxsize=1)
def current_settings() -> Settings:
    """The settings of this process, read once."""
    return load_settings()
