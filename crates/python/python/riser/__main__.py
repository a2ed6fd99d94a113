# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`python -m riser` is the `riser` command."""

import sys

from riser._command import main

sys.exit(main())
