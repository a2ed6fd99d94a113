// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors for parts that cannot be fetched, and the rejection of everything not signed by Debian. The tests create their own
//! mirrors and use no network.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use vm::{Cache, Error, Parts, Programs, Progress, Sources};

fn sources(cache: &Path, mirror: &str) -> Sources {
    Sources { cache: Cache::new(cache), mirror: Some(mirror.to_owned()), keyring: None }
}

/// Returns the error of fetching a kernel. Only the lock remains in the cache.
fn refusal(cache: &Path, sources: Sources) -> String {
    let mut tell = |_: Progress<'_>| true;
    let why = Parts::new(sources, &mut tell).kernel("6.1").unwrap_err().to_string();
    for entry in fs::read_dir(cache).unwrap() {
        assert_eq!(entry.unwrap().file_name(), "lock", "{why}");
    }
    why
}

/// Creates a mirror with an unsigned release.
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
fn rejects_unsigned_release() {
    let (cache, mirror) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let why = refusal(cache.path(), sources(cache.path(), &unsigned(mirror.path())));
    assert!(
        why.starts_with("cannot fetch Linux 6.1: apt-get update: ") && why.contains("is not signed"),
        "{why}"
    );
    assert!(why.contains("--kernel FILE") && why.contains("--modules DIR"), "{why}");
}

#[test]
fn rejects_release_signed_by_others() {
    let (cache, mirror) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let address = unsigned(mirror.path());
    let release = mirror.path().join("dists/bookworm/Release");
    // With a signature of valid form.
    let text = fs::read_to_string(&release).unwrap();
    let signature = "-----BEGIN PGP SIGNATURE-----\n\niHUEABYKAB0WIQ==\n=AAAA\n-----END PGP SIGNATURE-----\n";
    let signed = format!("-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\n{text}{signature}");
    fs::write(release.with_file_name("InRelease"), signed).unwrap();
    let why = refusal(cache.path(), sources(cache.path(), &address));
    assert!(why.contains("apt-get update: ") && (why.contains("sign") || why.contains("GPG")), "{why}");
}

#[test]
fn reports_unreachable_mirror() {
    let cache = tempfile::tempdir().unwrap();
    // A port without a listener.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let why = refusal(cache.path(), sources(cache.path(), &format!("http://127.0.0.1:{port}/debian")));
    assert!(why.contains("cannot fetch Linux 6.1: apt-get update: ") && why.contains("onnect"), "{why}");
}

#[test]
fn reports_missing_keyring() {
    let cache = tempfile::tempdir().unwrap();
    let mut sources = sources(cache.path(), "file:/nowhere");
    sources.keyring = Some(PathBuf::from("/nowhere/keys.gpg"));
    let why = refusal(cache.path(), sources);
    assert!(why.contains("no keyring /nowhere/keys.gpg"), "{why}");
}

/// Additional lines in sources could add options, for example to trust unsigned packages.
#[test]
fn rejects_mirrors_and_keyrings_with_spaces() {
    let cache = tempfile::tempdir().unwrap();
    for mirror in ["file:/a\nTrusted: yes", "file:/a file:/b", ""] {
        let why = refusal(cache.path(), sources(cache.path(), mirror));
        assert!(why.starts_with(&format!("the mirror {mirror:?}: ")), "{why}");
    }
    let keyring = cache.path().join("a keyring");
    fs::write(&keyring, "").unwrap();
    let mut sources = sources(&cache.path().join("cache"), "file:/a");
    sources.keyring = Some(keyring);
    assert!(refusal(&cache.path().join("cache"), sources).contains("a keyring\": expected one word"));
}

#[test]
fn rejects_invalid_options_before_fetching() {
    let cache = tempfile::tempdir().unwrap();
    let mut tell = |progress: Progress<'_>| panic!("{progress:?}");
    let mut parts = Parts::new(sources(cache.path(), "file:/nowhere"), &mut tell);
    let why = parts.kernel("5.10").unwrap_err().to_string();
    assert_eq!(
        why,
        "unknown kernel \"5.10\", expected 6.1, 6.12, 6.12-debug, or the file of a bzImage or vmlinux"
    );
    assert!(
        parts.programs(&["--allow-unauthenticated"]).unwrap_err().to_string().contains("invalid name of")
    );
    let many: Vec<String> = (0..50).map(|n| format!("package{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(parts.programs(&many).unwrap_err().to_string().contains("in all, expected at most 200"));
}

#[test]
fn progress_function_stops_a_fetch() {
    let cache = tempfile::tempdir().unwrap();
    let mut tell = |_: Progress<'_>| false;
    let stopped = Parts::new(sources(cache.path(), "file:/nowhere"), &mut tell).kernel("6.1");
    assert!(matches!(stopped, Err(Error::Stopped)), "{stopped:?}");
}

#[test]
fn checks_programs_of_the_user() {
    let mut tell = |_: Progress<'_>| true;
    let cache = tempfile::tempdir().unwrap();
    let mut parts = Parts::new(sources(cache.path(), "file:/nowhere"), &mut tell);
    let why = parts.qemu_at(Path::new("/nowhere/qemu"), &[]).unwrap_err().to_string();
    assert!(why.starts_with("/nowhere/qemu: no such file"), "{why}");
    let why = parts.qemu_at(Path::new("/bin/true"), &[]).unwrap_err().to_string();
    assert!(why.starts_with("/bin/true: not a QEMU: it answers --version with"), "{why}");
    let old = cache.path().join("qemu");
    fs::write(&old, "#!/bin/sh\necho QEMU emulator version 7.2.0\n").unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&old, executable).unwrap();
    let why = parts.qemu_at(&old, &[]).unwrap_err().to_string();
    assert!(why.ends_with("qemu: QEMU 7.2, expected 10.1 or later"), "{why}");
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
        "this QEMU 10.1 has no processor \"avx\"; known processors: Nehalem, max, and their versions (NAME-v1)"
    );
    fs::write(
        &old,
        "#!/bin/sh\necho QEMU emulator version 10.1.0; [ \"$1\" = --version ] || echo what it says >&2\n",
    )
    .unwrap();
    let why = parts.qemu_at(&old, &["vfio-user-pci"]).unwrap_err().to_string();
    assert!(why.ends_with("this QEMU 10.1 has no device vfio-user-pci: what it says"), "{why}");

    let why = Programs::busybox(Path::new("/bin/sh")).unwrap_err().to_string();
    assert!(why.contains("it needs libraries"), "{why}");
    assert!(Programs::busybox(&old).unwrap_err().to_string().contains("expected a program (ELF, 64 bits)"));
}

