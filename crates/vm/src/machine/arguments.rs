// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Command lines of QEMU and the kernel.

use super::Options;
use crate::error::{Error, Result, bad_file};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::Path;

/// Executes the guest's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accelerator {
    /// QEMU's emulation.
    Tcg,
    /// The host's processor.
    Kvm,
}

/// Address at which QEMU waits for a debugger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gdb(pub SocketAddr);

/// Runs the guest's clock by instruction count. The seed of random numbers is fixed, KASLR is off, and the calendar starts with 2026: a
/// run without external events is reproducible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Icount {
    /// An instruction takes 2^`shift` nanoseconds; 0 to 10.
    pub shift: u32,
    /// Whether the clock of an idle guest follows real time. If not, the clock jumps to the next timer immediately, and
    /// later external events get a later time on the guest's clock. Then a run is reproducible.
    pub sleep: bool,
}

/// File descriptors that QEMU inherits.
pub(super) const KERNEL: i32 = 10;
pub(super) const INITRAMFS: i32 = 11;
/// First descriptor of the wires, in the order of [`PORTS`].
pub(super) const WIRES: i32 = 12;

/// Connections between QEMU and this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Port {
    Log,
    Qmp,
    Control,
    Stdout,
    Stderr,
    Stdin,
    Terminal,
}

pub(super) const PORTS: [Port; 7] =
    [Port::Log, Port::Qmp, Port::Control, Port::Stdout, Port::Stderr, Port::Stdin, Port::Terminal];

impl Port {
    /// Returns whether only the guest sends: then the wire is a pipe, which does not affect the guest's time. (When a socket is full,
    /// which 300 single bytes can cause, the guest retries after a delay on its own clock.)
    pub(super) fn is_pipe(self) -> bool {
        matches!(self, Port::Log | Port::Control | Port::Stdout | Port::Stderr)
    }

    /// Returns QEMU's name of the port. The guest's name of its ports has the prefix `vm.`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Port::Log => "log",
            Port::Qmp => "qmp",
            Port::Control => "control",
            Port::Stdout => "stdout",
            Port::Stderr => "stderr",
            Port::Stdin => "stdin",
            Port::Terminal => "terminal",
        }
    }
}

/// Command line of every kernel. The log goes to the serial port, and a panic resets the guest immediately. An emulated
/// machine's clock is trusted without measurement. Mitigations are off, because an emulated processor does not need
/// them. Self-tests of cryptography are off, because they take a third of the boot time.
const COMMAND_LINE: &str =
    "console=ttyS0 panic=-1 tsc=reliable no_timer_check mitigations=off cryptomgr.notests";

/// Returns QEMU's arguments for these options.
pub(super) fn arguments(options: &Options) -> Result<Vec<OsString>> {
    check(options)?;
    let memory = options.memory_mib;
    let (accelerator, cpu) = match options.accelerator {
        Accelerator::Tcg => ("tcg", "qemu64,+rdrand"),
        Accelerator::Kvm => ("kvm", "host"),
    };
    let mut words: Vec<OsString> = Vec::new();
    let mut add = |text: &str| words.extend(text.split(' ').map(OsString::from));
    add("-nodefaults -no-user-config -display none -no-reboot");
    let cpu = options.cpu.as_deref().unwrap_or(cpu);
    add(&format!(
        "-accel {accelerator} -cpu {cpu} -M q35,memory-backend=memory -m {memory} -smp {}",
        options.smp
    ));
    add(&format!("-object memory-backend-memfd,id=memory,size={memory}M,share=on"));
    add(&format!("-kernel /dev/fd/{KERNEL} -initrd /dev/fd/{INITRAMFS}"));
    for (wire, port) in (WIRES..).zip(PORTS) {
        match port.is_pipe() {
            true => add(&format!("-chardev file,id={},path=/dev/fd/{wire},append=on", port.name())),
            false => add(&format!("-chardev socket,id={},fd={wire}", port.name())),
        }
    }
    add("-serial chardev:log -mon chardev=qmp,mode=control");
    // Without ioeventfd, the processor that sends data also handles the data immediately. With it, another thread would
    // do this at a later time.
    add("-device virtio-serial-pci,id=ports,ioeventfd=off");
    // The guest sees the ports in this order: the control port of the init appears when all other ports are usable.
    for (number, port) in [Port::Stdin, Port::Stdout, Port::Stderr, Port::Control].into_iter().enumerate() {
        let name = port.name();
        add(&format!("-device virtserialport,bus=ports.0,nr={},chardev={name},name=vm.{name}", number + 1));
    }
    add("-device virtconsole,bus=ports.0,nr=0,chardev=terminal");
    if let Some(Icount { shift, sleep }) = options.icount {
        let sleep = if sleep { "on" } else { "off" };
        add(&format!("-icount shift={shift},sleep={sleep} -seed 1 -rtc base=2026-01-01,clock=vm"));
    }
    if let Some(Gdb(address)) = options.gdb {
        add(&format!("-gdb tcp:{address} -S"));
    }
    if let Some(folder) = &options.share {
        words.extend(share(folder)?);
    }
    words.extend(["-append".into(), command_line(options).into()]);
    words.extend(options.qemu_arguments.iter().cloned());
    Ok(words)
}

