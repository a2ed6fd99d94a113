// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames as bytes, as they cross between a data link layer and the physical layer: for data link layers that are not
//! riser's. Framing symbols and tokens are not part of them. Never panics on foreign bytes.
//!
//! ```text
//!        +----------------------+-----------------------------+---------------+
//! TLP    | 4 bits 0, 12 bits of | prefixes, header, data and  | LCRC, 4 bytes |
//!        | sequence number      | digest                      |               |
//!        +----------------------+-----------------------------+---------------+
//!        +-----------------------------+-----------------+
//! DLLP   | contents, 4 bytes           | CRC, 2 bytes    |
//!        +-----------------------------+-----------------+
//! ```

use crate::frame::{Frame, LCRC_BYTES, SEQUENCE_BYTES};
use thiserror::Error;
use tlp::{Dllp, DllpError, Header, ParseError, PayloadPool, Tlp, crc};

/// Bytes of the shortest TLP: a header of three DW.
const SHORTEST_TLP: usize = 12;
/// Bytes of the longest TLP: eight prefixes, a header of four DW, 1024 DW of data and a digest.
const LONGEST_TLP: usize = 8 * 4 + 16 + 4096 + 4;
/// First sequence number that does not exist.
const SEQUENCES: u16 = 1 << 12;

/// The two kinds of frames, which their first symbol or token distinguishes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WireKind {
    /// A TLP: STP.
    Tlp,
    /// A DLLP: SDP.
    Dllp,
}

/// How a frame ends, as the physical layer signals it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ending {
    /// END.
    #[default]
    Good,
    /// EDB: its sender has nullified the TLP, and inverted its LCRC (`PCIe 5.0 §3.6.2.1`).
    Nullified,
    /// The framing is broken: a Receiver Error (`PCIe 5.0 §4.2.1.4`, §4.2.2.3.3).
    Broken,
}

/// A frame as bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WireFrame {
    /// The kind of frame.
    pub kind: WireKind,
    /// Its bytes, in their order on the wire.
    pub bytes: Vec<u8>,
    /// How it ends.
    pub ending: Ending,
}

/// What a receiver makes of a frame that is readable at least in part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Integrity {
    /// The frame is as [`Frame::write`] makes it.
    Good,
    /// Its CRC is wrong, or a TLP ends with EDB and its LCRC is not inverted.
    BadCrc,
    /// A nullified TLP, to be dropped.
    Nullified,
    /// Its framing is broken.
    Broken,
    /// The LCRC is right, but the TLP is not as long as its header says. These are the header's DWs, as in the Header
    /// Log; the frame has a TLP of that length.
    Malformed([u32; 4]),
}

/// Reason why bytes are not a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum FrameError {
    /// A TLP frame of a length that no frame has.
    #[error("TLP frame of {0} bytes; expected {min} to {max}, with a TLP of whole DWs", min = SEQUENCE_BYTES + SHORTEST_TLP + LCRC_BYTES, max = SEQUENCE_BYTES + LONGEST_TLP + LCRC_BYTES)]
    Length(usize),
    /// The four bits before the sequence number are not zero.
    #[error("reserved bits {0:#x} before the sequence number; expected 0")]
    Reserved(u8),
    /// The LCRC is wrong.
    #[error("LCRC {found:#010x}; expected {computed:#010x}")]
    Lcrc {
        /// The LCRC of the frame.
        found: u32,
        /// The LCRC of its bytes.
        computed: u32,
    },
    /// The LCRC is right, but the bytes form no TLP.
    #[error("no TLP: {0}")]
    Tlp(ParseError),
    /// The bytes form no DLLP.
    #[error("{0}")]
    Dllp(DllpError),
}

/// The parts of a TLP frame.
struct TlpParts<'a> {
    reserved: u8,
    sequence: u16,
    tlp: &'a [u8],
    lcrc: u32,
}

