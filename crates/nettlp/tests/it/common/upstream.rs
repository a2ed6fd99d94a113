// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A client that behaves like upstream's LibTLP, written from the wire format. Both ends bind and connect the same
//! UDP port. One request is outstanding, and the NetTLP header is zero. Like upstream, the client takes any
//! datagram within [`WAIT`] for the answer, and never compares tags.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

/// Timeout of an answer: four times upstream's, since tests run on busy machines.
pub(crate) const WAIT: Duration = Duration::from_secs(2);

/// LibTLP's `struct nettlp`: one tag, one socket.
pub(crate) struct Nettlp {
    socket: UdpSocket,
    requester: u16,
    tag: u8,
}

/// Reason why a call failed, with the details that upstream has.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    /// No datagram arrived in time.
    TimedOut,
    /// A completion without data.
    NoData(u8),
}

fn connected(local: IpAddr, remote: IpAddr, port: u16) -> UdpSocket {
    let socket = UdpSocket::bind(SocketAddr::new(local, port)).unwrap();
    socket.connect(SocketAddr::new(remote, port)).unwrap();
    socket.set_read_timeout(Some(WAIT)).unwrap();
    socket
}

impl Nettlp {
    /// Opens a client like `nettlp_init` of a device: port 0x3000 + tag on both ends, or the paper's 0x3000 + (tag & 0xf).
    pub(crate) fn init(local: IpAddr, remote: IpAddr, tag: u8, paper: bool) -> Nettlp {
        let port = 0x3000 + u16::from(if paper { tag & 0xf } else { tag });
        Nettlp { socket: connected(local, remote, port), requester: 0x1a00, tag }
    }

    /// Opens a client on any port: the simple NIC sends an interrupt from 0x4003.
    pub(crate) fn on_port(local: IpAddr, remote: IpAddr, tag: u8, port: u16) -> Nettlp {
        Nettlp { socket: connected(local, remote, port), requester: 0x1a00, tag }
    }

    fn header(&self, is_write: bool, address: u64, len: usize) -> Vec<u8> {
        let end = address + len as u64;
        let dw = (end.next_multiple_of(4) - (address & !3)) / 4;
        let first = 0xf_u8 << (address & 3) & 0xf;
        let last = 0xf_u8 >> ((4 - end % 4) % 4);
        let (first, last) = if dw == 1 { (first & last, 0) } else { (first, last) };
        // Like upstream, uses 3 DW of header below 2^32 - 1.
        let long = address >= u64::from(u32::MAX);
        let fmt = u8::from(long) << 5 | u8::from(is_write) << 6;
        // Like upstream, does not reduce Length to its ten bits. So 1024 DW set a bit of another field.
        let dw = (dw as u16).to_be_bytes();
        let requester = self.requester.to_be_bytes();
        let mut bytes = vec![0, 0, 0, 0, 0, 0];
        bytes.extend([fmt, 0, dw[0], dw[1], requester[0], requester[1], self.tag, last << 4 | first]);
        match long {
            true => bytes.extend((address & !3).to_be_bytes()),
            false => bytes.extend((address as u32 & !3).to_be_bytes()),
        }
        bytes
    }

    /// Reads like `dma_read`: concatenates the data of completions until all bytes have arrived.
    pub(crate) fn dma_read(&self, address: u64, out: &mut [u8]) -> Result<usize, Failed> {
        self.socket.send(&self.header(false, address, out.len())).unwrap();
        let mut got = 0;
        let mut bytes = [0; 8192];
        while got < out.len() {
            let len = self.socket.recv(&mut bytes).map_err(|_| Failed::TimedOut)?;
            assert!(len >= 18, "a completion has a NetTLP header and three DW");
            if bytes[6] != 0x4a {
                return Err(Failed::NoData(bytes[6 + 6] >> 5));
            }
            // Real hardware fills Byte Count and Lower Address. Upstream hardly uses them.
            let lead = usize::from(bytes[6 + 11] & 3);
            let data = &bytes[18 + lead..len];
            let take = data.len().min(out.len() - got);
            out[got..got + take].copy_from_slice(&data[..take]);
            got += take;
        }
        Ok(got)
    }

    /// Writes like `dma_write`: whole DWs, from the lane of the first byte. In a write within one DW, a byte of padding
    /// for each of the first three lanes that is not enabled comes before the data. So the payload of one or two
    /// bytes has three bytes.
    pub(crate) fn dma_write(&self, address: u64, data: &[u8]) -> usize {
        let mut bytes = self.header(true, address, data.len());
        let first_be = bytes[13];
        let header = if address >= u64::from(u32::MAX) { 22 } else { 18 };
        if first_be >> 4 == 0 && data.len() < 4 {
            bytes.extend(vec![0; (!first_be & 7).count_ones() as usize]);
            bytes.extend(data);
        } else {
            bytes.extend(vec![0; (address & 3) as usize]);
            bytes.extend(data);
            bytes.resize(header + (bytes.len() - header).next_multiple_of(4), 0);
        }
        self.socket.send(&bytes).unwrap();
        data.len()
    }

    /// Sends any bytes after a NetTLP header of zeroes.
    pub(crate) fn send_raw(&self, tlp: &[u8]) {
        self.socket.send(&[&[0; 6], tlp].concat()).unwrap();
    }

    /// Receives one complete datagram.
    pub(crate) fn receive_raw(&self) -> Option<Vec<u8>> {
        let mut bytes = [0; 8192];
        self.socket.recv(&mut bytes).ok().map(|len| bytes[..len].to_vec())
    }
}

/// Sends a messaging request from any port to 0x2fff, and returns the answer.
pub(crate) fn message(local: IpAddr, remote: IpAddr, request: u32) -> Option<Vec<u8>> {
    let socket = UdpSocket::bind(SocketAddr::new(local, 0)).unwrap();
    socket.set_read_timeout(Some(WAIT)).unwrap();
    socket.send_to(&request.to_le_bytes(), SocketAddr::new(remote, 0x2fff)).unwrap();
    let mut bytes = [0; 512];
    socket.recv_from(&mut bytes).ok().map(|(len, _)| bytes[..len].to_vec())
}

/// Configuration client: `port` on both ends, 0x4001 or 0x5001.
pub(crate) struct Config(UdpSocket);

impl Config {
    /// Opens a client like `nettlp_pcie_cfg_init`.
    pub(crate) fn init(local: IpAddr, remote: IpAddr, port: u16) -> Config {
        Config(connected(local, remote, port))
    }

    /// Reads one DW like `nettlp_pcie_cfg_read`.
    pub(crate) fn read(&self, dw: u16) -> u32 {
        self.0.send(&[0x3c | (dw >> 8) as u8, dw as u8, 0, 0, 0, 0]).unwrap();
        let mut reply = [0; 64];
        let len = self.0.recv(&mut reply).unwrap();
        assert!((6..=18).contains(&len), "{len} bytes");
        assert_eq!(reply[..2], [0x3c | (dw >> 8) as u8, dw as u8]);
        u32::from_be_bytes(reply[2..6].try_into().unwrap())
    }

    /// Writes bytes of one DW like `nettlp_pcie_cfg_write`; there is no answer.
    pub(crate) fn write(&self, dw: u16, byte_enables: u8, data: u32) {
        let mut bytes = vec![0x40 | byte_enables << 2 | (dw >> 8) as u8, dw as u8];
        bytes.extend(data.to_be_bytes());
        self.0.send(&bytes).unwrap();
    }
}
