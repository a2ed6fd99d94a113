// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is said where a part cannot be had, and that nothing is taken that Debian has not signed. By mirrors of our own making: no
//! network is used.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use vm::{Cache, Error, Parts, Programs, Progress, Sources};

fn sources(cache: &Path, mirror: &str) -> Sources {
    Sources { cache: Cache::new(cache), mirror: Some(mirror.to_owned()), keyring: None }
}

/// The words with which a kernel is not fetched. Nothing is left of the trial but the lock.
fn refusal(cache: &Path, sources: Sources) -> String {
    let mut tell = |_: Progress<'_>| true;
    let why = Parts::new(sources, &mut tell).kernel("6.1").unwrap_err().to_string();
    for entry in fs::read_dir(cache).unwrap() {
        assert_eq!(entry.unwrap().file_name(), "lock", "{why}");
    }
    why
}

/// A mirror with a release that nobody has signed.
fn unsigned(folder: &Path) -> String {
    let lists = folder.join("dists/bookworm/main/binary-amd64");
    fs::create_dir_all(&lists).unwrap();
    fs::write(lists.join("Packages"), "").unwrap();
    let release = "Origin: Debian\nSuite: oldstable\nCodename: bookworm\nArchitectures: amd64\nComponents: main\n\
                   Date: Sat, 10 Jun 2023 08:53:33 UTC\nSHA256:\n \
                   e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 0 main/binary-amd64/Packages\n";
    fs::write(folder.join("dists/bookworm/Release"), release).unwrap();
    format!("file:{}", folder.display())
}

#[test]
fn what_is_not_signed_is_refused() {
    let (cache, mirror) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let why = refusal(cache.path(), sources(cache.path(), &unsigned(mirror.path())));
    assert!(
        why.starts_with("cannot fetch Linux 6.1: apt-get update: ") && why.contains("is not signed"),
        "{why}"
    );
    assert!(why.contains("--kernel FILE") && why.contains("--modules DIR"), "{why}");
}

#[test]
fn what_others_have_signed_is_refused() {
    let (cache, mirror) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let address = unsigned(mirror.path());
    let release = mirror.path().join("dists/bookworm/Release");
    // Signed in form.
    let text = fs::read_to_string(&release).unwrap();
    let signature = "-----BEGIN PGP SIGNATURE-----\n\niHUEABYKAB0WIQ==\n=AAAA\n-----END PGP SIGNATURE-----\n";
    let signed = format!("-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\n{text}{signature}");
    fs::write(release.with_file_name("InRelease"), signed).unwrap();
    let why = refusal(cache.path(), sources(cache.path(), &address));
    assert!(why.contains("apt-get update: ") && (why.contains("sign") || why.contains("GPG")), "{why}");
}

#[test]
fn a_mirror_that_does_not_answer_is_told() {
    let cache = tempfile::tempdir().unwrap();
    // A port on which nobody listens.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let why = refusal(cache.path(), sources(cache.path(), &format!("http://127.0.0.1:{port}/debian")));
    assert!(why.contains("cannot fetch Linux 6.1: apt-get update: ") && why.contains("onnect"), "{why}");
}

#[test]
fn a_keyring_that_is_missing_is_named() {
    let cache = tempfile::tempdir().unwrap();
    let mut sources = sources(cache.path(), "file:/nowhere");
    sources.keyring = Some(PathBuf::from("/nowhere/keys.gpg"));
    let why = refusal(cache.path(), sources);
    assert!(why.contains("there is no keyring /nowhere/keys.gpg"), "{why}");
}

/// More lines in sources would be more options, such as to trust without keys.
#[test]
fn mirrors_and_keyrings_are_one_word() {
    let cache = tempfile::tempdir().unwrap();
    for mirror in ["file:/a\nTrusted: yes", "file:/a file:/b", ""] {
        let why = refusal(cache.path(), sources(cache.path(), mirror));
        assert!(why.starts_with(&format!("the mirror {mirror:?}: ")), "{why}");
    }
    let keyring = cache.path().join("a keyring");
    fs::write(&keyring, "").unwrap();
    let mut sources = sources(&cache.path().join("cache"), "file:/a");
    sources.keyring = Some(keyring);
    assert!(refusal(&cache.path().join("cache"), sources).contains("a keyring\": one word"));
}

