// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Guests with unusual limits, paths, variables and caches. A run that loses its lab never exits with status 0.

use crate::common::{Outcome, command, finish, riser};
use crate::endpoint_test::built;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};
use vm::Cache;

/// PATH of an ordinary user on Debian.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games";

/// A module with a parameter.
const MODULE: &str = "#include <linux/module.h>\nstatic int value;\nmodule_param(value, int, 0444);\nMODULE_LICENSE(\"GPL\");\n";

/// Script for a guest that prints the number of functions below the lab's VMD.
const COUNT: &str = "ls -d /sys/bus/pci/devices/10000:* | wc -l";
/// Number of functions in labs/tree.toml, including root ports and switches.
const DEVICES: &str = "14";

fn lab(name: &str) -> PathBuf {
    testkit::root().join("labs").join(name)
}

fn cache() -> PathBuf {
    Cache::of_user().unwrap().folder().to_owned()
}

/// Returns a shell command that runs `line` and then `command`.
fn after(line: &str, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &format!("{line}; exec \"$@\""), "sh"])
        .arg(command.get_program())
        .args(command.get_args());
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell
}

fn guest(lab: &Path, arguments: &[&str], script: &str) -> Command {
    let mut riser = command(&["guest", "run", "--time-limit", "300"]);
    riser.arg(lab).args(arguments).args(["--", "sh", "-c", script]);
    riser
}

/// The run fails before it fetches or boots anything.
#[test]
fn missing_tmpdir_fails_before_fetch() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let run = || {
        let mut riser = command(&["guest", "run", "--cache-dir"]);
        riser.arg(&cache).arg(lab("tree.toml")).args(["--", "true"]);
        riser
    };
    let mut missing = run();
    missing.env("TMPDIR", "/nowhere/at/all");
    let outcome = finish(&mut missing);
    assert_eq!((outcome.code, cache.exists()), (1, false), "{}", outcome.stderr);
    let expected = "riser: TMPDIR=/nowhere/at/all does not exist; set TMPDIR to an existing folder";
    assert!(outcome.stderr.starts_with(expected), "{}", outcome.stderr);
}

/// Creates folders of a cache with these ages in days. Each contains the file of 2048 bytes with the given path.
fn parts(cache: &Path, parts: &[(&str, u32)]) {
    for (file, age) in parts {
        let path = cache.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, [0; 2048]).unwrap();
        let part = cache.join(file.split('/').next().unwrap());
        let time = SystemTime::now() - *age * Duration::from_secs(86400);
        fs::File::open(&part).unwrap().set_modified(time).unwrap();
    }
}

