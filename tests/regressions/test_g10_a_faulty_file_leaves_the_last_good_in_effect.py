"""G10 (PS p642; py-inference-scheduler): a reload dropped state. Invalid, then valid, then deleted."""

from epp.config import load_config
from tests.e2e.kit import LONG_TEXT, eventually

GOOD = """
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: active-request-scorer
- {{type: prefix-cache-scorer, name: prefix}}
schedulingProfiles:
- name: default
  plugins:
  - {{pluginRef: prefix, weight: {weight}}}
  - {{pluginRef: active-request-scorer}}
"""


async def test_the_last_good_stays_reloads_are_counted_and_the_index_survives(recorder, route, tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(GOOD.format(weight=1))
    endpoint = await recorder()
    router = await route(
        endpoint,
        config=load_config(file.read_text(), str(file)),
        files={"config": str(file)},
        config_interval_s=0.02,
    )
    await router.know("m")

    async def hit():
        await router.chat(LONG_TEXT, model="m")
        return (await router.decisions(1))[0]["predicted_gpu"]

    def put(text):
        (tmp_path / "next").write_text(text)
        (tmp_path / "next").rename(file)

    async def counted(result, least):
        return await router.sample("epp_config_reloads_total", result=result) >= least

    async def hash_in_effect():
        [(labels, _)] = await router.samples("epp_config_info")
        return labels["hash"]

    assert [await hit(), await hit() > 2000] == [0, True]
    before = await hash_in_effect()
    put("plugins: [")
    await eventually(lambda: counted("failure", 1))
    assert (await hash_in_effect(), await hit() > 2000) == (before, True)
    put(GOOD.format(weight=2))
    await eventually(lambda: counted("success", 1))
    assert (await hash_in_effect() != before, await hit() > 2000) == (True, True)
    file.unlink()
    await eventually(lambda: counted("failure", 2))
    assert await hit() > 2000