/// Creates a kernel as in the cache; `image` is its vmlinux, possibly incomplete.
fn settle_kernel(cache: &Path, image: &[u8]) -> PathBuf {
    let folder = cache.join("kernel-6.1");
    fs::create_dir_all(folder.join("modules")).unwrap();
    fs::write(folder.join("modules/modules.builtin"), "kernel/a.ko\n").unwrap();
    fs::write(folder.join("release"), "6.1.0-1-amd64").unwrap();
    fs::write(folder.join("vmlinux"), image).unwrap();
    folder
}

/// Returns the header of an ELF file for x86-64 with sections up to byte `end`.
fn elf(end: u64) -> Vec<u8> {
    let mut header = vec![0; 64];
    header[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    header[0x12] = 62;
    header[0x28..0x30].copy_from_slice(&end.to_le_bytes());
    header
}

/// Damage as from a power failure or a disk error.
#[test]
fn damaged_part_error_has_a_remedy() {
    let cache = tempfile::tempdir().unwrap();
    let mut tell = |progress: Progress<'_>| panic!("{progress:?}");
    let mut parts = Parts::new(sources(cache.path(), "file:/nowhere"), &mut tell);
    let check = |why: String, file: &Path, folder: &Path| {
        let (file, folder) = (file.display().to_string(), folder.display().to_string());
        assert!(why.starts_with(&format!("{file}: ")), "{why}");
        assert!(
            why.ends_with(&format!("if {folder} is damaged, remove it; riser then fetches it again")),
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

/// Child process of the tests below. They run it without something that it needs.
#[test]
#[ignore = "is started by another test"]
fn child_process_fetches_or_builds_a_part() {
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

/// Returns the output of [`child`] with only these environment variables.
fn child_says(environment: &[(&str, &str)]) -> String {
    let mut command = crate::common::again("parts::child_process_fetches_or_builds_a_part");
    command.env_clear().env("PATH", "/nowhere").envs(environment.iter().copied());
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

/// The cache is rejected before a fetch, and no folder is created.
#[test]
fn rejects_unusable_caches() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a:b", "a;b"] {
        let cache = folder.path().join(name);
        let said = child_says(&[("VM_CACHE", cache.to_str().unwrap())]);
        let expected = format!(
            "<the cache {}: expected a path without `:` and `;`, which QEMU's loader does not accept; --cache-dir DIR or XDG_CACHE_HOME sets another folder>",
            cache.display()
        );
        assert!(said.contains(&expected) && !cache.exists(), "{said}");
    }
    // Not writable, even for root.
    let said = child_says(&[("VM_CACHE", "/proc/riser/cache")]);
    let expected =
        "<cannot write the cache /proc/riser/cache (--cache-dir DIR or XDG_CACHE_HOME sets another folder): ";
    assert!(said.contains(expected), "{said}");
}

/// Mounts are made in a mount namespace, so the user's file system does not change.
#[test]
fn rejects_cache_on_noexec_file_system() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().to_str().unwrap();
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c"]);
    command.args(["mount -t tmpfs -o noexec none \"$VM_CACHE\" || exit 7; PATH=/nowhere; \"$@\"", "sh"]);
    command.arg(std::env::current_exe().unwrap()).args([
        "parts::child_process_fetches_or_builds_a_part",
        "--exact",
        "--ignored",
        "--nocapture",
    ]);
    let output = command.env("VM_CACHE", cache).output().unwrap();
    if !output.status.success() {
        return eprintln!("skipped: {}", String::from_utf8_lossy(&output.stderr));
    }
    let said = String::from_utf8(output.stdout).unwrap();
    let expected = format!(
        "<the cache {cache}: its file system is mounted noexec, so riser cannot run programs in it; --cache-dir DIR "
    );
    assert!(said.contains(&expected), "{said}");
}

#[test]
fn builder_reports_missing_unshare() {
    let cache = tempfile::tempdir().unwrap();
    settle_kernel(cache.path(), &elf(64));
    let said = child_says(&[("VM_CACHE", cache.path().to_str().unwrap()), ("VM_BUILDS", "yes")]);
    let expected = "<building needs the program unshare (of util-linux), which is not on the path>";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn reports_missing_apt_or_home() {
    let cache = tempfile::tempdir().unwrap();
    let home = cache.path().to_str().unwrap();
    for (environment, expected) in [
        (
            vec![("HOME", home)],
            "the program apt-get of Debian and its derivatives is missing; give a QEMU of version 10.1 or later (--qemu FILE)",
        ),
        (vec![], "neither XDG_CACHE_HOME nor HOME is an absolute path"),
        (vec![("HOME", "relative")], "neither XDG_CACHE_HOME nor HOME is an absolute path"),
    ] {
        let said = child_says(&environment);
        assert!(said.contains(expected), "{said}");
    }
}
