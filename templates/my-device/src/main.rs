// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The `riser` command with this device added to riser's own.

use std::process::ExitCode;

fn main() -> ExitCode {
    match my_device::models() {
        Ok(models) => riser_cli::main_with(models),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
