// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The `riser` command with the models that ship.

use std::process::ExitCode;

fn main() -> ExitCode {
    riser_cli::main_with(riser_cli::models())
}
