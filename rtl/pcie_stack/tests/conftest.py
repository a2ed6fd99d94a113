# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Fixtures: the RTL in each of its builds."""

import random

import pytest
from dut import BUILDS, Dut


@pytest.fixture(params=BUILDS)
def dut(request):
    """A data link layer after reset, the link still down."""
    made = Dut(request.param)
    yield made
    made.close()


@pytest.fixture
def make():
    """Makes one of a given build."""
    made = []

    def build(name):
        made.append(Dut(name))
        return made[-1]

    yield build
    for each in made:
        each.close()


@pytest.fixture
def dice():
    """A generator with a fixed seed."""
    return random.Random(45)
