import base64
import time
import traceback
from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook, WebhookVerificationError
from webhook_servers import NEXT_SECRET, SECRET

from pipeline.delivery.secret_store import SecretStore
from pipeline.delivery.signature import decode_secret, sign, verify
from pipeline.errors import ConfigError, SignatureError, UnknownSecretError

BODY = '{"answer":"四十二 \\u2028"}'.encode()
NOW = 1_700_000_000
OLD, NEW = decode_secret(SECRET), decode_secret(NEXT_SECRET)


def signed(*keys: bytes, at: int = NOW) -> dict[str, str]:
    return sign(keys, "dlv_1", at, BODY)


@pytest.mark.parametrize("known", [SECRET, NEXT_SECRET])
def test_an_independent_verifier_accepts_either_secret_of_a_rotation(known: str) -> None:
    headers = sign([NEW, OLD], "dlv_1", int(time.time()), BODY)
    Webhook(known).verify(BODY, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(known).verify(BODY + b" ", headers)


def test_our_verifier_accepts_what_an_independent_signer_signs() -> None:
    signature = Webhook(SECRET).sign("dlv_1", datetime.fromtimestamp(NOW, UTC), BODY.decode())
    headers = {"Webhook-Id": "dlv_1", "Webhook-Timestamp": str(NOW), "Webhook-Signature": signature}
    assert verify(BODY, headers, [SECRET], NOW) == "dlv_1"


@pytest.mark.parametrize("skew", [-299, -120, 0, 120, 299])
def test_a_receiver_whose_clock_is_up_to_299_s_off_accepts(skew: int) -> None:
    assert verify(BODY, signed(OLD), [SECRET], NOW + skew) == "dlv_1"


@pytest.mark.parametrize("skew", [-301, 301, 3600])
def test_a_message_301_s_away_is_refused(skew: int) -> None:
    with pytest.raises(SignatureError, match="away from this clock"):
        verify(BODY, signed(OLD), [SECRET], NOW + skew)


@pytest.mark.parametrize(
    "change",
    [
        {"webhook-id": "dlv_2"},
        {"webhook-timestamp": str(NOW + 1)},
        {"webhook-timestamp": f"+{NOW}"},
        {"webhook-timestamp": f"{NOW}.0"},
        {"webhook-timestamp": "٣"},
        {"webhook-signature": ""},
        {"webhook-signature": "v1,"},
        {"webhook-signature": "v1,é"},
        {"webhook-signature": "v2," + signed(OLD)["webhook-signature"][3:]},
    ],
)
def test_every_changed_header_is_refused(change: dict[str, str]) -> None:
    with pytest.raises(SignatureError):
        verify(BODY, signed(OLD) | change, [SECRET], NOW)


@pytest.mark.parametrize("missing", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_every_missing_header_is_named(missing: str) -> None:
    headers = signed(OLD)
    del headers[missing]
    with pytest.raises(SignatureError, match=missing):
        verify(BODY, headers, [SECRET], NOW)


def test_another_body_or_secret_is_refused() -> None:
    for body, secret in [(BODY + b"\n", SECRET), (BODY, NEXT_SECRET)]:
        with pytest.raises(SignatureError, match="no signature fits"):
            verify(body, signed(OLD), [secret], NOW)


@pytest.mark.parametrize("secret", ["", "abc", "whsec_", "whsec_***", "whsec_YWJj YWJj", "whsec_é"])
def test_a_malformed_secret_is_refused_without_being_shown(secret: str) -> None:
    with pytest.raises(ConfigError) as caught:
        decode_secret(secret)
    assert not secret.removeprefix("whsec_") or secret.removeprefix("whsec_") not in str(caught.value)
    assert caught.value.__cause__ is None


class TestSecretStore:
    def test_file_and_environment(self, tmp_path) -> None:
        path = tmp_path / "secrets.json"
        path.write_text(f'{{"a": "{SECRET}", "b": ["{NEXT_SECRET}", "{SECRET}"], "default": "{SECRET}"}}')
        store = SecretStore.load(path, {"TALLYSTREAM_WEBHOOK_SECRET": f"{NEXT_SECRET} {SECRET}"})
        assert store.keys("a") == (OLD,)
        assert store.keys("b") == (NEW, OLD)
        assert store.keys("default") == (NEW, OLD)

    def test_nothing_configured_knows_no_id(self) -> None:
        with pytest.raises(UnknownSecretError, match="'default'") as caught:
            SecretStore.load(None, {}).keys("default")
        assert caught.value.code == "unknown_secret"

    def test_no_secret_is_shown(self) -> None:
        store = SecretStore({"a": (SECRET,)})
        assert repr(store) == "SecretStore(ids=['a'])" and str(store) == repr(store)

    @pytest.mark.parametrize(
        "content",
        [
            "",
            "[]",
            '{"a": 5}',
            '{"a": []}',
            '{"a": "whsec_SECRETSECRET!"}',
            '{"a": ["SECRETSECRET"]}',
            "\ud800",
        ],
    )
    def test_a_bad_file_is_a_config_error_that_shows_no_secret(self, tmp_path, content: str) -> None:
        path = tmp_path / "secrets.json"
        path.write_bytes(content.encode("utf-8", "surrogatepass"))
        with pytest.raises(ConfigError) as caught:
            SecretStore.load(path, {})
        assert "SECRETSECRET" not in "".join(traceback.format_exception(caught.value))

    def test_a_missing_file_is_a_config_error(self, tmp_path) -> None:
        with pytest.raises(ConfigError, match="No such file"):
            SecretStore.load(tmp_path / "none.json", {})

    def test_a_short_key_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="24 to 64 bytes"):
            SecretStore({"a": ("whsec_" + base64.b64encode(b"x" * 23).decode(),)})
