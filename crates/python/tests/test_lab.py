# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Labs, runs and their tables."""

import doctest
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy
import pandas
import polars
import pyarrow
import pytest
import riser
from riser import _riser

np: Any = numpy

PING = "labs/ping.toml"


def test_report_equals_that_of_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "riser", "run", PING, "--json"], check=True, capture_output=True
    )
    by_command, own = json.loads(done.stdout), riser.Lab.from_toml(PING).run().report
    for report in (by_command, own):
        report.pop("cpu_seconds")
    assert own == by_command


def test_the_command_has_its_exit_status() -> None:
    done = subprocess.run([sys.executable, "-m", "riser", "run", "no-such.toml"], capture_output=True)
    assert done.returncode == 1
    assert b"no-such.toml" in done.stderr


def test_links_have_a_column_for_each_figure_of_the_report() -> None:
    result = riser.Lab.from_toml(PING).run()
    (link,) = result.report["links"]
    for direction in link["directions"]:
        direction.pop("virtual_channels")
        assert set(direction) <= set(result.links.column_names)
    rows = result.links.to_dicts()
    assert [row["direction"] for row in rows] == ["downstream", "upstream"]
    assert rows[0]["tlps"] == link["directions"][0]["tlps"] > 0
    assert set(result.latencies.column_names) >= set(link["transactions"][0]) - {"min", "median", "p99", "max"}


def test_parts_of_transactions_add_up() -> None:
    result = riser.Lab.from_toml(PING).run(transactions=True)
    table = pyarrow.table(result.transactions)
    names = table.column_names
    parts = names[names.index("latency_ps") + 1 :]
    for row in table.to_pylist():
        assert row["end_ps"] - row["start_ps"] == row["latency_ps"] == sum(row[part] for part in parts)
    requests = sum(row["requests"] for row in result.latencies.to_dicts())
    assert table.num_rows == requests


def test_tables_go_to_every_library() -> None:
    links = riser.Lab.from_toml(PING).run().links
    by_hand = links.to_dicts()
    assert polars.DataFrame(links).to_dicts() == by_hand
    assert pyarrow.table(links).to_pylist() == by_hand
    assert pandas.DataFrame.from_arrow(links).to_dict("records") == by_hand


def test_unrequested_transactions_are_an_error() -> None:
    result = riser.Lab.from_toml(PING).run()
    with pytest.raises(riser.LabError, match="transactions=True"):
        result.transactions  # noqa: B018


def test_lab_in_code_equals_its_file() -> None:
    lab = riser.Lab(link={"gen": 3, "lanes": 8})
    lab.slot("nic", "simple-nic")
    again = riser.Lab.from_text(lab.to_toml())
    assert lab.run().links.to_dicts() == again.run().links.to_dicts()


def test_settings_override_a_lab() -> None:
    lab = riser.Lab.from_toml(PING, set={"slot.nic.link.gen": 5}).with_settings({"link": {"lanes": 4}})
    row = lab.run().links.to_dicts()[0]
    assert (row["gen"], row["lanes"]) == (5, 4)


def test_errors_have_places_and_expected_values() -> None:
    text = 'version = 1\n[[slot]]\nname = "a"\ndevice = "simpel"\n'
    with pytest.raises(riser.LabError, match="simple-nic") as caught:
        riser.Lab.from_text(text, name="x.toml").check()
    ((path, line, column, message),) = caught.value.errors
    assert (os.fspath(path), line, column) == ("x.toml", 4, 10)
    assert "simpel" in message


def test_rejects_endless_files() -> None:
    with pytest.raises(riser.LabError, match="16 MiB"):
        riser.Lab.from_toml("/dev/zero")


def test_rejects_values_without_toml_form() -> None:
    lab = riser.Lab(link={"gen": None})
    with pytest.raises(riser.LabError):
        lab.run()


def test_captures_equal_those_of_the_command(tmp_path: Path) -> None:
    own, by_command = tmp_path / "own.pcapng", tmp_path / "command.pcapng"
    riser.Lab.from_toml(PING).run(capture=own, dllps=True)
    command = [sys.executable, "-m", "riser", "run", PING, "--capture", os.fspath(by_command), "--dllps"]
    subprocess.run(command, check=True, capture_output=True)
    assert own.read_bytes() == by_command.read_bytes()
    with pytest.raises(FileExistsError):
        riser.Lab.from_toml(PING).run(capture=own)


def test_forced_capture_replaces_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.pcapng"
    lab = riser.Lab.from_toml(PING)
    lab.run(capture=path)
    written = path.read_bytes()
    lab.run(capture=path, force=True, dllps=True)
    longer = path.read_bytes()
    assert len(longer) > len(written)
    with pytest.raises(riser.LabError):
        riser.Lab(link={"gen": 9}).run(capture=path, force=True)
    assert path.read_bytes() == longer, "a lab that does not run replaces nothing"
    lab.run(capture=path, force=True)
    assert path.read_bytes() == written
    with pytest.raises(FileExistsError):
        lab.run(capture=tmp_path, force=True)


def test_accepts_numbers_and_lists_of_numpy() -> None:
    rows = [
        (np.int64(-4), "-4"),
        (np.uint8(8), "8"),
        (np.float32(0.5), "0.5"),
        (np.bool_(True), "true"),
        (np.array(3), "3"),
        (np.arange(64, 67), "[64, 65, 66]"),
        (range(64, 67), "[64, 65, 66]"),
        (np.array([[1, 2], [3, 4]]), "[[1, 2], [3, 4]]"),
        ((range(2), [np.str_("a")]), '[[0, 1], ["a"]]'),
        ({"points": np.int16(7)}, "{ points = 7 }"),
    ]
    for value, toml in rows:
        assert _riser.to_toml_value(value) == toml
    lab = riser.Lab(link={"gen": np.int64(4), "lanes": np.uint8(8)})
    lab.slot("nic", "simple-nic")
    assert lab.with_settings({"link.gen": np.int32(2)}).run().links.to_dicts()[0]["gen"] == 2
    for value, legal in ((range(10**30), "ranges of up to"), (object(), "numpy"), (np.int64, "numpy")):
        with pytest.raises(riser.LabError, match=legal):
            riser.Lab(seed=value).run()


LONG = """
import riser
lab = riser.Lab.from_toml("labs/speed/write.toml")
lab.check()
print("running", flush=True)
try:
    lab.run()
except riser.Interrupted as stop:
    print(stop.result.outcome, stop.result.links.to_dicts()[0]["tlps"] > 0)
"""


def test_ctrl_c_ends_a_run_with_partial_results() -> None:
    run = subprocess.Popen([sys.executable, "-c", LONG], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    assert run.stdout.readline() == "running\n"
    time.sleep(0.5)
    run.send_signal(signal.SIGINT)
    out, _ = run.communicate(timeout=60)
    assert (out, run.returncode) == ("interrupted True\n", 0)


def test_examples_of_the_docs_run() -> None:
    import riser._lab

    for module in (riser, riser._lab):
        results = doctest.testmod(module)
        assert results.attempted and not results.failed
