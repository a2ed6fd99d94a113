# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Sweeps: simulations of a lab over ranges of its settings."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from riser import _command, _progress, _riser
from riser._lab import Lab
from riser._riser import ArgumentError, Interrupted, RunFailed, Table

_JOURNAL, _PARQUET, _CSV, _PAGE = "journal.jsonl", "results.parquet", "results.csv", "report.html"


class SweepResult:
    """Result of a sweep. polars, pandas, pyarrow and DuckDB read `table` by the Arrow PyCapsule interface."""

    def __init__(self, run: _riser.SweepRun, folder: Path | None, costs: dict[str, float]) -> None:
        self.table: Table = run.table()
        """A row for each point with a record, in order: settings, metrics, `basis`, `outcome`, `error`."""
        self.folder = folder
        """The folder with `journal.jsonl`, `results.parquet`, `results.csv` and `report.html`, if one was given."""
        self.costs = costs
        """Costs: `cpu_seconds` of points, `simulation_cpu_seconds` as a part of these, and the workers that started and died."""
        self.warnings: list[str] = run.warnings()
        """Warnings of `Lab.run` for the labs of points, such as extrapolated figures."""
        self._best = run.front()

    @property
    def best(self) -> list[dict[str, Any]]:
        """The rows of the Pareto front of all aims, or the best by the aim of successive halving."""
        rows = {row["point"]: row for row in self.table.to_dicts()}
        return [rows[point] for point in self._best]

    def __len__(self) -> int:
        return len(self.table)

    def __repr__(self) -> str:
        return f"<riser.SweepResult of {len(self)} points>"


def sweep(
    lab: Lab | str | PathLike[str],
    over: Mapping[str, Any],
    metrics: Mapping[str, Any],
    *,
    together: Sequence[Mapping[str, Any]] = (),
    sample: Mapping[str, Any] | None = None,
    halving: Mapping[str, Any] | None = None,
    max_events: int | None = None,
    on: str | None = None,
    workers: int | None = None,
    output: str | PathLike[str] | None = None,
    resume: bool = False,
    force: bool = False,
    allow_native: bool = False,
    progress: bool | None = None,
) -> SweepResult:
    """Run a lab over ranges of its settings.

        >>> lab = Lab(link={"gen": 3, "lanes": 8})
        >>> lab.slot("nic", "simple-nic")
        >>> found = sweep(lab, {"link.gen": [3, 4]}, {"hops": "tlp_hops"})
        >>> [row["link.gen"] for row in found.table.to_dicts()]
        [3, 4]

    Args:
        lab: the lab, or the path of its file.
        over: keys of the lab, each with a list of values or a range: `{"from": 1, "to": 64, "points": 7, "scale": "log"}`.
        metrics: names of figures of the run's report, as in `[metrics]` of a sweep file: each a path, or a dict with `aim`,
            `at_least` and so on.
        together: keys that change together.
        sample: `{"method": "grid" | "random" | "sobol", "points": ..., "seed": ...}`; by default all combinations.
        halving: successive halving: `{"budget": KEY, "least": ..., "most": ..., "eta": ...}`.
        max_events: events after which the run of a point ends.
        on: None for processes of this machine; `ray` for the cluster that this process has joined, or a new one; `ray://...` or
            `auto` for a cluster at an address.
        workers: number of processes, or of tasks on the cluster; by default the number of cores.
        output: folder for the journal, the Parquet and CSV files, and the page.
        resume: continue the journal in `output`: points with a record are not run again.
        force: start again, and replace the files in `output`.
        allow_native: allow native code that the lab names.
        progress: show the progress; None: if it takes over two seconds in a terminal or a notebook.

    Raises:
        ArgumentError: an argument is invalid.
        LabError: the lab, a key, a range or a metric is invalid; the text names the place and the expected values.
        RiserError: the journal is of another sweep, or exists already.
        RunFailed: every point was refused; `result` has them.
        Interrupted: Ctrl-C; `result` has the points so far, and `resume=True` continues.
    """
    lab = lab if isinstance(lab, Lab) else Lab.from_toml(lab)
    # Settings over the lab become axes with one value.
    fixed = {key: [value] for key, value in lab._settings.items() if key not in over}
    keys: dict[str, Any] = {"version": 1, "lab": lab._name, "over": fixed | dict(over), "metrics": dict(metrics)}
    optional = {"sample": sample, "halving": halving, "max_events": max_events}
    keys |= {name: value for name, value in optional.items() if value is not None}
    if together:
        keys["together"] = [dict(table) for table in together]
    inner = _riser.Sweep(_text(keys), "sweep", lab._whole(), allow_native)
    return _run(inner, on, workers, output, _start(resume, force), progress)


