// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads bytes as a [`Repr`], and writes a [`Repr`] as bytes.

use super::{Header, ParseError, Part, body, plain};
use crate::format::{Family, FormatId};
use crate::{AddressType, Attributes, Prefix, Prefixes, Repr, crc, rules};
use core::ops::Range;

/// A header read from bytes, and the positions of the parts of its TLP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parsed {
    /// The header.
    pub repr: Repr,
    /// The prefixes before the header.
    pub prefixes: Prefixes,
    /// Length of the header in the bytes: 12 or 16. It can differ from [`Repr::header_len`]: a memory request with an
    /// address below 4 GiB may arrive with a header of 4 DW, which `repr` normalizes to 3 DW.
    pub header_len: usize,
    /// The range of the data in the bytes, in whole DWs; empty if the format has no data. After
    /// [`Repr::parse_header`], it may end after the end of the bytes.
    pub data: Range<usize>,
    /// The range of the digest in the bytes; `None` if TD is clear.
    pub digest: Option<Range<usize>>,
}

impl Parsed {
    /// Length of the TLP in bytes: prefixes, header, data and digest.
    pub fn tlp_len(&self) -> usize {
        self.digest.as_ref().map_or(self.data.end, |d| d.end)
    }

    /// Returns true if the digest matches the TLP `bytes`, which `self` was parsed from. `None` if there is no
    /// digest, or if it is cut off.
    pub fn ecrc_fits(&self, bytes: &[u8]) -> Option<bool> {
        let digest = self.digest.clone()?;
        let computed = crc::ecrc(bytes.get(..digest.start)?);
        Some(*bytes.get(digest)? == computed.to_be_bytes())
    }
}

impl Repr {
    /// Reads a complete TLP: `bytes` holds prefixes, header, data and digest, and ends there. Never panics.
    ///
    /// # Errors
    /// Those of [`parse_header`](Self::parse_header); also [`ParseError::Truncated`] if data or digest are
    /// incomplete, and [`ParseError::Malformed`] if there are more bytes after them.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Parsed, ParseError> {
        match plain::parse_header(bytes) {
            Some(parsed) if parsed.data.end == bytes.len() => Ok(parsed),
            _ => Repr::parse_closely(bytes),
        }
    }

    /// The slower, general parser, which reports errors.
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

    /// Reads only the header. The bytes after it may be cut off, for example by a capture's snap length, or continue.
    /// Never panics.
    ///
    /// # Errors
    /// - [`ParseError::Truncated`] if the header is incomplete.
    /// - [`ParseError::UnknownType`] if Fmt and Type are not defined.
    /// - [`ParseError::Malformed`] if a field breaks a rule of [`rules::RULES`].
    #[inline]
    pub fn parse_header(bytes: &[u8]) -> Result<Parsed, ParseError> {
        plain::parse_header(bytes).map_or_else(|| Repr::parse_header_closely(bytes), Ok)
    }

    /// The slower, general parser of headers, which reports errors.
    pub(super) fn parse_header_closely(bytes: &[u8]) -> Result<Parsed, ParseError> {
        from_header(&Header::new(bytes)?)
    }

    /// Writes the header to the first [`header_len`](Self::header_len) bytes of `buf`, and returns their number.
    ///
    /// # Panics
    /// If `buf` is shorter than that.
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
        // Attr[2] is reserved in these requests (`PCIe 5.0 §2.2.7`), so a receiver ignores it.
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

// Only LN reads, LN writes and LN completions may have LN (`PCIe 5.0 §6.21`). It is reserved in all others.
pub(crate) const fn may_have_ln(id: FormatId) -> bool {
    use FormatId::{Cpl, CplD, MRd32, MRd64, MWr32, MWr64};
    matches!(id, MRd32 | MRd64 | MWr32 | MWr64 | Cpl | CplD)
}

fn prefixes(header: &Header<'_>) -> Prefixes {
    let mut all = [Prefix::default(); Prefixes::MAX];
    let count = all.iter_mut().zip(header.prefixes()).map(|(to, from)| *to = from).count();
    // A header has at most `Prefixes::MAX` prefixes.
    Prefixes::new(&all[..count]).unwrap_or_default()
}