/// If standard error is not a terminal, a line is printed immediately.
#[test]
fn names_holder_of_cache_lock() {
    let folder = tempfile::tempdir().unwrap();
    let lock = folder.path().join("lock");
    fs::write(&lock, "process 42, which fetches kernel-6.12").unwrap();
    let held = fs::File::open(&lock).unwrap();
    held.lock().unwrap();
    let mut riser = command(&["guest", "kernel", "6.1", "--cache-dir"]);
    let mut riser = riser.arg(folder.path()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(riser.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let expected = "riser: guest parts: waiting for process 42, which fetches kernel-6.12 (lock ";
    assert_eq!(line, format!("{expected}{})\n", lock.display()));
    signal(&riser, Signal::SIGINT);
    assert_eq!(riser.wait().unwrap().code(), Some(130));
}

#[test]
fn cache_lists_parts_and_removes_old_ones() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().to_str().unwrap();
    fs::write(folder.path().join("lock"), "").unwrap();
    parts(
        folder.path(),
        &[
            ("kernel-6.1/vmlinux", 3),
            ("packages-busybox-static/packages/busybox-static/file", 40),
            ("qemu-amd64/usr/bin/qemu-system-x86_64", 1),
            ("kernel-mine/file", 99),
            ("packages-holiday/file", 99),
        ],
    );
    let run = |arguments: &[&str]| {
        let outcome = riser(&[&["guest", "cache"], arguments, &["--cache-dir", cache]].concat());
        assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{arguments:?}");
        outcome.stdout
    };
    let expected = format!(
        " bytes      size     last use           part \n  2048  2.00 KiB   3 days ago     kernel-6.1 \n  2048  2.00 KiB  40 days ago  packages-busybox-static \n  \
         2048  2.00 KiB    1 day ago     qemu-amd64 \n6144 bytes (6.00 KiB) in {cache}\n"
    );
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(&run(&["list"])), words(&expected));
    let json: serde_json::Value = serde_json::from_str(&run(&["list", "--json"])).unwrap();
    assert_eq!((&json["bytes"], json["parts"].as_array().unwrap().len()), (&6144.into(), 3));
    assert_eq!((&json["parts"][1]["unused_days"], &json["parts"][1]["in_use"]), (&40.into(), &false.into()));

    let dry = format!(
        "would remove packages-busybox-static: 2048 bytes (2.00 KiB)\nwould remove 2048 bytes (2.00 KiB) in {cache}\n"
    );
    assert_eq!(run(&["clean", "--dry-run"]), dry);
    assert_eq!(run(&["clean"]), dry.replace("would remove", "removed"));
    let json = run(&["clean", "--unused-days", "2", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["parts"][0]["name"], &json["parts"][0]["removed"]),
        (&"kernel-6.1".into(), &true.into())
    );
    run(&["clean", "--all"]);
    assert_eq!(run(&["list"]).lines().last().unwrap(), format!("0 bytes (0 B) in {cache}"));
    for mine in ["kernel-mine/file", "packages-holiday/file"] {
        assert!(folder.path().join(mine).is_file(), "{mine}");
    }
    let missing = riser(&["guest", "cache", "clean", "--all", "--cache-dir", "/nowhere/at/all"]);
    let expected = "removed 0 bytes (0 B) in /nowhere/at/all, which does not exist\n";
    assert_eq!((missing.code, missing.stdout.as_str()), (0, expected));
}

/// Does not remove any part, because other tests use the same cache.
#[test]
#[ignore = "of .ci/long environments"]
fn cache_shows_parts_of_running_guest_as_in_use() {
    let mut riser = guest(&lab("tree.toml"), &[], "echo up; cat");
    let mut riser = riser.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(riser.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "up\n");
    let said = finish(&mut command(&["guest", "cache", "clean", "--all", "--dry-run"])).stdout;
    for part in ["kernel-6.1:", "packages-bash_busybox-static_kmod_pciutils:", "qemu-amd64:"] {
        assert!(said.contains(&format!("kept, in use: {part}")), "{said}");
    }
    drop(riser.stdin.take());
    assert!(riser.wait().unwrap().success());
}

/// `serve` needs no parts, so the test fetches none.
#[test]
fn reports_file_limit_too_low_for_vectors() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("sockets");
    let vectors = ["--set", "slot.test.endpoint-test.msix=2048"];
    for (limit, arguments, expected) in [
        (
            "ulimit -n 64",
            &["--direct"][..],
            "at most 64 files may be open here; a lab with 64 interrupt vectors",
        ),
        ("ulimit -n 1024", &["--direct", vectors[0], vectors[1]], "; a lab with 2048 interrupt vectors"),
    ] {
        let mut serve = command(&["guest", "serve", "--socket"]);
        serve.arg(&socket).arg(lab("guest/endpoint-test.toml")).args(arguments);
        let outcome = finish(&mut after(limit, &serve));
        assert_eq!(outcome.code, 1, "{}", outcome.stderr);
        assert!(
            outcome.stderr.contains(expected) && outcome.stderr.contains("(ulimit -n)"),
            "{}",
            outcome.stderr
        );
    }
}

