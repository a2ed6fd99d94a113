// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Real kernels in real machines. Parts that are missing in the user's cache are fetched.

use crate::common;
use crate::common::{Heard, ends_soon, gone, options, outputs};
use std::fs;
use std::io::{Read, Seek, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::Child;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use vm::kernel::Image;
use vm::machine::{Gdb, Icount, Input, MachineOutcome};
use vm::{End, Kernel, Load, Machine, Options, Parts, Programs, Progress, Which};

fn shell(script: &str) -> Vec<String> {
    ["sh", "-c", script].map(str::to_owned).to_vec()
}

fn run(options: Options) -> (MachineOutcome, Heard) {
    let heard = Heard::default();
    let report = Machine::start(options, outputs(&heard)).unwrap().wait();
    (report, heard)
}

fn named(name: &str, parameters: &str) -> Load {
    Load { module: Which::Named(name.to_owned()), parameters: parameters.to_owned() }
}

#[test]
fn runs_command_and_returns_output_and_status() {
    let mut options = options("6.1");
    // The output is not a terminal's. A process left behind by the command does not delay the machine's end.
    let script = "sleep 500 & printf 'out\\r\\n\\001'; echo no >&2; echo anew >/dev/stderr; uname -r >/dev/stdout; \
                  echo \"$WHAT\"; lspci -n; seven";
    options.command = shell(script);
    options.scripts = vec![("seven".to_owned(), "exit 7".to_owned())];
    options.environment = vec![("WHAT".to_owned(), "it's $HOME".to_owned())];
    let (report, heard) = run(options);
    assert_eq!(report.end, End::Exited(7), "{}", heard.log());
    let out = heard.stdout();
    assert!(
        out.starts_with("out\r\n\u{1}6.1.") && out.contains("\nit's $HOME\n00:00.0 0600: 8086:"),
        "{out:?}"
    );
    assert_eq!(heard.stderr(), "no\nanew\n");
    let log = heard.log();
    assert!(log.contains("Linux version 6.1.") && !log.contains('\r'), "{log}");
    let boot = report.boot_cpu.unwrap();
    println!("boot: {boot:?} of CPU, {:?} by the clock", report.boot.unwrap());
    // riser promises a shell within ten CPU-seconds.
    assert!(boot.as_secs() < 10, "{boot:?}");
}

/// Child process of the test below.
#[test]
#[ignore = "is started by another test"]
fn child_process_finds_qemu() {
    let mut tell = |_: vm::Progress<'_>| true;
    let found = vm::Parts::new(common::sources(), &mut tell).qemu(&["vfio-user-pci"]);
    println!("<{}>", found.map_or_else(|why| why.to_string(), |qemu| qemu.version.to_string()));
}

/// QEMU aborts after it has loaded a module of another build, because the module registers its types.
#[test]
fn ignores_modules_of_another_qemu() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("module.c");
    let text = "extern void register_dso_module_init(void (*)(void), int);\nstatic void nothing(void) {}\n\
        __attribute__((constructor)) static void begin(void) { register_dso_module_init(nothing, 3); }\n\
        void qemu_module_dummy(void) {}\n";
    fs::write(&source, text).unwrap();
    for name in ["hw-display-virtio-gpu", "hw-display-virtio-gpu-pci", "hw-usb-host"] {
        let module = folder.path().join(format!("{name}.so"));
        let mut compiler = std::process::Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-o"]).arg(module).arg(&source);
        assert!(compiler.status().unwrap().success());
    }
    let output = common::again("boot::child_process_finds_qemu")
        .env("QEMU_MODULE_DIR", folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("<1"), "{said}");
}

