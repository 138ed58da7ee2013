"""Keys of clients, of operators and towards endpoints, on a whole router."""

import json
import signal
from pathlib import Path

import pytest

from epp.app.guards import build_guards
from epp.app.watched import WatchedFiles
from epp.config.leaf import Secret
from epp.config.security_settings import ApiKeySettings
from epp.config.settings import ReceiptSettings, Settings
from epp.errors import ConfigError
from epp.security import parse_key, parse_network
from tests.e2e.kit import chat, eventually, free_port

KEYS = ApiKeySettings(key=(parse_key("team-a=one"), parse_key("two")))
GUARDED = [
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/completions"),
    ("POST", "/v1/messages"),
    ("POST", "/v1/embeddings"),
    ("POST", "/tokenize"),
    ("GET", "/v1/models/m"),
    ("GET", "/load"),
    ("DELETE", "/v1/responses/r1"),
    ("GET", "/v1/models"),
    ("POST", "/pick"),
    ("GET", "/pick/"),
    ("GET", "//metrics"),
    ("GET", "/HEALTHZ"),
]
OPEN = ["/healthz", "/readyz", "/health", "/ping", "/version", "/docs", "/openapi.json", "/metrics"]


@pytest.mark.parametrize(("method", "path"), GUARDED)
async def test_every_route_for_clients_needs_a_key(serve, route, method, path):
    endpoint = await serve()
    router = await route(endpoint, api_keys=KEYS)
    await router.know("m")
    body = chat() if method == "POST" else None
    statuses = []
    for headers in ({}, {"authorization": "Bearer wrong"}, {"x-api-key": "wrong"}):
        answer = await router.client.request(method, path, json=body, headers=headers)
        assert answer.json()["error"]["code"] == "invalid_api_key"
        assert answer.headers["www-authenticate"] == 'Bearer realm="epp"'
        assert answer.headers["x-request-id"]
        statuses.append(answer.status_code)
    assert statuses == [401, 401, 401]
    assert await router.sample("epp_key_refusals_total", cause="missing") == 1
    assert await router.sample("epp_key_refusals_total", cause="wrong") == 2
    for headers in ({"authorization": "Bearer one"}, {"x-api-key": "two"}):
        answer = await router.client.request(method, path, json=body, headers=headers)
        assert answer.status_code != 401


async def test_routes_for_load_balancers_and_scrapers_need_none(serve, route):
    router = await route(await serve(), api_keys=KEYS)
    await router.know("m")
    assert [(await router.client.get(path)).status_code for path in OPEN] == [200] * len(OPEN)


async def test_metrics_may_need_one(serve, route):
    router = await route(await serve(), api_keys=ApiKeySettings(key=KEYS.key, metrics=True))
    assert (await router.client.get("/metrics")).status_code == 401
    assert (await router.client.get("/metrics", headers={"x-api-key": "two"})).status_code == 200


async def test_on_the_admin_listener_nothing_needs_a_key(serve, route, connect):
    router = await route(
        await serve(), admin_port=free_port(), api_keys=ApiKeySettings(key=KEYS.key, metrics=True)
    )
    admin = await connect(router.admin_url)
    for path in ("/metrics", "/v1/models", "/debug/config"):
        assert (await admin.get(path)).status_code == 200
    assert (await admin.post("/pick", json=chat())).status_code != 401
    assert (await router.client.get("/v1/models")).status_code == 401


async def test_details_of_the_pool_are_for_those_who_may_see_receipts(serve, route):
    endpoint = await serve()
    router = await route(
        endpoint, api_keys=KEYS, admin_key=Secret("k3y"), receipts=ReceiptSettings(loopback=False)
    )
    shown = (await router.client.get("/readyz")).json()
    assert set(shown) == {"ready", "reasons"}
    shown = (await router.client.get("/readyz", headers={"x-epp-admin-key": "k3y"})).json()
    assert endpoint.url.removeprefix("http://") in shown["detail"]["endpoints"]


@pytest.mark.parametrize(
    ("loopback", "headers", "status"),
    [
        (True, {}, 200),
        (True, {"x-forwarded-for": "127.0.0.1"}, 403),
        (True, {"x-forwarded-for": "127.0.0.1", "x-epp-admin-key": "k3y"}, 200),
        (False, {}, 403),
        (False, {"x-epp-admin-key": "k3z"}, 403),
        (False, {"authorization": "Bearer one"}, 403),
        (False, {"x-epp-admin-key": "k3y"}, 200),
    ],
)
async def test_debug_is_for_those_who_may_see_receipts(serve, route, loopback, headers, status):
    router = await route(
        await serve(), api_keys=KEYS, admin_key=Secret("k3y"), receipts=ReceiptSettings(loopback=loopback)
    )
    for path in ("/debug/config", "/debug/decisions", "/debug/state"):
        assert (await router.client.get(path, headers=headers)).status_code == status


