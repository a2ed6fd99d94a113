// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The file formats that riser reads, and the options of a reader.

use super::text::columns::Columns;
use std::fmt;

/// First line of hexadecimal text that riser writes. It gives the byte order.
pub const HEX_HEADING: &str = "# TLPs, byte order big\n";

/// A file format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileFormat {
    /// pcap.
    Pcap,
    /// pcapng.
    Pcapng,
    /// TLPs as hexadecimal numbers, one TLP per line.
    Hex,
    /// Text with TLP headers: kernel logs, `lspci -vvv`, rasdaemon.
    Log,
    /// TLPs as PCILeech prints them.
    Pcileech,
    /// Linux' mmiotrace.
    Mmiotrace,
    /// CSV with columns that the caller maps.
    Csv,
}

/// A row of the list of formats: description and an example line.
struct Row {
    format: FileFormat,
    name: &'static str,
    holds: &'static str,
    example: &'static str,
}

const ROWS: [Row; 7] = [
    Row {
        format: FileFormat::Pcap,
        name: "pcap",
        holds: "captures of NetTLP, or of TLPs (LINKTYPE_PCI_EXP)",
        example: "first bytes d4 c3 b2 a1 or 4d 3c b2 a1, or these reversed",
    },
    Row { format: FileFormat::Pcapng, name: "pcapng", holds: "the same", example: "first bytes 0a 0d 0d 0a" },
    Row {
        format: FileFormat::Hex,
        name: "hex",
        holds: "one TLP per line as hexadecimal dwords or bytes",
        example: "0.000001 up 4a004010 00000040 01000000",
    },
    Row {
        format: FileFormat::Log,
        name: "log",
        holds: "kernel logs, lspci -vvv, rasdaemon",
        example: "pcieport 0000:00:1c.0: AER:   TLP Header: 0x34000000 0x70000010 0x00000000 0x88468846",
    },
    Row {
        format: FileFormat::Pcileech,
        name: "pcileech",
        holds: "TLPs that PCILeech prints",
        example: "TX: MRd32:  Len: 020 ReqID: 0600 BE_FL: ff Tag: 99 Addr: 00001c80",
    },
    Row {
        format: FileFormat::Mmiotrace,
        name: "mmiotrace",
        holds: "accesses to mapped registers, from Linux' mmiotrace",
        example: "R 4 432.293075 3 0xfa000000 0x172000a1 0x0 0",
    },
    Row {
        format: FileFormat::Csv,
        name: "csv",
        holds: "a TLP per row, or an AXI4-Stream; with --columns time_ns=1,dir=2,tlp=3 or the like",
        example: "1500,up,4a004010 00000040 01000000",
    },
];

impl FileFormat {
    /// Returns every format, in the order of the list in errors.
    pub fn all() -> impl Iterator<Item = FileFormat> {
        ROWS.iter().map(|row| row.format)
    }

    /// Returns the name of the format in options.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Returns an example line of the format, or its first bytes.
    #[must_use]
    pub fn example(self) -> &'static str {
        self.row().example
    }

    /// Returns the format of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<FileFormat> {
        ROWS.iter().find(|row| row.name == name).map(|row| row.format)
    }

    /// Returns true for text formats.
    #[must_use]
    pub fn is_text(self) -> bool {
        !matches!(self, FileFormat::Pcap | FileFormat::Pcapng)
    }

    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }
}

impl fmt::Display for FileFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The list of all formats, each with an example.
pub(super) struct Understood;

impl fmt::Display for Understood {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("riser reads:")?;
        ROWS.iter().try_for_each(|Row { name, holds, example, .. }| {
            write!(f, "\n  {name:<10} {holds}:\n             {example}")
        })
    }
}

/// The byte order of the dwords of hexadecimal text and CSV.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ByteOrder {
    /// The first byte of a TLP, Fmt and Type, is first, as in kernel logs.
    Big,
    /// The bytes of each DW are reversed, so the first DW ends with Fmt and Type.
    Little,
}

/// Options of a reader. Without them, riser detects the format.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReadOptions {
    /// The format; `None` detects it.
    pub format: Option<FileFormat>,
    /// The byte order of hexadecimal text and CSV; `None` detects it.
    pub byte_order: Option<ByteOrder>,
    /// True if hexadecimal text has flit-mode headers. Kernel logs mark such headers themselves.
    pub flit: bool,
    /// The user link types with TLPs in the layout of `LINKTYPE_PCI_EXP`: bit n is `LINKTYPE_USERn`.
    pub user_tlps: u16,
    /// The columns of a CSV file. Only with this option a file is read as CSV.
    pub columns: Option<Columns>,
}

impl ReadOptions {
    /// Returns a message about the first option that does not apply to a file of this format.
    pub(super) fn misfit(&self, format: FileFormat) -> Option<String> {
        let options = [
            ("columns are", self.columns.is_some(), &[FileFormat::Csv][..]),
            ("a byte order is", self.byte_order.is_some(), &[FileFormat::Hex, FileFormat::Csv]),
            ("flit mode is", self.flit, &[FileFormat::Hex]),
        ];
        let (option, _, of) =
            options.into_iter().find(|(_, is_given, of)| *is_given && !of.contains(&format))?;
        let of: Vec<_> = of.iter().map(|format| format.name()).collect();
        Some(format!("{option} only for {}; the file is read as {format}", of.join(" and ")))
    }
}
