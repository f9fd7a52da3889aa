"""Attempts against real servers; where a callback must not arrive, the connections are counted."""

import asyncio
import contextlib
import gzip
import resource
import socket
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from standardwebhooks import Webhook
from webhook_servers import (
    NEXT_SECRET,
    SECRET,
    STORE,
    FakeResolver,
    Listener,
    Receiver,
    delivery,
    listening,
    receiving,
    settings,
)

from pipeline.delivery.client import MAX_ANSWER_BYTES, WebhookClient
from pipeline.delivery.outcome import Outcome, OutcomeCode
from pipeline.delivery.signature import verify
from pipeline.errors import SignatureError
from pipeline.events import Delivery

NOW = 1_700_000_000.5


async def attempt(
    what: Delivery, resolver: FakeResolver | None = None, *, now: float = NOW, **changes: object
) -> Outcome:
    async with WebhookClient(settings(**changes), STORE, resolver) as client:
        return await client.attempt(what, now)


class TestWhatArrives:
    async def test_the_body_unchanged_and_signed_for_an_independent_verifier(self) -> None:
        async with receiving() as receiver:
            sent = delivery(receiver.url, secret_id="rotating")
            outcome = await attempt(sent, now=time.time())
        assert outcome == Outcome(200, OutcomeCode.DELIVERED, final=True)
        [(headers, body)] = receiver.requests
        assert body == sent.body
        assert headers["Content-Type"] == "application/json"
        assert {name.lower(): value for name, value in headers.items()}["webhook-id"] == sent.delivery_id
        for secret in (SECRET, NEXT_SECRET):
            Webhook(secret).verify(body, headers)

    async def test_the_callback_goes_on_with_its_results_trace(self) -> None:
        trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        async with receiving() as receiver:
            await attempt(delivery(receiver.url, trace=f"{trace} vendor=7"))
            await attempt(delivery(receiver.url, trace="none\r\nx-evil: 1"))
            await attempt(delivery(receiver.url))
        told = [{name.lower(): value for name, value in headers.items()} for headers, _ in receiver.requests]
        assert (told[0]["traceparent"], told[0]["tracestate"]) == (trace, "vendor=7")
        assert all("traceparent" not in headers and "x-evil" not in headers for headers in told[1:])

    async def test_each_attempt_is_told_with_what_became_of_it(
        self, told_spans: InMemorySpanExporter
    ) -> None:
        async with receiving(web.Response(status=503), web.Response()) as receiver:
            await attempt(delivery(receiver.url))
            await attempt(delivery(receiver.url, attempt=1))
            await attempt(delivery("https://[bad/hook?token=SECRET"))
            ended = asyncio.create_task(attempt(delivery(receiver.url)))
            await asyncio.sleep(0)
            ended.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await ended
        spans = told_spans.get_finished_spans()
        first, second, bad, *_ = told = [dict(span.attributes or {}) for span in spans]
        assert (first["http.response.status_code"], first["error.type"]) == (503, "http_error")
        assert (first["tallystream.attempt"], second["tallystream.attempt"]) == (1, 2)
        assert first["server.address"] == f"127.0.0.1:{receiver.port}"
        assert second["http.response.status_code"] == 200 and "error.type" not in second
        assert "SECRET" not in repr(told) and "server.address" not in bad
        assert all(each["error.type"] == "interrupted" for each in told[3:])

    async def test_a_retry_has_the_same_id_and_body_and_a_fresh_signature(self) -> None:
        async with receiving(web.Response(status=503), web.Response()) as receiver:
            sent = delivery(receiver.url)
            async with WebhookClient(settings(), STORE) as client:
                first = await client.attempt(sent, NOW)
                second = await client.attempt(sent, NOW + 3600)
        assert (first.code, second.code) == (OutcomeCode.HTTP_ERROR, OutcomeCode.DELIVERED)
        (old, old_body), (new, new_body) = receiver.requests
        assert old_body == new_body
        # A receiver whose clock is two minutes behind takes the retry; the first stamp would be too old.
        behind = NOW + 3600 - 120
        assert verify(new_body, new, [SECRET], behind) == verify(old_body, old, [SECRET], NOW)
        with pytest.raises(SignatureError):
            verify(old_body, old, [SECRET], behind)

    async def test_an_unknown_secret_ends_the_delivery_and_nothing_is_sent(self) -> None:
        async with listening() as listener:
            outcome = await attempt(delivery(listener.url, secret_id="no-such"))
            assert listener.connections == 0
        assert (outcome.code, outcome.final) == (OutcomeCode.UNKNOWN_SECRET, True)


