// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Boots a kernel, runs a command in it, and prints the cost of the boot: `cargo run -p riser-vm --example boot -- 6.1 lspci
//! -v`.

use std::io;
use vm::machine::Outputs;
use vm::{Cache, Machine, Options, Parts, Progress, Sources};

fn main() -> Result<(), vm::Error> {
    let mut words = std::env::args().skip(1);
    let kernel = words.next().unwrap_or(vm::parts::DEFAULT_KERNEL.to_owned());
    let mut tell = |progress: Progress<'_>| {
        if let Progress::Step(step) = progress {
            eprintln!("{step}");
        }
        true
    };
    let sources = Sources { cache: Cache::of_user()?, mirror: None, keyring: None };
    let mut parts = Parts::new(sources, &mut tell);
    let (qemu, kernel, programs) = (parts.qemu(&[])?, parts.kernel(&kernel)?, parts.programs(&["pciutils"])?);
    let mut options = Options::new(qemu, kernel, programs);
    options.command = words.collect();
    let outputs =
        Outputs { log: Box::new(io::sink()), stdout: Box::new(io::stdout()), stderr: Box::new(io::stderr()) };
    let report = Machine::start(options, outputs)?.wait();
    eprintln!("{}; {report:?}", report.end);
    Ok(())
}