def _text(keys: Mapping[str, Any]) -> str:
    """Return the text of a sweep file, with its keys in order: the last range changes first."""

    def lines(table: Mapping[str, Any]) -> list[str]:
        return [f"{json.dumps(key, ensure_ascii=False)} = {_riser.to_toml_value(value)}" for key, value in table.items()]

    tables = {name: value for name, value in keys.items() if name in ("over", "metrics")}
    rest = {name: value for name, value in keys.items() if name not in tables}
    parts = lines(rest)
    for name, table in tables.items():
        parts += [f"[{name}]", *lines(table)]
    return "\n".join(parts) + "\n"


def _start(resume: bool, force: bool) -> str:
    if resume and force:
        raise ArgumentError("resume and force: expected one of the two")
    return "resume" if resume else "force" if force else "new"


def _run(
    inner: _riser.Sweep,
    on: str | None,
    workers: int | None,
    output: str | PathLike[str] | None,
    start: str,
    progress: bool | None,
) -> SweepResult:
    folder = None if output is None else Path(fspath(output))
    if folder is None and start == "resume":
        raise ArgumentError("resume: no journal without output, the folder of the sweep to continue")
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    if workers is not None and not 1 <= workers <= 1024:
        raise ArgumentError(f"workers of {workers}: expected 1 to 1024")
    run = _riser.SweepRun(inner, None if folder is None else fspath(folder / _JOURNAL), start)
    costs: dict[str, float] = {}
    try:
        with _progress.shown(progress) as show:
            if on is None:
                costs = _by_processes(run, workers, show)
            else:
                from riser import _ray

                costs = _ray.drive(inner, run, on, workers, show)
    except KeyboardInterrupt:
        run.sync()
        points, recorded, *_ = run.progress()
        how = "without an output folder it cannot be resumed" if folder is None else "resume=True continues"
        stopped = Interrupted(f"interrupted: {recorded} of {points} points are recorded; {how}")
        stopped.result = SweepResult(run, folder, costs)
        raise stopped from None
    if folder is not None:
        _written(folder / _PARQUET, run.write_parquet)
        _written(folder / _CSV, run.write_csv)
        _written(folder / _PAGE, run.write_page)
    found = SweepResult(run, folder, costs)
    if (why := run.refusal()) is not None:
        failed = RunFailed(f"no point was run: all {len(found)} were refused, the first with: {why}")
        failed.result = found
        raise failed
    return found


def _written(path: Path, write: Any) -> None:
    """Write a file under a temporary name and rename it when complete. It keeps the mode of the file that it replaces."""
    part = path.with_name(f"{path.name}.{secrets.token_hex(3)}.part")
    part.touch(exist_ok=False)
    try:
        if path.exists():
            shutil.copymode(path, part)
        write(fspath(part))
        os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise


def _by_processes(
    run: _riser.SweepRun, workers: int | None, show: _progress.Show | None
) -> dict[str, float]:
    command = [*_command.ITSELF, "sweep", "--worker"]
    count = workers or len(os.sched_getaffinity(0))
    cpu, simulation, started, died = run.by_processes(command, count, show)
    return {
        "cpu_seconds": cpu,
        "simulation_cpu_seconds": simulation,
        "workers_started": started,
        "workers_died": died,
    }