/// A second kernel, with two CPUs, modules of both kinds, a shared folder, and more input than any buffer holds.
#[test]
#[ignore = "of .ci/long guest"]
fn passes_modules_folder_and_input_to_the_guest() {
    let folder = tempfile::tempdir().unwrap();
    let folder_name = folder.path().join("a, b");
    fs::create_dir(&folder_name).unwrap();
    fs::write(folder_name.join("in"), "from outside").unwrap();
    let bytes: Vec<u8> =
        (0..500_000u32).flat_map(|n| (n.wrapping_mul(2_654_435_761) >> 24).to_le_bytes()).collect();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&bytes).unwrap();
    file.rewind().unwrap();

    let mut options = options("6.12");
    options.smp = 2;
    let own = options.kernel.modules.file("nlmon").unwrap().to_owned();
    // vfio, a dependency of vfio-pci, loads vfio_iommu_type1 when it is used.
    options.modules = vec![
        named("dummy", "numdummies=3"),
        Load { module: Which::File(own), parameters: String::new() },
        named("vfio-pci", "disable_idle_d3=1"),
    ];
    options.cpu = Some("Nehalem".to_owned());
    options.share = Some(folder_name.clone());
    options.input = Input::From(Arc::new(file.into()));
    options.command = shell(
        "cat /share/in >&2; cat >/share/out; ls -d /sys/class/net/dummy2 /sys/module/nlmon >&2; nproc >&2; \
         modprobe -r dummy && modprobe dummy numdummies=1 && ls /sys/class/net >&2; cat /share/out; \
         lspci -vv 2>&1 >/dev/null | cat >&2; modprobe --version | head -n 1 | cut -c 1-12 >&2; \
         cat /sys/module/vfio_pci/parameters/disable_idle_d3 >&2; ls -d /sys/module/vfio_iommu_type1 >&2; \
         grep -c sse4_2 /proc/cpuinfo >&2; stat -c '%a %n' / /run /root /tmp /etc/shadow >&2; readlink -f /var/run >&2; readlink -f /var/lock >&2",
    );
    let (report, heard) = run(options);
    assert_eq!(report.end, End::Exited(0), "{}{}", heard.log(), heard.stderr());
    let expected = "from outside/sys/class/net/dummy2\n/sys/module/nlmon\n2\ndummy0\nlo\nkmod version\n\
                    Y\n/sys/module/vfio_iommu_type1\n2\n755 /\n755 /run\n700 /root\n1777 /tmp\n600 /etc/shadow\n/run\n/run/lock\n";
    assert_eq!(heard.stderr(), expected);
    assert!(heard.stdout_bytes() == bytes, "{} bytes of {}", heard.stdout_bytes().len(), bytes.len());
    assert!(fs::read(folder_name.join("out")).unwrap() == bytes);
}

/// Programs that look up users, PAM files and libraries of otherwise omitted packages.
#[test]
#[ignore = "of .ci/long guest"]
fn runs_su_sudo_sshd_and_udev() {
    let mut options = options("6.1");
    let mut tell = |_: Progress<'_>| true;
    let packages = ["openssh-client", "openssh-server", "sudo", "udev", "util-linux"];
    options.programs = Parts::new(common::sources(), &mut tell).programs(&packages).unwrap();
    options.command = shell(
        "/usr/bin/su -s /bin/sh user -c 'id -un; ! touch /etc/x 2>/dev/null'; sudo -u nobody id -un
         cp /usr/share/openssh/sshd_config /etc/ssh/ && ssh-keygen -q -A >/dev/null && /usr/sbin/sshd
         mkdir -p /root/.ssh && ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id && cp /root/.ssh/id.pub /root/.ssh/authorized_keys
         ssh -o StrictHostKeyChecking=no -o LogLevel=ERROR -i /root/.ssh/id root@localhost 'echo over ssh'
         /usr/lib/systemd/systemd-udevd --daemon >/dev/null 2>&1; udevadm trigger; udevadm settle && echo settled",
    );
    let (report, heard) = run(options);
    assert_eq!(report.end, End::Exited(0), "{}{}", heard.log(), heard.stderr());
    assert_eq!(heard.stdout(), "user\nnobody\nover ssh\nsettled\n", "{}", heard.stderr());
}

/// No package except busybox, and a kernel as distributed.
#[test]
#[ignore = "of .ci/long guest"]
fn boots_users_kernel_and_busybox() {
    let mut options = options("6.1");
    let Image::File(vmlinux) = &options.kernel.image else { panic!("{:?}", options.kernel) };
    let bzimage = vmlinux.with_file_name("bzImage");
    options.kernel = Kernel::open(&bzimage, Some(&vmlinux.with_file_name("modules"))).unwrap();
    assert!(matches!(options.kernel.image, Image::Unpacked(_)));
    assert!(options.kernel.release.as_ref().unwrap().starts_with("6.1."));
    options.programs = Programs::busybox(options.programs.busybox_path()).unwrap();
    options.modules = vec![named("dummy", "numdummies=0")];
    let script = "modprobe -r dummy && modprobe dummy numdummies=2 && ls -d /sys/class/net/dummy1";
    options.command = shell(script);
    let (report, heard) = run(options.clone());
    assert_eq!(
        (report.end, heard.stdout().as_str()),
        (End::Exited(0), "/sys/class/net/dummy1\n"),
        "{}",
        heard.log()
    );

    // A kernel that QEMU cannot enter as a vmlinux is booted as it is.
    options.kernel.image = Image::File(bzimage);
    let (report, heard) = run(options.clone());
    assert_eq!(report.end, End::Exited(0), "{}", heard.log());

    options.kernel.modules = common::options("6.12").kernel.modules;
    let why = Machine::start(options, outputs(&heard)).unwrap_err().to_string();
    assert!(why.contains("is built for Linux 6.12.") && why.contains(", expected "), "{why}");
}

