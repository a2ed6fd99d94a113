// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Descriptions of devices as TOML files. This module does no I/O: the caller passes the text.

use super::{Description, Kind, Length, Side, Transaction};
use crate::Addressing;
use serde::Deserialize;
use std::ops::Range;
use toml::Spanned;

/// Most transactions of a description.
const MAX_TRANSACTIONS: usize = 1000;

/// Most bytes of a transaction, if given as a number: 1 MiB.
const MAX_BYTES: i64 = 1 << 20;

/// Largest `count` and `per`.
const MAX_PACKETS: i64 = 1 << 20;

/// Bytes of an interrupt: a message is one DW (`PCIe 5.0 §6.1.4`).
const INTERRUPT_BYTES: u32 = 4;

/// Fault in a description.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct DescriptionError {
    /// Byte range of the fault in the text, if it has one.
    pub span: Option<Range<usize>>,
    /// The fault, and the text that was expected.
    pub message: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "version")]
    _version: Version,
    #[serde(rename = "kind")]
    _kind: FileKind,
    description: String,
    transactions: Spanned<Vec<Spanned<Entry>>>,
}

/// Reason why a value is invalid.
#[derive(Debug, thiserror::Error)]
enum ValueError {
    #[error("version {0}: expected 1")]
    Version(i64),
    #[error("{n}: expected {min} to {max}")]
    Number { n: i64, min: i64, max: i64 },
    #[error("addr_bits of {0}: expected 32 or 64")]
    AddrBits(i64),
    #[error("bytes = {0}: expected 1 to {MAX_BYTES}, or \"packet\"")]
    Length(toml::Value),
}

#[derive(Deserialize)]
#[serde(try_from = "i64")]
struct Version;

impl TryFrom<i64> for Version {
    type Error = ValueError;

    fn try_from(version: i64) -> Result<Version, ValueError> {
        if version == 1 { Ok(Version) } else { Err(ValueError::Version(version)) }
    }
}

#[derive(Deserialize)]
enum FileKind {
    #[serde(rename = "packet-device")]
    PacketDevice,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    what: String,
    direction: SideName,
    kind: Spanned<KindName>,
    bytes: Option<Spanned<LengthValue>>,
    #[serde(default)]
    offset_bytes: Number<0, 4095>,
    addr_bits: Option<AddrBits>,
    #[serde(default)]
    count: Number<1, MAX_PACKETS>,
    per: Number<1, MAX_PACKETS>,
    #[serde(default = "no")]
    published_omits_header: Spanned<bool>,
    source: String,
}

fn no() -> Spanned<bool> {
    Spanned::new(0..0, false)
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SideName {
    Tx,
    Rx,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum KindName {
    DmaRead,
    DmaWrite,
    MmioRead,
    MmioWrite,
    Interrupt,
}

/// An integer within limits.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "i64")]
struct Number<const MIN: i64, const MAX: i64>(u32);

impl<const MIN: i64, const MAX: i64> Default for Number<MIN, MAX> {
    fn default() -> Self {
        Number(u32::try_from(MIN).unwrap_or(0))
    }
}

impl<const MIN: i64, const MAX: i64> TryFrom<i64> for Number<MIN, MAX> {
    type Error = ValueError;

    fn try_from(n: i64) -> Result<Self, ValueError> {
        let inside = u32::try_from(n).ok().filter(|_| (MIN..=MAX).contains(&n));
        inside.map(Number).ok_or(ValueError::Number { n, min: MIN, max: MAX })
    }
}

/// 32 or 64.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "i64")]
struct AddrBits(Addressing);

impl TryFrom<i64> for AddrBits {
    type Error = ValueError;

    fn try_from(bits: i64) -> Result<AddrBits, ValueError> {
        match bits {
            32 => Ok(AddrBits(Addressing::A32)),
            64 => Ok(AddrBits(Addressing::A64)),
            _ => Err(ValueError::AddrBits(bits)),
        }
    }
}

/// Bytes, or the word `packet`.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "toml::Value")]
struct LengthValue(Length);

impl TryFrom<toml::Value> for LengthValue {
    type Error = ValueError;

    fn try_from(value: toml::Value) -> Result<LengthValue, ValueError> {
        let number = value.as_integer().filter(|n| (1..=MAX_BYTES).contains(n));
        match (number.and_then(|n| u32::try_from(n).ok()), value.as_str()) {
            (Some(bytes), _) => Ok(LengthValue(Length::Bytes(bytes))),
            (_, Some("packet")) => Ok(LengthValue(Length::Packet)),
            _ => Err(ValueError::Length(value)),
        }
    }
}

pub(super) fn parse(text: &str) -> Result<Description, DescriptionError> {
    let file: File = toml::from_str(text)
        .map_err(|e| DescriptionError { span: e.span(), message: e.message().trim().replace('\n', ": ") })?;
    let count = file.transactions.get_ref().len();
    if !(1..=MAX_TRANSACTIONS).contains(&count) {
        let message = format!("{count} transactions: expected 1 to {MAX_TRANSACTIONS}");
        return Err(DescriptionError { span: Some(file.transactions.span()), message });
    }
    let transactions = file.transactions.into_inner().into_iter().map(transaction);
    Ok(Description { description: file.description, transactions: transactions.collect::<Result<_, _>>()? })
}

fn transaction(entry: Spanned<Entry>) -> Result<Transaction, DescriptionError> {
    let span = entry.span();
    let entry = entry.into_inner();
    let kind = kind(*entry.kind.get_ref());
    if *entry.published_omits_header.get_ref() && kind != Kind::DmaRead {
        let message = "published_omits_header = true: expected only with kind \"dma_read\"".to_owned();
        return Err(DescriptionError { span: Some(entry.published_omits_header.span()), message });
    }
    Ok(Transaction {
        what: entry.what,
        side: match entry.direction {
            SideName::Tx => Side::Tx,
            SideName::Rx => Side::Rx,
        },
        kind,
        length: length(kind, entry.bytes, span)?,
        offset_bytes: entry.offset_bytes.0,
        addressing: entry.addr_bits.map(|bits| bits.0),
        count: entry.count.0,
        per: entry.per.0,
        published_omits_header: *entry.published_omits_header.get_ref(),
        source: entry.source,
    })
}

const fn kind(name: KindName) -> Kind {
    match name {
        KindName::DmaRead => Kind::DmaRead,
        KindName::DmaWrite => Kind::DmaWrite,
        KindName::MmioRead => Kind::MmioRead,
        KindName::MmioWrite => Kind::MmioWrite,
        KindName::Interrupt => Kind::Interrupt,
    }
}

/// Returns the length. Interrupts have only one possible length, which may be omitted; all other transactions need a
/// length.
fn length(
    kind: Kind,
    given: Option<Spanned<LengthValue>>,
    entry: Range<usize>,
) -> Result<Length, DescriptionError> {
    let length = given.as_ref().map(|g| g.get_ref().0);
    match (kind, length) {
        (Kind::Interrupt, None) => Ok(Length::Bytes(INTERRUPT_BYTES)),
        (Kind::Interrupt, Some(length)) if length != Length::Bytes(INTERRUPT_BYTES) => {
            let message = format!("bytes of an interrupt: expected {INTERRUPT_BYTES} or no key `bytes`");
            Err(DescriptionError { span: given.map(|g| g.span()), message })
        }
        (_, Some(length)) => Ok(length),
        (_, None) => {
            let message = format!("missing field `bytes`: expected 1 to {MAX_BYTES}, or \"packet\"");
            Err(DescriptionError { span: Some(entry), message })
        }
    }
}
