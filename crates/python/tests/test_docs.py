# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The code of docs/python.md runs, from its first line to its last."""

import re
from pathlib import Path
from typing import Any


def test_the_page_runs() -> None:
    blocks = re.findall(
        r"^```python\n(.*?)^```$", Path("docs/python.md").read_text(), re.DOTALL | re.MULTILINE
    )
    assert len(blocks) > 4
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)  # noqa: S102
