# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A sweep on a foreign cluster, reached by its address: two nodes and a separate client."""

import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

CLIENT = """
import sys
import riser

over = {"link.gen": [3, 4], "slot.card.pcie-bench.outstanding": {"from": 1, "to": 50, "step": 1}}
metrics = {"hops": "tlp_hops", "gbps": "links.card.downstream.payload_gbps"}
address, folder = sys.argv[1:]
print(riser.sweep("labs/sweeps/read.toml", over, metrics, on=address, output=f"{folder}/ray").costs)
riser.sweep("labs/sweeps/read.toml", over, metrics, output=f"{folder}/processes")
"""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def ray(*arguments: str) -> None:
    """Run the command of Ray, for a cluster of this machine that requires a token."""
    command = [sys.executable, "-m", "ray.scripts.scripts", *arguments]
    subprocess.run(command, check=True, timeout=120, stdout=subprocess.DEVNULL)


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    port, clients = free_port(), free_port()
    common = ("--num-cpus=1", "--disable-usage-stats")
    ray("start", "--head", f"--port={port}", f"--ray-client-server-port={clients}", "--include-dashboard=false", *common)
    try:
        ray("start", f"--address=127.0.0.1:{port}", *common)
        yield f"ray://127.0.0.1:{clients}"
    finally:
        ray("stop", "--force")


def test_sweep_reaches_a_cluster_by_address(address: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", CLIENT, address, str(tmp_path)]
    ran = subprocess.run(command, check=True, timeout=300, capture_output=True, text=True, env=os.environ)
    assert "'tasks'" in ran.stdout
    by_ray, by_processes = ((tmp_path / name / "results.parquet").read_bytes() for name in ("ray", "processes"))
    assert by_ray == by_processes
