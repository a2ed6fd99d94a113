// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The system of `rtl/pcie_stack/soc`: a program on a RISC-V core enumerates the endpoint below the root port in RTL, sizes its BAR, and
//! checks DMA and MSIs. `.ci/long riscv` has the larger systems.

use std::process::Command;

/// Checks that the program makes.
const CHECKS: usize = 12;

#[test]
fn program_on_core_enumerates_and_checks_dma() {
    let mut command = Command::new(testkit::root().join("scripts/python.sh"));
    command.args(["rtl/pcie_stack/soc/soc.py", "plain"]).current_dir(testkit::root());
    // Compiling the optimized model takes longer than this run saves.
    let ran = command.env("CXXFLAGS", "-O0").output().unwrap();
    let (output, errors) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    // Status 77: no Python packages. The script names a tool or package that is not here.
    if ran.status.code() == Some(77) || errors.starts_with("soc.py: ") {
        println!("skipped: {errors}");
        return;
    }
    assert!(ran.status.success(), "{output}{errors}");
    assert!(output.contains("function 0100 b500104c BAR 0 4096 bytes at 4"), "{output}");
    assert_eq!(output.lines().filter(|line| line.ends_with(": good")).count(), CHECKS, "{output}");
}
