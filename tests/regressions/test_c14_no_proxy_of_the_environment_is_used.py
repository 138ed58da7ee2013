"""C14 (slime p1714): a client library sent requests inside the cluster through a proxy of the environment."""


async def test_requests_scrapes_and_probes_go_direct(recorder, route, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    endpoint = await recorder()
    router = await route(endpoint)
    await router.know("m")
    answer = await router.client.post("/v1/completions", json={"model": "m"})

    assert answer.status_code == 200
    assert {asked.path for asked in endpoint.probes()} >= {"/metrics", "/v1/models"}
