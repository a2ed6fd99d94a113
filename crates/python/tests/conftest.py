# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Options of these tests."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--guest", action="store_true", help="boot a Linux guest too")
