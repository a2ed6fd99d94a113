// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes frames with arbitrary bytes.

use riser_capture::Direction;
use riser_capture::encap::{Addresses, HEADER_LEN, NETTLP_LEN, NettlpHeader, PORT_SESSION, emit_header};
use std::time::Duration;

/// Writes frames with arbitrary payload to a pcap file with nanoseconds. Frames are a microsecond apart.
pub(crate) struct FrameWriter {
    inner: pcap_file::pcap::PcapWriter<Vec<u8>>,
    count: u32,
}

impl FrameWriter {
    pub(crate) fn new() -> FrameWriter {
        let header = pcap_file::pcap::PcapHeader {
            ts_resolution: pcap_file::TsResolution::NanoSecond,
            ..Default::default()
        };
        FrameWriter { inner: pcap_file::pcap::PcapWriter::with_header(Vec::new(), header).unwrap(), count: 0 }
    }

    /// Writes a datagram to `port` with a NetTLP header and `payload`, and captures at most `captured` bytes of both.
    pub(crate) fn write(&mut self, direction: Direction, port: u16, payload: &[u8], captured: usize) {
        let mut header = [0; HEADER_LEN];
        let nettlp = NettlpHeader { sequence: self.count as u16, timestamp: self.count * 156 };
        emit_header(&mut header, &Addresses::of_link(0, direction), port, nettlp, payload.len());
        let mut frame = [&header, payload].concat();
        let original_len = frame.len();
        frame.truncate(captured.saturating_add(HEADER_LEN - NETTLP_LEN));
        self.put(&frame, original_len);
    }

    /// Writes a datagram of a session with this 48-bit number, and captures at most `captured` bytes. The client's
    /// port is 50000.
    pub(crate) fn write_session(&mut self, to_adapter: bool, number: u64, rest: &[u8], captured: usize) {
        let direction = if to_adapter { Direction::Upstream } else { Direction::Downstream };
        let mut header = [0; HEADER_LEN];
        let nettlp = NettlpHeader { sequence: number as u16, timestamp: (number >> 16) as u32 };
        emit_header(&mut header, &Addresses::of_link(0, direction), PORT_SESSION, nettlp, rest.len());
        // The frame has the UDP source port at byte 34 and the destination port at byte 36.
        let client = if to_adapter { 34 } else { 36 };
        header[client..client + 2].copy_from_slice(&50_000_u16.to_be_bytes());
        let mut frame = [&header, rest].concat();
        let original_len = frame.len();
        frame.truncate(captured.saturating_add(HEADER_LEN - NETTLP_LEN));
        self.put(&frame, original_len);
    }

    /// Writes a datagram to `port` with only `payload`.
    pub(crate) fn write_bare(&mut self, port: u16, payload: &[u8]) {
        let mut header = [0; HEADER_LEN];
        let addresses = Addresses::of_link(0, Direction::Upstream);
        emit_header(&mut header, &addresses, port, NettlpHeader::default(), 0);
        // Removes the NetTLP header from the total length of IPv4 at byte 16 and the length of UDP at byte 38.
        // Checksums are not checked.
        header[16..18].copy_from_slice(&(28 + payload.len() as u16).to_be_bytes());
        header[38..40].copy_from_slice(&(8 + payload.len() as u16).to_be_bytes());
        let frame = [&header[..HEADER_LEN - NETTLP_LEN], payload].concat();
        self.put(&frame, frame.len());
    }

    fn put(&mut self, frame: &[u8], original_len: usize) {
        self.count += 1;
        let time = Duration::from_nanos(1_600_000_000_000_000_000 + u64::from(self.count) * 1_003);
        let packet = pcap_file::pcap::PcapPacket::new(time, original_len as u32, frame);
        self.inner.write_packet(&packet).unwrap();
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.inner.into_writer()
    }
}