#[test]
fn options_outside_of_what_is_legal_are_refused_before_anything_is_fetched() {
    let cache = tempfile::tempdir().unwrap();
    let mut tell = |progress: Progress<'_>| panic!("{progress:?}");
    let mut parts = Parts::new(sources(cache.path(), "file:/nowhere"), &mut tell);
    let why = parts.kernel("5.10").unwrap_err().to_string();
    assert_eq!(why, "no kernel \"5.10\": 6.1, 6.12, 6.12-debug, or the file of a bzImage or vmlinux");
    assert!(parts.programs(&["--allow-unauthenticated"]).unwrap_err().to_string().contains("is no name of"));
    let many: Vec<String> = (0..50).map(|n| format!("package{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(parts.programs(&many).unwrap_err().to_string().contains("200 are legal"));
}

#[test]
fn a_fetch_can_be_stopped() {
    let cache = tempfile::tempdir().unwrap();
    let mut tell = |_: Progress<'_>| false;
    let stopped = Parts::new(sources(cache.path(), "file:/nowhere"), &mut tell).kernel("6.1");
    assert!(matches!(stopped, Err(Error::Stopped)), "{stopped:?}");
}

#[test]
fn programs_of_the_users_are_looked_at() {
    let mut tell = |_: Progress<'_>| true;
    let cache = tempfile::tempdir().unwrap();
    let mut parts = Parts::new(sources(cache.path(), "file:/nowhere"), &mut tell);
    let why = parts.qemu_at(Path::new("/nowhere/qemu"), &[]).unwrap_err().to_string();
    assert!(why.starts_with("/nowhere/qemu: no such file"), "{why}");
    let why = parts.qemu_at(Path::new("/bin/true"), &[]).unwrap_err().to_string();
    assert!(why.starts_with("/bin/true: no QEMU: it answers --version with"), "{why}");
    let old = cache.path().join("qemu");
    fs::write(&old, "#!/bin/sh\necho QEMU emulator version 7.2.0\n").unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&old, executable).unwrap();
    let why = parts.qemu_at(&old, &[]).unwrap_err().to_string();
    assert!(why.ends_with("qemu: QEMU 7.2; 10.1 or later is needed"), "{why}");
    fs::write(&old, "#!/bin/sh\necho QEMU emulator version 10.1.0\n").unwrap();
    let qemu = parts.qemu_at(&old, &[]).unwrap();
    fs::write(
        &old,
        "#!/bin/sh\nprintf 'Available CPUs:\\n  Nehalem  old\\n  max\\n\\nRecognized\\n  avx\\n'\n",
    )
    .unwrap();
    parts.check_cpu(&qemu, "max,-avx").unwrap();
    let why = parts.check_cpu(&qemu, "avx").unwrap_err().to_string();
    assert_eq!(
        why,
        "this QEMU 10.1 has no processor \"avx\"; legal values: Nehalem, max, and their versions (NAME-v1)"
    );
    fs::write(
        &old,
        "#!/bin/sh\necho QEMU emulator version 10.1.0; [ \"$1\" = --version ] || echo what it says >&2\n",
    )
    .unwrap();
    let why = parts.qemu_at(&old, &["vfio-user-pci"]).unwrap_err().to_string();
    assert!(why.ends_with("this QEMU 10.1 has no device vfio-user-pci; it says: what it says"), "{why}");

    let why = Programs::busybox(Path::new("/bin/sh")).unwrap_err().to_string();
    assert!(why.contains("it needs libraries"), "{why}");
    assert!(
        Programs::busybox(&old).unwrap_err().to_string().contains("a program (ELF, 64 bits) is expected")
    );
}

/// A kernel as it is kept; `image` is what there is of its vmlinux.
fn settle_kernel(cache: &Path, image: &[u8]) -> PathBuf {
    let folder = cache.join("kernel-6.1");
    fs::create_dir_all(folder.join("modules")).unwrap();
    fs::write(folder.join("modules/modules.builtin"), "kernel/a.ko\n").unwrap();
    fs::write(folder.join("release"), "6.1.0-1-amd64").unwrap();
    fs::write(folder.join("vmlinux"), image).unwrap();
    folder
}

/// The header of an ELF file for x86-64 with sections up to byte `end`.
fn elf(end: u64) -> Vec<u8> {
    let mut header = vec![0; 64];
    header[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    header[0x12] = 62;
    header[0x28..0x30].copy_from_slice(&end.to_le_bytes());
    header
}

/// As a power failure leaves them, or a disk.
#[test]
fn damaged_parts_are_named_with_what_to_do() {
    let cache = tempfile::tempdir().unwrap();
    let mut tell = |progress: Progress<'_>| panic!("{progress:?}");
    let mut parts = Parts::new(sources(cache.path(), "file:/nowhere"), &mut tell);
    let check = |why: String, file: &Path, folder: &Path| {
        let (file, folder) = (file.display().to_string(), folder.display().to_string());
        assert!(why.starts_with(&format!("{file}: ")), "{why}");
        assert!(
            why.ends_with(&format!("if {folder} is damaged, remove it, and it is fetched anew")),
            "{why}"
        );
    };
    for image in [vec![], elf(65)] {
        let folder = settle_kernel(cache.path(), &image);
        check(parts.kernel("6.1").unwrap_err().to_string(), &folder.join("vmlinux"), &folder);
    }
    settle_kernel(cache.path(), &elf(64));
    parts.kernel("6.1").unwrap();

    let folder = cache.path().join("packages-bash_busybox-static_kmod");
    let busybox = folder.join("packages/busybox-static/bin/busybox");
    fs::create_dir_all(busybox.parent().unwrap()).unwrap();
    fs::write(&busybox, "").unwrap();
    check(parts.programs(&[]).unwrap_err().to_string(), &busybox, &folder);
}

/// Child process of the tests below, which run it without something that it needs.
#[test]
#[ignore = "is started by another test"]
fn child() {
    let mut tell = |_: Progress<'_>| true;
    let cache = std::env::var_os("VM_CACHE").map_or_else(Cache::of_user, |folder| Ok(Cache::new(folder)));
    match cache {
        Err(why) => println!("<{why}>"),
        Ok(cache) => {
            let mut parts = Parts::new(Sources { cache, mirror: None, keyring: None }, &mut tell);
            let why = match std::env::var_os("VM_BUILDS") {
                None => parts.qemu(&[]).unwrap_err(),
                Some(_) => parts.builder("6.1").unwrap_err(),
            };
            println!("<{why}>");
        }
    }
}

/// The words of [`child`] with these variables alone.
fn child_says(environment: &[(&str, &str)]) -> String {
    let mut command = crate::common::again("parts::child");
    command.env_clear().env("PATH", "/nowhere").envs(environment.iter().copied());
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

/// Fails before a fetch, and makes no folder.
#[test]
fn caches_that_cannot_hold_programs_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a:b", "a;b"] {
        let cache = folder.path().join(name);
        let said = child_says(&[("VM_CACHE", cache.to_str().unwrap())]);
        let expected = format!(
            "<the cache {}: the loader of QEMU takes no path with `:` or `;`; --cache DIR or XDG_CACHE_HOME names another folder>",
            cache.display()
        );
        assert!(said.contains(&expected) && !cache.exists(), "{said}");
    }
    // Not writable, even for root.
    let said = child_says(&[("VM_CACHE", "/proc/riser/cache")]);
    let expected =
        "<cannot write the cache /proc/riser/cache (--cache DIR or XDG_CACHE_HOME names another folder): ";
    assert!(said.contains(expected), "{said}");
}

/// Mounts in a mount namespace, so the file system of the user does not change.
#[test]
fn cache_on_a_file_system_without_programs_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().to_str().unwrap();
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c"]);
    command.args(["mount -t tmpfs -o noexec none \"$VM_CACHE\" || exit 7; PATH=/nowhere; \"$@\"", "sh"]);
    command.arg(std::env::current_exe().unwrap()).args([
        "parts::child",
        "--exact",
        "--ignored",
        "--nocapture",
    ]);
    let output = command.env("VM_CACHE", cache).output().unwrap();
    if !output.status.success() {
        return eprintln!("skipped: {}", String::from_utf8_lossy(&output.stderr));
    }
    let said = String::from_utf8(output.stdout).unwrap();
    let expected =
        format!("<the cache {cache}: its file system is mounted noexec, so that no program of it can run; ");
    assert!(said.contains(&expected), "{said}");
}

#[test]
fn builder_without_unshare_names_it() {
    let cache = tempfile::tempdir().unwrap();
    settle_kernel(cache.path(), &elf(64));
    let said = child_says(&[("VM_CACHE", cache.path().to_str().unwrap()), ("VM_BUILDS", "yes")]);
    let expected = "<building needs the program unshare (of util-linux), which is not on the path>";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn a_machine_without_apt_or_a_home_is_told_what_to_give() {
    let cache = tempfile::tempdir().unwrap();
    let home = cache.path().to_str().unwrap();
    for (environment, expected) in [
        (
            vec![("HOME", home)],
            "there is no apt-get here, which Debian and its relatives have; give a QEMU of version 10.1 or later (--qemu FILE)",
        ),
        (vec![], "neither XDG_CACHE_HOME nor HOME is an absolute path"),
        (vec![("HOME", "relative")], "neither XDG_CACHE_HOME nor HOME is an absolute path"),
    ] {
        let said = child_says(&environment);
        assert!(said.contains(expected), "{said}");
    }
}
