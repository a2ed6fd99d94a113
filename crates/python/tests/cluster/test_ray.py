# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Sweeps on Ray: the same results as with processes, even if workers die. `.ci/long python` runs this with its own cluster."""

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import riser

ray: Any = pytest.importorskip("ray")

LAB = "labs/sweeps/read.toml"
METRICS: dict[str, Any] = {"hops": "tlp_hops", "gbps": "links.card.downstream.payload_gbps"}


def over(points: int) -> dict[str, Any]:
    return {"link.gen": [1, 2, 3, 4, 5], "slot.card.pcie-bench.outstanding": {"from": 1, "to": points // 5, "step": 1}}


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    ray.init(num_cpus=8, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def recorded(folder: Path) -> Counter[int]:
    """Count the records of each point in the journal: one line each, after its checksum."""
    lines = (folder / "journal.jsonl").read_text().splitlines()[1:]
    return Counter(json.loads(line.split(" ", 1)[1])["point"] for line in lines)


def test_results_equal_those_of_processes(tmp_path: Path) -> None:
    riser.sweep(LAB, over(100), METRICS, output=tmp_path / "processes")
    for workers in (1, 4):
        riser.sweep(LAB, over(100), METRICS, on="ray", workers=workers, output=tmp_path / f"ray{workers}")
    one, two, four = (
        (tmp_path / name / "results.parquet").read_bytes() for name in ("processes", "ray1", "ray4")
    )
    assert one == two == four


def kill_workers(done: threading.Event, every_s: float, killed: list[int]) -> None:
    """Repeatedly kill a process of Ray that runs points."""
    while not done.wait(every_s):
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                name = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            if name.startswith(b"ray::_points"):
                os.kill(int(pid), signal.SIGKILL)
                killed.append(int(pid))
                break


def test_killed_workers_lose_and_repeat_no_point(tmp_path: Path) -> None:
    points = int(os.environ.get("RISER_RAY_POINTS", "600"))
    riser.sweep(LAB, over(points), METRICS, output=tmp_path / "processes")
    done, killed = threading.Event(), list[int]()
    killer = threading.Thread(target=kill_workers, args=(done, 1.5, killed))
    killer.start()
    try:
        result = riser.sweep(LAB, over(points), METRICS, on="ray", workers=8, output=tmp_path / "ray")
    finally:
        done.set()
        killer.join()
    print(f"{points} points, {len(killed)} workers killed, {result.costs}")
    assert killed
    times = recorded(tmp_path / "ray")
    assert set(times) == set(range(points)) and set(times.values()) == {1}
    undisturbed, disturbed = (
        (tmp_path / name / "results.parquet").read_bytes() for name in ("processes", "ray")
    )
    assert undisturbed == disturbed
