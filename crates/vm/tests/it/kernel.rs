// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Synthetic kernels and modules: valid files, and the error messages for invalid files.

use crate::elf::{module, vmlinux};
use lzma_rust2::{XzOptions, XzWriter};
use proptest::prelude::*;
use std::fs;
use std::io::Write;
use vm::kernel::{self, Image};
use vm::modules::{Module, Modules};

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut writer = XzWriter::new(Vec::new(), XzOptions::with_preset(1)).unwrap();
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

/// Builds a bzImage by Documentation/arch/x86/boot.rst: boot sector, one sector of setup, and the payload at 0x40 in the rest,
/// followed by its unpacked length.
fn bzimage(packed: &[u8], unpacked: usize) -> Vec<u8> {
    let mut image = vec![0; 1024 + 0x40];
    image[0x1f1] = 1;
    image[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
    image[0x202..0x206].copy_from_slice(b"HdrS");
    image[0x206..0x208].copy_from_slice(&[0x0f, 0x02]);
    image[0x248..0x24c].copy_from_slice(&0x40u32.to_le_bytes());
    image[0x24c..0x250].copy_from_slice(&(packed.len() as u32 + 4).to_le_bytes());
    image.extend_from_slice(packed);
    image.extend_from_slice(&(unpacked as u32).to_le_bytes());
    image
}

#[test]
fn unpacks_a_bzimage() {
    let kernel = vmlinux(true);
    for packed in [xz(&kernel), zstd(&kernel), kernel.clone()] {
        assert_eq!(kernel::unpack(&bzimage(&packed, kernel.len())).unwrap(), kernel);
    }
}

#[test]
fn opens_kernels_as_qemu_can_enter_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kernel");
    let open = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        kernel::open(&path)
    };
    let (with, without) = (vmlinux(true), vmlinux(false));
    let opened = open(&bzimage(&xz(&with), with.len())).unwrap();
    assert_eq!(
        (opened.image, opened.release.as_deref()),
        (Image::Unpacked(with.clone()), Some("6.1.0-test"))
    );
    let opened = open(&with).unwrap();
    assert_eq!((opened.image, opened.release.as_deref()), (Image::File(path.clone()), Some("6.1.0-test")));
    // QEMU boots the file as a bzImage.
    assert_eq!(open(&bzimage(&zstd(&without), without.len())).unwrap().image, Image::File(path.clone()));
    let why = open(&without).unwrap_err().to_string();
    assert!(why.starts_with(path.to_str().unwrap()) && why.contains("CONFIG_PVH"), "{why}");
    let mut arm = with;
    arm[18] = 0xb7;
    assert!(open(&arm).unwrap_err().to_string().contains("machine 183"));
    let missing = kernel::open(&folder.path().join("none")).unwrap_err().to_string();
    assert!(missing.contains("/none: No such file"), "{missing}");
}

#[test]
fn rejects_damaged_kernels_with_offset() {
    let kernel = vmlinux(true);
    let good = bzimage(&xz(&kernel), kernel.len());
    type Change = fn(&mut Vec<u8>);
    let rows: [(&str, Change); 9] = [
        ("too short for a kernel: offset 0x1fe is missing", |b| b.truncate(100)),
        ("55 aa at offset 0x1fe", |b| b[0x1fe] = 0),
        ("\"HdrS\" at 0x202", |b| b[0x202] = 0),
        ("boot protocol 2.07 at offset 0x206, expected 2.08 or later", |b| b[0x206] = 7),
        ("the payload is 4294967295 bytes at 0x440", |b| b[0x24c..0x250].fill(0xff)),
        ("the payload at 0x440 is shorter than 4 bytes", |b| b[0x24c..0x250].copy_from_slice(&[3, 0, 0, 0])),
        ("the payload at 0x440 begins with [00, 37, 7a, 58], expected xz", |b| b[0x440] = 0),
        ("the xz payload at 0x440 is damaged", |b| b[0x460] ^= 0xff),
        ("by its last four bytes", |b| *b.iter_mut().rev().nth(3).unwrap() ^= 1),
    ];
    for (expected, change) in rows {
        let mut image = good.clone();
        change(&mut image);
        let why = kernel::unpack(&image).unwrap_err().to_string();
        assert!(why.contains(expected), "{expected:?}: {why:?}");
    }
    // Unpacking stops one byte after the stated length.
    let bomb = bzimage(&xz(&vec![0; 1 << 20]), 1000);
    assert!(kernel::unpack(&bomb).unwrap_err().to_string().contains("unpacks to 1001 bytes, expected 1000"));
    let huge = bzimage(&xz(&kernel), u32::MAX as usize);
    assert!(kernel::unpack(&huge).unwrap_err().to_string().contains("expected at most 1073741824"));
}

