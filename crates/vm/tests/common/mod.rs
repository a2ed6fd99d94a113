// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What tests of machines share: parts, and ears.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use vm::machine::Outputs;
use vm::{Cache, Options, Parts, Progress, Sources};

/// Where parts come from: the user's cache, and the mirror of this machine.
pub(crate) fn sources() -> Sources {
    Sources { cache: Cache::of_user().unwrap(), mirror: None, keyring: None }
}

/// A machine with one of Debian's kernels, that ends after two minutes.
pub(crate) fn options(kernel: &str) -> Options {
    let mut tell = |progress: Progress<'_>| {
        if let Progress::Step(step) = progress {
            println!("{step}");
        }
        true
    };
    let mut parts = Parts::new(sources(), &mut tell);
    let qemu = parts.qemu(&["vfio-user-pci"]).unwrap();
    let kernel = parts.kernel(kernel).unwrap();
    let programs = parts.programs(&["pciutils"]).unwrap();
    let mut options = Options::new(qemu, kernel, programs);
    options.time_limit = Some(Duration::from_secs(120));
    options
}

/// One stream of a guest's words.
#[derive(Clone, Debug, Default)]
struct Ear(Arc<Mutex<Vec<u8>>>);

impl Write for Ear {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// All that a guest says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heard {
    log: Ear,
    stdout: Ear,
    stderr: Ear,
}

impl Heard {
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&self.log.0.lock().unwrap()).into_owned()
    }

    pub(crate) fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.stdout.0.lock().unwrap()).into_owned()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr.0.lock().unwrap()).into_owned()
    }
}

/// Outputs that are heard.
pub(crate) fn outputs(heard: &Heard) -> Outputs {
    Outputs {
        log: Box::new(heard.log.clone()),
        stdout: Box::new(heard.stdout.clone()),
        stderr: Box::new(heard.stderr.clone()),
    }
}
