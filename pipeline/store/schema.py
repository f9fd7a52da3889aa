"""The tables of the view, and what makes a file one of this version."""

from __future__ import annotations

import zlib
from typing import Final

from pipeline.events import Delivery, InferenceRequest, Opened, Result, Sample
from pipeline.kafka.schemas import current_schemas

TABLES: Final = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE positions (topic TEXT, partition INTEGER, next INTEGER NOT NULL, PRIMARY KEY (topic, partition))
    WITHOUT ROWID;

CREATE TABLE runs (
    id INTEGER PRIMARY KEY, request_id TEXT NOT NULL, run INTEGER NOT NULL, tenant TEXT NOT NULL,
    priority INTEGER NOT NULL, batch TEXT, status TEXT NOT NULL, accepted_at INTEGER, partition INTEGER NOT NULL,
    offset INTEGER NOT NULL, newest INTEGER NOT NULL, updated_at INTEGER NOT NULL, opened_at INTEGER,
    first_sample_at INTEGER, finished_at INTEGER, expected INTEGER, samples INTEGER NOT NULL,
    revision INTEGER NOT NULL, due_at INTEGER NOT NULL, overdue INTEGER NOT NULL, gone INTEGER NOT NULL,
    stage INTEGER NOT NULL, expires_at INTEGER NOT NULL, UNIQUE (request_id, run)
);
CREATE INDEX runs_by_status ON runs (status, accepted_at, request_id) WHERE newest = 1 AND gone = 0;
CREATE INDEX runs_by_tenant ON runs (tenant, status, accepted_at, request_id) WHERE newest = 1 AND gone = 0;
CREATE INDEX runs_by_batch ON runs (batch, accepted_at, request_id) WHERE batch IS NOT NULL;
CREATE INDEX runs_waiting ON runs (priority, accepted_at) WHERE stage IN (1, 2);
CREATE INDEX runs_due ON runs (due_at) WHERE stage > 0;
CREATE INDEX runs_expiring ON runs (expires_at);

CREATE TABLE records (
    run INTEGER NOT NULL, kind INTEGER NOT NULL, number INTEGER NOT NULL, at INTEGER NOT NULL,
    partition INTEGER NOT NULL, offset INTEGER NOT NULL, data BLOB NOT NULL, UNIQUE (run, kind, number)
);

CREATE TABLE deliveries (
    partition INTEGER NOT NULL, offset INTEGER NOT NULL, at INTEGER NOT NULL, delivery_id TEXT NOT NULL,
    request_id TEXT NOT NULL, newest INTEGER NOT NULL, data BLOB NOT NULL, UNIQUE (partition, offset)
);
CREATE INDEX deliveries_by_id ON deliveries (delivery_id, offset);
CREATE INDEX deliveries_by_request ON deliveries (request_id);
CREATE INDEX deliveries_by_time ON deliveries (at);
CREATE INDEX deliveries_newest ON deliveries (at) WHERE newest = 1;

CREATE TABLE letters (
    partition INTEGER NOT NULL, offset INTEGER NOT NULL, at INTEGER NOT NULL, cause BLOB NOT NULL, key BLOB,
    size INTEGER NOT NULL, replayed_at INTEGER, UNIQUE (partition, offset)
);
CREATE INDEX letters_by_time ON letters (at);
"""

APPLICATION: Final = 0x7A11_1E57
"""SQLite's ``application_id``: a file with another one is not ours."""

KINDS: Final = (InferenceRequest, Opened, Sample, Result)
"""What ``records`` keeps of a run; a kind's number is its place here."""


def version() -> int:
    """Changes with the tables and with the form of any event that they keep; fits SQLite's ``user_version``."""
    schemas = current_schemas()
    kept = b"".join(schemas[event.__name__].fingerprint for event in (*KINDS, Delivery))
    return zlib.crc32(TABLES.encode() + kept) & 0x7FFF_FFFF
