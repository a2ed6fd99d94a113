// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Client side of vfio-user, written only from the protocol's text. The client shares no code with the server.
use riser_guest::vfio_user::Session;

/// A message on the wire.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Wire {
    pub(crate) id: u16,
    pub(crate) command: u16,
    pub(crate) flags: u32,
    pub(crate) error: u32,
    pub(crate) payload: Vec<u8>,
}

/// Encodes a command without flags.
pub(crate) fn command(id: u16, command: u16, payload: &[u8]) -> Vec<u8> {
    message(id, command, 0, payload)
}

pub(crate) fn message(id: u16, command: u16, flags: u32, payload: &[u8]) -> Vec<u8> {
    let size = 16 + payload.len() as u32;
    [&id.to_le_bytes()[..], &command.to_le_bytes(), &words(&[size, flags, 0]), payload].concat()
}

/// Encodes 32-bit fields.
pub(crate) fn words(fields: &[u32]) -> Vec<u8> {
    fields.iter().flat_map(|field| field.to_le_bytes()).collect()
}

/// Encodes 64-bit fields.
pub(crate) fn longs(fields: &[u64]) -> Vec<u8> {
    fields.iter().flat_map(|field| field.to_le_bytes()).collect()
}

/// The proposal of QEMU 11.
pub(crate) const QEMU: &str = r#"{"capabilities": {"migration": {"max_bitmap_size": 268435456, "pgsize": 4096}, "max_msg_fds": 16, "max_data_xfer_size": 1048576, "pgsizes": 4096, "max_dma_maps": 65535, "write_multiple": true}}"#;

pub(crate) fn version(id: u16, minor: u16, json: &str) -> Vec<u8> {
    let text = if json.is_empty() { Vec::new() } else { [json.as_bytes(), &[0]].concat() };
    command(id, 1, &[&[0, 0][..], &minor.to_le_bytes(), &text].concat())
}

/// Splits bytes into messages. Panics if the last message is incomplete.
pub(crate) fn cut(mut bytes: &[u8]) -> Vec<Wire> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let size = word(4) as usize;
        found.push(Wire {
            id: word(0) as u16,
            command: (word(0) >> 16) as u16,
            flags: word(8),
            error: word(12),
            payload: bytes[16..size].to_vec(),
        });
        bytes = &bytes[size..];
    }
    found
}

/// Returns all messages that a session has to send.
pub(crate) fn sent(session: &mut Session) -> Vec<Wire> {
    let mut all = Vec::new();
    loop {
        let count = session.outgoing().len();
        if count == 0 {
            return cut(&all);
        }
        all.extend_from_slice(session.outgoing());
        session.sent(count);
    }
}
