"""What a start loads: seconds that nobody waits for."""

import subprocess
import sys


def test_a_router_without_cluster_and_names_loads_neither_client():
    program = (
        "import sys, epp.app.server\n"
        "print([name for name in ('httpx', 'dns', 'grpc', 'cryptography', 'tokenizers') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stdout.strip() == "[]"
