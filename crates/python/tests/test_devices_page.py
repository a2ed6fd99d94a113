# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Extracts the files of docs/python-devices.md and docs/cocotbext-pcie.md, runs and tests them."""

import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
RISER = [sys.executable, "-m", "riser"]
BLOCK = re.compile(r"^```(?:python|toml)\n# (\S+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def write_files(page: str, folder: Path) -> list[str]:
    """Writes the files of a page. Blocks whose first line names the same file are concatenated."""
    files: dict[str, list[str]] = {}
    for name, text in BLOCK.findall((ROOT / "docs" / page).read_text()):
        files.setdefault(name, []).append(text)
    for name, texts in files.items():
        (folder / name).write_text("\n".join(texts))
    return list(files)


def run(folder: Path, *command: str, timeout: float = 120) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pytest_in(folder: Path, *files: str) -> str:
    return run(folder, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "riser.testing", *files)


@pytest.fixture
def page(tmp_path: Path) -> Path:
    write_files("python-devices.md", tmp_path)
    return tmp_path


def test_tests_of_the_page_pass(page: Path) -> None:
    assert "6 passed" in pytest_in(page, "test_copier.py", "test_mailbox.py")


def test_cocotbext_pcie_page_passes(tmp_path: Path) -> None:
    write_files("cocotbext-pcie.md", tmp_path)
    assert "1 passed" in pytest_in(tmp_path, "test_mover.py")


def test_device_runs_in_python_and_by_the_command(page: Path) -> None:
    assert "copies 1" in run(page, sys.executable, "run_copier.py")
    report = json.loads(run(page, *RISER, "run", "copier.toml", "--allow-native", "--json", "--capture", "copier.pcapng"))
    assert report["devices"][0]["counters"]["copies"] == 1
    trace = run(page, *RISER, "trace", "copier.pcapng", "--filter", "type=MRd and dir=up")
    assert len(trace.splitlines()) == 65536 // 512


def test_device_works_over_nettlp(page: Path) -> None:
    here, there = "127.65.0.1", "127.65.0.2"
    adapter = [*RISER, "nettlp", "adapter", "host.toml", "--allow-native", "--listen", here]
    adapter += ["--allow", f"{there},all,rw", "--until-done", "--json"]
    device = [*RISER, "nettlp", "device", "python", "--set", "class=copier.py:Copier", "--allow-native"]
    with subprocess.Popen(adapter, cwd=page, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as host:
        time.sleep(0.5)
        with subprocess.Popen([*device, "--remote", here, "--local", there], cwd=page, stdout=subprocess.DEVNULL) as card:
            try:
                report, errors = host.communicate(timeout=60)
            finally:
                card.terminate()
                host.kill()
    assert host.returncode == 0, errors
    counters = json.loads(report)["lab"]["devices"][0]["counters"]
    assert counters["peer_reads"] >= 65536 // 512 and counters["peer_writes"] >= 65536 // 256


def test_verilog_design_has_a_python_driver(page: Path) -> None:
    if shutil.which("verilator") is None:
        pytest.skip("verilator is not installed")
    for name in ("scratch.v", "scratch.toml"):
        shutil.copy(ROOT / "crates/rtl/examples" / name, page)
    run(page, *RISER, "rtl", "build", "scratch.toml", timeout=600)
    assert "1 passed" in pytest_in(page, "test_scratch.py")


def test_device_works_under_a_guest(page: Path, request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--guest"):
        pytest.skip("boots a kernel: --guest")
    text = (ROOT / "docs/python-devices.md").read_text()
    script = text.partition("riser guest run copier.toml --allow-native -- sh -c '")[2].partition("'\n")[0]
    out = run(page, *RISER, "guest", "run", "copier.toml", "--allow-native", "--", "sh", "-c", script, timeout=600)
    assert "0x00001234" in out.splitlines()
