import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st
from webhook_servers import FakeResolver, steady

from pipeline.delivery.addresses import check_address
from pipeline.delivery.guard import Guard, GuardedResolver, SystemResolver, endpoint_of
from pipeline.errors import ForbiddenUrlError

PUBLIC, LOCAL = Guard(), Guard(allow_private=True)

# Refused whatever is configured.
ALWAYS = [
    "",
    "hooks.example.com",
    "//hooks.example.com/",
    "ftp://hooks.example.com/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:6379/_x",
    "http:///x",
    "http:hooks.example.com",
    "http://",
    "http://[::1",
    "http://a..b/",
    "http://-a.b/",
    "http://%31%32%37.0.0.1/",
    "http://" + "a" * 64 + ".com/",
    "http://hooks.example.com/" + "a" * 2048,
    "http://hooks.example.com:0/",
    "http://hooks.example.com:99999/",
    "http://hooks.example.com:x/",
    "http://u:p@hooks.example.com/",
    "http://hooks.example.com@127.0.0.1/",
    "http://@hooks.example.com/",
    "http://127.0.0.1\\@hooks.example.com/",
    "http://127.0.0.1#@hooks.example.com/",
    "http://hooks.example.com/#x",
    "http://hooks.example.com/\r\nX-Evil: 1",
    "http://hooks.example.com/\t",
    " http://hooks.example.com/",
    "http://hooks.example.com\x00/",
    "http://hooks.exämple.com/",
    "http://１２７.０.０.１/",
    "http://hooks。example.com/",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0X7F000001/",
    "http://0177.0.0.1/",
    "http://127.1/",
    "http://127.0.0.1./",
    "http://127.0.0.0x1/",
    "http://2852039166/",
    "http://169.254.169.254./",
    "http://256.256.256.256/",
    "http://0.0.0.0/",
    "http://[::]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:8.8.8.8]/",
    "http://[::127.0.0.1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[64:ff9b:1::7f00:1]/",
    "http://[2002:7f00:1::]/",
    "http://[2001:0:1::1]/",
    "http://[fe80::1]/",
    "http://[fe80::1%25eth0]/",
    "http://[fec0::1]/",
    "http://[ff02::1]/",
    "http://[fd00:ec2::254]/",
    "http://169.254.169.254/latest/meta-data",
    "http://100.100.100.200/",
    "http://168.63.129.16/",
    "http://192.0.0.192/",
    "http://224.0.0.1/",
    "http://240.0.0.1/",
    "http://255.255.255.255/",
]
PRIVATE = [
    "http://127.0.0.1/",
    "http://127.8.9.10:8080/x",
    "http://10.0.0.5/",
    "http://172.31.255.255/",
    "http://192.168.1.1/",
    "http://[::1]:8080/",
    "http://[fc00::1]/",
    "http://localhost/",
    "http://localhost./",
    "http://LOCALHOST/",
    "http://a.localhost/",
]
FINE = [
    "http://hooks.example.com/",
    "HTTPS://Hooks.Example.com:8443/a/b?c=d%20@e",
    "https://xn--hxmple-fua.com/",
    "http://8.8.8.8/",
    "http://172.32.0.1/",
    "http://[2606:4700::1111]/",
    "http://a_b.example.com./",
    "http://1.example/",
    "http://0x7f.example/",
]


@pytest.mark.parametrize("url", ALWAYS)
@pytest.mark.parametrize("guard", [PUBLIC, LOCAL], ids=["public", "private"])
def test_refused_whatever_is_configured(guard: Guard, url: str) -> None:
    with pytest.raises(ForbiddenUrlError):
        guard.check_url(url)


@pytest.mark.parametrize("url", PRIVATE)
def test_private_places_need_the_setting(url: str) -> None:
    with pytest.raises(ForbiddenUrlError):
        PUBLIC.check_url(url)
    LOCAL.check_url(url)


@pytest.mark.parametrize("url", FINE)
def test_public_places_are_fine(url: str) -> None:
    assert PUBLIC.check_url(url).raw_host


def test_only_allowed_ports() -> None:
    guard = Guard(allowed_ports=(443,))
    assert guard.check_url("https://hooks.example.com/").port == 443
    for url in ("http://hooks.example.com/", "https://hooks.example.com:444/"):
        with pytest.raises(ForbiddenUrlError, match="port"):
            guard.check_url(url)


@steady
@given(st.integers(0, 2**32 - 1), st.sampled_from(["{}", "0x{:x}", "0{:o}", "{}.", "1.{}", "0x1.0x{:x}"]))
def test_no_number_but_a_dotted_quad_is_an_address(number: int, form: str) -> None:
    with pytest.raises(ForbiddenUrlError):
        LOCAL.check_url(f"http://{form.format(number)}/")


@steady
@given(st.text(max_size=60) | st.text(max_size=40).map("http://{}".format))
def test_any_text_is_checked_or_refused_and_never_crashes(text: str) -> None:
    endpoint_of(text)
    try:
        url = PUBLIC.check_url(text)
    except ForbiddenUrlError:
        return
    assert url.user is None and url.password is None and url.raw_host and url.scheme in ("http", "https")


@steady
@given(st.ip_addresses())
def test_no_address_that_python_calls_special_passes(address) -> None:
    special = address.is_private or address.is_multicast or address.is_reserved or address.is_unspecified
    try:
        check_address(str(address), allow_private=False)
    except ForbiddenUrlError:
        return
    assert not (special or address.is_link_local or address.is_loopback)


@pytest.mark.parametrize(
    "answers",
    [["8.8.8.8", "10.0.0.5"], ["10.0.0.5", "8.8.8.8"], ["2606:4700::1111", "::ffff:10.0.0.5"], ["fe80::1%2"]],
)
async def test_every_answer_of_a_look_up_is_checked(answers: list[str]) -> None:
    with pytest.raises(ForbiddenUrlError):
        await GuardedResolver(PUBLIC, FakeResolver(answers)).resolve("hooks.example.com", 80)


async def test_public_answers_pass_unchanged() -> None:
    found = await GuardedResolver(PUBLIC, FakeResolver(["8.8.8.8", "2606:4700::1111"])).resolve(
        "a.example", 80
    )
    assert [answer["host"] for answer in found] == ["8.8.8.8", "2606:4700::1111"]


async def test_the_system_resolver_looks_up() -> None:
    resolver = SystemResolver(1)
    found = await resolver.resolve("localhost", 80, socket.AF_INET)
    assert {answer["host"] for answer in found} == {"127.0.0.1"}
    await resolver.close()


def test_endpoints_are_host_and_port() -> None:
    assert endpoint_of("http://Hooks.example.com/a") == endpoint_of("http://hooks.example.com:80/b")
    assert endpoint_of("http://hooks.example.com/") != endpoint_of("https://hooks.example.com/")
