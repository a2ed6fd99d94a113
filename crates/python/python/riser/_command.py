# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The `riser` command of the wheel."""

import signal
import sys

from riser import _riser


def main() -> int:
    """Run the command with the arguments of this process; return its exit status."""
    # The command has its own way with Ctrl-C.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _riser.main(["riser", *sys.argv[1:]])
