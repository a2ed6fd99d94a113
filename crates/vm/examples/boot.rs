// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Boots a kernel and runs a command in it: `cargo run -p riser-vm --example boot -- 6.1 uname -a`.

use std::io::{self, Write};
use vm::machine::Outputs;
use vm::{Cache, Machine, Options, Parts, Progress, Sources};

fn main() -> Result<(), vm::Error> {
    let mut words = std::env::args().skip(1);
    let kernel = words.next().unwrap_or(vm::parts::DEFAULT_KERNEL.to_owned());
    let mut tell = |progress: Progress<'_>| {
        match progress {
            Progress::Step(step) => eprintln!("{step}"),
            Progress::Bytes { done, total } => eprint!("{done} of {total} bytes\r"),
            _ => {}
        }
        true
    };
    let sources = Sources { cache: Cache::of_user()?, mirror: None, keyring: None };
    let mut parts = Parts::new(sources, &mut tell);
    let (qemu, kernel) = (parts.qemu(&[])?, parts.kernel(&kernel)?);
    let programs = parts.programs(
        &std::env::var("PACKAGES").unwrap_or("pciutils".to_owned()).split(" ").collect::<Vec<_>>(),
    )?;
    let mut options = Options::new(qemu, kernel, programs);
    options.command = words.collect();
    let log: Box<dyn Write + Send> = match std::env::var("LOG") {
        Ok(path) => Box::new(std::fs::File::create(path).unwrap()),
        Err(_) => Box::new(io::sink()),
    };
    let outputs = Outputs { log, stdout: Box::new(io::stdout()), stderr: Box::new(io::stderr()) };
    let report = Machine::start(options, outputs)?.wait();
    eprintln!("{report:?}");
    Ok(())
}
