// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The structures of `riser_device.h` are the same in C, C++ and Rust: sizes, offsets, numbers.

use riser_native::abi::{
    self, Atomic, Completion, Config, DmaAtomic, DmaDone, DmaRead, DmaWrite, Message, Ops, Output, Read,
    SendMessage, Write,
};
use std::fmt::Write as _;
use std::mem::offset_of;
use std::path::Path;
use std::process::Command;

/// Returns a row for each type and each field: its C expression, and Rust's number.
macro_rules! rows {
    ($($c:literal $rust:ident { $($field:ident)* })*) => {
        vec![$(
            (concat!("sizeof(", $c, ")").to_owned(), size_of::<$rust>() as u64),
            $((concat!("offsetof(", $c, ", ", stringify!($field), ")").to_owned(), offset_of!($rust, $field) as u64),)*
        )*]
    };
}

fn expected() -> Vec<(String, u64)> {
    let mut rows = rows! {
        "riser_read" Read { token bar tc attr locked offset length reserved }
        "riser_write" Write { token bar tc attr flags offset length reserved data enables }
        "riser_atomic" Atomic { token bar tc attr op offset value_bytes length operands }
        "riser_config" Config { token register_dw byte_enables is_write value }
        "riser_message" Message { token requester routing code header length reserved data }
        "riser_dma_done" DmaDone { id status length reserved data }
        "riser_dma_write" DmaWrite { address length tc attr reserved data }
        "riser_dma_read" DmaRead { address id length tc attr counted reserved }
        "riser_dma_atomic" DmaAtomic { address id length tc attr op reserved operands }
        "riser_completion" Completion { token status length reserved data }
        "riser_send_message" SendMessage { routing code tc attr length header data }
        "riser_output" Output { kind reserved }
        "riser_device_ops" Ops {
            abi size create destroy reset read write dma_done atomic config message timer poll_output poll_taken next_timer
        }
    };
    rows.push(("offsetof(riser_output, as)".to_owned(), offset_of!(Output, body) as u64));
    for (name, number) in [
        ("RISER_DEVICE_ABI", abi::ABI),
        ("RISER_WRITE", abi::kind::WRITE),
        ("RISER_READ", abi::kind::READ),
        ("RISER_ATOMIC", abi::kind::ATOMIC),
        ("RISER_COMPLETE", abi::kind::COMPLETE),
        ("RISER_ABANDON", abi::kind::ABANDON),
        ("RISER_INTERRUPT", abi::kind::INTERRUPT),
        ("RISER_INTX", abi::kind::INTX),
        ("RISER_PME", abi::kind::PME),
        ("RISER_SEND_MESSAGE", abi::kind::SEND_MESSAGE),
    ] {
        rows.push((name.to_owned(), number.into()));
    }
    rows.push(("RISER_NEVER".to_owned(), abi::NEVER));
    rows
}

#[test]
fn rust_structures_match_header() {
    let expected = expected();
    let mut program = String::from("#include \"riser_device.h\"\n#include <stdio.h>\nint main(void)\n{\n");
    for (what, _) in &expected {
        let _ = writeln!(program, "    printf(\"%llu\\n\", (unsigned long long)({what}));");
    }
    program += "    return 0;\n}\n";
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    for (compiler, language, standard) in
        [("cc", "c", "-std=c99"), ("cc", "c", "-std=c11"), ("c++", "c++", "-std=c++11")]
    {
        let (source, binary) =
            (folder.join(format!("layout{standard}")), folder.join(format!("layout{standard}.run")));
        std::fs::write(&source, &program).unwrap();
        let compiled = Command::new(compiler)
            .args([standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-x", language, "-I"])
            .arg(&include)
            .arg(&source)
            .arg("-o")
            .arg(&binary)
            .output();
        let Ok(compiled) = compiled else {
            eprintln!("no {compiler}: skipped");
            continue;
        };
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        let printed = Command::new(&binary).output().unwrap();
        let numbers: Vec<u64> =
            String::from_utf8(printed.stdout).unwrap().lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(numbers.len(), expected.len());
        for ((what, rust), c) in expected.iter().zip(numbers) {
            assert_eq!(*rust, c, "{what}, {compiler} {standard}");
        }
    }
}
