# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Functions return the results of the command, and reject the same arguments."""

import doctest
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Literal

import pytest
import riser
import riser._capture
import riser._functions
from hypothesis import given, settings
from hypothesis import strategies as st


def command(*args: str) -> Any:
    done = subprocess.run([sys.executable, "-m", "riser", *args, "--json"], check=True, capture_output=True)
    return json.loads(done.stdout)


def test_bench_equals_the_command(tmp_path: Path) -> None:
    args = [
        "--size",
        "64",
        "256",
        "--mps",
        "128",
        "256",
        "--transfers",
        "1000",
        "--warm-up",
        "100",
        "--gen",
        "4",
    ]
    by_command = command("bench", "--suite", "LAT_RD", "BW_WR", *args, "-o", str(tmp_path / "command"))
    result = riser.bench(
        ["LAT_RD", "BW_WR"], size=[64, 256], mps=[128, 256], transfers=1000, warm_up=100, gen=4
    )
    assert result.report["tests"] == by_command["tests"]
    rows = result.rows.to_dicts()
    assert len(rows) == 8
    assert [row["bandwidth_gbps"] for row in rows] == [
        test.get("bandwidth_gbps") for test in by_command["tests"]
    ]
    assert rows[0]["upstream_tlps"] == by_command["tests"][0]["upstream"]["tlps"]
    assert sum(row["requests"] for row in result.transactions.to_dicts()) > 8000
    result.save(tmp_path / "own")
    own, other = (tmp_path / name / "results.csv" for name in ("own", "command"))
    assert own.read_text() == other.read_text()
    with pytest.raises(FileExistsError):
        result.save(tmp_path / "own")
    compared = riser.compare(tmp_path / "own", tmp_path / "command")
    assert compared.report == command("compare", str(tmp_path / "own"), str(tmp_path / "command"))
    assert {row["mean_absolute_error_percent"] for row in compared.experiments.to_dicts()} == {0.0}
    assert compared.families.num_rows and compared.score.num_rows


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"suite": "LAT_XX"}, "no test `LAT_XX`; known tests: LAT_RD"),
    ({"size": 4097}, "size 4097: expected 1 to 4096"),
    ({"size": "many"}, "size 'many'"),
    ({"size": [-1]}, "size -1: not within 0 to 4294967295"),
    ({"gen": 9}, "expected 1, 2, 3"),
    ({"lanes": 3}, "expected 1, 2, 4"),
    ({"mps": 100}, "expected"),
    ({"addr": 48}, "addr 48: expected 32, 64"),
    ({"window": 1}, "window 1: expected 4096"),
    ({"pattern": "zigzag"}, "pattern zigzag: expected sequential, random"),
    ({"credits": "1"}, "credits 1: expected `default`"),
    ({"host": "nowhere"}, "nowhere"),
    ({"outstanding": 0}, "outstanding 0: expected 1 to 1024"),
    ({"seed": -1}, "seed -1"),
    ({"model": "memory"}, "expected"),
    ({"iommu": "8k"}, "iommu 8k: expected off, 4k, 2m, 1g"),
    ({"cache": "warm"}, "cache warm: expected cold, host-warm, device-warm, device-thrash"),
]


