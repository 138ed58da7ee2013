"""Who may see receipts."""

import pytest

from epp.api.access import ADMIN_LISTENER, AccessPolicy
from epp.security import TrustedProxies, parse_network

LOCAL = ("127.0.0.1", 5000)
REMOTE = ("192.0.2.7", 5000)
SIDECAR = TrustedProxies([parse_network("127.0.0.1"), parse_network("10.0.0.0/8")])


def scope(client, *headers, **state):
    return {"client": client, "headers": list(headers), "state": state}


@pytest.mark.parametrize(
    ("client", "allowed"),
    [
        (LOCAL, True),
        (("::1", 1), True),
        (("::ffff:127.0.0.1", 1), True),
        (("127.0.0.6", 1), True),
        (REMOTE, False),
        (("10.0.0.1", 1), False),
        (("", 0), False),
        (None, True),
    ],
)
def test_callers_on_loopback_and_on_unix_sockets_may(client, allowed):
    assert AccessPolicy().allows(scope(client)) is allowed


@pytest.mark.parametrize("name", [b"x-forwarded-for", b"forwarded", b"x-real-ip", b"via"])
@pytest.mark.parametrize("client", [LOCAL, None])
def test_a_proxy_on_loopback_may_not_for_its_callers(client, name):
    assert not AccessPolicy().allows(scope(client, (name, b"127.0.0.1")))
    assert not AccessPolicy(proxies=TrustedProxies([parse_network("10.0.0.0/8")])).allows(
        scope(client, (name, b"127.0.0.1"))
    )


@pytest.mark.parametrize(
    ("client", "headers", "allowed"),
    [
        (LOCAL, [(b"x-forwarded-for", b"127.0.0.1")], True),
        (LOCAL, [(b"x-forwarded-for", b"::1"), (b"via", b"1.1 nginx")], True),
        (LOCAL, [(b"x-forwarded-for", b"192.0.2.7")], False),
        (LOCAL, [(b"x-forwarded-for", b"127.0.0.1, 192.0.2.7")], False),
        (LOCAL, [(b"x-forwarded-for", b"unknown")], False),
        (LOCAL, [(b"x-forwarded-for", b"")], False),
        (LOCAL, [(b"x-real-ip", b"127.0.0.1")], False),
        (LOCAL, [(b"forwarded", b"for=127.0.0.1")], False),
        (("10.0.0.1", 1), [(b"x-forwarded-for", b"127.0.0.1")], False),
        (REMOTE, [(b"x-forwarded-for", b"127.0.0.1")], False),
    ],
)
def test_behind_a_trusted_proxy_on_loopback_callers_on_loopback_may(client, headers, allowed):
    assert AccessPolicy(proxies=SIDECAR).allows(scope(client, *headers)) is allowed


def test_loopback_can_be_switched_off():
    policy = AccessPolicy("k", loopback=False)

    assert not policy.allows(scope(LOCAL))
    assert not policy.allows(scope(None))
    assert policy.allows(scope(LOCAL, (b"x-epp-admin-key", b"k")))
    assert policy.allows(scope(REMOTE, **{ADMIN_LISTENER: True}))


@pytest.mark.parametrize(
    ("given", "allowed"),
    [(b"k3y", True), (b"K3y", False), (b"k3", False), (b"k3yy", False), (b"", False), (b"\xff", False)],
)
def test_holders_of_the_admin_key_may(given, allowed):
    assert AccessPolicy("k3y").allows(scope(REMOTE, (b"x-epp-admin-key", given))) is allowed


def test_without_an_admin_key_none_is_right():
    assert not AccessPolicy().allows(scope(REMOTE, (b"x-epp-admin-key", b"")))


def test_the_admin_key_is_compared_in_constant_time(monkeypatch):
    compared = []
    monkeypatch.setattr("epp.api.access.hmac.compare_digest", lambda *pair: compared.append(pair) or True)

    assert AccessPolicy("k3y").allows(scope(REMOTE, (b"x-epp-admin-key", b"x")))
    assert compared == [(b"x", b"k3y")]


def test_everybody_on_the_admin_listener_may():
    assert AccessPolicy().allows(scope(REMOTE, **{ADMIN_LISTENER: True}))
