"""Authorization was not forwarded on some routes."""

from tests.e2e.kit import eventually

HI = [{"role": "user", "content": "Hello"}]


async def test_authorization_reaches_the_endpoint_on_every_route_and_is_never_on_a_probe(stage):
    endpoint, router = stage
    key = {"authorization": "Bearer k"}
    await router.client.post("/v1/chat/completions", json={"model": "m", "messages": HI}, headers=key)
    form = {"file": ("a.wav", b"RIFF" * 50_000, "audio/wav")}
    await router.client.post("/v1/audio/transcriptions", files=form, headers=key)
    await router.client.get("/v1/models/m", headers=key)
    await router.client.post("/sleep", headers=key)
    probes = len(endpoint.probes())
    await eventually(lambda: len(endpoint.probes()) > probes)

    assert [asked.path for asked in endpoint.relayed()] == [
        "/v1/chat/completions",
        "/v1/audio/transcriptions",
        "/v1/models/m",
        "/sleep",
    ]
    assert {asked.headers.get("authorization") for asked in endpoint.relayed()} == {"Bearer k"}
    assert {asked.headers.get("authorization") for asked in endpoint.probes()} == {None}
