// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Headers of flit mode. A field has a name if at least two published sources agree on its position. All other DWs
//! are printed as numbers.

use super::fields::{attributes, flag, function, put};
use super::{Explanation, FieldValue};
use tlp::Attributes;

/// Layout of the DWs after the first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// Requester and tag, then an address with this many DWs.
    Address(usize),
    /// Requester and tag, then DWs that are not decoded.
    Request,
    /// DWs that are not decoded.
    Other,
}

/// Type, name, number of DWs of the base header, and layout.
type Row = (u8, &'static str, usize, Layout);

const ROWS: [Row; 34] = [
    (0x00, "NOP", 1, Layout::Other),
    (0x01, "MRdLk", 3, Layout::Address(1)),
    (0x02, "IORd", 3, Layout::Request),
    (0x03, "MRd", 3, Layout::Address(1)),
    (0x04, "CfgRd0", 3, Layout::Request),
    (0x05, "CfgRd1", 3, Layout::Request),
    (0x0a, "Cpl", 3, Layout::Other),
    (0x0b, "CplLk", 3, Layout::Other),
    (0x20, "MRd", 4, Layout::Address(2)),
    (0x21, "MRdLk", 4, Layout::Address(2)),
    (0x30, "Msg", 4, Layout::Request),
    (0x31, "Msg", 4, Layout::Request),
    (0x32, "Msg", 4, Layout::Request),
    (0x33, "Msg", 4, Layout::Request),
    (0x34, "Msg", 4, Layout::Request),
    (0x35, "Msg", 4, Layout::Request),
    (0x40, "MWr", 3, Layout::Address(1)),
    (0x42, "IOWr", 3, Layout::Request),
    (0x44, "CfgWr0", 3, Layout::Request),
    (0x45, "CfgWr1", 3, Layout::Request),
    (0x4a, "CplD", 3, Layout::Other),
    (0x4b, "CplDLk", 3, Layout::Other),
    (0x4c, "FetchAdd", 3, Layout::Address(1)),
    (0x4d, "Swap", 3, Layout::Address(1)),
    (0x4e, "CAS", 3, Layout::Address(1)),
    (0x5b, "DMWr", 3, Layout::Address(1)),
    (0x60, "MWr", 4, Layout::Address(2)),
    (0x6c, "FetchAdd", 4, Layout::Address(2)),
    (0x6d, "Swap", 4, Layout::Address(2)),
    (0x6e, "CAS", 4, Layout::Address(2)),
    (0x70, "MsgD", 4, Layout::Request),
    (0x72, "MsgD", 4, Layout::Request),
    (0x74, "MsgD", 4, Layout::Request),
    (0x7b, "DMWr", 4, Layout::Address(2)),
];

/// Explains a header of flit mode.
pub(super) fn explain(bytes: &[u8]) -> Explanation {
    let dwords: Vec<u32> =
        bytes.chunks_exact(4).map(|dw| u32::from_be_bytes([dw[0], dw[1], dw[2], dw[3]])).collect();
    let mut fields = Vec::new();
    let row = dwords.first().and_then(|first| {
        let row = ROWS.iter().find(|row| u32::from(row.0) == first >> 24);
        first_dword(*first, row.map_or("", |row| row.1), &mut fields);
        row
    });
    let mut decoded = 1.min(dwords.len());
    if let Some((_, _, _, layout)) = row
        && *layout != Layout::Other
        && let Some(second) = dwords.get(1)
    {
        request(*second, &mut fields);
        decoded = 2;
        if let Layout::Address(dw) = layout
            && let Some(address) = dwords.get(2..2 + dw)
        {
            put_address(address, &mut fields);
            decoded += dw;
        }
    }
    for dw in &dwords[decoded..] {
        put(&mut fields, "DW not decoded", *dw, format!("{dw:#010x}"));
    }
    let error = match (row, dwords.first()) {
        (Some((_, name, base, _)), _) if dwords.len() < *base => {
            Some(format!("{name} of flit mode has a header of {base} DW, but the line has {}", dwords.len()))
        }
        (None, Some(first)) => Some(format!("type {:#04x} of flit mode, which is not decoded", first >> 24)),
        _ => None,
    };
    Explanation { fields, means: Vec::new(), broken: Vec::new(), error }
}

fn first_dword(dw: u32, name: &str, fields: &mut Vec<FieldValue>) {
    let ty = dw >> 24;
    put(fields, "Type", ty, format!("{ty:#04x} {name}").trim_end().to_owned());
    put(fields, "TC", dw >> 21 & 7, (dw >> 21 & 7).to_string());
    put(fields, "OHC", dw >> 16 & 0x1f, format!("{:05b}b", dw >> 16 & 0x1f));
    put(fields, "TS", dw >> 13 & 7, format!("{:03b}b", dw >> 13 & 7));
    let attr = Attributes::from_bits_truncate((dw >> 10 & 7) as u8);
    put(fields, "Attr", attr.bits(), attributes(attr));
    let length = dw & 0x3ff;
    put(fields, "Length", length, format!("{} DW", if length == 0 { 1024 } else { length }));
}

fn request(dw: u32, fields: &mut Vec<FieldValue>) {
    function(fields, "Requester ID", dw >> 16);
    flag(fields, "EP", dw >> 15 & 1 == 1, "the data is poisoned");
    put(fields, "Tag", dw & 0x3fff, format!("{:#06x}", dw & 0x3fff));
}

fn put_address(dwords: &[u32], fields: &mut Vec<FieldValue>) {
    let whole = dwords.iter().fold(0, |address: u64, dw| address << 32 | u64::from(*dw));
    put(fields, "Address", whole & !3, format!("{:#010x}", whole & !3));
    put(fields, "AT", whole & 3, format!("{:02b}b", whole & 3));
}
