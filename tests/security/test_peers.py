"""Whom to believe about the address of a caller."""

import pytest

from epp.security import TrustedProxies, parse_network
from epp.security.peers import is_loopback

TRUSTED = TrustedProxies([parse_network(text) for text in ("10.0.0.0/8", "2001:db8:1::/48", "127.0.0.1")])


@pytest.mark.parametrize(
    ("text", "network"),
    [
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("192.0.2.7", "192.0.2.7/32"),
        ("2001:db8::/32", "2001:db8::/32"),
        ("::1", "::1/128"),
        ("0.0.0.0/0", "0.0.0.0/0"),
    ],
)
def test_a_network_is_written_with_a_prefix_or_as_one_address(text, network):
    assert str(parse_network(text)) == network


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("10.0.0.1/8", "'10.0.0.1/8' names a host in a network; write 10.0.0.0/8 or 10.0.0.1"),
        ("proxy", "'proxy' is no network; write one like 10.0.0.0/8 or 2001:db8::/32"),
        ("10.0.0.0/33", "'10.0.0.0/33' is no network; write one like 10.0.0.0/8 or 2001:db8::/32"),
        ("", "'' is no network; write one like 10.0.0.0/8 or 2001:db8::/32"),
    ],
)
def test_what_is_no_network_is_told_with_a_remedy(text, message):
    with pytest.raises(ValueError) as raised:
        parse_network(text)

    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("peer", "trusted"),
    [
        ("10.255.0.1", True),
        ("11.0.0.1", False),
        ("::ffff:10.0.0.1", True),
        ("::ffff:11.0.0.1", False),
        ("2001:db8:1::7", True),
        ("2001:db8:2::7", False),
        ("::a00:1", False),
        ("not an address", False),
        ("", False),
    ],
)
def test_members_of_the_networks_are_trusted(peer, trusted):
    assert TRUSTED.trusts(peer) is trusted


@pytest.mark.parametrize(
    ("peer", "hops", "caller"),
    [
        ("192.0.2.1", [], "192.0.2.1"),
        ("192.0.2.1", [b"198.51.100.9"], "192.0.2.1"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", [b"198.51.100.9"], "198.51.100.9"),
        ("10.0.0.1", [b"1.1.1.1, 198.51.100.9"], "198.51.100.9"),
        ("10.0.0.1", [b"1.1.1.1,198.51.100.9 , 10.0.0.2"], "198.51.100.9"),
        ("10.0.0.1", [b"1.1.1.1", b"198.51.100.9", b"10.0.0.2"], "198.51.100.9"),
        ("10.0.0.1", [b"10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ("::ffff:10.0.0.1", [b"::ffff:198.51.100.9"], "198.51.100.9"),
        ("2001:db8:1::1", [b"2001:DB8:0:0::9"], "2001:db8::9"),
        ("10.0.0.1", [b"198.51.100.9:4711"], "198.51.100.9"),
        ("10.0.0.1", [b"[2001:db8::9]:4711"], "2001:db8::9"),
        ("10.0.0.1", [b"[2001:db8::9]"], "2001:db8::9"),
    ],
)
def test_the_caller_is_the_first_address_from_the_end_that_no_trusted_proxy_has(peer, hops, caller):
    headers = [(b"host", b"x"), *((b"x-forwarded-for", hop) for hop in hops)]

    assert TRUSTED.caller(peer, headers) == caller


@pytest.mark.parametrize(
    "hop", [b"", b"unknown", b"198.51.100.9, ", b"\xff", b"_hidden", b"1.2.3.4.5", b"1.2.3.4:x"]
)
def test_a_trusted_proxy_that_forwards_no_address_leaves_the_caller_unknown(hop):
    assert TRUSTED.caller("10.0.0.1", [(b"x-forwarded-for", hop)]) is None
    assert TRUSTED.caller("192.0.2.1", [(b"x-forwarded-for", hop)]) == "192.0.2.1"


def test_a_peer_without_a_readable_address_is_an_unknown_caller():
    assert TRUSTED.caller("@", []) is None


@pytest.mark.parametrize(
    ("address", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.0.0.6", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.0.0.1", False),
        ("localhost", False),
    ],
)
def test_loopback_is_told_in_both_notations(address, loopback):
    assert is_loopback(address) is loopback
