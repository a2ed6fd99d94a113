// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options for the format of captures and of text with TLPs. The reader is `capture::Reader`.

use super::words::{Word, one_of};
use crate::{Failure, input, output};
use capture::{ByteOrder, Columns, FileFormat, ReadOptions, Reader};
use std::io::Read;
use std::path::Path;

/// Options of the reader.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct Reading {
    /// Format of the files: pcap, pcapng, hex, log, pcileech, mmiotrace or csv [default: detected]
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    read_as: Option<FileFormat>,

    /// Byte order of hexadecimal dwords [default: the order that gives more valid headers]
    #[arg(long, value_name = "ORDER", value_parser = one_of(&ORDERS))]
    byte_order: Option<ByteOrder>,

    /// Read hexadecimal TLPs with flit mode headers
    #[arg(long)]
    flit: bool,

    /// Read files as CSV with these columns. A column is a number from 1 or a name in the first row, such as
    /// time_ns=1,dir=2,header=3,data=4. The signals of an AXI4-Stream of TLPs are tdata, tkeep, tlast, tvalid and
    /// tready; for a stream with descriptors, rq, rc, cq or cc, and tuser
    #[arg(long, value_name = "NAME=COLUMN,...")]
    columns: Option<Columns>,

    /// Read a user link type of pcap as TLPs, such as USER0=tlp; can be given several times
    #[arg(long, value_name = "USERn=tlp", value_parser = user_link_type)]
    dlt: Vec<u16>,
}

const ORDERS: [Word<ByteOrder>; 2] = [
    ("big", "Fmt and Type are the first two digits of a TLP", ByteOrder::Big),
    ("little", "The bytes of each dword are reversed", ByteOrder::Little),
];

fn format(name: &str) -> Result<FileFormat, String> {
    let names = || FileFormat::all().map(FileFormat::name).collect::<Vec<_>>().join(", ");
    FileFormat::named(name).ok_or_else(|| format!("expected {}", names()))
}

/// Reads `USERn=tlp`. Returns the bit of `LINKTYPE_USERn`, with n from 0 to 15.
fn user_link_type(text: &str) -> Result<u16, String> {
    let number = text.strip_prefix("USER").and_then(|rest| rest.strip_suffix("=tlp"));
    let number = number.and_then(|number| number.parse::<u16>().ok()).filter(|number| *number < 16);
    number.map(|number| 1 << number).ok_or_else(|| "expected USER0=tlp to USER15=tlp".to_owned())
}

impl Reading {
    fn options(&self) -> ReadOptions {
        ReadOptions {
            format: self.read_as,
            byte_order: self.byte_order,
            flit: self.flit,
            columns: self.columns.clone(),
            user_tlps: self.dlt.iter().fold(0, |all, bit| all | bit),
        }
    }

    /// Opens a file, or standard input for `-`.
    pub(super) fn open(&self, file: &Path) -> Result<Reader<Box<dyn Read>>, Failure> {
        let name = input::name(file).display().to_string();
        Reader::with_options(input::open(file)?, &name, &self.options()).map_err(Failure::run)
    }

    /// Reads hexadecimal text from arguments. Refuses options of other formats.
    pub(super) fn hex<'a>(&self, text: &'a [u8]) -> Result<Reader<&'a [u8]>, Failure> {
        if let Some(format) = self.read_as.filter(|format| *format != FileFormat::Hex) {
            let why = format!("--read-as {format}: dwords of the arguments are read as hex");
            return Err(Failure::usage(why));
        }
        if !self.dlt.is_empty() {
            return Err(Failure::usage("--dlt: only for pcap and pcapng; the arguments are read as hex"));
        }
        let options = ReadOptions { format: Some(FileFormat::Hex), ..self.options() };
        Reader::with_options(text, "arguments", &options).map_err(Failure::run)
    }
}

/// Prints the assumed format if the first bytes of the file do not determine it.
pub(super) fn tell<R: Read>(reader: &Reader<R>, name: &str) {
    if reader.format().is_text() {
        output::note(format_args!("{name}: read as {}", reader.taken_for()));
    }
}
