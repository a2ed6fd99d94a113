# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Figures 6 and 7: what must hold in them, whatever the design's exact cycles are."""

import csv

from figures import BANDWIDTH_BYTES, LATENCY_BYTES, write


def test_latency_of_reads_starts_at_one_microsecond_and_grows_with_payload():
    path, rows = write(6)
    with path.open() as file:
        assert [list(map(str, row.values())) for row in csv.DictReader(file)] == [["" if each is None else str(each) for each in row.values()] for row in rows]
    x8, x16 = ({row["payload_bytes"]: row["latency_ps"] for row in rows if row["lanes"] == lanes} for lanes in (8, 16))
    assert list(x8) == list(x16) == LATENCY_BYTES
    # Two cycles of the round trip are one step of the line's latency.
    assert abs(x8[4] - 1_000_000) <= 4100 and x8[1] == x8[4]
    for line in (x8, x16):
        assert all(line[a] <= line[b] for a, b in zip(LATENCY_BYTES, LATENCY_BYTES[1:], strict=False))
    # 512 bytes with headers, digests and framing of two TLPs take at least 72 ns at x8.
    assert x8[512] - x8[4] > 65_000 and x16[512] - x16[4] < x8[512] - x8[4]


def test_bandwidth_of_writes_is_a_saw_tooth_at_multiples_of_256_bytes():
    _, rows = write(7)
    at = {(row["lanes"], row["payload_bytes"]): row for row in rows}
    for lanes, raw in ((8, 63.015), (16, 126.031)):
        line = {size: at[lanes, size]["effective_gbps"] for size in BANDWIDTH_BYTES}
        assert line[260] < 0.95 * line[256] and line[516] < line[512] and line[1028] < line[1024]
        for size in BANDWIDTH_BYTES:
            row, tlps = at[lanes, size], (size + 255) // 256
            assert row["tlps"] == tlps * row["transfers"] and row["header_and_ecrc_bytes"] == 16 * row["tlps"]
            # One direction carries payload, headers, digests, framing and its own DLLPs, and no more than the link can.
            carried = row["total_gbps"] * (1 - row["returned_dllp_bytes"] / (row["transfers"] * size + 24 * row["tlps"] + row["dllp_bytes"] + row["returned_dllp_bytes"]))
            assert carried <= raw * 1.0001
            # The link is full: three double-words of header, digest and framing of 8 bytes for each TLP.
            assert line[size] > 0.9 * raw * size / (size + 24 * tlps)
        assert all(abs(row["factor_difference"]) < 0.25 for row in rows if row["lanes"] == 16)
