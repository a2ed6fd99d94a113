# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Captures as tables, compared with the command and other readers of Arrow; damaged files."""

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pandas
import polars
import pyarrow
import pytest
import riser
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

PING = "labs/ping.toml"
FEW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def ping(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture with DLLPs, configuration, messages, reads and writes."""
    path = tmp_path_factory.mktemp("ping") / "ping.pcapng"
    riser.Lab.from_toml(PING).run(capture=path, dllps=True)
    return path


def trace(path: Path, *args: str) -> list[dict[str, Any]]:
    """The objects of `riser trace --json`, in order."""
    command = [sys.executable, "-m", "riser", "trace", "--json", *args, os.fspath(path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    decoder, objects, at = json.JSONDecoder(), [], 0
    while at < len(done.stdout):
        found, at = decoder.raw_decode(done.stdout, at)
        objects.append(found)
        at += 1
    return objects


def known(row: dict[str, Any]) -> dict[str, Any]:
    """A row without missing values and false flags, which objects of the command leave out."""
    flags = ("damaged", "dropped", "truncated", "probe")
    return {
        name: value for name, value in row.items() if value is not None and not (name in flags and not value)
    }


def of_command(record: dict[str, Any], epoch_ps: int) -> dict[str, Any]:
    """A row for an object of the command: without fields that tables lack, and with time since the epoch."""
    row = {
        name: value
        for name, value in record.items()
        if name not in ("means", "prefixes", "vlan", "interrupt", "function", "vector", "hops")
    }
    row["time_ps"] = row.pop("timestamp_ps") - epoch_ps
    return row


def compare_tlps(path: Path, *args: str, filter: str | None = None) -> int:
    capture = riser.read_capture(path, filter)
    records = trace(path, *args, *(() if filter is None else ("--filter", filter)))
    tlps = [record for record in records if record["type"] not in ("dllp", "other", "error")]
    rows = capture.tlps.to_dicts()
    for row in rows:
        row.pop("link")
    assert [known(row) for row in rows] == [of_command(tlp, capture.epoch_ps) for tlp in tlps]
    return len(rows)


def test_tlps_equal_those_of_the_command(ping: Path) -> None:
    assert compare_tlps(ping) > 100
    assert 0 < compare_tlps(ping, filter="type=MRd or status=SC") < compare_tlps(ping)
    assert compare_tlps(ping, filter="time>1ps and dir=up") > 0


def compare_transactions(path: Path, filter: str | None = None) -> int:
    capture = riser.read_capture(path, filter)
    *records, summary = trace(path, "--transactions", *(() if filter is None else ("--filter", filter)))
    assert set(summary) == {"summary"}
    for record in records:
        if "errors" in record:
            record["errors"] = ", ".join(record["errors"])
        if record.get("status", "") is None:
            del record["status"]
    rows = capture.transactions.to_dicts()
    assert [known(row) for row in rows] == [of_command(record, capture.epoch_ps) for record in records]
    return len(rows)


def test_transactions_equal_those_of_the_command(ping: Path) -> None:
    assert compare_transactions(ping) > 50
    assert 0 < compare_transactions(ping, "type=MRd") < compare_transactions(ping)


def test_credits_equal_those_of_the_command(ping: Path) -> None:
    def row_of(record: dict[str, Any]) -> dict[str, Any]:
        credits = record["credits"] or {}
        infinite = {
            f"{of}_infinite": credits[f"{of}_after"] == "infinite" for of in ("header", "data") if credits
        }
        counts = {name: value for name, value in credits.items() if value != "infinite"}
        return {"number": record["number"], "type": record["type"], **counts, **infinite}

    rows = riser.read_capture(ping).credits.to_dicts()
    for row in rows:
        for name in ("time_ps", "link", "direction"):
            row.pop(name)
    assert [known(row) for row in rows] == [row_of(record) for record in trace(ping, "--credits")]
    assert any(row["header_after"] is not None for row in rows)


WIRESHARK = {
    "type": "tlp.type_name",
    "requester": "tlp.requester",
    "completer": "tlp.completer",
    "tag": "tlp.tag",
    "address": "tlp.address",
    "length_dw": "tlp.length_dw",
    "request_bytes": "tlp.request_bytes",
    "payload_bytes": "tlp.payload_bytes",
    "status": "tlp.status",
    "byte_count": "tlp.byte_count",
    "register": "tlp.register",
    "message_name": "tlp.message_name",
}
"""Columns, and the fields of the dissector in tools/wireshark."""


def compare_with_wireshark(path: Path) -> int:
    names = ["number", *WIRESHARK]
    fields = [argument for field in ("frame.number", *WIRESHARK.values()) for argument in ("-e", field)]
    command = [
        "tshark",
        "-n",
        "-X",
        "lua_script:tools/wireshark/riser.lua",
        "-r",
        os.fspath(path),
        "-Y",
        "tlp",
        "-T",
        "fields",
    ]
    done = subprocess.run([*command, *fields], check=True, capture_output=True, text=True)
    texts = [dict(zip(names, line.split("\t"), strict=True)) for line in done.stdout.splitlines()]
    seen = [
        {name: text if not text[:1].isdigit() or ":" in text else int(text, 0) for name, text in row.items()}
        for row in texts
    ]
    rows = [
        {name: "" if row[name] is None else row[name] for name in names}
        for row in riser.read_capture(path).tlps.to_dicts()
    ]
    assert rows == seen
    return len(rows)


@pytest.mark.skipif(shutil.which("tshark") is None, reason="Wireshark is not installed")
def test_tlps_equal_those_of_wireshark(ping: Path) -> None:
    assert compare_with_wireshark(ping) > 100


def test_stats_equal_those_of_the_command(ping: Path) -> None:
    for filter in (None, "dir=up"):
        (stats,) = trace(ping, "--stats", *(() if filter is None else ("--filter", filter)))
        assert riser.read_capture(ping, filter).stats == stats


def test_series_equal_those_of_the_command(ping: Path) -> None:
    (report,) = trace(ping, "--stats", "--interval", "2us")
    series = riser.read_capture(ping).series(2)
    assert series.interval_ps == report["interval_ps"] == 2_000_000
    names = ["posted", "non_posted", "completion", "dllp"]
    for of in ("links", "outstanding", "credits"):
        expected = []
        for interval in report["rows"]:
            for row in interval[of]:
                shares = row.pop("utilization_by_class", None)
                row |= {f"{name}_utilization": share for name, share in zip(names, shares or [])}
                row |= {
                    f"{name}_infinite": row[f"{name}_min"] == "infinite"
                    for name in ("header", "data")
                    if of == "credits"
                }
                row = {name: value for name, value in row.items() if value != "infinite"}
                expected.append({"start_ps": interval["start_ps"], **row})
        rows = [
            {name: value for name, value in row.items() if value is not None}
            for row in getattr(series, of).to_dicts()
        ]
        assert rows == [{name: value for name, value in row.items() if value is not None} for row in expected]
        assert rows


def test_series_rejects_invalid_lengths(ping: Path) -> None:
    capture = riser.read_capture(ping)
    for length in (0, -1, float("nan"), float("inf"), 1e-9):
        with pytest.raises(ValueError, match="window_us"):
            capture.series(length)
    with pytest.raises(riser.CaptureError, match="100000 rows"):
        capture.series(1e-6)


def test_every_library_reads_the_same(ping: Path) -> None:
    tlps = riser.read_capture(ping).tlps
    by_hand = tlps.to_dicts()
    assert len(tlps) == len(by_hand)
    arrow = pyarrow.table(tlps)
    assert arrow.to_pylist() == by_hand
    assert polars.DataFrame(tlps).to_dicts() == by_hand
    counted = "select type, count(*) from arrow group by type order by type"
    counts: dict[str, int] = {}
    for row in by_hand:
        counts[row["type"]] = counts.get(row["type"], 0) + 1
    relation = duckdb.sql(counted)
    assert relation is not None and relation.fetchall() == sorted(counts.items())
    frame = pandas.DataFrame.from_arrow(tlps)
    assert [str(kind) for kind in frame["type"]] == [row["type"] for row in by_hand]
    assert list(frame["time_ps"]) == [row["time_ps"] for row in by_hand]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> riser.RunResult:
    """A run with a capture of more TLPs than a batch contains."""
    path = tmp_path_factory.mktemp("many") / "many.pcapng"
    lab = riser.Lab.from_toml("labs/speed/write.toml", set={"slot.card.pcie-bench.transfers": 50_000})
    return lab.run(capture=path)


def test_many_batches_are_one_table(many: riser.RunResult) -> None:
    """The table has as many TLPs as the fabric counted."""
    tlps = many.capture.tlps
    arrow = pyarrow.table(tlps)
    assert arrow["type"].num_chunks > 1
    assert arrow.num_rows == len(tlps) == sum(row["tlps"] for row in many.links.to_dicts())
    assert polars.DataFrame(tlps)["number"].to_list() == list(range(1, len(tlps) + 1))


@pytest.mark.parametrize(
    "read", [lambda c: c.stats, lambda c: pyarrow.table(c.tlps), lambda c: polars.DataFrame(c.tlps)]
)
def test_other_threads_run_during_reads(many: riser.RunResult, read: Callable[[riser.Capture], object]) -> None:
    """If the interpreter were held, this thread could not run three times during one read."""
    for _ in range(20):
        looked = 0
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(read, many.capture)
            while not reading.done():
                looked += reading.running()
                time.sleep(0)
        assert reading.result() is not None
        if looked >= 3:
            return
    pytest.fail("no other thread ran in 20 reads")


def test_invalid_filters_are_errors(ping: Path) -> None:
    with pytest.raises(riser.FilterError, match="column 6") as caught:
        riser.read_capture(ping, "type=XYZ")
    assert caught.value.column == 6
    assert "expected a type of TLP" in str(caught.value)


def test_reads_texts_with_tlps() -> None:
    cases = Path(__file__).parents[2] / "capture/tests/cases"
    log = riser.read_capture(cases / "kernel-new.log")
    assert log.read_as == "a log with TLP headers: 1 of the kernel"
    assert log.tlps.to_dicts()[0]["message_name"] == "PTM_Request"
    text = riser.read_capture(cases / "completions.txt")
    assert text.frames == 14
    assert [tlp["type"] for tlp in text.tlps.to_dicts()[:3]] == ["MRd", "CplD", "CplD"]


def compare_texts(path: Path, *args: str, **options: Any) -> riser.Capture:
    """Check that a table and the command have the same TLPs with the same options."""
    capture = riser.read_capture(path, **options)
    objects = trace(path, *args)
    rows = [known(row) for row in capture.tlps.to_dicts()]
    for row in rows:
        row.pop("link")
    for found in objects:
        found.pop("means", None)
        if "timestamp_ps" in found:
            found["time_ps"] = found.pop("timestamp_ps") - capture.epoch_ps
    assert rows and rows == [found for found in objects if found["type"] != "error"]
    return capture


def test_reader_accepts_the_options_of_the_command(tmp_path: Path) -> None:
    cases = Path(__file__).parents[2] / "capture/tests/cases"
    compare_texts(cases / "lspci.txt")
    compare_texts(cases / "kernel-old.log", "--read-as", "log", read_as="log")
    ila = compare_texts(
        Path("labs/refused/ila.csv"),
        "--columns=tdata=s_axis_tx_tdata,tkeep=s_axis_tx_tkeep,tlast=s_axis_tx_tlast,tvalid=s_axis_tx_tvalid",
        columns={name: f"s_axis_tx_{name}" for name in ("tdata", "tkeep", "tlast", "tvalid")},
    )
    assert "AXI4-Stream" in ila.read_as
    reversed_dwords = tmp_path / "little.txt"
    reversed_dwords.write_text("01000060 0f000001 ff000000 00e0ffff\n")
    little = compare_texts(reversed_dwords, "--byte-order", "little", byte_order="little")
    assert little.tlps.to_dicts()[0]["address"] == 0xFFFFFFE000
    assert little.check()["violations"] == []
    flit = tmp_path / "flit.txt"
    flit.write_text("03010001 01000005 00001000 000000ff\n")
    assert "flit" in riser.read_capture(flit, flit=True).read_as
    # A pcap with one TLP and link type 147 (LINKTYPE_USER0).
    user = tmp_path / "user.pcap"
    tlp = bytes.fromhex("00000001 0100040f 00001000")
    head = struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 147)
    user.write_bytes(head + struct.pack("<IIII", 0, 0, len(tlp), len(tlp)) + tlp)
    compare_texts(user, "--dlt", "USER0=tlp", dlt=[0])
    assert len(riser.read_capture(user).tlps.to_dicts()) == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"read_as": "xml"}, "read_as xml: expected pcap, pcapng, hex"),
        ({"byte_order": "middle"}, "byte_order middle: expected big or little"),
        ({"columns": {"time": 1}}, "columns: `time`: expected one of time_ps"),
        ({"dlt": [16]}, "dlt 16: expected numbers of user link types, 0 to 15"),
    ],
)
def test_invalid_reader_options_name_the_valid_ones(ping: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(riser.ArgumentError, match=re.escape(said)):
        riser.read_capture(ping, **options)


def test_rejects_options_that_do_not_fit_the_file(ping: Path) -> None:
    with pytest.raises(riser.CaptureError, match="columns are"):
        riser.read_capture(ping, columns={"tlp": 1})


def test_rejects_files_that_are_not_captures(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        riser.read_capture(tmp_path / "none.pcap")
    path = tmp_path / "x.pcap"
    path.write_bytes(b"no capture at all")
    with pytest.raises(riser.CaptureError, match="x.pcap: not a capture") as caught:
        riser.read_capture(path)
    assert caught.value.offset is None
    with pytest.raises(ValueError, match="expected"):
        riser.read_capture(path, errors="ignore")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expected 8"):
        riser.read_capture(path, vc_of_tc=[1] * 8)


def test_truncated_capture_error_has_the_place(ping: Path, tmp_path: Path) -> None:
    whole = ping.read_bytes()
    path = tmp_path / "cut.pcapng"
    path.write_bytes(whole[:-10])
    with pytest.raises(riser.CaptureError, match="cut.pcapng: at byte") as caught:
        riser.read_capture(path)
    offset = caught.value.offset
    assert offset is not None and len(whole) - 400 < offset < len(whole)
    capture = riser.read_capture(path, errors="skip")
    (error,) = capture.errors.to_dicts()
    assert (error["layer"], error["offset"], error["number"]) == ("file", offset, None)
    # The last record of the whole file is lost.
    assert capture.frames == riser.read_capture(ping).frames - 1


def test_file_changed_during_reads_is_an_error(ping: Path, tmp_path: Path) -> None:
    path = tmp_path / "changes.pcapng"
    path.write_bytes(ping.read_bytes())
    tlps = riser.read_capture(path).tlps
    path.write_bytes(ping.read_bytes()[:-10])
    with pytest.raises(ValueError, match="at byte"):
        tlps.to_dicts()
    with pytest.raises(pyarrow.ArrowException, match="at byte"):
        pyarrow.table(tlps)


@FEW
@given(
    text=st.text(max_size=40)
    | st.from_regex(r"(not )?(type|tag|time|status|len)[<>=!]+\w{1,4}( (and|or) \w+=\w+)?", fullmatch=True)
)
def test_random_filters_are_accepted_or_rejected(ping: Path, text: str) -> None:
    try:
        capture = riser.read_capture(ping, text)
    except riser.FilterError as error:
        assert 1 <= error.column <= len(text) + 1
    else:
        assert len(capture.tlps) <= capture.frames


@FEW
@given(data=st.data())
def test_damaged_captures_are_read_or_rejected(ping: Path, data: st.DataObject) -> None:
    damaged = bytearray(ping.read_bytes())
    for _ in range(data.draw(st.integers(0, 8))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path = ping.with_name("damaged.pcapng")
    path.write_bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
    try:
        riser.read_capture(path).stats
    except riser.CaptureError:
        pass
    try:
        capture = riser.read_capture(path, errors="skip")
        for table in (capture.tlps, capture.transactions, capture.credits, capture.errors):
            pyarrow.table(table).validate(full=True)
        capture.stats
        capture.series()
    except riser.CaptureError as error:
        assert "not a capture" in str(error)


@pytest.mark.parametrize("keep", ["type=MRd or type=CplD", "dir=up", "requester=01:00.0", "type=MWr"])
def test_dllps_do_not_affect_filtered_results(keep: str) -> None:
    """Captures with DLLPs contain the places of TLPs. A filter leaves gaps in them."""
    runs = [riser.Lab.from_toml("labs/ping.toml").run(capture=True, dllps=dllps) for dllps in (True, False)]
    found, expected = (riser.read_capture(run.capture.path, f"({keep}) and not type=dllp") for run in runs)
    names = ("tlps", "types", "transactions", "waiting", "requesters", "out_of_order")
    assert [found.stats[name] for name in names] == [expected.stats[name] for name in names]
    assert found.series(1).outstanding.to_dicts() == expected.series(1).outstanding.to_dicts()


def test_check_equals_that_of_the_command(ping: Path) -> None:
    checked = riser.read_capture(ping).check()
    assert checked["violations"] == []
    assert checked["summary"] == trace(ping, "--check")[-1]["summary"]
    strict = riser.read_capture(ping, "type=CplD").check(mps=128, mrrs=128, tags=32)
    assert {"setting": "tags", "value": 32, "origin": "option", "functions": 0} in strict["summary"]["settings"]
    with pytest.raises(riser.ArgumentError, match="expected 32, 256 or 1024"):
        riser.read_capture(ping).check(tags=33)