@pytest.mark.parametrize(("arguments", "says"), WRONG)
def test_bench_rejects_invalid_arguments(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(riser.ArgumentError) as caught:
        riser.bench(**arguments)
    assert says in str(caught.value)
    assert isinstance(caught.value, riser.RiserError) and isinstance(caught.value, ValueError)


LONG = """
import riser
print("running", flush=True)
try:
    riser.bench("LAT_RD", size=[64] * 1000, transfers=2000)
except riser.Interrupted as stop:
    print(0 < stop.result.rows.num_rows < 1000)
"""


def test_ctrl_c_ends_a_measurement_with_the_rows_so_far() -> None:
    run = subprocess.Popen([sys.executable, "-c", LONG], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    assert run.stdout.readline() == "running\n"
    time.sleep(2)
    run.send_signal(signal.SIGINT)
    out, _ = run.communicate(timeout=120)
    assert (out, run.returncode) == ("True\n", 0)


def test_closed_forms_equal_those_of_the_command() -> None:
    forms: list[Literal["exact", "published"]] = ["exact", "published"]
    for form in forms:
        sizes = [64, 256, 1000]
        flags = ["--form", form, "--gen", "4", "--lanes", "16", "--mps", "512", "--addr", "32", "--ecrc"]
        by_command = command("model", "bw", "--size", *map(str, sizes), *flags)
        own = riser.model_bandwidth(sizes, form=form, gen=4, lanes=16, mps=512, addr=32, ecrc=True)
        assert own.report == by_command
        assert [row["write_gbps"] for row in own.rows.to_dicts()] == [
            row["write_gbps"] for row in by_command["rows"]
        ]
    assert riser.model_nic().report == command("model", "nic")
    own = riser.model_nic("simple", size=[64, 1500], traffic="rx", ethernet=100)
    assert own.report == command(
        "model", "nic", "--device", "simple", "--size", "64", "1500", "--traffic", "rx", "--ethernet", "100"
    )
    assert {row["name"] for row in own.rows.to_dicts()} == {"effective", "ethernet", "simple"}


def test_closed_forms_accept_counted_dllps() -> None:
    by_command = command("model", "bw", "--size", "256", "--measured-dllps", "write=0,0.17")
    assert riser.model_bandwidth(256, dllps={"write": (0, 0.17)}).report["rows"] == [by_command]
    with pytest.raises(riser.ArgumentError, match="only form exact"):
        riser.model_bandwidth(256, form="published", dllps={"write": (0, 0.17)})


def test_closed_forms_reject_invalid_arguments(tmp_path: Path) -> None:
    with pytest.raises(riser.ArgumentError):
        riser.model_bandwidth(0)
    with pytest.raises(riser.ArgumentError, match="ethernet"):
        riser.model_nic(ethernet=0)
    wrong = tmp_path / "nic.toml"
    wrong.write_text('version = 1\nkind = "packet-device"\ndescription = 1\n')
    with pytest.raises(riser.LabError, match="nic.toml:3"):
        riser.model_nic(wrong)


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(-(2**40), 2**40) | st.text(max_size=3) | st.none(),
    gen=st.integers(-1, 300),
    mps=st.integers(-1, 2**33) | st.floats(),
    offset=st.integers(-1, 2**33),
)
def test_closed_forms_answer_or_reject(size: Any, gen: int, mps: Any, offset: int) -> None:
    try:
        riser.model_bandwidth(size, gen=gen, mps=mps, offset=offset)
    except riser.ArgumentError:
        pass


def test_profiles_equal_those_of_the_command() -> None:
    listed = riser.profiles().to_dicts()
    by_command = command("profiles")["profiles"]
    assert [{name: value for name, value in row.items() if value is not None} for row in listed] == by_command
    (shown,) = command("profiles", "show", "xeon-e5-2637v3")["profiles"]
    assert riser.profile("xeon-e5-2637v3") == shown["profile"]
    with pytest.raises(riser.ArgumentError, match="known profiles: ideal"):
        riser.profile("none")


def test_fit_equals_the_command(tmp_path: Path) -> None:
    host, device = "xeon-e5-2637v3", "nfp6000"
    riser.bench(["LAT_RD", "LAT_WRRD"], size=[8, 64], host=host, device=device, transfers=200, warm_up=50).save(
        tmp_path / "results"
    )
    fitted = riser.fit(tmp_path / "results", tmp_path / "own.toml", like=host)
    args = [str(tmp_path / "results"), "-o", str(tmp_path / "command.toml"), "--like", host]
    by_command = command("fit", *args, "--no-residuals")
    own = {name: value for name, value in fitted.report.items() if name != "residuals"}
    assert own | {"profile": ""} == by_command | {"profile": ""}
    assert fitted.profile == (tmp_path / "own.toml").read_text() == (tmp_path / "command.toml").read_text()
    assert sum(row["rows"] for row in fitted.figures.to_dicts()) > 0
    assert sum(row["rows"] for row in fitted.residuals.to_dicts()) == 4
    with pytest.raises(FileExistsError):
        riser.fit(tmp_path / "results", tmp_path / "own.toml")


def test_fit_names_missing_inputs(tmp_path: Path) -> None:
    with pytest.raises(riser.LabError, match="no-such"):
        riser.fit(tmp_path / "no-such")
    with pytest.raises(riser.ArgumentError, match="expected off, 4k, 2m"):
        (tmp_path / "x").mkdir()
        riser.bench("LAT_RD", size=64, transfers=100, device="nfp6000").save(tmp_path / "x" / "y")
        riser.fit(tmp_path / "x" / "y", iommu="8k")  # type: ignore[arg-type]


def test_enumeration_equals_that_of_the_command() -> None:
    lab = "labs/ping.toml"
    found = riser.Lab.from_toml(lab).enumerate()
    assert found.report == command("lspci", lab)
    functions = found.functions.to_dicts()
    assert [row["bdf"] for row in functions] == list(found.spaces)
    for row in functions:
        space = found.spaces[row["bdf"]]
        assert int.from_bytes(space[:2], "little") == row["vendor_id"]
        assert int.from_bytes(space[2:4], "little") == row["device_id"]
        assert len(space) in (256, 4096)
    hexdump = subprocess.run(
        [sys.executable, "-m", "riser", "lspci", lab, "--hexdump"], check=True, capture_output=True, text=True
    )
    digits = [
        line.split(": ", 1)[1]
        for line in hexdump.stdout.splitlines()
        if line[2:3] == ":" or line[3:4] == ":" and " " in line
    ]
    shown = bytes.fromhex("".join(line for line in digits if all(len(part) == 2 for part in line.split())))
    assert shown == b"".join(found.spaces.values())


def test_capture_lives_as_long_as_its_run() -> None:
    result = riser.Lab.from_toml("labs/ping.toml").run(capture=True, dllps=True)
    path = result.capture.path
    assert len(result.capture.tlps) == sum(row["tlps"] for row in result.links.to_dicts())
    assert result.series(1).links.num_rows > 1
    assert result.credits.num_rows == len(result.capture.tlps)
    assert list(result.registers.spaces) == list(riser.Lab.from_toml("labs/ping.toml").enumerate().spaces)
    assert os.path.exists(path)
    del result
    assert not os.path.exists(path)
    with pytest.raises(riser.LabError, match="capture=True"):
        riser.Lab.from_toml("labs/ping.toml").run().capture  # noqa: B018


def test_examples_of_the_docs_run() -> None:
    for module in (riser._functions, riser._capture):
        assert not doctest.testmod(module).failed
    assert doctest.testmod(riser._functions).attempted
