"""D14 (SG i3802): the start was refused unless all workers were healthy. D20 (GIE p2582): wrong ports failed in silence."""

from epp.config.settings import LogSettings
from epp.simserver import SimServer
from tests.e2e.kit import eventually, free_port


async def reasons(router):
    return (await router.client.get("/readyz")).json()["reasons"]


async def state_of(router, port):
    return (await router.client.get("/readyz")).json()["detail"]["endpoints"][f"127.0.0.1:{port}"]


async def test_d14_it_starts_and_is_ready_as_soon_as_one_endpoint_is(route):
    port = free_port()
    router = await route(f"http://127.0.0.1:{port}")
    assert (await router.client.get("/healthz")).status_code == 200

    async def unready():
        return await reasons(router)

    assert await eventually(unready) == ["no endpoint is ready; detail says why for each"]
    async with SimServer(port=port, time_scale=50.0):

        async def ready():
            return not await reasons(router)

        await eventually(ready)
        assert (await router.chat()).status_code == 200


async def test_d20_a_port_on_which_nobody_listens_is_warned_of_once_and_shown(recorder, route, capsys):
    port = free_port()
    endpoint = await recorder()
    router = await route(endpoint, f"http://127.0.0.1:{port}", log=LogSettings(format="json"))

    async def refused_often():
        return await router.sample("epp_scrape_errors_total", endpoint=f"127.0.0.1:{port}") >= 4

    await eventually(refused_often)
    assert await state_of(router, port) in ("ejected: scrape-refused", "unreachable: no scrape has succeeded")
    assert await reasons(router) == []
    warning = f'"level":"warning","logger":"epp.scrape","message":"scraping 127.0.0.1:{port} failed'
    warnings = [line for line in capsys.readouterr().err.splitlines() if warning in line]

    assert len(warnings) == 1
