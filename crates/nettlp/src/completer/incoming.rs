// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses a peer's bytes as a TLP, and corrects known mistakes of upstream's software. Corrects only the mistakes
//! in the table below.
//!
//! Malformed TLPs of LibTLP, and their interpretation:
//!
//! | sent | interpreted as |
//! |---|---|
//! | a write of 1 or 2 bytes with 3 bytes of data | a write of the last bytes: padding comes first, in whichever lanes the bytes are |
//! | another write of one DW with 1 to 3 bytes of data | a write of the enabled bytes that are present. If the number of bytes equals the number of enabled bytes, a write of all these bytes |
//! | Length 1024 with the bit above the field set, which is Address Type 01b | Length 1024, untranslated |
//! | a request across a 4 KiB boundary, without a hole there | two requests, the second in [`Incoming::rest`] |

use tlp::wire::{Header, Part, field};
use tlp::{
    AddressType, Bdf, Body, FormatId, MemoryOp, MemoryRequest, ParseError, Parsed, Prefixes, Repr, RuleId,
    Span, Violation, crc,
};

/// A complete TLP: legal, or corrected.
#[derive(Clone, Debug)]
pub struct Incoming<'a> {
    /// Its header.
    pub repr: Repr,
    /// Its TLP prefixes.
    pub prefixes: Prefixes,
    /// Its data: [`Repr::data_dw`] whole DWs, big endian as on the wire.
    pub data: &'a [u8],
    /// The part after the 4 KiB boundary that the request crosses, with the data of a write; `repr` ends at the boundary.
    pub rest: Option<(Span, &'a [u8])>,
    /// True if the TLP was malformed and has been corrected.
    pub is_mended: bool,
    /// True if the TLP has a wrong digest.
    pub is_digest_wrong: bool,
}

impl<'a> Incoming<'a> {
    /// Parses the TLP in `bytes`; `scratch` holds the data of a write that arrived incomplete.
    ///
    /// # Errors
    /// If the TLP is malformed, except for upstream's known mistakes.
    pub fn parse(bytes: &'a [u8], scratch: &'a mut [u8; 4]) -> Result<Incoming<'a>, ParseError> {
        match Repr::parse(bytes) {
            Ok(parsed) => Ok(Incoming::legal(parsed, bytes)),
            Err(error) => Incoming::mended(bytes, scratch, error),
        }
    }

    /// Extends the header of a read by `behind_bytes` after the 4 KiB boundary at which `header`, without prefixes, ends. This is the inverse of the split in
    /// [`parse`](Self::parse).
    ///
    /// # Panics
    /// If `header` is shorter than two DW.
    pub fn join_at_4k(header: &mut [u8], behind_bytes: u32) {
        let length = (field::LENGTH.get(header) + behind_bytes.div_ceil(4)) & field::LENGTH.mask();
        header[2] = header[2] & !0x3 | (length >> 8) as u8;
        header[3] = length as u8;
        // Last DW Byte Enables, above First DW Byte Enables: the lanes up to the last byte.
        header[7] = header[7] & 0xf | (0xf >> (behind_bytes.wrapping_neg() & 3)) << 4;
    }

    /// Returns the second of the two requests into which a write across a 4 KiB boundary is split; `None` for reads.
    pub fn second_write(&self) -> Option<(Repr, &'a [u8])> {
        let (Body::Memory(m), Some((span, data))) = (&self.repr.body, self.rest) else { return None };
        let body = Body::Memory(MemoryRequest { span, ..*m });
        (m.op == MemoryOp::Write).then_some((Repr { body, ..self.repr }, data))
    }

    fn legal(parsed: Parsed, bytes: &'a [u8]) -> Incoming<'a> {
        let is_digest_wrong = parsed.ecrc_fits(bytes) == Some(false);
        let Parsed { mut repr, prefixes, data, .. } = parsed;
        let is_mended = is_long_untranslated(&repr);
        if is_mended {
            repr.at = AddressType::Untranslated;
        }
        Incoming { repr, prefixes, data: &bytes[data], rest: None, is_mended, is_digest_wrong }
    }

    #[cold]
    fn mended(
        bytes: &'a [u8],
        scratch: &'a mut [u8; 4],
        error: ParseError,
    ) -> Result<Incoming<'a>, ParseError> {
        let mended = match error {
            ParseError::Truncated { part: Part::Data, .. } => short_write(bytes, scratch),
            ParseError::Malformed(m) if m.rule == RuleId::Crosses4K => cut_at_4k(bytes),
            _ => None,
        };
        mended.ok_or(error)
    }
}

