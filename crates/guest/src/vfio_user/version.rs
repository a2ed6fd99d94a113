// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Version and capabilities that client and server agree on first.

use super::refusal::VersionError;
use super::wire::u32_at;
use super::{MAX_FDS, Shape};
use serde::{Deserialize, Serialize};

/// The supported minor version; the major version is 0.
const MINOR: u16 = 1;
/// Transfer size in bytes of a peer that does not state one.
const DEFAULT_TRANSFER: u64 = 1 << 20;

/// Capabilities of the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Peer {
    /// Maximum number of bytes of a transfer.
    pub(super) max_transfer: u64,
}

#[derive(Default, Deserialize, Serialize)]
struct VersionData {
    #[serde(skip_serializing_if = "Option::is_none")]
    capabilities: Option<Capabilities>,
}

/// Known capabilities. The reply omits other capabilities, which declares them unsupported.
#[derive(Default, Deserialize, Serialize)]
struct Capabilities {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_msg_fds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_data_xfer_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pgsizes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_dma_maps: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    write_multiple: Option<bool>,
}

/// Result of the agreement, and payload of the reply.
pub(super) struct Agreed {
    pub(super) peer: Peer,
    pub(super) reply: Vec<u8>,
}

/// Handles a client's proposal.
pub(super) fn agree(shape: &Shape, payload: &[u8]) -> Result<Agreed, VersionError> {
    let both = u32_at(payload, 0).ok_or(VersionError::Length(payload.len()))?.to_ne_bytes();
    let (major, minor) = (u16::from_ne_bytes([both[0], both[1]]), u16::from_ne_bytes([both[2], both[3]]));
    if major != 0 {
        return Err(VersionError::Major(major));
    }
    let text = &payload[4..];
    let proposed = if text.is_empty() { VersionData::default() } else { read(text)? };
    let peer = Peer {
        max_transfer: proposed
            .capabilities
            .as_ref()
            .and_then(|theirs| theirs.max_data_xfer_size)
            .unwrap_or(DEFAULT_TRANSFER),
    };
    let mut reply = Vec::with_capacity(256);
    reply.extend_from_slice(&major.to_ne_bytes());
    reply.extend_from_slice(&minor.min(MINOR).to_ne_bytes());
    if !text.is_empty() {
        let ours = VersionData { capabilities: proposed.capabilities.map(|theirs| answer(shape, &theirs)) };
        // Numbers and booleans with fixed names: serialization cannot fail.
        reply.extend(serde_json::to_vec(&ours).unwrap_or_default());
        reply.push(0);
    }
    Ok(Agreed { peer, reply })
}

fn read(text: &[u8]) -> Result<VersionData, VersionError> {
    let (end, json) = text.split_last().ok_or(VersionError::Nul)?;
    if *end != 0 || json.contains(&0) {
        return Err(VersionError::Nul);
    }
    serde_json::from_slice(json).map_err(|error| VersionError::Json(error.to_string()))
}

/// Returns riser's capabilities that the client also has: a reply must not have others.
fn answer(shape: &Shape, theirs: &Capabilities) -> Capabilities {
    Capabilities {
        max_msg_fds: theirs.max_msg_fds.map(|_| MAX_FDS as u64),
        max_data_xfer_size: theirs.max_data_xfer_size.map(|_| u64::from(shape.max_transfer)),
        pgsizes: theirs.pgsizes.map(|_| super::PAGE_BYTES),
        max_dma_maps: theirs.max_dma_maps.map(|_| u64::from(shape.max_maps)),
        write_multiple: theirs.write_multiple,
    }
}
