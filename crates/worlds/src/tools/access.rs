// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reports of a read and of a write of an adapter's memory, as JSON and as text.

use super::refusals;
use nettlp::client::{Client, WriteStep};
use nettlp::dropped::Dropped;
use nettlp::net::AnyCarrier;
use nettlp::requester::Counters;
use serde::{Serialize, Serializer};
use session::report::RefusalReport;
use std::fmt::{self, Display, Formatter, Write};
use std::net::IpAddr;

/// Report of a read.
#[derive(Serialize)]
pub struct ReadReport {
    remote: IpAddr,
    address: u64,
    length_bytes: u64,
    read_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Bytes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<String>,
    counters: Counters,
    /// Reasons why the requester refused completions or gave up requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<RefusalReport>,
    /// Datagrams that the sockets dropped, by reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drops: Vec<Dropped>,
}

/// Bytes as hexadecimal text.
struct Bytes(Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
    }
}

impl ReadReport {
    /// Returns the report of `read_bytes` of `length_bytes` from `address`. They are in `data`, or in the file `output`.
    pub fn new(
        remote: IpAddr,
        client: &Client<AnyCarrier>,
        (address, length_bytes, read_bytes): (u64, u64, u64),
        data: Vec<u8>,
        output: Option<String>,
    ) -> ReadReport {
        let data = output.is_none().then_some(Bytes(data));
        let (counters, refusals) = (*client.counters(), refusals(client.refusals()));
        let drops = client.carrier().drops().iter().copied().collect();
        ReadReport { remote, address, length_bytes, read_bytes, data, output, counters, refusals, drops }
    }
}

/// The data in lines of 16 bytes: address, hexadecimal digits, ASCII characters.
impl Display for ReadReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(dump(self.address, self.data.as_ref().map_or(&[], |data| &data.0)).trim_end())
    }
}

fn dump(address: u64, bytes: &[u8]) -> String {
    let mut text = String::new();
    for (line, bytes) in bytes.chunks(16).enumerate() {
        // Writing to a string cannot fail.
        let _ = write!(text, "{:08x} ", address + line as u64 * 16);
        for byte in bytes {
            let _ = write!(text, " {byte:02x}");
        }
        let gap = (16 - bytes.len()) * 3 + 2;
        let shown =
            |byte: &u8| if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '.' };
        let _ = writeln!(text, "{:gap$}{}", "", bytes.iter().map(shown).collect::<String>());
    }
    text
}

/// Report of a write.
#[derive(Serialize)]
pub struct WriteReport {
    remote: IpAddr,
    address: u64,
    length_bytes: usize,
    sent_bytes: u64,
    acknowledged: bool,
    verified: bool,
    counters: Counters,
    /// Reasons why the requester refused completions or gave up requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<RefusalReport>,
    /// Datagrams that the sockets dropped, by reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drops: Vec<Dropped>,
    #[serde(skip)]
    step: WriteStep,
}

impl WriteReport {
    /// Returns the report of a write of `length_bytes` at `address` that ended in `step`.
    pub fn new(
        remote: IpAddr,
        client: &Client<AnyCarrier>,
        (address, length_bytes): (u64, usize),
        step: WriteStep,
        verified: bool,
    ) -> WriteReport {
        WriteReport {
            remote,
            address,
            length_bytes,
            sent_bytes: client.counters().written_bytes,
            acknowledged: client.is_reliable() && step == WriteStep::ReadBack,
            verified,
            counters: *client.counters(),
            refusals: refusals(client.refusals()),
            drops: client.carrier().drops().iter().copied().collect(),
            step,
        }
    }

    /// Returns how far an interrupted write has come.
    pub fn progress(&self) -> String {
        let WriteReport { address, length_bytes: length, sent_bytes: sent, .. } = self;
        let rest = match self.step {
            _ if *sent < *length as u64 => "",
            WriteStep::Send => ", not all of them sent",
            WriteStep::Acknowledge => ", not all of them acknowledged",
            WriteStep::ReadBack => ", not all of them read back",
        };
        format!("{sent} of {length} bytes were sent, from {address:#x} on{rest}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dumps_addresses_bytes_and_characters() {
        let bytes: Vec<u8> = (0x3e..0x50).collect();
        let expected = "\
00001000  3e 3f 40 41 42 43 44 45 46 47 48 49 4a 4b 4c 4d  >?@ABCDEFGHIJKLM
00001010  4e 4f                                            NO
";
        assert_eq!(dump(0x1000, &bytes), expected);
    }
}