/// Returns why a TLP parsed by [`Incoming::parse`] must be dropped: it is malformed, or its digest is wrong.
pub fn reason_to_drop(tlp: &[u8], incoming: &Result<Incoming<'_>, ParseError>) -> Option<Violation> {
    match incoming {
        Ok(incoming) if incoming.is_digest_wrong => wrong_digest(tlp),
        Ok(_) => None,
        Err(error) => Some(error.on_a_link()),
    }
}

#[cold]
fn wrong_digest(tlp: &[u8]) -> Option<Violation> {
    let (before, digest) = tlp.split_last_chunk()?;
    Some(Violation::expecting(RuleId::Ecrc, u32::from_be_bytes(*digest).into(), crc::ecrc(before).into()))
}

/// Returns true for an apparent translation request of 4 KiB. No peer sends such a request, so the bit belongs to
/// Length.
fn is_long_untranslated(repr: &Repr) -> bool {
    let Body::Memory(m) = &repr.body else { return false };
    repr.at == AddressType::TranslationRequest && m.span.length_dw() == 1024
}

fn short_write<'a>(bytes: &'a [u8], scratch: &'a mut [u8; 4]) -> Option<Incoming<'a>> {
    let Parsed { mut repr, prefixes, data, digest, .. } = Repr::parse_header(bytes).ok()?;
    let came = bytes.get(data.start..).filter(|came| !came.is_empty())?;
    let Body::Memory(m) = &mut repr.body else { return None };
    if m.op != MemoryOp::Write || m.span.length_dw() != 1 || digest.is_some() {
        return None;
    }
    let came = &came[padding_of_short_write(m.span, came.len())..];
    let is_packed = m.span.is_contiguous() && m.span.byte_count() as usize == came.len();
    let lead = if is_packed { m.span.lead() as usize } else { 0 };
    *scratch = [0; 4];
    scratch[lead..lead + came.len()].copy_from_slice(came);
    let lanes = (0xf >> (4 - came.len())) << lead;
    m.span = Span::in_dw(m.span.address(), m.span.first_be() & lanes);
    Some(Incoming { repr, prefixes, data: scratch, rest: None, is_mended: true, is_digest_wrong: false })
}

/// Returns the number of padding bytes before the data of a one-DW write of which only `came` payload bytes
/// arrived. Upstream's LibTLP writes one padding byte for each of the first three lanes that is not enabled. So
/// with First DW BE 0001b, 0010b and 0011b the payload has three bytes. The data is last, and its position does not
/// depend on the lanes.
pub fn padding_of_short_write(span: Span, came: usize) -> usize {
    let bytes = span.byte_count() as usize;
    let is_padded = came == 3 && span.is_contiguous() && !span.is_zero_length();
    if is_padded { came.saturating_sub(bytes) } else { 0 }
}

fn cut_at_4k(bytes: &[u8]) -> Option<Incoming<'_>> {
    let header = Header::new(bytes).ok()?;
    let op = match header.format().id {
        FormatId::MRd32 | FormatId::MRd64 => MemoryOp::Read,
        FormatId::MWr32 | FormatId::MWr64 => MemoryOp::Write,
        _ => return None,
    };
    let plain = header.prefix_bytes().is_empty() && !header.td() && !header.th();
    if !plain || bytes.len() != header.tlp_len() {
        return None;
    }
    let (first, rest) = cut_span(&header)?;
    let data = &bytes[header.bytes().len()..];
    let (data, rest_data) = data.split_at(data.len().min(first.length_dw() as usize * 4));
    let requester = Bdf::from_bits(header.get(field::REQUESTER) as u16);
    let body = MemoryRequest { op, requester, tag: header.tag(field::TAG), span: first };
    let mut repr = Repr::new(Body::Memory(body));
    (repr.tc, repr.attr, repr.ep) = (header.tc(), header.attr(), header.ep());
    let (prefixes, rest) = (Prefixes::NONE, Some((rest, rest_data)));
    Some(Incoming { repr, prefixes, data, rest, is_mended: true, is_digest_wrong: false })
}

