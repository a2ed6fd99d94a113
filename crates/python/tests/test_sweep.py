# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Sweeps from Python, with processes on this machine."""

import doctest
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy
import polars
import pytest
import riser

np: Any = numpy

LAB = "labs/sweeps/read.toml"
OVER: dict[str, Any] = {"link.gen": [3, 4, 5], "slot.card.pcie-bench.outstanding": [1, 8, 64]}
METRICS: dict[str, Any] = {
    "payload_gbps": {"path": "links.card.downstream.payload_gbps", "aim": "maximize"},
    "latency_ns": {"path": "links.card.transactions.dma_read.latency_ns_median", "aim": "minimize"},
}


def test_points_equal_single_runs() -> None:
    """Compare with single runs of the same labs."""
    found = riser.sweep(LAB, OVER, METRICS, workers=2)
    rows = found.table.to_dicts()
    assert len(rows) == 9 and [row["point"] for row in rows] == list(range(9))
    assert [list(row)[1:5] for row in rows[:1]] == [[*OVER, *METRICS]]
    assert [row["link.gen"] for row in rows] == [3, 3, 3, 4, 4, 4, 5, 5, 5]
    for row in rows:
        lab = riser.Lab.from_toml(LAB, set={key: row[key] for key in OVER})
        result = lab.run()
        down = next(link for link in result.links.to_dicts() if link["direction"] == "downstream")
        assert row["payload_gbps"] == down["payload_gbps"]
        reads = next(kind for kind in result.latencies.to_dicts() if kind["kind"] == "dma_read")
        assert row["latency_ns"] == reads["latency_ns_median"]
    dominated = [
        row
        for row in rows
        if any(
            other["payload_gbps"] >= row["payload_gbps"]
            and other["latency_ns"] <= row["latency_ns"]
            and (other["payload_gbps"], other["latency_ns"]) != (row["payload_gbps"], row["latency_ns"])
            for other in rows
        )
    ]
    assert found.best == [row for row in rows if row not in dominated]


def test_files_do_not_depend_on_the_number_of_workers(tmp_path: Path) -> None:
    for workers in (1, 3):
        riser.sweep(LAB, OVER, METRICS, workers=workers, output=tmp_path / str(workers))
    for file in ("results.parquet", "results.csv"):
        one, three = ((tmp_path / name / file).read_bytes() for name in ("1", "3"))
        assert one == three
    frame = polars.read_parquet(tmp_path / "1" / "results.parquet")
    assert polars.read_csv(tmp_path / "1" / "results.csv", schema_overrides=frame.schema).equals(frame)
    assert frame.height == 9 and frame["outcome"].unique().to_list() == ["finished"]
    assert b"<html" in (tmp_path / "1" / "report.html").read_bytes()


