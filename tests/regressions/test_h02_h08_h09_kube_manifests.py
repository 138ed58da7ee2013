"""Manifests that lacked a permission, a basis for their limits, or names of their own."""

import functools
import subprocess
import sys

import pytest

from epp.config import Settings
from tests.kube.manifests import chart, container, granted, kustomized
from tests.kube.test_chart import GUIDE, values

FOLLOWED = {
    ("", "pods"),
    ("inference.networking.k8s.io", "inferencepools"),
    ("inference.networking.x-k8s.io", "inferenceobjectives"),
    ("llm-d.ai", "inferenceobjectives"),
    ("llm-d.ai", "inferencemodelrewrites"),
}
MIB = 1 << 20
ENTRY_BYTES = 42  # docs/adr/0003-prefix-index.md
LARGEST_FLEET = 512
BLOCKS = 2 * 31_250 // 4  # two tiers; a hash block of 256 bytes is about four engine blocks of 16 tokens


def installs():
    return {folder: kustomized(folder) for folder in ("proxy", "gateway/gke")} | {"chart": chart(text=GUIDE)}


@pytest.mark.parametrize("kind", ["proxy", "gateway/gke", "chart"])
def test_h02_every_kind_that_is_followed_can_be_got_listed_and_watched(kind):
    found = granted(installs()[kind])

    assert {resource for resource in FOLLOWED if found.get(resource) == {"get", "list", "watch"}} == FOLLOWED


@functools.cache
def resident_mib():
    """What a router that has loaded everything takes before its first request."""
    program = (
        "import pathlib, re, epp.app.server, epp.gateway.server\n"
        "from epp.compose import compose\n"
        "from epp.config import load_config\n"
        "from epp.config.builtin import builtin_config\n"
        "compose(load_config(builtin_config(), 'c'))\n"
        # Not ru_maxrss: a child inherits that of the process which started it, here of the whole test run.
        "status = pathlib.Path('/proc/self/status').read_text()\n"
        "print(int(re.search(r'VmHWM:\\s+(\\d+) kB', status)[1]) // 1024)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    return int(done.stdout)


@pytest.mark.parametrize("kind", ["proxy", "gateway/gke", "chart"])
def test_h08_the_memory_limit_covers_the_process_all_bodies_and_the_index_of_512_endpoints(kind):
    resources = container(installs()[kind])["resources"]
    index = LARGEST_FLEET * BLOCKS * ENTRY_BYTES // MIB
    bound = resident_mib() + Settings().max_buffered_bytes // MIB + index

    assert resources["limits"]["memory"] == "2Gi"
    assert bound < 2048
    assert resources["requests"]["memory"] == "512Mi"


@pytest.mark.parametrize(
    "more",
    [
        {},
        {
            "inferenceExtension__replicas": 2,
            "inferenceExtension__flags": {"ha-enable-leader-election": True},
            "inferenceExtension__monitoring": {"prometheus": {"enabled": True, "auth": {"enabled": True}}},
        },
    ],
)
def test_h09_two_installations_in_a_namespace_share_no_name(more):
    text = values(**more)
    names = [
        {(obj["kind"], obj["metadata"]["name"]) for obj in chart(name, text=text)} for name in ("one", "two")
    ]

    assert names[0] & names[1] == set()
    selectors = [
        next(o for o in chart(name, text=GUIDE) if o["kind"] == "Deployment")["spec"]["selector"]
        for name in ("one", "two")
    ]
    assert selectors[0] != selectors[1]