/// Boots once in an environment that must have no effect: few open files, an ordinary user's PATH, spaces and other
/// special characters in all paths, a locale, and variables of other tools.
#[test]
#[ignore = "of .ci/long environments"]
fn boots_with_odd_paths_limits_and_variables() {
    let folder = tempfile::tempdir().unwrap();
    let odd = folder.path().join("it's my, \"own\" & 100% $HOME; a=b");
    let (drivers, share, cached) = (odd.join("my drivers"), odd.join("share"), odd.join("my cache"));
    [&drivers, &share, &odd.join("t")].iter().for_each(|path| fs::create_dir_all(path).unwrap());
    fs::write(drivers.join("Kbuild"), "obj-m := odd.o\n").unwrap();
    fs::write(drivers.join("odd.c"), MODULE).unwrap();
    fs::write(share.join("in"), "from outside\n").unwrap();
    let file = odd.join("my lab.toml");
    fs::copy(lab("tree.toml"), &file).unwrap();
    fs::create_dir_all(cache()).unwrap();
    // QEMU cannot be in a path with `;`.
    let odd_cache = folder.path().join("my, cache & all");
    symlink(cache(), &odd_cache).unwrap();
    symlink(cache(), &cached).unwrap();

    let mut build = command(&["guest", "build"]);
    build.arg(&drivers).arg("--cache-dir").arg(&cached);
    strange(&mut build, &odd);
    let built = finish(&mut build);
    if ["cannot fetch", "needs a user namespace"].iter().any(|why| built.stderr.contains(why)) {
        return eprintln!("skipped: {}", built.stderr);
    }
    let module = drivers.join("odd.ko");
    assert_eq!((built.code, built.stdout), (0, format!("{}\n", module.display())), "{}", built.stderr);

    let script = format!("{COUNT}; cat /share/in /sys/module/odd/parameters/value");
    let module = format!("{} value=17", module.display());
    let (share, odd_cache) = (share.to_str().unwrap(), odd_cache.to_str().unwrap());
    let mut riser = guest(&file, &["--module", &module, "--share", share, "--cache-dir", odd_cache], &script);
    strange(&mut riser, &odd);
    let Outcome { code, stdout, stderr } = finish(&mut after("ulimit -Sn 64", &riser));
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (0, "14\nfrom outside\n17\n", ""));
}

/// Variables as users and other tools set them.
fn strange(command: &mut Command, folder: &Path) {
    command.env("PATH", PATH).env("TMPDIR", folder.join("t")).env("HOME", "/nowhere");
    for (name, value) in [
        ("LC_ALL", "tr_TR.UTF-8"),
        ("LANGUAGE", "de:fr"),
        ("TZ", "Asia/Kathmandu"),
        ("ARCH", "arm64"),
        ("CROSS_COMPILE", "aarch64-linux-gnu-"),
        ("MAKEFLAGS", "-n"),
        ("QEMU_AUDIO_DRV", "none"),
        ("QEMU_MODULE_DIR", "/usr/lib"),
        ("LD_LIBRARY_PATH", "/nowhere"),
        ("XDG_CACHE_HOME", "relative"),
        ("XDG_RUNTIME_DIR", "/nowhere"),
        ("http_proxy", "http://127.0.0.1:9"),
        ("GREP_OPTIONS", "--color=always"),
        ("POSIXLY_CORRECT", "1"),
    ] {
        command.env(name, value);
    }
}

/// Runs a guest whose riser is stopped for some seconds while its kernel enumerates devices.
fn stopped(arguments: &[&str], seconds: u64) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let arguments = [&["--log", log.to_str().unwrap()], arguments].concat();
    let mut riser = guest(&lab("tree.toml"), &arguments, COUNT);
    let riser = riser.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while !fs::read_to_string(&log).unwrap_or_default().contains(" 10000:") {
        assert!(begun.elapsed() < Duration::from_secs(100), "the kernel does not reach the lab");
        std::thread::sleep(Duration::from_millis(5));
    }
    signal(&riser, Signal::SIGSTOP);
    std::thread::sleep(Duration::from_secs(seconds));
    signal(&riser, Signal::SIGCONT);
    ended(riser)
}

fn signal(process: &Child, signal: Signal) {
    kill(Pid::from_raw(process.id() as i32), signal).unwrap();
}

