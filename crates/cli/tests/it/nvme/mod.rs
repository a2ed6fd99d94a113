// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The NVMe controller with the stock driver nvme of Debian's kernel, and common programs: nvme-cli, mkfs.ext4, fio. `RISER_KERNEL`
//! names another kernel. `RISER_FIO_SECONDS` is the time that fio writes and reads; without it, fio makes
//! one pass.

use crate::common::{Outcome, command, driver, finish};
use std::fs;
use std::path::{Path, PathBuf};

/// Start of each script.
const BEGIN: &str = "set -e\n\
    until_() { n=$1; shift; until \"$@\" >/dev/null 2>&1; do n=$((n-1)); [ $n -gt 0 ] || { echo \"never: $*\"; return 1; }; sleep 0.1; done; }\n\
    complaints() { ! dmesg | grep -E 'BUG:|WARNING:|Call Trace|Oops|I/O error|timeout, '; }\n\
    fio_() { fio --name=x --bs=4k --iodepth=32 --ioengine=libaio --direct=1 --output-format=terse \"$@\" 2>/dev/null | grep ';'; }\n\
    verified() { awk -F';' '{ print \"error\", $5, ($6 > 0 ? \"read\" : \"not read\") }'; }\n";

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Runs a script on a lab with one controller.
fn run(name: &str, settings: &str, arguments: &[&str], script: &str) -> Outcome {
    let folder = folder(name);
    let lab = "version = 1\n[link]\ngen = 3\nlanes = 4\nmps_bytes = 256\n[[slot]]\nname = \"ssd\"\ndevice = \"nvme\"\nhot_plug = true\n";
    fs::write(folder.join("lab.toml"), format!("{lab}[slot.nvme]\n{settings}\n")).unwrap();
    driver::compile(
        &[Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/nvme/acknowledged.c")],
        &folder.join("acknowledged"),
    );
    let script = format!("{BEGIN}{script}\n");
    let kernel = std::env::var("RISER_KERNEL").unwrap_or("6.1".to_owned());
    let (lab, share) = (folder.join("lab.toml"), folder.to_str().unwrap());
    let fixed = ["guest", "run", lab.to_str().unwrap(), "--kernel", &kernel, "--time-limit", "600"];
    let mut riser = command(&fixed);
    for module in ["nvme", "ext4"] {
        riser.args(["--module", module]);
    }
    for package in ["nvme-cli", "fio", "e2fsprogs"] {
        riser.args(["--package", package]);
    }
    let outcome = finish(riser.args(arguments).args(["--share", share, "--", "sh", "-c", &script]));
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    outcome
}

/// Arguments that limit fio: one pass over 4 MiB, or repeated passes over 16 MiB for RISER_FIO_SECONDS. A later `--size` takes precedence.
fn effort() -> String {
    let seconds = std::env::var("RISER_FIO_SECONDS");
    seconds.map_or("--size=4m".to_owned(), |seconds| format!("--size=16m --time_based --runtime={seconds}"))
}

/// A file system whose data fio verifies; output of nvme-cli; format; and unsupported commands, which appear in the error log.
#[test]
fn file_system_and_nvme_cli_work_below_vmd() {
    let script = format!(
        "nvme list -o json | grep -cE 'riser NVMe controller|riser-00000100'\n\
         nvme id-ctrl /dev/nvme0 | grep -E '^(vid|mdts|ver|oncs|nn|vwc) '\n\
         mkfs.ext4 -q /dev/nvme0n1; mkdir -p /mnt; mount -t ext4 /dev/nvme0n1 /mnt\n\
         fio_ --directory=/mnt {} --rw=randwrite --verify=crc32c | verified\n\
         umount /mnt; e2fsck -fn /dev/nvme0n1 2>&1 | grep -c 'nvme0n1: 1[0-9]/'\n\
         nvme smart-log /dev/nvme0 | grep -E '^(critical_warning|media_errors|available_spare|unsafe_shutdowns)'\n\
         ! nvme read /dev/nvme0n1 -s 524288 -c 0 -z 512 2>&1 | grep -oE 'LBA_RANGE|LBA Out of Range'\n\
         nvme error-log /dev/nvme0 -e 1 | grep -oE '(sqid|status_field).*: (0x4080|0x80|1)' | head -2\n\
         nvme write-uncor /dev/nvme0n1 -s 8 -c 0; ! dd if=/dev/nvme0n1 of=/dev/null bs=512 skip=8 count=1 iflag=direct 2>/dev/null; echo spoiled $?\n\
         nvme format /dev/nvme0n1 --lbaf=1 --force >/dev/null; cat /sys/block/nvme0n1/queue/logical_block_size\n\
         cmp -n 1048576 /dev/nvme0n1 /dev/zero && echo zeros",
        effort()
    );
    let outcome = run("nvme-vmd", "namespaces = [{ size_bytes = 134_217_728 }]", &[], &script);
    let said: Vec<&str> = outcome.stdout.lines().map(str::trim).collect();
    let expected = [
        "2",
        "vid       : 0x7269",
        "mdts      : 5",
        "ver       : 0x10400",
        "nn        : 1",
        "oncs      : 0xf",
        "vwc       : 0x6",
        "error 0 read",
        "1",
        "critical_warning\t\t\t: 0",
        "available_spare\t\t\t\t: 100%",
        "available_spare_threshold\t\t: 10%",
        "unsafe_shutdowns\t\t\t: 0",
        "media_errors\t\t\t\t: 0",
        "LBA Out of Range",
        "sqid\t\t: 1",
        "status_field\t: 0x4080",
        "NVME Write Uncorrectable Success",
        "spoiled 0",
        "4096",
        "zeros",
    ];
    assert_eq!(said, expected, "{}", outcome.stderr);
}

/// Acknowledged blocks are kept when the controller is pulled out, cut off, or reset by its registers or by its function. Without a
/// volatile cache all of them are kept; with one, only forced writes (FUA). The virtual functions are controllers of
/// the same subsystem.
#[test]
#[ignore = "of .ci/long nvme"]
fn keeps_acknowledged_writes() {
    // After a cut, kernel 6.1 may wait 65 s for a function that hot-plug has removed before it finds the new one.
    let load = |seconds| {
        format!(
            "begun=$(written); /share/acknowledged /dev/nvme0n1 {seconds} dsync & p=$!; until_ 200 busy\n"
        )
    };
    let script = format!(
        "written() {{ awk '$1 == \"pgpgout\" {{ print $2 }}' /proc/vmstat; }}; busy() {{ [ $(($(written) - begun)) -gt 4000 ]; }}\n\
         {}lab remove ssd; until_ 100 sh -c '! ls /dev/nvme0n1'; lab insert ssd; wait $p\n\
         {}lab cut ssd 100000; wait $p; until_ 1000 ls /dev/nvme0n1\n\
         {}nvme reset /dev/nvme0; sleep 1; echo 1 >/sys/bus/pci/devices/10000:01:00.0/reset; wait $p\n\
         echo 2 >/sys/bus/pci/devices/10000:01:00.0/sriov_numvfs; until_ 100 sh -c 'nvme list-subsys | grep -q nvme2.*live'\n\
         nvme list-subsys | grep -oE 'pcie 10000.*'; nvme list-subsys | grep -c NQN\n\
         for n in 0 1 2; do nvme id-ctrl /dev/nvme$n | grep cntlid; done\n\
         fio_ --filename=/dev/nvme0n1 --size=16m --rw=randwrite --verify=crc32c | verified",
        load(20),
        load(20),
        load(6)
    );
    let outcome = run("nvme-kept", "volatile_write_cache = true\nvfs = 2", &[], &script);
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    let [a, b, c, d, e, f, rest @ ..] = &lines[..] else { panic!("{lines:?}") };
    for (line, failed) in [(a, "32 of 32"), (c, "32 of 32"), (e, "0 of 32")] {
        let (writes, threads) = line.split_once(" writes were acknowledged, ").unwrap();
        assert!(
            writes.parse::<u32>().unwrap() > 500 && threads == format!("{failed} threads failed"),
            "{line}"
        );
    }
    assert_eq!([b, d, f], [&"0 of 8192 blocks are wrong"; 3], "{}", outcome.stdout);
    let expected = [
        "pcie 10000:01:00.0 live",
        "pcie 10000:01:00.1 live",
        "pcie 10000:01:00.2 live",
        "1",
        "cntlid    : 0",
        "cntlid    : 0x1",
        "cntlid    : 0x2",
        "error 0 read",
    ];
    assert_eq!(rest, expected, "{}", outcome.stderr);
}

/// In direct mode the function has a vector for the queue of each processor. After a reload of the driver under load, the written data are still there.
#[test]
#[ignore = "of .ci/long nvme"]
fn two_processors_have_queues_in_direct_mode() {
    let script = format!(
        "dmesg | grep -o '[0-9]*/0/0 default/read/poll queues'\n\
         fio_ {} --filename=/dev/nvme0n1 --size=32m --numjobs=2 --offset_increment=32m --rw=randwrite --verify=crc32c \
           --group_reporting | verified\n\
         grep -cE 'nvme0q[0-2]$' /proc/interrupts\n\
         fio_ --filename=/dev/nvme0n1 --size=32m --rw=randread --time_based --runtime=30 >/dev/null 2>&1 & sleep 1\n\
         sum() {{ dd if=/dev/nvme0n1 bs=1M count=32 iflag=direct 2>/dev/null | sha256sum; }}; before=$(sum)\n\
         echo 1 >/sys/bus/pci/drivers/nvme/$(basename $(readlink -f /sys/class/nvme/nvme0/device))/remove\n\
         wait; echo 1 >/sys/bus/pci/rescan; until_ 100 ls /dev/nvme0n1; [ \"$(sum)\" = \"$before\" ] && echo same\n\
         rmmod nvme; modprobe nvme; until_ 100 ls /dev/nvme0n1; [ \"$(sum)\" = \"$before\" ] && echo same; ! dmesg | grep -E 'BUG:|WARNING:|Oops'",
        effort()
    );
    let outcome = run("nvme-direct", "", &["--direct", "--smp", "2"], &script);
    assert_eq!(
        outcome.stdout, "2/0/0 default/read/poll queues\nerror 0 read\n3\nsame\nsame\n",
        "{}",
        outcome.stderr
    );
}

/// Each lost completion of a host memory read ends a command with a transient Data Transfer Error. Linux retries the
/// command, and fio reports no error. Reads of 128 B have one completion each. If one of several completions of a read
/// were missing, the next would be a malformed TLP.
#[test]
#[ignore = "of .ci/long nvme"]
fn fio_sees_no_errors_after_lost_completions() {
    let script = "setpci -s 10000:01:00.0 CAP_EXP+8.w=0:7000\n\
        lab fault 'slot = \"ssd\", direction = \"downstream\", frames = \"completion\", nth = 500, every = 701, count = 5, \
        action = \"set-requester\", new_requester = \"1f:1f.7\"'\n\
        fio_ --filename=/dev/nvme0n1 --size=16m --rw=randwrite --verify=crc32c | verified\n\
        nvme error-log /dev/nvme0 -e 16 | grep -c 'status_field.*: 0x4 '\n\
        dmesg | grep -c 'I/O error' || true";
    // A command that cannot be fetched stops the controller. Linux resets the controller after this time.
    let outcome = run("nvme-lost", "", &["--append", "nvme_core.io_timeout=2"], script);
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    let [fio, errors, complaints] = lines[..] else { panic!("{}{}", outcome.stdout, outcome.stderr) };
    assert_eq!((fio, complaints), ("error 0 read", "0"), "{}", outcome.stderr);
    assert!((1..=5).contains(&errors.parse().unwrap()), "{errors} data transfer errors");
}

/// Measures reads and writes of 4 KiB at depth 32, alternately on riser's controller and QEMU's own in the same guest; and the cost of a capture.
/// Prints the medians: `--ignored --nocapture` in a release build.
#[test]
#[ignore = "a measurement"]
fn measures_speed_against_qemu_controller() {
    let image = folder("nvme-image").join("disk");
    fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
    let drive = format!("file={},if=none,format=raw,id=other", image.display());
    let script = "for d in nvme0n1 nvme1n1; do dd if=/dev/zero of=/dev/$d bs=1M count=64 oflag=direct 2>/dev/null; done\n\
        for round in 1 2 3; do for rw in randread randwrite; do for d in nvme0 nvme1; do\n\
        iops=$(fio_ --filename=/dev/${d}n1 --size=64m --rw=$rw --time_based --runtime=5 | cut -d';' -f8,49 | tr ';' '\\n' | sort -n | tail -1)\n\
        echo $rw $(cat /sys/class/nvme/$d/serial) $iops; done; done; done";
    let capture = folder("nvme-capture").join("c.pcapng");
    for capture in [None, Some(&capture)] {
        let mut arguments = vec!["--qemu-argument=-drive", "--qemu-argument", &drive];
        arguments.extend(["--qemu-argument=-device", "--qemu-argument=nvme,drive=other,serial=qemu"]);
        if let Some(path) = capture {
            arguments.extend(["--capture", path.to_str().unwrap()]);
        }
        let outcome = run("nvme-beside", "", &arguments, script);
        for rw in ["randread", "randwrite"] {
            let median = |serial: &str| {
                let lines =
                    outcome.stdout.lines().filter(|line| line.starts_with(rw) && line.contains(serial));
                let mut all: Vec<f64> =
                    lines.map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect();
                all.sort_by(f64::total_cmp);
                all[all.len() / 2]
            };
            let (own, other) = (median("riser"), median("qemu"));
            let percent = 100.0 * own / other;
            println!("{rw}, capture {}: riser {own} IOPS, QEMU {other}: {percent:.0} %", capture.is_some());
        }
    }
}