impl TlpParts<'_> {
    fn of(bytes: &[u8]) -> Result<TlpParts<'_>, FrameError> {
        let length = FrameError::Length(bytes.len());
        let (head, rest) = bytes.split_first_chunk::<SEQUENCE_BYTES>().ok_or(length)?;
        let (tlp, lcrc) = rest.split_last_chunk::<LCRC_BYTES>().ok_or(length)?;
        if !(SHORTEST_TLP..=LONGEST_TLP).contains(&tlp.len()) || !tlp.len().is_multiple_of(4) {
            return Err(length);
        }
        let field = u16::from_be_bytes(*head);
        let (reserved, sequence) = ((field / SEQUENCES) as u8, field % SEQUENCES);
        Ok(TlpParts { reserved, sequence, tlp, lcrc: u32::from_be_bytes(*lcrc) })
    }

    /// The LCRC of its bytes.
    fn computed(&self) -> u32 {
        crc::lcrc(self.sequence, self.tlp)
    }
}

/// The bytes of a frame with the TLP `tlp`, which may be any bytes.
pub fn tlp_frame(sequence: u16, tlp: &[u8]) -> Vec<u8> {
    let sequence = sequence % SEQUENCES;
    let mut bytes = Vec::with_capacity(SEQUENCE_BYTES + tlp.len() + LCRC_BYTES);
    bytes.extend_from_slice(&sequence.to_be_bytes());
    bytes.extend_from_slice(tlp);
    bytes.extend_from_slice(&crc::lcrc(sequence, tlp).to_be_bytes());
    bytes
}

impl Frame<&Tlp> {
    /// Returns the bytes of the frame. Counted data is zeros.
    pub fn write(self) -> Vec<u8> {
        match self {
            Frame::Tlp { sequence, tlp } => {
                let mut bytes = vec![0; tlp.wire_len()];
                tlp.emit(&mut bytes);
                tlp_frame(sequence, &bytes)
            }
            Frame::Dllp(dllp) => dllp.emit().to_vec(),
        }
    }

    /// The kind of frame.
    pub fn wire_kind(self) -> WireKind {
        match self {
            Frame::Tlp { .. } => WireKind::Tlp,
            Frame::Dllp(_) => WireKind::Dllp,
        }
    }
}

impl Frame {
    /// Reads a frame, with data copied into `pool`. A TLP that breaks a rule of its form is one with
    /// [`Flaw::Malformed`](tlp::Flaw::Malformed). Reserved bits of the TLP and of the DLLP are not looked at.
    ///
    /// # Errors
    /// [`FrameError`], if a receiver would not accept the frame.
    pub fn read(kind: WireKind, bytes: &[u8], pool: &PayloadPool) -> Result<Frame, FrameError> {
        if kind == WireKind::Dllp {
            return Dllp::parse(bytes).map(Frame::Dllp).map_err(FrameError::Dllp);
        }
        let parts = TlpParts::of(bytes)?;
        if parts.reserved != 0 {
            return Err(FrameError::Reserved(parts.reserved));
        }
        let (found, computed) = (parts.lcrc, parts.computed());
        if found != computed {
            return Err(FrameError::Lcrc { found, computed });
        }
        let tlp = read_tlp(parts.tlp, pool).map_err(FrameError::Tlp)?;
        Ok(Frame::Tlp { sequence: parts.sequence, tlp })
    }
}

impl WireFrame {
    /// The frame, as its sender writes it.
    pub fn of(frame: Frame<&Tlp>) -> WireFrame {
        WireFrame { kind: frame.wire_kind(), bytes: frame.write(), ending: Ending::Good }
    }

    /// A DLLP.
    pub fn dllp(dllp: Dllp) -> WireFrame {
        WireFrame { kind: WireKind::Dllp, bytes: dllp.emit().to_vec(), ending: Ending::Good }
    }

