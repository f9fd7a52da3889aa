"""Signatures v1a: what the receiver's key accepts, and keys that are refused without being shown."""

from __future__ import annotations

import base64
import traceback

import pytest
from webhook_servers import SECRET

from pipeline.delivery.asymmetric import decode_private, decode_public, public_of
from pipeline.delivery.secret_store import SecretStore
from pipeline.delivery.signature import decode_key, decode_secret, sign, verify
from pipeline.errors import ConfigError, SignatureError

# RFC 8032, section 7.1, tests 1 and 2: seed, public key, and the signatures of b"" and b"\x72".
SEEDS = ["9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"]
SEEDS += ["4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"]
PUBLIC = ["d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"]
PUBLIC += ["3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"]
NOW, BODY = 1_700_000_000, b'{"answer":"42"}'


def key(*parts: str, prefix: str = "whsk_") -> str:
    return prefix + base64.b64encode(bytes.fromhex("".join(parts))).decode()


SIGNING, RECEIVING = key(SEEDS[0]), key(PUBLIC[0], prefix="whpk_")
OTHER = key(PUBLIC[1], prefix="whpk_")


def signed(*secrets: str) -> dict[str, str]:
    return sign([decode_key(secret) for secret in secrets], "dlv_1", NOW, BODY)


def test_a_public_key_belongs_to_the_seed_as_the_rfc_says() -> None:
    assert [public_of(key(seed)) for seed in SEEDS] == [RECEIVING, OTHER]
    assert public_of(key(SEEDS[0], PUBLIC[0])) == RECEIVING


def test_the_signature_is_of_id_time_and_body() -> None:
    scheme, _, text = signed(SIGNING)["webhook-signature"].partition(",")
    assert scheme == "v1a"
    decode_public(RECEIVING).verify(base64.b64decode(text), f"dlv_1.{NOW}.".encode() + BODY)


def test_both_kinds_travel_together_and_either_is_enough() -> None:
    headers = signed(SECRET, SIGNING)
    assert [text.partition(",")[0] for text in headers["webhook-signature"].split()] == ["v1", "v1a"]
    for known in ([SECRET], [RECEIVING], [OTHER, RECEIVING]):
        assert verify(BODY, headers, known, NOW) == "dlv_1"


@pytest.mark.parametrize(
    ("body", "known", "header"),
    [
        (BODY + b" ", RECEIVING, None),
        (BODY, OTHER, None),
        (BODY, RECEIVING, "v1," + signed(SIGNING)["webhook-signature"][4:]),
        (BODY, RECEIVING, "v1a,"),
        (BODY, RECEIVING, "v1a,é"),
        (BODY, RECEIVING, "v1a"),
        (BODY, RECEIVING, "v1a," + "A" * 88),
    ],
)
def test_what_does_not_fit_is_refused(body: bytes, known: str, header: str | None) -> None:
    headers = signed(SIGNING)
    if header is not None:
        headers["webhook-signature"] = header
    with pytest.raises(SignatureError, match="no signature fits"):
        verify(body, headers, [known], NOW)


@pytest.mark.parametrize(
    "text",
    [
        "whsk_",
        "whsk_SECRETSECRET!",
        key(SEEDS[0][:-2]),
        key(SEEDS[0], PUBLIC[1]),
        key(SEEDS[0], PUBLIC[0], "00"),
    ],
)
def test_a_malformed_key_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        SecretStore({"a": (text,)})
    shown = "".join(traceback.format_exception(caught.value))
    assert len(text) < 8 or text[5:] not in shown
    with pytest.raises(ConfigError):
        decode_private(text)


@pytest.mark.parametrize("text", ["whpk_", RECEIVING[:-4], SIGNING, "whpk_***"])
def test_a_receivers_malformed_key_is_its_own_mistake(text: str) -> None:
    with pytest.raises(ConfigError):
        decode_public(text)
    if text.startswith("whpk_"):
        with pytest.raises(ConfigError):
            verify(BODY, signed(SIGNING), [text], NOW)


def test_an_id_may_have_both_kinds() -> None:
    first, second = SecretStore({"a": (SECRET, SIGNING)}).keys("a")
    assert first == decode_secret(SECRET)
    assert not isinstance(second, bytes)
