# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The notebooks of docs/studies.md: their short form runs, and their assertions hold."""

import ast
import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = Path("docs/notebooks").resolve()
STUDIES = ["nic-400g", "vf-fairness", "iotlb-4096-rings"]


def notebook(name: str) -> dict[str, Any]:
    return json.loads((NOTEBOOKS / f"{name}.ipynb").read_text())  # type: ignore[no-any-return]


def code(name: str) -> list[tuple[str, str]]:
    cells = [cell for cell in notebook(name)["cells"] if cell["cell_type"] == "code"]
    return [(f"{name}.ipynb, {cell['id']}", "".join(cell["source"])) for cell in cells]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The short form, with the shared module of the notebooks imported again."""
    monkeypatch.setenv("RISER_STUDY", "short")
    monkeypatch.syspath_prepend(str(NOTEBOOKS))
    sys.modules.pop("studies", None)
    yield
    sys.modules.pop("studies", None)


def test_every_notebook_is_a_study() -> None:
    """Except the tour, and the outputs of `jupyter execute`."""
    found = {path.stem for path in NOTEBOOKS.glob("*.ipynb") if not path.stem.endswith("-run")}
    assert found - {"tour"} == set(STUDIES)


@pytest.mark.parametrize("name", STUDIES)
def test_notebooks_are_stripped(name: str) -> None:
    """nbformat 4.5, with an id for each cell and no output."""
    found = notebook(name)
    assert (found["nbformat"], found["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in found["cells"]]
    assert len(set(ids)) == len(ids) <= 15
    for cell in found["cells"]:
        assert cell["cell_type"] == "markdown" or (cell["outputs"], cell["execution_count"]) == ([], None)


@pytest.mark.parametrize("name", STUDIES)
def test_short_form_runs(name: str, short: None, capsys: pytest.CaptureFixture[str]) -> None:
    """Cell by cell in one namespace, as a kernel does; notebooks check their figures against arithmetic by assertions."""
    names: dict[str, Any] = {"__name__": "__main__"}
    checks = 0
    for place, source in code(name):
        exec(compile(source, place, "exec"), names)
        checks += sum(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(source)))
    assert names["SHORT"] and checks > 0
    assert len(capsys.readouterr().out.splitlines()) > 10


def test_measures(short: None) -> None:
    studies: Any = importlib.import_module("studies")
    assert studies.jain([3, 3, 3]) == pytest.approx(1) and studies.jain([1, 0, 0, 0]) == 0.25 and studies.jain([0, 0]) == 0
    rows = [{"a": a, "b": b, "y": 10 * a + b} for a in (0, 1) for b in (0, 1)]
    parts = studies.explained(rows, ["a", "b"], "y")
    assert parts["a"] == pytest.approx(100 / 101) and parts["b"] == pytest.approx(1 / 101)