/// Runs `script` and checks how the machine ends.
fn ends(script: &str, end: End) {
    let mut options = options("6.1");
    options.command = shell(script);
    let (report, heard) = run(options);
    assert_eq!(report.end, end, "{}", heard.log());
}

#[test]
#[ignore = "of .ci/long guest"]
fn reports_panic() {
    ends("echo c >/proc/sysrq-trigger", End::Panicked("sysrq triggered crash".to_owned()));
}

#[test]
#[ignore = "of .ci/long guest"]
fn distinguishes_power_off_and_reboot() {
    ends("poweroff -f", End::PoweredOff);
    ends("reboot -f", End::Rebooted);
}

#[test]
#[ignore = "of .ci/long guest"]
fn polls_and_stops_a_machine() {
    let mut options = options("6.1");
    options.command = shell("echo up; sleep 1000");
    let heard = Heard::default();
    let mut machine = Machine::start(options, outputs(&heard)).unwrap();
    while heard.stdout() != "up\n" {
        assert_eq!(machine.poll(), None, "{}", heard.log());
        thread::sleep(Duration::from_millis(10));
    }
    let parts = common::sources().cache.entries().unwrap();
    let in_use = |start: &str| parts.iter().any(|part| part.name.starts_with(start) && part.in_use);
    assert!(["kernel-6.1", "packages-bash", "qemu-"].into_iter().all(in_use), "{parts:?}");
    let pid = machine.pid();
    assert!(!common::readable(machine.as_fd()));
    assert!(!gone(pid));
    assert_eq!(machine.stop().end, End::Stopped);
    assert!(gone(pid));
}

#[test]
fn dropped_machine_leaves_no_process() {
    let machine = Machine::start(options("6.1"), outputs(&Heard::default())).unwrap();
    let pid = machine.pid();
    drop(machine);
    assert!(gone(pid));
}

#[test]
fn time_limit_ends_a_hanging_guest() {
    let mut options = options("6.1");
    options.time_limit = Some(Duration::from_millis(300));
    let mut machine = Machine::start(options, outputs(&Heard::default())).unwrap();
    while !common::readable(machine.as_fd()) {
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(machine.poll().unwrap().end, End::TimedOut { ready: false });
}

#[test]
#[ignore = "of .ci/long guest"]
fn names_module_that_fails_to_load() {
    let mut options = options("6.1");
    // QEMU's processor has no VMX.
    options.modules = vec![named("kvm-intel", "")];
    let (report, heard) = run(options);
    let End::Failed(why) = &report.end else { panic!("{report:?} {}", heard.log()) };
    assert!(why.starts_with("module kvm_intel.ko: ") && why.contains("not supported"), "{why}");
}

/// The init cannot report this through its port.
#[test]
#[ignore = "of .ci/long guest"]
fn names_missing_port() {
    let mut options = options("6.1");
    options.append = "module_blacklist=virtio_console".to_owned();
    let (report, heard) = run(options);
    let End::Failed(why) = &report.end else { panic!("{report:?} {}", heard.log()) };
    assert!(why.starts_with("module virtio_console.ko: insmod: "), "{why}");
}

#[test]
#[ignore = "of .ci/long guest"]
fn waits_for_a_debugger() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let mut options = options("6.1");
    options.gdb = Some(Gdb(address));
    options.command = vec!["true".to_owned()];
    let heard = Heard::default();
    let machine = Machine::start(options, outputs(&heard)).unwrap();
    let mut debugger = loop {
        match TcpStream::connect(address) {
            Ok(stream) => break stream,
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    };
    thread::sleep(Duration::from_millis(500));
    assert_eq!(heard.log(), "");
    // The remote protocol's "continue", with the checksum of its characters.
    debugger.write_all(b"+$c#63").unwrap();
    assert_eq!(machine.wait().end, End::Exited(0), "{}", heard.log());
}

#[test]
fn reports_errors_of_qemu() {
    let mut options = options("6.1");
    options.qemu_arguments = ["-device", "no-such-device"].map(Into::into).to_vec();
    let (report, _) = run(options);
    let End::Qemu(why) = &report.end else { panic!("{report:?}") };
    assert!(why.contains("exit status: 1") && why.contains("no-such-device"), "{why}");
}

#[test]
fn failing_output_ends_the_machine() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("no room"))
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut outputs = outputs(&Heard::default());
    outputs.log = Box::new(Full);
    let report = Machine::start(options("6.1"), outputs).unwrap().wait();
    assert_eq!(report.end, End::Outputs("no room".to_owned()));
}

