// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The `riser` command with the models that ship. Never does more than that.

use std::process::ExitCode;

fn main() -> ExitCode {
    riser_cli::main_with(riser_cli::models())
}