async def test_the_clients_credentials_pass_unless_keys_are_configured_and_never_with_probes(serve, route):
    """Bug corpus C06."""
    endpoint = await serve()
    router = await route(endpoint)
    await router.know("m")
    for path in ("/v1/chat/completions", "/v1/audio/transcriptions"):
        await router.client.post(
            path, json=chat(), headers={"authorization": "Bearer theirs", "x-api-key": "k"}
        )
        assert endpoint.to(path)[0].values("authorization") == ["Bearer theirs"]
        assert endpoint.to(path)[0].values("x-api-key") == ["k"]
    await eventually(lambda: len(endpoint.to("/metrics")) > 1)
    for path in ("/metrics", "/v1/models", "/tokenize"):
        assert [request.values("authorization") for request in endpoint.to(path)] == [[]] * len(
            endpoint.to(path)
        )


async def test_the_endpoints_key_goes_with_requests_scrapes_and_probes(serve, route, caplog):
    endpoint = await serve()
    router = await route(endpoint, api_keys=KEYS, endpoint_key=Secret("0urs"))
    await router.know("m")
    answer = await router.chat(headers={"authorization": "Bearer one"})
    assert answer.status_code == 200
    await eventually(lambda: all(endpoint.to(path) for path in ("/metrics", "/v1/models", "/tokenize")))
    for request in endpoint.received:
        assert request.values("authorization") == ["Bearer 0urs"], request.path
        assert request.values("x-api-key") == []
        assert "one" not in dict(request.headers).values()


async def test_nothing_goes_through_a_proxy_of_the_environment(serve, route, monkeypatch):
    """Bug corpus C14."""
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    endpoint = await serve()
    router = await route(endpoint)
    await router.know("m")
    assert (await router.chat()).status_code == 200
    assert endpoint.to("/metrics")


async def test_keys_of_a_file_are_read_anew_and_a_faulty_file_keeps_the_last(serve, route, tmp_path):
    file = tmp_path / "keys"
    file.write_text("# ours\nteam-b=first\n")
    router = await route(await serve(), api_keys=ApiKeySettings(key=KEYS.key, file=str(file)))
    await router.know("m")

    async def status(key):
        return (await router.chat(headers={"authorization": f"Bearer {key}"})).status_code

    assert [await status(key) for key in ("one", "first", "second")] == [200, 200, 401]
    file.write_text("team-b=second\n")
    signal.raise_signal(signal.SIGHUP)
    await eventually(lambda: _is(status("second"), 200))
    assert [await status(key) for key in ("one", "first", "second")] == [200, 401, 200]

    file.write_text("team-b=hunter2 hunter2\n")
    signal.raise_signal(signal.SIGHUP)
    await eventually(lambda: _is(router.sample("epp_file_fault", files="apiKeys"), 1))
    assert await status("second") == 200
    ready = await router.client.get("/readyz")
    assert ready.status_code == 200
    assert ready.json()["detail"]["files"] == {
        "apiKeys": f"{file}: line 1: a key must be printable ASCII without blanks, and not empty"
    }
    assert await router.sample("epp_file_reloads_total", files="apiKeys", outcome="failed") >= 1

    file.write_text("third\n")
    signal.raise_signal(signal.SIGHUP)
    await eventually(lambda: _is(status("third"), 200))
    assert await status("second") == 401
    assert (await router.client.get("/readyz")).json()["detail"]["files"] == {"apiKeys": "in use"}
    assert await router.sample("epp_file_fault", files="apiKeys") == 0


async def test_the_keys_of_operator_and_endpoints_are_exchanged_while_running(serve, route, tmp_path):
    endpoint = await serve()
    admin, ours = tmp_path / "admin", tmp_path / "ours"
    admin.write_text("first-admin\n")
    ours.write_text("first\n")
    router = await route(
        endpoint,
        admin_key_file=str(admin),
        endpoint_key_file=str(ours),
        receipts=ReceiptSettings(loopback=False),
    )
    await eventually(lambda: endpoint.to("/metrics") and endpoint.to("/v1/models"))

    async def opens(key):
        answer = await router.client.get("/debug/config", headers={"x-epp-admin-key": key})
        return answer.status_code == 200

    assert [await opens(key) for key in ("first-admin", "second-admin")] == [True, False]
    assert {tuple(r.values("authorization")) for r in endpoint.received} == {("Bearer first",)}
    admin.write_text("second-admin\n")
    ours.write_text("second\n")
    signal.raise_signal(signal.SIGHUP)
    await eventually(lambda: opens("second-admin"))
    assert not await opens("first-admin")
    await eventually(
        lambda: _is(router.sample("epp_file_reloads_total", files="endpointKey", outcome="ok"), 1)
    )
    endpoint.received.clear()
    await router.chat()
    await eventually(lambda: endpoint.to("/metrics"))
    assert {tuple(r.values("authorization")) for r in endpoint.received} == {("Bearer second",)}

    admin.write_text("two words\n")
    signal.raise_signal(signal.SIGHUP)
    await eventually(lambda: _is(router.sample("epp_file_fault", files="adminKey"), 1))
    assert await opens("second-admin")
    ready = await router.client.get("/readyz")
    assert ready.json()["detail"]["files"] == {
        "adminKey": f"{admin}: must be printable ASCII without blanks, and not empty",
        "endpointKey": "in use",
    }


