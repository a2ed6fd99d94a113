// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Real kernels in real machines. What is not in the user's cache yet is fetched.

mod common;

use common::{Heard, options, outputs};
use vm::{End, Machine};

#[test]
fn a_command_runs_and_its_words_and_status_come_back() {
    let mut options = options("6.1");
    let script =
        "printf 'out\\r\\n\\001'; echo no >&2; echo anew >/dev/stderr; uname -r >/dev/stdout; exit 7";
    options.command = ["sh", "-c", script].map(str::to_owned).to_vec();
    let heard = Heard::default();
    let report = Machine::start(options, outputs(&heard)).unwrap().wait();
    assert_eq!(report.end, End::Exited(7), "{}", heard.log());
    let out = heard.stdout();
    assert!(out.starts_with("out\r\n\u{1}6.1."), "{out:?}");
    assert_eq!(heard.stderr(), "no\nanew\n");
    let log = heard.log();
    assert!(log.contains("Linux version 6.1.") && !log.contains('\r'), "{log}");
    // Ten CPU-seconds to a shell is the limit that riser promises.
    let boot = report.boot_cpu.unwrap();
    println!("boot: {boot:?} of CPU, {:?} by the clock", report.boot.unwrap());
    assert!(boot.as_secs() < 10, "{boot:?}");
}