proptest! {
    /// A damaged kernel gives an error or is still valid, but never panics.
    #[test]
    fn damaged_kernels_never_panic(at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>(), kind in 0..2) {
        let kernel = vmlinux(true);
        let packed = if kind == 0 { xz(&kernel) } else { zstd(&kernel) };
        let mut image = bzimage(&packed, kernel.len());
        let place = at.index(image.len());
        image[place] = byte;
        let _ = kernel::unpack(&image);
        image.truncate(cut.index(image.len()));
        let _ = kernel::unpack(&image);

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("damaged.ko");
        for mut bytes in [kernel, module("damaged", &[("depends", "a,b"), ("vermagic", "6.1.0 SMP")])] {
            let place = at.index(bytes.len());
            bytes[place] = byte;
            fs::write(&path, &bytes).unwrap();
            let _ = kernel::open(&path);
            let _ = Module::read(&path);
            fs::write(&path, &bytes[..cut.index(bytes.len())]).unwrap();
            let _ = kernel::open(&path);
            let _ = Module::read(&path);
        }
    }
}

/// Creates a folder of modules. Each module has a name, a dependency, and a soft dependency that is loaded before it.
fn folder(modules: &[(&str, &str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let below = folder.path().join("kernel/drivers");
    fs::create_dir_all(&below).unwrap();
    for (name, depends, softdep) in modules {
        let info = [
            ("vermagic", "6.1.0-test SMP mod_unload"),
            ("depends", *depends),
            ("softdep", *softdep),
            ("name", *name),
        ];
        let bytes = module(name, &info);
        // Plain files (kernel 6.1) and compressed files (kernel 6.12).
        match name.len() % 2 {
            0 => fs::write(below.join(format!("{name}.ko")), bytes).unwrap(),
            _ => fs::write(below.join(format!("{name}.ko.xz")), xz(&bytes)).unwrap(),
        }
    }
    fs::write(folder.path().join("modules.builtin"), "kernel/lib/built-in.ko\n").unwrap();
    folder
}

#[test]
fn orders_modules_by_dependencies() {
    let folder = folder(&[
        ("top", "left,right-hand", ""),
        ("left", "base", ""),
        ("right-hand", "base,built-in", "pre: wish nowhere post: later"),
        ("base", "", ""),
        ("wish", "base", ""),
        ("later", "right-hand", ""),
        ("lost", "nowhere", ""),
        ("ring", "ring2", ""),
        ("ring2", "ring", ""),
    ]);
    let modules = Modules::below(folder.path()).unwrap();
    let order = |names: &[&str]| -> Vec<String> {
        modules.closure(names).unwrap().into_iter().map(|module| module.name).collect()
    };
    assert_eq!(order(&["top"]), ["base", "left", "wish", "right_hand", "later", "top"]);
    assert_eq!(order(&["right_hand", "left"]), ["base", "wish", "right_hand", "later", "left"]);
    assert_eq!(order(&["later"]), ["base", "wish", "right_hand", "later"]);
    assert_eq!(order(&["built-in"]), Vec::<String>::new());
    assert_eq!(order(&["ring"]), ["ring2", "ring"]);
    let why = modules.closure(&["lost"]).unwrap_err().to_string();
    assert!(why.contains("no module \"nowhere\", which lost needs"), "{why}");
    let why = modules.closure(&["vmd"]).unwrap_err().to_string();
    assert!(why.starts_with(folder.path().to_str().unwrap()) && why.contains("no module \"vmd\""), "{why}");

    let own = tempfile::tempdir().unwrap();
    let path = own.path().join("own-one.ko");
    fs::write(&path, module("own_one", &[("vermagic", "6.1.0-test SMP"), ("depends", "left")])).unwrap();
    let names = modules.closure_of(Module::read(&path).unwrap()).unwrap();
    assert_eq!(names.iter().map(|m| m.name.as_str()).collect::<Vec<_>>(), ["base", "left", "own_one"]);
}

#[test]
fn rejects_damaged_modules_with_file_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.ko.xz");
    for (bytes, expected) in [
        (b"text".to_vec(), "damaged xz"),
        (xz(b"text"), "not a kernel module"),
        (xz(&vmlinux(true)), "no section .modinfo"),
        (xz(&module("a", &[("depends", "")])), "no vermagic"),
    ] {
        fs::write(&path, bytes).unwrap();
        let why = Module::read(&path).unwrap_err().to_string();
        assert!(why.starts_with(path.to_str().unwrap()) && why.contains(expected), "{expected}: {why}");
    }
    fs::remove_file(&path).unwrap();
    let why = Modules::below(folder.path()).unwrap_err().to_string();
    assert!(why.contains("expected /lib/modules/VERSION of a kernel"), "{why}");
    assert!(Modules::below(&path).unwrap_err().to_string().contains("No such file"));
}