/// Child process of the tests below.
#[test]
#[ignore = "is started by other tests"]
fn child_process_boots_a_machine() {
    let mut options = options("6.1");
    let heard = Heard::default();
    if std::env::var_os("VM_TERMINAL").is_some() {
        options.input = Input::Terminal;
        if std::env::var_os("VM_HANGS").is_some() {
            // QEMU starts stopped.
            options.qemu_arguments = vec!["-S".into()];
        }
        let mut outputs = outputs(&heard);
        outputs.stdout = Box::new(std::io::stdout());
        let report = Machine::start(options, outputs).unwrap().wait();
        println!("<{:?}>", report.end);
    } else {
        options.command = shell("sleep 1000");
        let machine = Machine::start(options, outputs(&heard)).unwrap();
        println!("<{}>", machine.pid());
        machine.wait();
    }
}

#[test]
fn killed_caller_takes_qemu_with_it() {
    let mut child = common::again("boot::child_process_boots_a_machine")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut text = String::new();
    let mut stdout = child.stdout.take().unwrap();
    while !text.contains('>') {
        let mut byte = [0];
        stdout.read_exact(&mut byte).unwrap();
        text.push(char::from(byte[0]));
    }
    let pid: u32 = text.split(['<', '>']).nth(1).unwrap().parse().unwrap();
    assert!(!gone(pid));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(ends_soon(pid));
}

/// A shell in a guest, on a terminal of this test.
struct Typist {
    terminal: fs::File,
    child: Child,
    seen: String,
}

impl Typist {
    fn new(environment: &[(&str, &str)]) -> Typist {
        let (terminal, theirs) = common::terminal(31, 97);
        let mut command = common::again("boot::child_process_boots_a_machine");
        command.env("VM_TERMINAL", "yes").env("TERM", "vt100").envs(environment.iter().copied());
        command.stdin(theirs.try_clone().unwrap()).stdout(theirs);
        Typist { terminal, child: command.spawn().unwrap(), seen: String::new() }
    }

    fn types(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).unwrap();
    }

    /// Returns the output up to these words.
    fn sees(&mut self, words: &str) -> String {
        while !self.seen.contains(words) {
            let mut bytes = [0; 1000];
            let count =
                self.terminal.read(&mut bytes).unwrap_or_else(|e| panic!("{e} behind {:?}", self.seen));
            self.seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
        std::mem::take(&mut self.seen)
    }
}

#[test]
#[ignore = "of .ci/long guest"]
fn gives_the_terminal_to_a_shell() {
    let mut typist = Typist::new(&[]);
    typist.sees("# ");
    typist.types("tty; stty size; echo $TERM\r");
    let answer = typist.sees("vt100\r\n");
    assert!(answer.contains("/dev/hvc0\r\n31 97\r\nvt100\r\n"), "{answer:?}");
    // The guest's terminal handles Ctrl-C for the program that runs on it: the sleep, after it has printed its word.
    typist.types("sh -c 'echo asle''ep; exec sleep 500'\r");
    typist.sees("asleep\r\n");
    typist.types("\x03");
    typist.sees("# ");
    typist.types("exit 5\r");
    typist.sees("<Exited(5)>");
    assert!(typist.child.wait().unwrap().success());
}

#[test]
fn escape_keys_end_a_hanging_guest() {
    let mut typist = Typist::new(&[("VM_HANGS", "yes")]);
    while !common::is_raw(&typist.terminal) {
        thread::sleep(Duration::from_millis(10));
    }
    typist.types("anything");
    typist.types("\x01x");
    typist.sees("<Stopped>");
    assert!(typist.child.wait().unwrap().success());
}

/// Two boots have the same times in their logs, to the microsecond.
#[test]
#[ignore = "of .ci/long guest"]
fn icount_runs_are_reproducible() {
    let logs = [0, 1].map(|_| {
        let mut options = options("6.1");
        options.icount = Some(Icount { shift: 1, sleep: false });
        options.command = shell("date +%Y; dmesg | tail -1; cat /proc/sys/kernel/random/uuid");
        let (report, heard) = run(options);
        assert_eq!(report.end, End::Exited(0), "{}", heard.log());
        assert!(heard.stdout().starts_with("2026\n"), "{}", heard.stdout());
        heard.log() + &heard.stdout()
    });
    let [one, other] = &logs;
    for (one, other) in one.lines().zip(other.lines()) {
        assert_eq!(one, other);
    }
}