class TestAnswers:
    async def test_gone_is_final(self) -> None:
        async with receiving(web.Response(status=410)) as receiver:
            outcome = await attempt(delivery(receiver.url))
        assert (outcome.status_code, outcome.code, outcome.final) == (410, OutcomeCode.GONE, True)

    @pytest.mark.parametrize(("value", "wait"), [("7", 7), ("Tue, 14 Nov 2023 22:14:20 GMT", 60)])
    async def test_retry_after_in_both_forms(self, value: str, wait: float) -> None:
        async with receiving(web.Response(status=429, headers={"Retry-After": value})) as receiver:
            outcome = await attempt(delivery(receiver.url), now=1_700_000_000)
        assert (outcome.code, outcome.retry_after_s, outcome.final) == (OutcomeCode.HTTP_ERROR, wait, False)

    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    async def test_a_redirect_is_never_followed(self, status: int) -> None:
        async with listening() as target:
            elsewhere = web.Response(status=status, headers={"Location": target.url})
            async with receiving(elsewhere) as receiver:
                outcome = await attempt(delivery(receiver.url))
            assert target.connections == 0
        assert len(receiver.requests) == 1
        assert (outcome.status_code, outcome.code, outcome.final) == (status, OutcomeCode.REDIRECT, True)

    async def test_an_error_says_what_the_endpoint_said_on_one_printable_line(self) -> None:
        async with receiving(web.Response(status=500, body=b"oh\r\nno\x1b[31m\xff" + b"x" * 999)) as receiver:
            outcome = await attempt(delivery(receiver.url))
        assert outcome.message.startswith("500 oh  no [31m")
        assert len(outcome.message) < 250 and outcome.message.isprintable()

    async def test_a_compressed_answer_is_not_unpacked(self) -> None:
        packed = web.Response(
            status=500, headers={"Content-Encoding": "gzip"}, body=gzip.compress(b"boom" * 5000)
        )
        async with receiving(packed) as receiver:
            outcome = await attempt(delivery(receiver.url))
        assert outcome.status_code == 500 and "boom" not in outcome.message


