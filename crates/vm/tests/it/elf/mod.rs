// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Small hand-made ELF files (System V ABI, chapters 4 and 5).

/// Returns the header of a 64-bit x86-64 file, followed by a table of program headers and a table of sections, if these
/// have entries.
fn header(kind: u16, programs: u16, sections_at: usize, sections: u16) -> Vec<u8> {
    let mut out = b"\x7fELF\x02\x01\x01".to_vec();
    out.resize(16, 0);
    out.extend(kind.to_le_bytes());
    out.extend(0x3eu16.to_le_bytes());
    out.extend(1u32.to_le_bytes());
    out.extend(0u64.to_le_bytes());
    out.extend(if programs > 0 { 64u64 } else { 0 }.to_le_bytes());
    out.extend((sections_at as u64).to_le_bytes());
    out.extend(0u32.to_le_bytes());
    for field in [64, 56, programs, 64, sections, sections.saturating_sub(1)] {
        out.extend(u16::to_le_bytes(field));
    }
    out
}

/// Builds a kernel with the banner. With `pvh`, the file has the note with the entry point for QEMU.
pub(crate) fn vmlinux(pvh: bool) -> Vec<u8> {
    let mut out = header(2, 1, 0, 0);
    let note_at = 64 + 56;
    // PT_NOTE; flags, offset, two addresses, two sizes, alignment.
    for field in [4u32, 4] {
        out.extend(field.to_le_bytes());
    }
    for field in [note_at as u64, 0, 0, 20, 20, 4] {
        out.extend(field.to_le_bytes());
    }
    let kind = if pvh { 18u32 } else { 17 };
    for field in [4u32, 4, kind] {
        out.extend(field.to_le_bytes());
    }
    out.extend(b"Xen\0");
    out.extend(0x100_0000u32.to_le_bytes());
    out.extend(b"LL Linux version 6.1.0-test (somebody) #1");
    out.extend((0..2000u32).flat_map(|n| (n * n).to_le_bytes()));
    out
}

/// Builds a module with these lines in its section `.modinfo`.
pub(crate) fn module(name: &str, info: &[(&str, &str)]) -> Vec<u8> {
    let mut text = Vec::new();
    for (key, value) in info {
        text.extend(format!("{key}={value}\0").bytes());
    }
    text.extend(format!("description=The module {name}\0").bytes());
    let names = b"\0.modinfo\0.shstrtab\0";
    let sections_at = 64 + text.len() + names.len();
    let mut out = header(1, 0, sections_at, 3);
    out.extend(&text);
    out.extend(names);
    out.extend([0; 64]);
    // Name, type; flags, address, offset, size; link, info; alignment, size of entries.
    for (name, kind, offset, size) in [(1u32, 1u32, 64, text.len()), (10, 3, 64 + text.len(), names.len())] {
        out.extend(name.to_le_bytes());
        out.extend(kind.to_le_bytes());
        for field in [0, 0, offset as u64, size as u64, 0, 1, 0] {
            out.extend(field.to_le_bytes());
        }
    }
    out
}
