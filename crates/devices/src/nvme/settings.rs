// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An NVMe controller as a lab names it. Plain data; never runs anything.

use plug::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tlp::Duration;

/// I/O queue pairs of a controller at most.
pub(super) const MAX_QUEUE_PAIRS: u16 = 64;
/// Bytes of a namespace in memory of which nothing else is said.
pub(super) const DEFAULT_BYTES: u64 = 64 << 20;

/// An NVMe controller (NVMe 1.4). Virtual functions are controllers of the same
/// subsystem, each with queues of its own, of a fixed number, and all namespaces.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Its namespaces, from number 1 on.
    #[schemars(length(min = 1, max = 16))]
    pub namespaces: Vec<NamespaceSettings>,
    /// Virtual functions.
    #[schemars(range(min = 0, max = 64))]
    pub vfs: u16,
    /// I/O queue pairs of the controller, each with an interrupt vector.
    #[schemars(range(min = 1, max = 64))]
    pub queue_pairs: u16,
    /// I/O queue pairs of each virtual function.
    #[schemars(range(min = 1, max = 64))]
    pub vf_queue_pairs: u16,
    /// What was written is lost with the power where it was not flushed.
    pub volatile_write_cache: bool,
    /// How long the media take.
    pub media: Media,
    /// What the driver on the simulated host does.
    pub job: Job,
}

/// What the driver on the simulated host does with namespace 1 of each function: commands at random places, as many under way as it may.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Job {
    /// Read, or write.
    pub kind: Kind,
    /// Whether what was written is read and compared when all has ended.
    pub verify: bool,
    /// Commands of each queue pair.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub commands: u32,
    /// Bytes of each command.
    #[schemars(range(min = 512, max = 131_072), extend("powerOfTwo" = true))]
    pub command_bytes: u32,
    /// Commands of a queue pair that are under way at most.
    #[schemars(range(min = 1, max = 1023))]
    pub queue_depth: u16,
    /// Queue pairs of each function, as far as it has them.
    #[schemars(range(min = 1, max = 64))]
    pub queues: u16,
}

/// What commands do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Read.
    #[default]
    Read,
    /// Write.
    Write,
}

impl Default for Job {
    fn default() -> Job {
        Job {
            kind: Kind::Read,
            verify: true,
            commands: 1000,
            command_bytes: 4096,
            queue_depth: 32,
            queues: 1,
        }
    }
}

/// A namespace: zeros in memory, or a file.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NamespaceSettings {
    /// Its bytes: a multiple of 4096. Without it all of the file, or 64 MiB.
    #[schemars(range(min = 4096, max = 1_099_511_627_776_u64), extend("multipleOf" = 4096))]
    pub size_bytes: Option<u64>,
    /// The file that has its bytes, and keeps what is written: a path relative to the lab file. It must be there, and be long enough.
    pub file: Option<String>,
    /// Bytes of a block, until it is formatted otherwise.
    pub block: Block,
}

/// Bytes of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub enum Block {
    /// 512 B.
    #[default]
    #[serde(rename = "512")]
    B512,
    /// 4096 B.
    #[serde(rename = "4096")]
    B4096,
}

impl Block {
    /// The LBA formats, in their order: log2 of the bytes of a block.
    pub(super) const SHIFTS: [u8; 2] = [9, 12];

    pub(super) fn bytes(self) -> u32 {
        match self {
            Block::B512 => 512,
            Block::B4096 => 4096,
        }
    }
}

/// How long media take, by a data sheet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Media {
    /// No time at all: what is seen is the link, and the host.
    #[default]
    Ideal,
    /// Intel Optane SSD DC P4800X, 375 GB (Intel's product brief, 2017): reads at 2400 MB/s, writes at 2000 MB/s, and less than 10 us as
    /// the host sees it, of which 2 us are the link's and the host's.
    OptaneP4800x,
}

/// What the media cost: a latency for each command, and a rate that all share.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Timing {
    pub(super) read_latency: Duration,
    pub(super) write_latency: Duration,
    /// 0: no limit.
    pub(super) read_bytes_per_second: u64,
    pub(super) write_bytes_per_second: u64,
}

impl Media {
    pub(super) fn timing(self) -> Timing {
        match self {
            Media::Ideal => Timing::default(),
            Media::OptaneP4800x => Timing {
                read_latency: Duration::from_us(8),
                write_latency: Duration::from_us(8),
                read_bytes_per_second: 2_400_000_000,
                write_bytes_per_second: 2_000_000_000,
            },
        }
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            namespaces: vec![NamespaceSettings::default()],
            vfs: 0,
            queue_pairs: 8,
            vf_queue_pairs: 2,
            volatile_write_cache: false,
            media: Media::Ideal,
            job: Job::default(),
        }
    }
}

impl Settings {
    /// I/O queue pairs of a function.
    pub(super) fn pairs_of(&self, function: u16) -> u16 {
        if function == 0 { self.queue_pairs } else { self.vf_queue_pairs }
    }

    /// What no single setting says.
    pub(super) fn check_whole(&self) -> Result<(), Fault> {
        let block = self.namespaces.first().map_or(0, |namespace| namespace.block.bytes());
        if self.job.command_bytes < block {
            return Err(Fault::at("job", format!("commands of less than a block, which has {block} bytes")));
        }
        Ok(())
    }
}