def test_the_command_of_the_package_sweeps(tmp_path: Path) -> None:
    """Its workers run the same Python, since the program of the process is the interpreter."""
    (tmp_path / "read.toml").write_text(Path(LAB).read_text())
    (tmp_path / "s.toml").write_text(
        'version = 1\nlab = "read.toml"\n[over]\n"link.gen" = [3, 4]\n[metrics]\nhops = "tlp_hops"\n'
    )
    command = [sys.executable, "-m", "riser", "sweep", str(tmp_path / "s.toml"), "-o", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert polars.read_parquet(tmp_path / "out" / "results.parquet")["link.gen"].to_list() == [3, 4]


def test_sweeps_a_lab_in_code_with_settings() -> None:
    lab = riser.Lab(link={"gen": 3, "lanes": 8}).with_settings({"link.lanes": 16})
    lab.slot("nic", "simple-nic")
    found = riser.sweep(lab, {"link.gen": [3, 4]}, {"hops": "tlp_hops"})
    assert [(row["link.gen"], row["link.lanes"]) for row in found.table.to_dicts()] == [(3, 16), (4, 16)]


def test_resumed_sweep_runs_no_point_twice(tmp_path: Path) -> None:
    first = riser.sweep(LAB, OVER, METRICS, output=tmp_path)
    journal = (tmp_path / "journal.jsonl").read_bytes()
    with pytest.raises(riser.RiserError, match="journal"):
        riser.sweep(LAB, OVER, METRICS, output=tmp_path)
    again = riser.sweep(LAB, OVER, METRICS, output=tmp_path, resume=True)
    assert (tmp_path / "journal.jsonl").read_bytes() == journal
    assert again.table.to_dicts() == first.table.to_dicts()
    assert again.costs["cpu_seconds"] == 0
    with pytest.raises(riser.RiserError):
        riser.sweep(LAB, {"link.gen": [3]}, METRICS, output=tmp_path, resume=True)


def test_errors_name_invalid_arguments() -> None:
    with pytest.raises(riser.LabError, match="link.gem"):
        riser.sweep(LAB, {"link.gem": [3]}, METRICS)
    with pytest.raises(riser.RiserError, match="payload_gbit"):
        riser.sweep(LAB, {"link.gen": [3]}, {"x": "links.card.downstream.payload_gbit"})
    with pytest.raises(riser.LabError, match="cannot be run in other processes"):
        lab = riser.Lab()
        lab.slot("dut", riser.Device())
        riser.sweep(lab, {"link.gen": [3]}, {"hops": "tlp_hops"})
    with pytest.raises(ValueError, match="expected"):
        riser.sweep(LAB, OVER, METRICS, on="rey")
    with pytest.raises(riser.ArgumentError, match="no journal without output"):
        riser.sweep(LAB, OVER, METRICS, resume=True)
    with pytest.raises(riser.ArgumentError, match="expected 1 to 1024"):
        riser.sweep(LAB, OVER, METRICS, workers=0)


def test_sweeps_devices_in_python_by_their_class(tmp_path: Path) -> None:
    (tmp_path / "adder.py").write_text(
        "import riser\n"
        "class Adder(riser.Device):\n"
        "    def __init__(self, step=1): self.step = step\n"
        "    def report(self): return {'twice': 2 * self.step}\n"
    )
    lab = riser.Lab.from_text(
        'version = 1\n[[slot]]\nname = "a"\ndevice = "python"\n[slot.python]\nclass = "adder.py:Adder"\nsettings = { step = 1 }\n',
        name=str(tmp_path / "lab.toml"),
    )
    over = {"slot.a.python.settings.step": [1, 5]}
    found = riser.sweep(lab, over, {"twice": "devices.a.counters.twice"}, allow_native=True)
    assert [row["twice"] for row in found.table.to_dicts()] == [2, 10]


def test_files_have_the_mode_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "new").touch()
    over: dict[str, Any] = {"link.gen": range(3, 5), "slot.card.pcie-bench.outstanding": np.array([1])}
    riser.sweep(LAB, over, {"hops": "tlp_hops"}, output=tmp_path)
    files = ["journal.jsonl", "results.parquet", "results.csv", "report.html"]
    assert {(tmp_path / name).stat().st_mode for name in files} == {(tmp_path / "new").stat().st_mode}
    (tmp_path / "report.html").chmod(0o640)
    riser.sweep(LAB, over, {"hops": "tlp_hops"}, output=tmp_path, force=True)
    assert (tmp_path / "report.html").stat().st_mode & 0o777 == 0o640
    assert not list(tmp_path.glob("*.part"))


def test_sweep_of_refused_points_fails_and_names_arguments(tmp_path: Path) -> None:
    lab = riser.Lab()
    lab.slot("a", "python", python={"class": "nic.py:Nic"})
    with pytest.raises(riser.RunFailed, match="all 2 were refused.*allow_native=True") as caught:
        riser.sweep(lab, {"link.gen": [3, 4]}, {"hops": "tlp_hops"}, output=tmp_path)
    assert [row["outcome"] for row in caught.value.result.table.to_dicts()] == ["refused"] * 2
    with pytest.raises(riser.RiserError) as there:
        riser.sweep(lab, {"link.gen": [3, 4]}, {"hops": "tlp_hops"}, output=tmp_path)
    with pytest.raises(riser.LabError) as native:
        lab.run()
    with pytest.raises(riser.LabError) as setting:
        lab.with_settings({"link.gen": 9}).run()
    row = caught.value.result.table.to_dicts()[0]
    texts = [str(caught.value), str(there.value), str(native.value), str(setting.value), row["error"]]
    assert not [text for text in texts if "--" in text]
    assert "resume=True" in texts[1] and "force=True" in texts[1]
    # One point that runs is enough.
    found = riser.sweep(LAB, {"link.gen": [3, 9]}, {"hops": "tlp_hops"})
    assert {row["outcome"] for row in found.table.to_dicts()} == {"finished", "refused"}


INTERRUPTED = """
import riser, sys
over = {"slot.card.pcie-bench.outstanding": {"from": 1, "to": 256, "step": 1}, "link.gen": [1, 2, 3, 4, 5]}
print("running", flush=True)
try:
    riser.sweep("labs/sweeps/read.toml", over, {"hops": "tlp_hops"}, output=sys.argv[1])
except riser.Interrupted as stop:
    print(len(stop.result), flush=True)
"""


def test_ctrl_c_keeps_recorded_points(tmp_path: Path) -> None:
    run = subprocess.Popen([sys.executable, "-c", INTERRUPTED, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None and run.stdout.readline() == "running\n"
    deadline = time.monotonic() + 30
    journal = tmp_path / "journal.jsonl"
    while time.monotonic() < deadline and (not journal.exists() or journal.read_bytes().count(b"\n") < 20):
        time.sleep(0.05)
    os.kill(run.pid, signal.SIGINT)
    out, _ = run.communicate(timeout=60)
    assert 0 < int(out) < 5 * 256


def test_examples_of_the_docs_run() -> None:
    import riser._sweep

    results = doctest.testmod(riser._sweep)
    assert results.attempted and not results.failed