async def _is(wanted, value):
    return await wanted == value


async def test_the_access_log_names_the_key_and_the_caller(serve, route, tmp_path):
    router = await route(await serve(), api_keys=KEYS, trusted_proxies=(parse_network("127.0.0.0/8"),))
    await router.know("m")
    await router.chat(headers={"authorization": "Bearer one", "x-forwarded-for": "198.51.100.9"})
    await router.chat(headers={"authorization": "Bearer two"})
    await router.chat(headers={"authorization": "Bearer wrong"})

    def lines():
        found = [json.loads(line) for line in (tmp_path / "access.log").read_text().splitlines()]
        return found if len(found) == 3 else []

    named, unnamed, refused = await eventually(lines)
    assert (named["status"], named["key"], named["client"]) == (200, "team-a", "198.51.100.9")
    assert (unnamed["status"], unnamed.get("key"), unnamed["client"]) == (200, None, "127.0.0.1")
    assert (refused["status"], refused["error"], refused["reason"]) == (401, "invalid_api_key", "rejected")


@pytest.mark.parametrize(
    ("given", "warned"),
    [
        ({"endpoint_key": Secret("0urs")}, True),
        ({"endpoint_key": Secret("0urs"), "api_keys": KEYS}, False),
        ({}, False),
    ],
)
def test_an_endpoint_key_that_anybody_may_use_is_warned_of(given, warned):
    text = "endpointKey is set without apiKeys: whoever reaches this router uses the endpoints with its key"
    assert build_guards(Settings(**given), WatchedFiles()).warnings == ((text,) if warned else ())


SENTINELS = ["SENTINEL-client", "SENTINEL-file", "SENTINEL-endpoint", "SENTINEL-admin", "SENTINEL-wrong"]


async def test_no_key_is_ever_logged(serve, spawn, connect, tmp_path):
    """Bug corpus L08, at the level that says most."""
    endpoint = await serve()
    keys, settings = tmp_path / "keys", tmp_path / "settings.yaml"
    keys.write_text("team-f=SENTINEL-file\n")
    settings.write_text(
        f"endpoint: [{endpoint.url}, 'http://127.0.0.1:1']\nport: 0\nhost: 127.0.0.1\n"
        f"apiKeys: {{key: team-c=SENTINEL-client, file: {keys}}}\n"
        "endpointKey: SENTINEL-endpoint\nadminKey: SENTINEL-admin\n"
        "receipts: {loopback: false}\nmaxRequestBytes: 1000\nlog: {level: debug}\naccessLog: {prefix: true}\n"
    )
    process = await spawn("serve", "--settings", str(settings))
    client = await connect(await process.url())
    shown = ""
    for key in SENTINELS:
        headers = {
            "authorization": f"Bearer {key}",
            "x-api-key": key,
            "x-epp-admin-key": key,
            "x-epp-explain": "1",
        }
        for method, path, body in (
            (
                "POST",
                "/v1/chat/completions",
                b'{"model": "m", "messages": [{"role": "user", "content": "Hi"}]}',
            ),
            ("POST", "/v1/chat/completions", b"{"),
            ("POST", "/v1/chat/completions", b"x" * 2000),
            ("POST", "/pick", b'{"model": "m", "prompt": "Hi"}'),
            ("GET", "/debug/config", None),
            ("GET", "/debug/decisions", None),
            ("GET", "/debug/state", None),
            ("GET", "/metrics", None),
            ("GET", "/readyz", None),
            ("GET", "/v1/models", None),
            ("POST", "/sleep", None),
        ):
            answer = await client.request(method, path, content=body, headers=headers)
            shown += answer.text + str(answer.headers)
    keys.write_text("team-f=SENTINEL-file SENTINEL-wrong\n")
    process.signal(signal.SIGHUP)
    await eventually(lambda: "cannot be loaded anew" in process.stderr)
    process.signal(signal.SIGTERM)
    assert await process.ended() == 0
    written = process.stderr + process.stdout + shown
    assert '"key":"team-c"' in process.stdout
    assert [key for key in SENTINELS if key in written] == []
    assert any("SENTINEL-endpoint" in str(request.headers) for request in endpoint.received)


def _written(file: Path, content: bytes | None) -> Path:
    if content is not None:
        file.write_bytes(content)
    return file


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "apiKeys: /{file}: No such file or directory"),
        (b"", "apiKeys: /{file}: there is no key in it"),
        (b"a b\n", "apiKeys: /{file}: line 1: a key must be printable ASCII without blanks, and not empty"),
        (b"\xff", "apiKeys: /{file}: it is not UTF-8"),
    ],
)
def test_a_file_of_keys_that_cannot_be_used_is_an_error_of_the_configuration(tmp_path, text, message):
    file = _written(tmp_path / "keys", text)
    with pytest.raises(ConfigError) as raised:
        build_guards(Settings(api_keys=ApiKeySettings(file=str(file))), WatchedFiles())
    assert [str(problem) for problem in raised.value.problems] == [message.format(file=str(file)[1:])]
