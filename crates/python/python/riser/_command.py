# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The `riser` command of the wheel."""

import signal
import sys

from riser import _riser

ITSELF = [sys.executable, "-m", "riser"]
"""How other processes run the command."""


def main() -> int:
    """Run the command with the arguments of this process; return its exit status."""
    # The command has its own way with Ctrl-C.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _riser.main(ITSELF, ["riser", *sys.argv[1:]])
