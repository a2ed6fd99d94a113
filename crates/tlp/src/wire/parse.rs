// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads bytes as a [`Repr`], and writes it back.

use super::{Header, ParseError, Part, body, plain};
use crate::format::{Family, FormatId};
use crate::{AddressType, Attributes, Prefix, Prefixes, Repr, crc, rules};
use core::ops::Range;

/// A header read from bytes, and where its data lies in them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parsed {
    /// The header.
    pub repr: Repr,
    /// The prefixes before it.
    pub prefixes: Prefixes,
    /// Bytes of the header as it stood in the bytes: 12 or 16. Not always [`Repr::header_len`]: a memory request with
    /// an address below 4 GiB may come with four DW, and `repr` normalizes it to three.
    pub header_len: usize,
    /// The whole DWs of data, as a range of the bytes; empty if the format has none. After
    /// [`Repr::parse_header`] it may reach beyond them.
    pub data: Range<usize>,
    /// The digest, as a range of the bytes, where TD is set.
    pub digest: Option<Range<usize>>,
}

impl Parsed {
    /// Bytes of the whole TLP: prefixes, header, data and digest.
    pub fn tlp_len(&self) -> usize {
        self.digest.as_ref().map_or(self.data.end, |d| d.end)
    }

    /// Returns true if the digest fits the TLP `bytes`, from which `self` was parsed; `None` if it is absent or cut off.
    pub fn ecrc_fits(&self, bytes: &[u8]) -> Option<bool> {
        let digest = self.digest.clone()?;
        let computed = crc::ecrc(bytes.get(..digest.start)?);
        Some(*bytes.get(digest)? == computed.to_be_bytes())
    }
}

impl Repr {
    /// Reads a whole TLP: `bytes` holds header, data and digest, and nothing else. Never panics.
    ///
    /// # Errors
    /// As [`parse_header`](Self::parse_header); also [`ParseError::Truncated`] where data or digest are not complete,
    /// and [`ParseError::Malformed`] where the bytes go on behind them.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Parsed, ParseError> {
        match plain::parse_header(bytes) {
            Some(parsed) if parsed.data.end == bytes.len() => Ok(parsed),
            _ => Repr::parse_closely(bytes),
        }
    }

    /// Parses in the general way, which names what is wrong.
    fn parse_closely(bytes: &[u8]) -> Result<Parsed, ParseError> {
        let header = Header::new(bytes)?;
        let parsed = from_header(&header)?;
        let truncated = |part, needed| ParseError::Truncated { part, needed, have: bytes.len() };
        if bytes.len() < parsed.data.end {
            return Err(truncated(Part::Data, parsed.data.end));
        }
        if bytes.len() < parsed.tlp_len() {
            return Err(truncated(Part::Digest, parsed.tlp_len()));
        }
        rules::check_size(&header, bytes.len())?;
        Ok(parsed)
    }

    /// Reads the header alone: what follows it in `bytes` may be cut off, as by a capture's snap length, or go on.
    /// Never panics.
    ///
    /// # Errors
    /// [`ParseError::Truncated`] where the header is not complete, [`ParseError::UnknownType`], and
    /// [`ParseError::Malformed`] where a field breaks a rule of [`rules::RULES`].
    #[inline]
    pub fn parse_header(bytes: &[u8]) -> Result<Parsed, ParseError> {
        plain::parse_header(bytes).map_or_else(|| Repr::parse_header_closely(bytes), Ok)
    }

    /// Reads a header in the general way, which names what is wrong.
    pub(super) fn parse_header_closely(bytes: &[u8]) -> Result<Parsed, ParseError> {
        from_header(&Header::new(bytes)?)
    }

    /// Writes the header to the first [`header_len`](Self::header_len) bytes of `buf`, and returns their number.
    ///
    /// # Panics
    /// If `buf` is shorter; it cannot fail otherwise.
    pub fn emit(&self, buf: &mut [u8]) -> usize {
        let dws = body::emit(self);
        let [a, b, c, d] = dws.map(u32::to_be_bytes);
        let len = super::header_dw(dws[0]) * 4;
        for (out, dw) in buf[..12].chunks_exact_mut(4).zip([a, b, c]) {
            out.copy_from_slice(&dw);
        }
        if len == 16 {
            buf[12..16].copy_from_slice(&d);
        }
        len
    }
}

fn from_header(header: &Header<'_>) -> Result<Parsed, ParseError> {
    rules::check_header(header)?;
    let body = body::read(header)?;
    let (family, th) = (header.format().family, body::hint(header));
    let has_at = matches!(family, Family::Memory | Family::Atomic);
    let at = if has_at { header.at() } else { AddressType::Untranslated };
    let mut attr = header.attr();
    if matches!(family, Family::Config | Family::Io) {
        // Attr[2] is reserved there (`PCIe 5.0 §2.2.7`), so a receiver does not look at it.
        attr.remove(Attributes::ID_BASED_ORDERING);
    }
    let ln = header.ln() && may_have_ln(header.format().id);
    let repr = Repr { tc: header.tc(), attr, at, th, ln, td: header.td(), ep: header.ep(), body };
    let header_len = header.bytes().len();
    let start = header.prefix_bytes().len() + header_len;
    let data = start..start + header.data_dw() as usize * 4;
    let digest = header.td().then_some(data.end..data.end + 4);
    Ok(Parsed { repr, prefixes: prefixes(header), header_len, data, digest })
}

// LN reads, LN writes and LN completions (`PCIe 5.0 §6.21`); reserved in all others.
pub(crate) const fn may_have_ln(id: FormatId) -> bool {
    use FormatId::{Cpl, CplD, MRd32, MRd64, MWr32, MWr64};
    matches!(id, MRd32 | MRd64 | MWr32 | MWr64 | Cpl | CplD)
}

fn prefixes(header: &Header<'_>) -> Prefixes {
    let mut all = [Prefix::default(); Prefixes::MAX];
    let count = all.iter_mut().zip(header.prefixes()).map(|(to, from)| *to = from).count();
    // A header cannot have more of them.
    Prefixes::new(&all[..count]).unwrap_or_default()
}