    /// Bytes on the wire, framing included.
    pub fn wire_bytes(&self) -> u32 {
        // Sequence numbers share the symbols of framing at 128b/130b, and there are two symbols more at 8b/10b.
        self.bytes.len() as u32 + 2
    }

    /// Returns the frame as a receiver sees it, which may be less than its sender meant: a DLLP with a wrong CRC and
    /// an unknown type counts as NOP.
    ///
    /// # Errors
    /// [`FrameError`], if the bytes cannot be shown as a frame: a wrong length, an unknown type of DLLP, or a TLP whose
    /// type and length are not known.
    pub fn decode(&self, pool: &PayloadPool) -> Result<(Frame, Integrity), FrameError> {
        match self.kind {
            WireKind::Tlp => self.decode_tlp(pool),
            WireKind::Dllp => self.decode_dllp(),
        }
    }

    fn decode_tlp(&self, pool: &PayloadPool) -> Result<(Frame, Integrity), FrameError> {
        let parts = TlpParts::of(&self.bytes)?;
        let right = parts.computed();
        let (tlp, header) = nearest_tlp(parts.tlp, pool).map_err(FrameError::Tlp)?;
        let integrity = match self.ending {
            Ending::Broken => Integrity::Broken,
            Ending::Nullified if parts.lcrc == !right => Integrity::Nullified,
            Ending::Good if parts.reserved == 0 && parts.lcrc == right => {
                header.map_or(Integrity::Good, Integrity::Malformed)
            }
            _ => Integrity::BadCrc,
        };
        Ok((Frame::Tlp { sequence: parts.sequence, tlp }, integrity))
    }

    fn decode_dllp(&self) -> Result<(Frame, Integrity), FrameError> {
        let (dllp, right) = match Dllp::parse(&self.bytes) {
            Ok(dllp) => (dllp, true),
            Err(DllpError::Crc { .. }) => (self.contents(), false),
            Err(error) => return Err(FrameError::Dllp(error)),
        };
        let integrity = match self.ending {
            Ending::Good if right => Integrity::Good,
            Ending::Good => Integrity::BadCrc,
            Ending::Nullified | Ending::Broken => Integrity::Broken,
        };
        Ok((Frame::Dllp(dllp), integrity))
    }

    /// The DLLP of the first four bytes, whatever the CRC.
    fn contents(&self) -> Dllp {
        let mut bytes = self.bytes.clone();
        if let Some(first) = bytes.first_chunk::<4>() {
            let crc = crc::dllp(*first);
            bytes[4..].copy_from_slice(&crc.to_be_bytes());
        }
        Dllp::parse(&bytes).unwrap_or(Dllp::Nop)
    }
}

/// The TLP of these bytes, malformed if it breaks a rule.
fn read_tlp(bytes: &[u8], pool: &PayloadPool) -> Result<Tlp, ParseError> {
    Tlp::parse(bytes, pool).or_else(|error| Tlp::of_malformed(bytes, pool).ok_or(error))
}

