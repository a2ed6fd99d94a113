# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The `riser` command of the wheel."""

import signal
import sys

from riser import _riser

ITSELF = [sys.executable, "-m", "riser"]
"""Command line that runs the command in other processes."""


def main() -> int:
    """Run the command with the arguments of this process; return its exit status."""
    # The command handles Ctrl-C itself.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _riser.main(ITSELF, ["riser", *sys.argv[1:]])
