# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Conversion of cocotbext-pcie TLPs to and from riser's bytes: two independent codecs."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import riser
from hypothesis import given, settings
from hypothesis import strategies as st

core = pytest.importorskip("cocotbext.pcie.core.tlp", reason="cocotbext-pcie is not installed")
utils = pytest.importorskip("cocotbext.pcie.core.utils")

from riser.cocotb import from_bytes, to_bytes  # noqa: E402

T = core.TlpType
READS = [T.MEM_READ, T.MEM_READ_64, T.MEM_READ_LOCKED, T.MEM_READ_LOCKED_64]
WRITES = [T.MEM_WRITE, T.MEM_WRITE_64]
SHORT = [T.IO_READ, T.IO_WRITE, T.CFG_READ_0, T.CFG_WRITE_0, T.CFG_READ_1, T.CFG_WRITE_1]
ATOMICS = [T.FETCH_ADD, T.FETCH_ADD_64, T.SWAP, T.SWAP_64, T.CAS, T.CAS_64]
COMPLETIONS = [T.CPL, T.CPL_DATA, T.CPL_LOCKED, T.CPL_LOCKED_DATA]
CONFIG = set(SHORT[2:])
STATUSES = {0: "success", 1: "unsupported request", 2: "configuration request retry", 4: "completer abort"}
COUNT = int(os.environ.get("RISER_TLPS", "500"))
"""Number of random TLPs in each test."""

IDS = st.integers(0, 0xFFFF).map(utils.PcieId.from_int)


@st.composite
def tlps(draw: st.DrawFn) -> Any:
    """A TLP of any type that cocotbext-pcie can pack, following the rules of the specification."""
    tlp = core.Tlp()
    tlp.fmt_type = kind = draw(st.sampled_from([*READS, *WRITES, *SHORT, *ATOMICS, *COMPLETIONS]))
    tlp.requester_id, tlp.tag = draw(IDS), draw(st.integers(0, 1023))
    tlp.ep, tlp.td = draw(st.booleans()) and tlp.has_data(), draw(st.booleans())
    wide = kind.value[0] in (core.TlpFmt.FOUR_DW, core.TlpFmt.FOUR_DW_DATA)
    if kind in SHORT:
        tlp.length, tlp.first_be = 1, draw(st.integers(0, 15))
        tlp.address = 4 * draw(st.integers(0, (1 << (10 if kind in CONFIG else 30)) - 1))
        if kind in CONFIG:
            tlp.completer_id = draw(IDS)
    else:
        tlp.tc, tlp.attr = core.TlpTc(draw(st.integers(0, 7))), core.TlpAttr(draw(st.integers(0, 7)))
    if kind in COMPLETIONS:
        complete(draw, tlp)
    elif kind not in SHORT:
        page = draw(st.integers(1 << 20, (1 << 52) - 1) if wide else st.integers(0, (1 << 20) - 1)) << 12
        if kind in ATOMICS:
            each = draw(st.sampled_from([4, 8, 16] if kind in ATOMICS[4:] else [4, 8]))
            tlp.length = each * (2 if kind in ATOMICS[4:] else 1) // 4
            tlp.address = page + each * draw(st.integers(0, 4096 // each - 1))
        else:
            at = draw(st.integers(0, 4095))
            tlp.set_addr_be(page + at, draw(st.integers(0, min(4096 - at, 256))))
        tlp.at = core.TlpAt(draw(st.integers(0, 2)))
    if tlp.has_data():
        tlp.data = bytearray(draw(st.binary(min_size=4 * tlp.length, max_size=4 * tlp.length)))
    return tlp


def complete(draw: st.DrawFn, tlp: Any) -> None:
    tlp.completer_id, tlp.bcm = draw(IDS), False
    if tlp.has_data():
        start, count = draw(st.integers(0, 127)), draw(st.integers(1, 256))
        tlp.lower_address, tlp.byte_count = start, count
        tlp.length = (start % 4 + count + 3) // 4
    else:
        tlp.status = core.CplStatus(draw(st.sampled_from([0, 1, 2, 4])))
        tlp.byte_count = 4


@settings(max_examples=COUNT, deadline=None)
@given(tlps())
def test_tlps_survive_a_round_trip(tlp: Any) -> None:
    data = to_bytes(tlp)
    digest = 4 if tlp.td else 0
    assert data[: len(data) - digest] == tlp.pack()
    again = from_bytes(data)
    assert again == tlp and again.th == tlp.th


@settings(max_examples=COUNT, deadline=None)
@given(tlps())
def test_riser_reads_all_fields(tlp: Any) -> None:
    fields = riser.parse_tlp(to_bytes(tlp))
    assert fields["data"] == bytes(tlp.data)
    assert (fields["tag"], fields["tc"], fields["attr"]) == (tlp.tag, tlp.tc, tlp.attr)
    assert (fields["ep"], fields["td"], fields["at"]) == (tlp.ep, tlp.td, tlp.at)
    assert fields["requester"] == str(tlp.requester_id)
    assert fields.get("ecrc", "good") == "good"
    kind = tlp.fmt_type
    if kind in COMPLETIONS:
        assert fields["completer"] == str(tlp.completer_id)
        assert (fields["byte_count"], fields["lower_address"]) == (tlp.byte_count, tlp.lower_address)
    elif kind in CONFIG:
        assert (fields["register"], fields["completer"]) == (tlp.address, str(tlp.completer_id))
    else:
        assert (fields["address"], fields["length_dw"]) == (tlp.address, tlp.length)
    if kind in READS or kind in WRITES:
        assert (fields["first_be"], fields["last_be"]) == (tlp.first_be, tlp.last_be)
        assert fields["request_bytes"] == tlp.get_be_byte_count()


@settings(max_examples=COUNT, deadline=None)
@given(st.binary(min_size=12, max_size=48))
def test_random_bytes_are_tlps_or_errors(data: bytes) -> None:
    try:
        tlp = from_bytes(data)
    except riser.RiserError:
        return
    written = riser.parse_tlp(to_bytes(tlp))
    read = riser.parse_tlp(data)
    for fields in (written, read):
        fields.pop("ecrc", None)
    assert written == read


def test_example_of_the_page_runs() -> None:
    page = (Path(__file__).parents[3] / "docs/cocotbext-pcie.md").read_text()
    program = page.partition("# tlps.py\n")[2].partition("```")[0]
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert f"prints `{done.stdout.strip()}`" in page


def test_unsupported_tlps_are_errors() -> None:
    with pytest.raises(riser.RiserError, match="expected an object of"):
        to_bytes(b"x")
    message = core.Tlp()
    message.fmt_type = T.MSG_TO_RC
    with pytest.raises(riser.RiserError, match="cannot pack"):
        to_bytes(message)
    with pytest.raises(riser.RiserError, match="no fields"):
        from_bytes(bytes.fromhex("34000000 00000020 00000000 00000000"))
    crossing = core.Tlp()
    crossing.fmt_type = T.MEM_READ
    crossing.set_addr_be(4092, 8)
    with pytest.raises(riser.RiserError, match="4 KiB"):
        to_bytes(crossing)
