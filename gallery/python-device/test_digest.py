# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests of the device: a digest, on other links, and a read that the host aborts."""

import hashlib
import os

import pytest
from digest import Digest, digest

DATA = bytes(range(256)) * 4


async def expect_digest(cpu, function):
    assert await digest(cpu, function, DATA) == hashlib.sha256(DATA).digest()


def test_writes_digest(slot):
    # With CAPTURE=FILE, the packets of this test are kept.
    slot.run(Digest(), expect_digest, capture=os.environ.get("CAPTURE", False))


@pytest.mark.parametrize("gen, lanes", [(1, 1), (4, 4), (5, 16)])
def test_works_on_other_links(slot, gen, lanes):
    slot.configure(link={"gen": gen, "lanes": lanes})
    slot.run(Digest(), expect_digest)


def test_reports_aborted_read(slot):
    slot.fault(action="set-status", status="completer-abort", direction="downstream", frames="completion", nth=2)

    async def driver(cpu, function):
        assert await digest(cpu, function, DATA) is None
        await expect_digest(cpu, function)

    slot.run(Digest(), driver)
