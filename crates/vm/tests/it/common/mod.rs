// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shared helpers of machine tests: parts, and recorded output.

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::pty::{OpenptFlags, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use vm::machine::Outputs;
use vm::{Cache, Options, Parts, Progress, Sources};

/// Sources of parts: the user's cache, and the mirror of this machine.
pub(crate) fn sources() -> Sources {
    Sources { cache: Cache::of_user().unwrap(), mirror: None, keyring: None }
}

/// Returns options with a Debian kernel and a time limit of two minutes.
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

/// One output stream of a guest, recorded.
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

/// All output of a guest, recorded.
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

    pub(crate) fn stdout_bytes(&self) -> Vec<u8> {
        self.stdout.0.lock().unwrap().clone()
    }

    pub(crate) fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.stdout.0.lock().unwrap()).into_owned()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr.0.lock().unwrap()).into_owned()
    }
}

/// Returns outputs that record.
pub(crate) fn outputs(heard: &Heard) -> Outputs {
    Outputs {
        log: Box::new(heard.log.clone()),
        stdout: Box::new(heard.stdout.clone()),
        stderr: Box::new(heard.stderr.clone()),
    }
}

/// Returns whether a process has ended.
pub(crate) fn gone(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // A zombie counts as ended.
    stat.is_empty() || stat.contains(") Z ")
}

/// Waits for the end of a process, ten seconds at most.
pub(crate) fn ends_soon(pid: u32) -> bool {
    (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        gone(pid)
    })
}

/// Returns whether a descriptor is readable.
pub(crate) fn readable(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    rustix::event::poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
}

/// Returns a command that runs one test of this program again.
pub(crate) fn again(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--ignored", "--nocapture"]);
    command
}

/// Returns whether a terminal is in raw mode, that is, without line editing.
pub(crate) fn is_raw(terminal: &File) -> bool {
    !tcgetattr(terminal).unwrap().local_modes.contains(LocalModes::ICANON)
}

/// Opens both ends of a terminal of this size.
pub(crate) fn terminal(rows: u16, columns: u16) -> (File, File) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let theirs = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&theirs, size).unwrap();
    (ours.into(), theirs)
}
