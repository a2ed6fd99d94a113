// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What comes from the description of the DMA engine's registers says what it says.

use std::path::Path;
use std::process::Command;

/// Constants, header and page are as they would be written now. Needs Python with its wheels.
#[test]
fn what_comes_from_the_description_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut check = Command::new(root.join("scripts/python.sh"));
    let output = check.arg("registers/generate.py").arg("--check").output().expect("bash");
    let code = output.status.code();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    if code == Some(77) {
        println!("skipped: {said}");
        return;
    }
    assert_eq!(code, Some(0), "{said}");
}