class TestHostileEndpoints:
    @pytest.mark.parametrize(
        "start", [b"HTTP/1.1 200 O", b"HTTP/1.1 200 OK\r\nX-Slow: "], ids=["status", "header"]
    )
    async def test_a_head_that_drips_ends_at_the_total_deadline(self, start: bytes) -> None:
        async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(start)
            while not writer.is_closing():
                writer.write(b"H")
                await writer.drain()
                await asyncio.sleep(0.02)

        async with listening(drip) as listener:
            outcome = await attempt(delivery(listener.url), attempt_timeout=0.3)
            async with asyncio.timeout(20):
                await listener.closed.wait()
        assert (outcome.code, outcome.final) == (OutcomeCode.TIMEOUT, False)

    async def test_informational_answers_for_ever_end_at_the_total_deadline(self) -> None:
        async def chatter(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while not writer.is_closing():
                writer.write(b"HTTP/1.1 102 Processing\r\n\r\n")
                await writer.drain()
                await asyncio.sleep(0.01)

        async with listening(chatter) as listener:
            outcome = await attempt(delivery(listener.url), attempt_timeout=0.3)
        assert outcome.code in (OutcomeCode.TIMEOUT, OutcomeCode.PROTOCOL_ERROR)

    async def test_a_body_that_drips_does_not_undo_the_status(self) -> None:
        async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
            while not writer.is_closing():
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.02)

        async with listening(drip) as listener:
            outcome = await attempt(delivery(listener.url), attempt_timeout=2)
        assert outcome.code is OutcomeCode.DELIVERED

    @pytest.mark.parametrize("framing", [b"", b"Content-Length: 10000000000\r\n"], ids=["endless", "10GB"])
    async def test_a_huge_body_is_cut_and_the_status_counts(self, framing: bytes) -> None:
        sent = 0

        async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal sent
            writer.write(b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n")
            while True:
                writer.write(b"x" * 65_536)
                await writer.drain()
                sent += 65_536

        async with listening(flood) as listener:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            outcome = await attempt(delivery(listener.url), attempt_timeout=60)
            async with asyncio.timeout(20):
                await listener.closed.wait()
            grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert outcome.code is OutcomeCode.DELIVERED
        # The kernel's buffers take some megabytes beyond the 64 KiB that are read.
        assert sent < 16 * 2**20 and grown_kib < 16 * 2**10
        assert MAX_ANSWER_BYTES == 65_536

    @pytest.mark.parametrize(
        ("answer", "code"),
        [
            (b"", OutcomeCode.CONNECT_ERROR),
            (b"HTTP/1.1 20", OutcomeCode.CONNECT_ERROR),
            (b"SSH-2.0-OpenSSH_9.2\r\n", OutcomeCode.PROTOCOL_ERROR),
            (b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 100_000 + b"\r\n\r\n", OutcomeCode.PROTOCOL_ERROR),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", OutcomeCode.DELIVERED),
        ],
        ids=["nothing", "half a head", "not HTTP", "huge header", "half a body"],
    )
    async def test_a_connection_that_breaks(self, answer: bytes, code: OutcomeCode) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()

        async with listening(serve) as listener:
            outcome = await attempt(delivery(listener.url))
        assert outcome.code is code
        assert outcome.final == (code is OutcomeCode.DELIVERED)

    async def test_nobody_listens_and_no_such_name(self) -> None:
        async with listening() as listener:
            pass
        assert (await attempt(delivery(listener.url))).code is OutcomeCode.CONNECT_ERROR
        unknown = await attempt(delivery("http://hooks.example.com/"), FakeResolver([]))
        assert (unknown.code, unknown.final) == (OutcomeCode.CONNECT_ERROR, False)


class TestForbiddenPlaces:
    @pytest.mark.parametrize(
        "host",
        [
            "127.0.0.1",
            "localhost",
            "localhost.",
            "0.0.0.0",
            "2130706433",
            "0x7f000001",
            "0177.0.0.1",
            "127.1",
            "127.0.0.1.",
            "[::1]",
            "[::]",
            "[::ffff:127.0.0.1]",
        ],
    )
    async def test_no_spelling_of_this_machine_is_dialled(self, host: str) -> None:
        async with listening(dual_stack=True) as listener:
            unguarded = 0
            with contextlib.suppress(OSError):
                socket.create_connection((host.strip("[]"), listener.port), timeout=5).close()
                unguarded = 1
            outcome = await attempt(delivery(f"http://{host}:{listener.port}/"), allow_private=False)
            assert await connections_before_now(listener) == unguarded
        assert (outcome.code, outcome.final) == (OutcomeCode.FORBIDDEN_URL, True)

    @pytest.mark.parametrize(
        "authority",
        ["hooks.example.com@127.0.0.1:{}", "127.0.0.1:{}\\@hooks.example.com", "u:p@127.0.0.1:{}"],
    )
    async def test_user_names_are_refused_even_where_private_places_are_allowed(self, authority: str) -> None:
        async with listening() as listener:
            outcome = await attempt(
                delivery(f"http://{authority.format(listener.port)}/"), FakeResolver(["127.0.0.1"])
            )
            assert listener.connections == 0
        assert (outcome.code, outcome.final) == (OutcomeCode.FORBIDDEN_URL, True)

    @pytest.mark.parametrize(
        "answers", [["127.0.0.1"], ["8.8.8.8", "127.0.0.1"], ["127.0.0.1", "8.8.8.8"], ["::ffff:127.0.0.1"]]
    )
    async def test_a_public_name_with_a_private_answer_is_not_dialled(self, answers: list[str]) -> None:
        resolver = FakeResolver(answers)
        async with listening() as listener:
            url = f"http://hooks.example.com:{listener.port}/"
            outcome = await attempt(delivery(url), resolver, allow_private=False)
            assert listener.connections == 0
        assert resolver.calls == 1
        assert (outcome.code, outcome.final) == (OutcomeCode.FORBIDDEN_URL, True)

    async def test_the_checked_address_is_dialled_and_the_name_not_looked_up_again(self) -> None:
        resolver = FakeResolver(["127.0.0.1"], ["169.254.169.254"])
        async with receiving() as receiver:
            outcome = await attempt(delivery(f"http://hooks.example.com:{receiver.port}/"), resolver)
        assert outcome.code is OutcomeCode.DELIVERED
        assert resolver.calls == 1
        assert receiver.requests[0][0]["Host"] == f"hooks.example.com:{receiver.port}"

    async def test_each_attempt_looks_up_and_checks_anew(self) -> None:
        resolver = FakeResolver(["127.0.0.1"], ["169.254.169.254"])
        async with receiving() as receiver:
            what = delivery(f"http://hooks.example.com:{receiver.port}/")
            async with WebhookClient(settings(), STORE, resolver) as client:
                outcomes = [await client.attempt(what, NOW) for _ in range(2)]
        assert [outcome.code for outcome in outcomes] == [OutcomeCode.DELIVERED, OutcomeCode.FORBIDDEN_URL]
        assert len(receiver.requests) == 1

    async def test_a_proxy_of_the_environment_is_not_used(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async with listening() as proxy, receiving() as receiver:
            for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
                monkeypatch.setenv(name, proxy.url)
            outcome = await attempt(delivery(receiver.url))
            assert proxy.connections == 0
        assert outcome.code is OutcomeCode.DELIVERED


async def connections_before_now(listener: Listener) -> int:
    """Exact: connections are accepted in order, so when one of ours has been served the others are counted."""
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    writer.write_eof()
    await reader.read()
    writer.close()
    return listener.connections - 1


@asynccontextmanager
async def tls_receiver(tmp_path: Path, name: str) -> AsyncIterator[tuple[Receiver, Path]]:
    """An HTTPS endpoint with a self-signed certificate for ``name``, and the certificate's file."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "certificate.pem"
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_path = tmp_path / "key.pem"
    key_path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(path, key_path)
    async with receiving(ssl_context=context) as receiver:
        yield receiver, path


class TestTls:
    @pytest.mark.parametrize(
        ("trusted", "name", "code"),
        [
            (False, "hooks.example.com", OutcomeCode.TLS),
            (True, "other.example.com", OutcomeCode.TLS),
            (True, "hooks.example.com", OutcomeCode.DELIVERED),
        ],
        ids=["self-signed", "wrong name", "trusted"],
    )
    async def test_the_body_goes_only_to_whom_the_certificate_names(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: bool, name: str, code: OutcomeCode
    ) -> None:
        async with tls_receiver(tmp_path, name) as (receiver, certificate):
            if trusted:
                monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
            url = f"https://hooks.example.com:{receiver.port}/in"
            outcome = await attempt(delivery(url), FakeResolver(["127.0.0.1"]))
        delivered = code is OutcomeCode.DELIVERED
        assert (outcome.code, outcome.final) == (code, delivered)
        assert len(receiver.requests) == delivered

    async def test_no_tls_at_the_other_end(self) -> None:
        async with receiving() as receiver:
            outcome = await attempt(delivery(f"https://127.0.0.1:{receiver.port}/"))
        assert outcome.code is OutcomeCode.TLS and not receiver.requests