fn ended(process: Child) -> Outcome {
    Outcome::of(&process.wait_with_output().unwrap())
}

#[test]
#[ignore = "of .ci/long environments"]
fn riser_stopped_during_boot_keeps_lab() {
    let Outcome { code, stdout, stderr } = stopped(&[], 12);
    assert_eq!((code, stdout.trim()), (0, DEVICES), "{stderr}");
}

/// The reader of a capture may pause, like `less`.
#[test]
#[ignore = "of .ci/long environments"]
fn paused_reader_of_capture_keeps_lab() {
    let mut riser = guest(&lab("tree.toml"), &["--capture", "-"], COUNT);
    let mut riser = riser.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut capture = riser.stdout.take().unwrap();
    capture.read_exact(&mut vec![0; 300_000]).unwrap();
    std::thread::sleep(Duration::from_secs(12));
    std::io::copy(&mut capture, &mut std::io::sink()).unwrap();
    let Outcome { code, stderr, .. } = ended(riser);
    assert_eq!((code, stderr.trim()), (0, DEVICES));
}

/// A wrapper around QEMU makes it give up after a second.
#[test]
#[ignore = "of .ci/long environments"]
fn machine_that_gives_up_waiting_fails_run() {
    let (folder, qemu) = (tempfile::tempdir().unwrap(), cache().join("qemu-amd64"));
    let libraries = qemu.join("usr/lib/x86_64-linux-gnu");
    let words = [
        &libraries.join("ld-linux-x86-64.so.2"),
        Path::new("--library-path"),
        &libraries,
        &qemu.join("usr/bin/qemu-system-x86_64"),
        Path::new("-L"),
        &qemu.join("usr/share/qemu"),
        Path::new("-L"),
        &qemu.join("usr/share/seabios"),
    ];
    let words = words.map(|word| format!("'{}'", word.display())).join(" ");
    let impatient = folder.path().join("qemu");
    let text = format!(
        "#!/bin/sh\nfor word; do shift; set -- \"$@\" \"$(printf %s \"$word\" | sed s/86400000/1000/)\"; done\nexec {words} \"$@\"\n"
    );
    fs::write(&impatient, text).unwrap();
    fs::set_permissions(&impatient, PermissionsExt::from_mode(0o755)).unwrap();
    let Outcome { code, stdout, stderr } = stopped(&["--qemu", impatient.to_str().unwrap()], 4);
    assert_eq!(code, 1, "{stdout}{stderr}");
    assert!(
        stderr.contains(
            "the machine has lost the device, and reads of it return all ones: the peer has stopped receiving"
        ),
        "{stderr}"
    );
}

/// The driver of the VMD needs MSI-X.
#[test]
#[ignore = "of .ci/long environments"]
fn kernel_that_finds_no_lab_fails_run() {
    let Outcome { code, stdout, stderr } =
        finish(&mut guest(&lab("tree.toml"), &["--append", "pci=nomsi"], "true"));
    assert_eq!(code, 1, "{stdout}{stderr}");
    assert!(stderr.contains("/sys/class/pci_bus/10000:00 is not there"), "{stderr}");
}

#[test]
#[ignore = "of .ci/long environments"]
fn boots_with_kvm_or_error_names_kvm() {
    let Outcome { code, stderr, .. } = finish(&mut guest(&lab("tree.toml"), &["--kvm"], "true"));
    assert!(code == 0 || code == 1 && stderr.to_lowercase().contains("kvm"), "{code} {stderr}");
}

/// The lab has more vectors than the usual soft limit of open files.
#[test]
#[ignore = "of .ci/long environments"]
fn raises_soft_limit_of_open_files_for_vectors() {
    let Some(driver) = built("6.1") else { return };
    let (share, module) = (driver.to_str().unwrap(), driver.join("pci_endpoint_test.ko"));
    let vectors = "slot.test.endpoint-test.msix=2048";
    let arguments = ["--set", vectors, "--smp", "11", "--direct", "--vtd", "--share", share, "--module"];
    let arguments = [&arguments[..], &[module.to_str().unwrap()]].concat();
    let script = "cd /share; ./pcitest -i 2; ./pcitest -x 1; ./pcitest -x 2048";
    let riser = guest(&lab("guest/endpoint-test.toml"), &arguments, script);
    let Outcome { code, stdout, stderr } = finish(&mut after("ulimit -Sn 1024", &riser));
    assert_eq!((code, stdout.matches("\tOKAY").count()), (0, 3), "{stdout}{stderr}");
}

