// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cost of an access over the fabric, compared with a bare vfio-user server. Both devices are in one guest and are measured alternately, with QEMU
//! and both servers on one processor. Prints the figures without checking them.

use crate::common::command;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

const CPU: &str = "0";

fn compile(name: &str, folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/it/guest_mmio/{name}.c"));
    let out = folder.join(name);
    let flags = ["-static", "-O2", "-Wall", "-Wextra", "-Werror", "-o"];
    assert!(Command::new("cc").args(flags).arg(&out).arg(source).status().unwrap().success());
    out
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "a measurement: cargo nextest run --release -p riser-cli --no-capture --run-ignored only guest_mmio::"]
fn measures_access_cost_against_bare_server() {
    let folder = tempfile::tempdir().unwrap();
    let (echo, _) = (compile("echo", folder.path()), compile("mmio", folder.path()));
    let lab = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/clock.toml");
    let capture = folder.path().join("capture.pcapng");
    for more in [&[][..], &["--capture", capture.to_str().unwrap()]] {
        let socket = folder.path().join("echo.sock");
        let _ = std::fs::remove_file(&socket);
        let _server =
            Running(Command::new("taskset").args(["-c", CPU]).arg(&echo).arg(&socket).spawn().unwrap());
        while !socket.exists() {
            std::thread::yield_now();
        }
        let device = format!(
            "{{\"driver\":\"vfio-user-pci\",\"socket\":{{\"path\":\"{}\",\"type\":\"unix\"}}}}",
            socket.display()
        );
        let mut riser = command(&["guest", "run", "--cpus", CPU, "--qemu-argument=-device"]);
        riser.arg(format!("--qemu-argument={device}")).arg(&lab).arg("--share").arg(folder.path());
        let output = riser.args(more).args(["--", "/share/mmio", "15", "3000"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        println!("{}\n{}", more.join(" "), String::from_utf8_lossy(&output.stdout));
    }
}
