# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Notebook output of results, and the notebook of the docs."""

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import nbclient
import nbformat
import pytest
import riser

TOUR = Path("docs/notebooks/tour.ipynb")


@pytest.fixture(scope="module")
def result() -> riser.RunResult:
    return riser.Lab.from_toml("labs/ping.toml").run(capture=True, dllps=True)


def svg_of(html: str) -> ElementTree.Element:
    return ElementTree.fromstring(html[html.index("<svg") : html.index("</svg>") + len("</svg>")])


def test_lab_is_drawn_as_svg() -> None:
    lab = riser.Lab.from_toml("labs/ping.toml")
    texts = [text.text or "" for text in svg_of(lab._repr_html_()).iter("text")]
    assert "host" in texts[0]
    assert any("nic" in text for text in texts)


def test_run_shows_links_and_parts_of_latencies(result: riser.RunResult) -> None:
    html = result._repr_html_()
    svg = svg_of(html)
    for row in result.latencies.to_dicts():
        assert any(f"{row['slot']} {row['kind']}" == text.text for text in svg.iter("text"))
    widths = [float(bar.get("width") or 0) for bar in svg.iter("rect") if bar.find("title") is not None]
    # The longest kind fills the width, within a tenth of a point for each of its parts.
    rows = len(result.latencies.to_dicts())
    longest = max(sum(widths[at * 9 : at * 9 + 9]) for at in range(rows))
    assert abs(longest - 420) < 1
    assert "payload_gbps" in html


def test_capture_shows_its_page_in_a_frame(result: riser.RunResult) -> None:
    html = result.capture._repr_html_()
    assert html.startswith('<iframe sandbox="allow-scripts"') and html.endswith("</iframe>")
    page = result.capture.page()
    assert page.startswith("<!DOCTYPE html>") and len(page) < 8_000_000
    assert result.registers._repr_html_().count("<tr>") == 1 + len(result.registers.spaces)


def test_figures_have_the_data_of_tables(result: riser.RunResult) -> None:
    figure = result.plot_latencies()
    rows = result.latencies.to_dicts()
    assert [sum(bar.y[at] for bar in figure.data) for at in range(len(rows))] == pytest.approx(
        [row["latency_ns_mean"] for row in rows], abs=0.01
    )
    series = result.series(1)
    assert sum(len(line.x) for line in series.plot().data) == series.links.num_rows
    infinite = sum(
        row[f"{what}_min"] is None for row in series.credits.to_dicts() for what in ("header", "data")
    )
    assert sum(len(line.x) for line in series.plot_credits().data) == 2 * series.credits.num_rows - infinite
    assert result.capture.plot_credits().data
    bench = riser.bench(["BW_RD", "LAT_RD"], size=[64, 256], transfers=500, warm_up=100)
    measured = [row["bandwidth_gbps"] for row in bench.rows.to_dicts() if row["test"] == "BW_RD"]
    lines = {line.name: list(line.y) for line in bench.plot().data}
    assert lines["BW_RD"] == measured
    assert "BW_RD 256 B" in bench._repr_html_()
    assert riser.bench("LAT_RD", size=64, transfers=100).plot().layout.yaxis.title.text == "ns"
    assert {line.name for line in riser.model_nic(size=[64, 128]).plot().data} >= {"ethernet", "simple"}
    assert len(riser.model_bandwidth([64, 128]).plot().data) == 3


WITHOUT = """
import sys
sys.modules["plotly"] = None
import riser
riser.model_bandwidth(64).plot()
"""


def test_figure_without_plotly_names_the_package() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True)
    assert "ImportError: figures need plotly: pip install 'riser[notebook]'" in done.stderr


def test_import_loads_no_heavy_modules() -> None:
    script = "import sys, riser; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert not {"plotly", "asyncio", "pandas", "polars", "pyarrow", "numpy", "IPython"} & set(
        done.stdout.split()
    )


def test_the_tour_runs(tmp_path: Path) -> None:
    notebook = nbformat.read(TOUR, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in code), "outputs are stripped"
    os.environ.setdefault("JUPYTER_PLATFORM_DIRS", "1")
    done = nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": os.fspath(Path.cwd())}}
    ).execute()
    shown = [output for cell in done.cells if cell.cell_type == "code" for output in cell.outputs]
    assert not any(output.output_type == "error" for output in shown)
    assert any("text/html" in output.get("data", {}) for output in shown)
    # nbconvert includes HTML in a page: plotly.js once, before the first figure, and each figure.
    pages = [output.get("data", {}).get("text/html", "") for output in shown]
    figures = [at for at, output in enumerate(shown) if "application/vnd.plotly.v1+json" in output.get("data", {})]
    assert len(figures) == 3
    assert all("Plotly.newPlot" in pages[at] for at in figures)
    assert any(len(page) > 1_000_000 for page in pages[: figures[0]])