/// Runs riser in a mount namespace. The shell line `line` mounts the cache, $1, at /mnt.
fn with_mounts(options: &[&str], line: &str, riser: &Command) -> Option<Outcome> {
    let mut shell = Command::new("unshare");
    shell.arg("--mount").args(options).args([
        "sh",
        "-c",
        &format!("{line} || exit 77; shift; exec \"$@\""),
        "sh",
    ]);
    shell.arg(cache()).arg(riser.get_program()).args(riser.get_args());
    let outcome = finish(&mut shell);
    if outcome.code == 77 {
        eprintln!("skipped: {}", outcome.stderr);
        return None;
    }
    Some(outcome)
}

#[test]
#[ignore = "of .ci/long environments"]
fn read_only_cache_works() {
    let riser = guest(&lab("tree.toml"), &["--cache-dir", "/mnt"], COUNT);
    let mounts = "mount --bind \"$1\" /mnt && mount -o remount,bind,ro /mnt";
    let Some(outcome) = with_mounts(&["--user", "--map-root-user"], mounts, &riser) else { return };
    assert_eq!((outcome.code, outcome.stdout.trim()), (0, DEVICES), "{}", outcome.stderr);
}

/// Runs only as root, which switches to an ordinary user. Other users are covered by the other tests.
#[test]
#[ignore = "of .ci/long environments"]
fn ordinary_user_builds_and_boots() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let drivers = folder.path().join("drivers");
    fs::create_dir(&drivers).unwrap();
    fs::write(drivers.join("Kbuild"), "obj-m := odd.o\n").unwrap();
    fs::write(drivers.join("odd.c"), MODULE).unwrap();
    let (file, script) = (folder.path().join("lab.toml"), folder.path().join("script"));
    fs::copy(lab("tree.toml"), &file).unwrap();
    let steps = format!(
        "#!/bin/sh\nset -e\n/mnt/riser guest build {0} --cache-dir /mnt/cache\n\
         exec /mnt/riser guest run {1} --cache-dir /mnt/cache --module {0}/odd.ko -- sh -c '{COUNT}'\n",
        drivers.display(),
        file.display()
    );
    fs::write(&script, steps).unwrap();
    // The user must not write the cache, so root fetches missing parts.
    let mut clean = command(&["guest", "build"]);
    for fetch in [clean.arg(&drivers).args(["--", "clean"]), &mut guest(&file, &[], "true")] {
        let fetched = finish(fetch);
        assert_eq!(fetched.code, 0, "{}", fetched.stderr);
    }
    let user = "1234";
    for path in [folder.path(), &drivers] {
        chown(path, Some(1234), Some(1234)).unwrap();
    }
    let mut riser = Command::new("setpriv");
    riser.args(["--reuid", user, "--regid", user, "--clear-groups", "--no-new-privs"]);
    riser.args(["env", "-i", &format!("PATH={PATH}"), "HOME=/nowhere", "sh"]).arg(&script);
    let binary = env!("CARGO_BIN_EXE_riser");
    let mounts = format!(
        "mount -t tmpfs none /mnt && mkdir /mnt/cache && touch /mnt/riser && mount --bind \"$1\" /mnt/cache && \
         mount --bind '{binary}' /mnt/riser"
    );
    let Some(outcome) = with_mounts(&[], &mounts, &riser) else { return };
    let module = drivers.join("odd.ko");
    let expected = format!("{}\n{DEVICES}\n", module.display());
    assert_eq!((outcome.code, outcome.stdout), (0, expected), "{}", outcome.stderr);
}