/// The TLP of these bytes. If they are not as many as the header says, the TLP of that length, and the header's DWs.
fn nearest_tlp(bytes: &[u8], pool: &PayloadPool) -> Result<(Tlp, Option<[u32; 4]>), ParseError> {
    let error = match read_tlp(bytes, pool) {
        Ok(tlp) => return Ok((tlp, None)),
        Err(error) => error,
    };
    let header = Header::new(bytes).map_err(|_| error)?;
    let prefixes = header.prefix_bytes().len();
    let mut fitted = bytes[prefixes..].to_vec();
    fitted.resize(header.tlp_len() - prefixes, 0);
    let tlp = read_tlp(&fitted, pool)?;
    Ok((tlp, Some(crate::notice::header_words(header.bytes()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tlp(bytes: &[u8]) -> WireFrame {
        WireFrame { kind: WireKind::Tlp, bytes: tlp_frame(5, bytes), ending: Ending::Good }
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    fn integrity(frame: &WireFrame) -> Result<Integrity, FrameError> {
        frame.decode(&PayloadPool::new()).map(|(_, integrity)| integrity)
    }

    /// A write of one DW, with rows of what its sender does wrong.
    #[test]
    fn decodes_wrong_tlp_frames() {
        let write = words(&[0x4000_0001, 0x0100_000f, 0x0000_1000, 0x1234_5678]);
        let good = tlp(&write);
        assert_eq!(integrity(&good), Ok(Integrity::Good));
        let nullified = {
            let mut frame = WireFrame { ending: Ending::Nullified, ..good.clone() };
            frame.bytes[18..].iter_mut().for_each(|byte| *byte = !*byte);
            frame
        };
        assert_eq!(integrity(&nullified), Ok(Integrity::Nullified));
        // The LCRC is not inverted; it is inverted, and the TLP ends with END.
        for (bytes, ending) in [(&good.bytes, Ending::Nullified), (&nullified.bytes, Ending::Good)] {
            let frame = WireFrame { bytes: bytes.clone(), ending, ..good.clone() };
            assert_eq!(integrity(&frame), Ok(Integrity::BadCrc));
        }
        assert_eq!(integrity(&WireFrame { ending: Ending::Broken, ..good.clone() }), Ok(Integrity::Broken));
        let mut reserved = good.clone();
        reserved.bytes[0] |= 0x80;
        assert_eq!(integrity(&reserved), Ok(Integrity::BadCrc));
        let read = Frame::read(WireKind::Tlp, &reserved.bytes, &PayloadPool::new());
        assert_eq!(read, Err(FrameError::Reserved(8)));
        // One DW too many, and one too few.
        let mut long = write.clone();
        long.extend([0; 4]);
        let header = [0x4000_0001, 0x0100_000f, 0x0000_1000, 0];
        assert_eq!(integrity(&tlp(&long)), Ok(Integrity::Malformed(header)));
        assert_eq!(integrity(&tlp(&write[..12])), Ok(Integrity::Malformed(header)));
        for length in [0, 4, 11, 13, LONGEST_TLP + 4] {
            let bytes = vec![0; length];
            assert_eq!(integrity(&tlp(&bytes)), Err(FrameError::Length(length + 6)));
        }
        assert!(matches!(integrity(&tlp(&[0xff; 16])), Err(FrameError::Tlp(_))));
    }

    #[test]
    fn decodes_wrong_dllps() {
        let dllp = |bytes: &[u8], ending| WireFrame { kind: WireKind::Dllp, bytes: bytes.to_vec(), ending };
        let ack = Dllp::Ack { sequence: 7 };
        let mut bytes = ack.emit();
        let pool = PayloadPool::new();
        let decoded = |bytes: &[u8], ending| dllp(bytes, ending).decode(&pool);
        assert_eq!(decoded(&bytes, Ending::Good), Ok((Frame::Dllp(ack), Integrity::Good)));
        assert_eq!(decoded(&bytes, Ending::Nullified), Ok((Frame::Dllp(ack), Integrity::Broken)));
        bytes[5] ^= 1;
        assert_eq!(decoded(&bytes, Ending::Good), Ok((Frame::Dllp(ack), Integrity::BadCrc)));
        bytes[0] = 0xff;
        assert_eq!(decoded(&bytes, Ending::Good), Ok((Frame::Dllp(Dllp::Nop), Integrity::BadCrc)));
        let [high, low] = crc::dllp([0xff, 0, 0, 7]).to_be_bytes();
        let unknown = DllpError::UnknownType(0xff);
        assert_eq!(decoded(&[0xff, 0, 0, 7, high, low], Ending::Good), Err(FrameError::Dllp(unknown)));
        assert_eq!(decoded(&bytes[..5], Ending::Good), Err(FrameError::Dllp(DllpError::Length(5))));
    }
}
