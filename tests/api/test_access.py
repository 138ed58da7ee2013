"""Who may see receipts and /debug."""

import pytest

from epp.api.access import ADMIN_LISTENER, AccessPolicy


def scope(client=("203.0.113.9", 1234), headers=(), **more):
    return {"type": "http", "client": client, "headers": list(headers), **more}


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1"])
def test_a_caller_on_loopback_is_allowed(host):
    assert AccessPolicy().allows(scope((host, 1)))


@pytest.mark.parametrize("host", ["10.0.0.9", "2001:db8::1", "testclient", ""])
def test_a_caller_from_elsewhere_is_not(host):
    assert not AccessPolicy().allows(scope((host, 1)))


@pytest.mark.parametrize("name", [b"forwarded", b"x-forwarded-for", b"x-real-ip"])
def test_loopback_says_nothing_of_a_request_that_came_through_a_proxy(name):
    assert not AccessPolicy().allows(scope(("127.0.0.1", 1), [(name, b"127.0.0.1")]))


def test_a_unix_socket_is_guarded_by_its_permissions():
    assert AccessPolicy().allows(scope(None))


def test_the_admin_listener_is_open_to_whoever_reaches_it():
    assert AccessPolicy().allows(scope(state={ADMIN_LISTENER: True}))
    assert not AccessPolicy().allows(scope(state={ADMIN_LISTENER: False}))


@pytest.mark.parametrize(
    ("given", "allowed"), [(b"key", True), (b"Key", False), (b"", False), ("clé".encode(), False)]
)
def test_a_key_is_compared_whole(given, allowed):
    assert AccessPolicy("key").allows(scope(headers=[(b"x-epp-admin-key", given)])) is allowed


def test_a_key_that_is_not_ascii_works():
    assert AccessPolicy("clé").allows(scope(headers=[(b"x-epp-admin-key", "clé".encode())]))


def test_without_a_configured_key_none_is_right():
    assert not AccessPolicy().allows(scope(headers=[(b"x-epp-admin-key", b"")]))
