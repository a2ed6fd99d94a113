// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings of an NVMe controller in a lab. Plain data without behavior.

use plug::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tlp::Duration;

/// Maximum number of I/O queue pairs of a controller.
pub(super) const MAX_QUEUE_PAIRS: u16 = 64;
/// Default size of a namespace in memory.
pub(super) const DEFAULT_BYTES: u64 = 64 << 20;

/// An NVMe controller (NVMe 1.4). Virtual functions are controllers of the same subsystem. Each virtual function has a
/// fixed number of queues of its own, and all namespaces.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Its namespaces, starting with number 1.
    #[schemars(length(min = 1, max = 16))]
    pub namespaces: Vec<NamespaceSettings>,
    /// Number of virtual functions.
    #[schemars(range(min = 0, max = 64))]
    pub vfs: u16,
    /// I/O queue pairs of the controller, each with an interrupt vector.
    #[schemars(range(min = 1, max = 64))]
    pub queue_pairs: u16,
    /// I/O queue pairs of each virtual function.
    #[schemars(range(min = 1, max = 64))]
    pub vf_queue_pairs: u16,
    /// Whether writes that were not flushed are lost in a power failure.
    pub volatile_write_cache: bool,
    /// Timing of the media.
    pub media: Media,
    /// Job of the driver on the simulated host.
    pub job: Job,
}

/// Job of the driver on the simulated host, for namespace 1 of each function: commands at random places, with as many in flight as
/// allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Job {
    /// Read or write.
    pub kind: Kind,
    /// Whether to read and compare written data at the end.
    pub verify: bool,
    /// Number of commands per queue pair.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub commands: u32,
    /// Size of each command in bytes.
    #[schemars(range(min = 512, max = 131_072), extend("powerOfTwo" = true))]
    pub command_bytes: u32,
    /// Maximum number of commands in flight per queue pair.
    #[schemars(range(min = 1, max = 1023))]
    pub queue_depth: u16,
    /// Number of queue pairs per function, if it has that many.
    #[schemars(range(min = 1, max = 64))]
    pub queues: u16,
}

/// Operation of the commands.
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
    /// Its size in bytes, a multiple of 4096. The default is the size of the file, or 64 MiB.
    #[schemars(range(min = 4096, max = 1_099_511_627_776_u64), extend("multipleOf" = 4096))]
    pub size_bytes: Option<u64>,
    /// The file with the namespace's data, which stores writes. The path is relative to the lab file. The file must
    /// exist, and be long enough.
    pub file: Option<String>,
    /// Block size in bytes, until another format.
    pub block: Block,
}

/// Block size.
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
    /// The LBA formats in order, as log2 of the block size.
    pub(super) const SHIFTS: [u8; 2] = [9, 12];

    pub(super) fn bytes(self) -> u32 {
        match self {
            Block::B512 => 512,
            Block::B4096 => 4096,
        }
    }
}

/// Timing of the media, from a data sheet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Media {
    /// The media take no time, so only the link and the host cost time.
    #[default]
    Ideal,
    /// Intel Optane SSD DC P4800X, 375 GB (Intel's product brief, 2017): reads at 2400 MB/s, writes at 2000 MB/s, and less than 10 us as
    /// seen by the host. 2 us of that are for the link and the host.
    OptaneP4800x,
}

/// Timing of the media: a latency per command, and a bandwidth for all together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Timing {
    pub(super) read_latency: Duration,
    pub(super) write_latency: Duration,
    /// 0 for no limit.
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
    /// Number of I/O queue pairs of a function.
    pub(super) fn pairs_of(&self, function: u16) -> u16 {
        if function == 0 { self.queue_pairs } else { self.vf_queue_pairs }
    }

    /// Checks settings that depend on each other.
    pub(super) fn check_whole(&self) -> Result<(), Fault> {
        let block = self.namespaces.first().map_or(0, |namespace| namespace.block.bytes());
        if self.job.command_bytes < block {
            return Err(Fault::at(
                "job",
                format!("commands shorter than a block, expected at least {block} bytes"),
            ));
        }
        Ok(())
    }
}