/// Returns the kernel's command line.
fn command_line(options: &Options) -> String {
    let mut line = COMMAND_LINE.to_owned();
    if options.gdb.is_some() || options.icount.is_some() {
        // A debugger needs the addresses of the file, and a reproducible run needs constant addresses.
        line += " nokaslr";
    }
    if !options.append.is_empty() {
        line = format!("{line} {}", options.append);
    }
    line
}

/// Returns QEMU's arguments for the folder that is shared by 9p.
fn share(folder: &Path) -> Result<[OsString; 4]> {
    if !folder.is_dir() {
        return Err(bad_file(folder, "no such folder; expected the folder to share with the guest"));
    }
    let folder = std::path::absolute(folder).unwrap_or(folder.to_owned());
    let text = folder.to_str().ok_or_else(|| bad_file(&folder, "expected a path in UTF-8"))?;
    // In QEMU's options, a comma ends a value, and two commas stand for one.
    let text = text.replace(',', ",,");
    Ok([
        "-fsdev".into(),
        format!("local,id=share,security_model=none,multidevs=remap,path={text}").into(),
        "-device".into(),
        "virtio-9p-pci,fsdev=share,mount_tag=share".into(),
    ])
}

fn check(options: &Options) -> Result<()> {
    let legal = |what: &str, value: u32, least: u32, most: u32| match (least..=most).contains(&value) {
        true => Ok(()),
        false => Err(Error::Option(format!("{what} {value}, expected {least} to {most}"))),
    };
    legal("virtual CPUs of", options.smp, 1, 255)?;
    legal("guest memory in MiB of", options.memory_mib, 128, 1 << 20)?;
    if let Some(icount) = options.icount {
        legal("icount: a shift of", icount.shift, 0, 10)?;
        if options.accelerator == Accelerator::Kvm {
            return Err(Error::Option("icount: only emulation (TCG) counts instructions".to_owned()));
        }
    }
    if options.append.contains(['\n', '\0']) {
        return Err(Error::Option(format!(
            "{:?}: expected a kernel command line in one line",
            options.append
        )));
    }
    if let Some(cpu) = options.cpu.as_ref().filter(|cpu| cpu.contains(char::is_whitespace)) {
        return Err(Error::Option(format!("the processor {cpu:?}: expected one word without spaces")));
    }
    if options.command.iter().any(|word| word.contains('\0')) {
        return Err(Error::Option("a word of the command contains a zero byte".to_owned()));
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::kernel::Image;
    use crate::modules::Modules;
    use crate::parts::{Kernel, Programs, Qemu, Use, Version};

    pub(in crate::machine) fn options() -> Options {
        let qemu = Qemu {
            command: vec!["qemu".into()],
            version: Version { major: 10, minor: 1 },
            used: Use::default(),
        };
        let kernel = Kernel {
            image: Image::Unpacked(Vec::new()),
            modules: Modules::default(),
            release: None,
            used: Use::default(),
        };
        Options::new(
            qemu,
            kernel,
            Programs { busybox: "busybox".into(), packages: Vec::new(), used: Use::default() },
        )
    }

    fn words(change: impl FnOnce(&mut Options)) -> Vec<String> {
        let mut options = options();
        change(&mut options);
        arguments(&options).unwrap().into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    /// Returns the words after each option of this name.
    fn behind<'a>(words: &'a [String], name: &str) -> Vec<&'a str> {
        words.windows(2).filter(|pair| pair[0] == name).map(|pair| pair[1].as_str()).collect()
    }

    #[test]
    fn arguments_follow_options() {
        let plain = words(|_| {});
        assert_eq!(behind(&plain, "-object"), ["memory-backend-memfd,id=memory,size=512M,share=on"]);
        assert_eq!(behind(&plain, "-append"), [COMMAND_LINE]);
        assert_eq!((behind(&plain, "-accel"), behind(&plain, "-smp")), (vec!["tcg"], vec!["1"]));
        assert!(["-icount", "-gdb", "-S", "-fsdev"].iter().all(|name| !plain.contains(&(*name).to_owned())));

        let folder = tempfile::tempdir().unwrap();
        let shared = folder.path().join("a,b");
        std::fs::create_dir(&shared).unwrap();
        let all = words(|options| {
            options.smp = 2;
            options.memory_mib = 1024;
            options.icount = Some(Icount { shift: 3, sleep: true });
            options.gdb = Some(Gdb("127.0.0.1:1234".parse().unwrap()));
            options.share = Some(shared.clone());
            options.append = "a=b".to_owned();
            options.qemu_arguments = vec!["-device".into(), "last".into()];
        });
        assert_eq!((behind(&all, "-smp"), behind(&all, "-m")), (vec!["2"], vec!["1024"]));
        assert_eq!(behind(&all, "-icount"), ["shift=3,sleep=on"]);
        assert_eq!(behind(&all, "-gdb"), ["tcp:127.0.0.1:1234"]);
        assert!(all.contains(&"-S".to_owned()));
        assert_eq!(behind(&all, "-append"), [format!("{COMMAND_LINE} nokaslr a=b")]);
        let path = format!("path={}/a,,b", folder.path().display());
        assert!(behind(&all, "-fsdev")[0].ends_with(&path));
        assert_eq!(all[all.len() - 2..], ["-device", "last"]);
        assert_eq!(behind(&words(|o| o.accelerator = Accelerator::Kvm), "-cpu"), ["host"]);
        assert_eq!(behind(&words(|o| o.cpu = Some("max,-avx".to_owned())), "-cpu"), ["max,-avx"]);
    }

    /// The guest sees its ports in the order of their numbers. The last port signals that all ports exist.
    #[test]
    fn control_port_is_last() {
        let words = words(|_| {});
        let mut ports =
            behind(&words, "-device").into_iter().filter(|device| device.starts_with("virtserialport"));
        assert!(ports.next_back().unwrap().ends_with("name=vm.control"));
    }

    #[test]
    fn rejects_invalid_options() {
        type Change = fn(&mut Options);
        let rows: [(Change, &str); 9] = [
            (
                |o| o.cpu = Some("max -S".to_owned()),
                "the processor \"max -S\": expected one word without spaces",
            ),
            (|o| o.smp = 0, "virtual CPUs of 0, expected 1 to 255"),
            (|o| o.smp = 256, "virtual CPUs of 256, expected 1 to 255"),
            (|o| o.memory_mib = 127, "guest memory in MiB of 127, expected 128 to 1048576"),
            (
                |o| o.icount = Some(Icount { shift: 11, sleep: false }),
                "icount: a shift of 11, expected 0 to 10",
            ),
            (
                |o| {
                    o.icount = Some(Icount { shift: 0, sleep: false });
                    o.accelerator = Accelerator::Kvm;
                },
                "icount: only emulation (TCG) counts instructions",
            ),
            (|o| o.append = "a\nb".to_owned(), "\"a\\nb\": expected a kernel command line in one line"),
            (|o| o.command = vec!["a\0".to_owned()], "a word of the command contains a zero byte"),
            (
                |o| o.share = Some("/nowhere".into()),
                "/nowhere: no such folder; expected the folder to share with the guest",
            ),
        ];
        for (change, expected) in rows {
            let mut options = options();
            change(&mut options);
            assert_eq!(arguments(&options).unwrap_err().to_string(), expected);
        }
    }
}