/// Returns the spans before and after the boundary. Returns `None` if the byte enables are illegal too. The bytes
/// at the boundary are always enabled (`PCIe 5.0 §2.2.5`), so both spans together are contiguous.
fn cut_span(header: &Header<'_>) -> Option<(Span, Span)> {
    let (address, first_be) = (header.address(), header.get(field::FIRST_BE) as u8);
    let last_be = header.get(field::LAST_BE) as u8;
    let first_dw = ((4096 - address % 4096) / 4) as u32;
    let rest_dw = header.length_dw().checked_sub(first_dw)?;
    let first = Span::from_fields(address, first_dw, first_be, if first_dw == 1 { 0 } else { 0xf });
    let (rest_first, rest_last) = if rest_dw == 1 { (last_be, 0) } else { (0xf, last_be) };
    let rest =
        Span::from_fields(address.checked_add(u64::from(first_dw) * 4)?, rest_dw, rest_first, rest_last);
    let (first, rest) = first.ok().zip(rest.ok())?;
    let is_one_run = first.is_contiguous() && first.trail() == 0 && rest.is_contiguous() && rest.lead() == 0;
    is_one_run.then_some((first, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mended(bytes: &[u8]) -> Option<(Span, Vec<u8>)> {
        let mut scratch = [0xee; 4];
        let incoming = Incoming::parse(bytes, &mut scratch).ok()?;
        assert!(incoming.is_mended);
        let Body::Memory(m) = incoming.repr.body else { panic!("{:?}", incoming.repr) };
        assert_eq!(incoming.data.len(), incoming.repr.data_dw() as usize * 4);
        Some((m.span, incoming.data.to_vec()))
    }

    // Returns an MWr of one DW at 0x1000 from 1a:00.0, with these byte enables and this data.
    fn write(first_be: u8, data: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x40, 0, 0, 1, 0x1a, 0, 0, first_be, 0, 0, 0x10, 0];
        bytes.extend(data);
        bytes
    }

    #[test]
    fn incomplete_write_writes_the_received_bytes() {
        for (first_be, data, lanes, at) in [
            // Three bytes, as LibTLP sends for one or two bytes: the data is last, in whichever lanes it is.
            (0b0001, &[0, 0, 0xa][..], 0b0001, [0xa, 0, 0, 0]),
            (0b0010, &[0, 0, 0xa], 0b0010, [0, 0xa, 0, 0]),
            (0b0011, &[0, 0xa, 0xb], 0b0011, [0xa, 0xb, 0, 0]),
            (0b0100, &[0, 0, 0xa], 0b0100, [0, 0, 0xa, 0]),
            (0b0110, &[0, 0xa, 0xb], 0b0110, [0, 0xa, 0xb, 0]),
            // With three or four enabled bytes each byte is in its lane.
            (0b1101, &[1, 2, 3], 0b0101, [1, 2, 3, 0]),
            (0b1111, &[1, 2, 3], 0b0111, [1, 2, 3, 0]),
            // As many bytes as are enabled: they are the enabled bytes.
            (0b1000, &[0xa], 0b1000, [0, 0, 0, 0xa]),
            (0b0110, &[0xa, 0xb], 0b0110, [0, 0xa, 0xb, 0]),
            (0b1110, &[1, 2, 3], 0b1110, [0, 1, 2, 3]),
            // Data with holes is never packed.
            (0b0101, &[1, 2], 0b0001, [1, 2, 0, 0]),
        ] {
            let (span, data) = mended(&write(first_be, data)).unwrap();
            assert_eq!((span, &data[..]), (Span::in_dw(0x1000, lanes), &at[..]), "{first_be:#06b}");
        }
        let mut scratch = [0; 4];
        assert!(Incoming::parse(&write(0xf, &[]), &mut scratch).is_err(), "no data at all");
        let two_dw = [0x40, 0, 0, 2, 0x1a, 0, 0, 0xff, 0, 0, 0x10, 0, 1, 2, 3, 4, 5, 6, 7];
        assert!(Incoming::parse(&two_dw, &mut scratch).is_err(), "the second of two DWs is incomplete");
    }

    // Length 1024 as 0x400: Length 0 with Address Type 01b.
    #[test]
    fn length_of_1024_in_address_type_is_corrected() {
        let mrd = [0x00, 0, 0x04, 0, 0x1a, 0, 3, 0xff, 0, 0, 0x10, 0];
        let mut scratch = [0; 4];
        let incoming = Incoming::parse(&mrd, &mut scratch).unwrap();
        let Body::Memory(m) = incoming.repr.body else { panic!("no memory request") };
        assert_eq!((incoming.repr.at, m.span.length_dw()), (AddressType::Untranslated, 1024));
        // A translation request of two DWs is not changed.
        let ats = [0x00, 0, 0x04, 2, 0x1a, 0, 3, 0xff, 0, 0, 0x10, 0];
        let incoming = Incoming::parse(&ats, &mut scratch).unwrap();
        assert_eq!((incoming.repr.at, incoming.is_mended), (AddressType::TranslationRequest, false));
    }

    /// Byte enables that are illegal for a request of two DWs that is not QW-aligned: holes at the boundary, or no
    /// byte enabled on one side (`PCIe 5.0 §2.2.5`). The ends of such a request do not tell which bytes it writes.
    #[test]
    fn rejects_request_across_4_kib_with_a_hole_there() {
        for (enables, is_taken) in [
            (0x1f, true),
            (0xf8, true),
            (0x40, false),
            (0x04, false),
            (0x4f, false),
            (0xf4, false),
            (0x81, false),
        ] {
            let write = [0x40, 0, 0, 2, 0x1a, 0, 0, enables, 0, 0, 0x1f, 0xfc, 1, 2, 3, 4, 5, 6, 7, 8];
            assert_eq!(Incoming::parse(&write, &mut [0; 4]).is_ok(), is_taken, "{enables:#04x}");
        }
    }

    #[test]
    fn request_across_4_kib_becomes_two() {
        let write = [0x40, 0, 0, 2, 0x1a, 0, 0, 0x3c, 0, 0, 0x1f, 0xfc, 1, 2, 3, 4, 5, 6, 7, 8];
        let mut scratch = [0; 4];
        let incoming = Incoming::parse(&write, &mut scratch).unwrap();
        let Body::Memory(m) = incoming.repr.body else { panic!("no memory request") };
        assert_eq!((m.span, incoming.data), (Span::in_dw(0x1ffc, 0xc), &[1, 2, 3, 4][..]));
        assert_eq!(incoming.rest, Some((Span::in_dw(0x2000, 0x3), &[5, 6, 7, 8][..])));
        let read = [0x20, 0, 0, 8, 0x1a, 0, 9, 0xff, 0, 0, 0, 1, 0, 0, 0x1f, 0xf0];
        let incoming = Incoming::parse(&read, &mut scratch).unwrap();
        let rest = Span::from_fields(0x1_0000_2000, 4, 0xf, 0xf).unwrap();
        assert_eq!((incoming.rest, incoming.repr.data_dw()), (Some((rest, &[][..])), 0));
        // Rows: Length, byte enables, address. Splitting and joining restores the header.
        for (length, enables, address) in
            [(2, 0x3c, 0x1ffc), (0, 0xff, 0x1ffc), (0x3ff, 0x18, 0x1008), (9, 0x7f, 0x1ff0)]
        {
            let mut read =
                [0, 0, 0, length as u8, 0x1a, 0, 9, enables, 0, 0, (address >> 8) as u8, address as u8];
            read[2] = (length >> 8) as u8;
            let incoming = Incoming::parse(&read, &mut scratch).unwrap();
            let mut joined = [0; 12];
            incoming.repr.emit(&mut joined);
            Incoming::join_at_4k(&mut joined, incoming.rest.unwrap().0.byte_count());
            assert_eq!(joined, read);
        }
        // At the end of the address space nothing follows.
        let end = [0x20, 0, 0, 2, 0x1a, 0, 9, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfc];
        assert!(Incoming::parse(&end, &mut scratch).is_err());
    }
}
