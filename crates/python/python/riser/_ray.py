# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Sweeps on Ray: tasks of many points each, with enough tasks for all cores of the cluster.

Ray restarts a task whose worker died. If it dies every time, the task is split into single points, to find the one that crashes.
A point with a record is never run again.
"""

from __future__ import annotations

import importlib
from typing import Any

from riser import _progress, _riser
from riser._riser import ArgumentError, RiserError

_RETRIES = 3
"""Number of restarts of a task whose worker died."""
_LOOK_S = 0.5
"""Seconds between checks for Ctrl-C and progress reports."""

_workers: dict[int, _riser.SweepWorker] = {}
"""In a process of Ray: its unpacked sweep, by the hash of the text."""


def _points(packed: str, points: str) -> tuple[str, float, float]:
    """Run points in a process of Ray."""
    key = hash(packed)
    worker = _workers.get(key)
    if worker is None:
        _workers.clear()
        worker = _workers[key] = _riser.SweepWorker(packed)
    return worker.run(points)


def _joined(address: str) -> Any:
    if address != "ray" and address != "auto" and not address.startswith("ray://"):
        raise ArgumentError(f"on `{address}`: expected None, `ray`, `auto` or `ray://HOST:PORT`")
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError:
        raise RiserError("on Ray: `ray` is not installed: `pip install riser[ray]`") from None
    if not ray.is_initialized():
        where: dict[str, Any] = {"include_dashboard": False} if address == "ray" else {"address": address}
        ray.init(log_to_driver=False, **where)
    return ray


def drive(
    sweep: _riser.Sweep, run: _riser.SweepRun, address: str, workers: int | None, show: _progress.Show | None
) -> dict[str, float]:
    """Run the remaining points of a sweep on a cluster."""
    ray = _joined(address)
    count = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
    task = ray.remote(num_cpus=1, max_retries=_RETRIES, retry_exceptions=False)(_points)
    return _Driver(ray, task, ray.put(sweep.pack()), run, count, show).drive()


class _Driver:
    def __init__(
        self, ray: Any, task: Any, packed: Any, run: _riser.SweepRun, count: int, show: _progress.Show | None
    ) -> None:
        self._ray, self._task, self._packed, self._run, self._count, self._show = ray, task, packed, run, count, show
        self._under_way: dict[Any, str] = {}
        self._singly: list[str] = []
        self._costs = {"cpu_seconds": 0.0, "simulation_cpu_seconds": 0.0, "tasks": 0.0, "tasks_died": 0.0}

    def drive(self) -> dict[str, float]:
        try:
            while not self._run.is_done:
                self._give_out()
                self._take_in()
        except BaseException:
            for reference in self._under_way:
                self._ray.cancel(reference, force=True)
            raise
        self._run.sync()
        return self._costs

    def _give_out(self) -> None:
        # One running and one waiting task for each worker, which limits the queue.
        while len(self._under_way) < 2 * self._count:
            points = self._singly.pop() if self._singly else self._run.next_chunk(self._count)
            if points is None:
                return
            self._under_way[self._task.remote(self._packed, points)] = points
            self._costs["tasks"] += 1

    def _take_in(self) -> None:
        ready, _ = self._ray.wait(list(self._under_way), num_returns=1, timeout=_LOOK_S)
        # Take all other finished tasks too.
        more, _ = self._ray.wait(list(self._under_way), num_returns=len(self._under_way), timeout=0)
        for reference in {*ready, *more}:
            self._one(reference, self._under_way.pop(reference))
        if self._show is not None:
            points, recorded, *_ = self._run.progress()
            self._show(f"{recorded} of {points} points", recorded / max(points, 1))

    def _one(self, reference: Any, points: str) -> None:
        try:
            records, cpu, simulation = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError:
            raise
        except self._ray.exceptions.RayError as died:
            self._costs["tasks_died"] += 1
            singly = self._run.singly(points)
            if len(singly) == 1:
                why = f"the process that ran it died {_RETRIES + 1} times: {type(died).__name__}"
                self._run.crashed(points, why)
            else:
                self._singly += singly
            return
        self._costs["cpu_seconds"] += cpu
        self._costs["simulation_cpu_seconds"] += simulation
        self._run.accept(records, cpu)

