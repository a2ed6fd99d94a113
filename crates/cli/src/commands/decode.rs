// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser decode`: prints TLPs field by field, with their meaning and the rules that they break, from `capture::explain`. Never
//! decodes a byte itself.

use super::reading::{self, Reading};
use crate::{Failure, input, output};
use capture::views::{Explanations, View};
use capture::{Names, Reader};
use plug::Models;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

const EXAMPLE: &str = "\
Examples:
  riser decode 4a004010 00000040 01000000
  dmesg | riser decode
  lspci -vvv | riser decode
  riser decode aer.log --json
  riser decode --flit 03010001 01000005 00001000 000000ff

Arguments are the dwords of one TLP, or files. Write ./NAME for a file whose name could be a dword. Without arguments \
standard input is read. Files have any format that riser trace reads; a note on standard error names the format of each file. \
docs/formats.md lists the formats.

For each TLP: the line of riser trace, the header fields, the meaning, and the rules that the header breaks. \
The fourth dword of a header log is not part of a header of three dwords; riser shows it as undefined. In flit-mode headers only \
fields with a known position have names; the other dwords are printed as numbers.

--json prints one object per TLP: the fields of riser trace --json, and
  dwords: the bytes of the TLP, as hexadecimal dwords
  fields: [{name, value, text}], in header order
  meaning: [sentence]
  broken: [{rule, section, side, field, found, expected, text}]
The exit status is 1 if a TLP could not be read. A TLP that breaks rules can be read.";

/// Explain TLPs: header fields, meaning, and the rules that they break
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// The dwords of one TLP, or files; - is standard input
    #[arg(value_name = "DWORD|FILE")]
    inputs: Vec<String>,

    #[command(flatten)]
    reading: Reading,

    /// Print one JSON object per TLP
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, models: &Models) -> Result<(), Failure> {
    let mut out = BufWriter::new(output::stream());
    let mut unread = 0;
    if !args.inputs.is_empty() && args.inputs.iter().all(|word| is_dwords(word)) {
        let text = args.inputs.join(" ");
        let reader = args.reading.hex(text.as_bytes())?;
        unread += explain_all(args, models, reader, "arguments", &mut out)?;
    } else {
        let standard = [String::from("-")];
        let files = if args.inputs.is_empty() { &standard[..] } else { &args.inputs };
        input::check(files.iter().map(Path::new))?;
        if let Some(at) = wrong_dword(files) {
            let word = &files[at];
            return Err(Failure::Run(format!("argument {} `{word}`: expected 8 hexadecimal digits", at + 1)));
        }
        if let Some(word) = files.iter().find(|word| is_nothing(word)) {
            let legal = "expected 8 hexadecimal digits of a TLP, or a file that exists";
            return Err(Failure::Run(format!("{word}: {legal}")));
        }
        for file in files.iter().map(PathBuf::from) {
            let reader = args.reading.open(&file)?;
            let name = input::name(&file).display().to_string();
            unread += explain_all(args, models, reader, &name, &mut out)?;
        }
    }
    out.flush()?;
    match unread {
        0 => Ok(()),
        1 => Err(Failure::Run("1 TLP or line could not be read".to_owned())),
        many => Err(Failure::Run(format!("{many} TLPs or lines could not be read"))),
    }
}

/// Returns the first argument that is not a dword, if another argument is a dword and not a file.
fn wrong_dword(words: &[String]) -> Option<usize> {
    let is_dword = |word: &String| is_dwords(word) && is_nothing(word);
    words.iter().any(is_dword).then(|| words.iter().position(|word| !is_dwords(word)))?
}

/// Returns true if an argument that is not a dword does not name a file either.
fn is_nothing(word: &str) -> bool {
    word != "-" && Path::new(word).try_exists().is_ok_and(|exists| !exists)
}

/// Returns true if an argument is one or more hexadecimal numbers, not the name of a file.
fn is_dwords(word: &str) -> bool {
    let is_one = |word: &str| match word.strip_prefix("0x") {
        Some(digits) => !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit()),
        None => {
            word.len() >= 8 && word.len().is_multiple_of(8) && word.bytes().all(|b| b.is_ascii_hexdigit())
        }
    };
    let mut words = word.split([' ', ',', ':']).filter(|word| !word.is_empty()).peekable();
    words.peek().is_some() && words.all(is_one)
}

/// Explains all TLPs of an input; returns how many could not be read.
fn explain_all<R: Read>(
    args: &Args,
    models: &Models,
    mut reader: Reader<R>,
    name: &str,
    out: &mut impl Write,
) -> Result<u64, Failure> {
    let mut view = Explanations::new(args.json, Names::new(models.registers()));
    let failed = |error| Failure::Run(format!("{name}: {error}"));
    while let Some(record) = reader.next_record().map_err(failed)? {
        view.see(&record, out)?;
    }
    if name != "arguments" || reader.has_guessed_byte_order() {
        reading::tell(&reader, name);
    }
    Ok(view.unread)
}
