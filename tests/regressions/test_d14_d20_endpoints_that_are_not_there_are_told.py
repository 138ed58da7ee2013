"""D14 (SG i3802): the start was refused unless all workers were healthy. D20 (GIE p2582): wrong ports failed in silence."""

import pytest

from epp.config import Settings
from epp.config.settings import AccessLogSettings, LogSettings
from epp.endpoints.spec import parse_endpoints
from epp.simserver import SimServer
from tests.e2e.kit import eventually, free_port, running_router


@pytest.fixture
def settings(tmp_path):
    def made(*urls):
        return Settings(
            host="127.0.0.1",
            port=0,
            endpoint=parse_endpoints(urls),
            access_log=AccessLogSettings(file=str(tmp_path / "access.log")),
            log=LogSettings(format="json"),
        )

    return made


async def reasons(router):
    return (await router.client.get("/readyz")).json()["reasons"]


async def state_of(router, port):
    return (await router.client.get("/readyz")).json()["detail"]["endpoints"][f"127.0.0.1:{port}"]


async def test_d14_it_starts_and_is_ready_as_soon_as_one_endpoint_is(settings):
    port = free_port()
    async with running_router(settings(f"http://127.0.0.1:{port}")) as router:
        assert (await router.client.get("/healthz")).status_code == 200

        async def unready():
            return await reasons(router)

        assert await eventually(unready) == ["no endpoint is ready; detail says why for each"]
        async with SimServer(port=port, time_scale=50.0):

            async def ready():
                return not await reasons(router)

            await eventually(ready)
            assert (await router.chat()).status_code == 200


async def test_d20_a_port_on_which_nobody_listens_is_warned_of_once_and_shown(settings, capsys):
    port = free_port()
    async with (
        SimServer(time_scale=50.0) as server,
        running_router(settings(server.url, f"http://127.0.0.1:{port}")) as router,
    ):

        async def refused_often():
            return await router.sample("epp_scrape_errors_total", endpoint=f"127.0.0.1:{port}") >= 4

        await eventually(refused_often)
        assert await state_of(router, port) in (
            "ejected: scrape-refused",
            "unreachable: no scrape has succeeded",
        )
        assert await reasons(router) == []
    warning = f'"level":"warning","logger":"epp.scrape","message":"scraping 127.0.0.1:{port} failed'
    warnings = [line for line in capsys.readouterr().err.splitlines() if warning in line]

    assert len(warnings) == 1
