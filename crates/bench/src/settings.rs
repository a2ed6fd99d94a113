// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings of a measurement, as the columns of a file of results.

use crate::BenchError;
use crate::configurations::Iommu;
use crate::plan::Plan;
use devices::pcie_bench::{CacheState, CardPath};
use lab::schema::{self, BufferPages};
use plug::MemoryKind;
use plug::transfers::{self, Test};
use serde::Serialize;
use tlp::{Class, Mrrs};

/// Settings of a measurement, except test, size and warm-up.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct MeasurementSettings {
    /// Host profile, or the server's name.
    pub host: String,
    /// The host's IOMMU.
    pub iommu: Iommu,
    /// Pages of the host's buffers.
    pub buffer_pages: BufferPages,
    /// Device profile, or the card's name.
    pub device: String,
    /// Generation of the link.
    #[serde(rename = "gen")]
    pub generation: u8,
    /// Its lanes.
    pub lanes: u8,
    /// Max_Payload_Size in bytes.
    pub mps_bytes: u32,
    /// Max_Read_Request_Size in bytes.
    pub mrrs_bytes: u32,
    /// Read Completion Boundary in bytes.
    pub rcb_bytes: u32,
    /// Credits for posted headers that the root port advertises; 0 is infinite, as on the wire.
    pub posted_header_credits: u16,
    /// Credits for posted data, in units of 16 B.
    pub posted_data_credits: u16,
    /// Credits for non-posted headers.
    pub non_posted_header_credits: u16,
    /// Credits for non-posted data, in units of 16 B.
    pub non_posted_data_credits: u16,
    /// Address width of requests, in bits.
    pub addr_bits: u8,
    /// Outstanding transfers.
    pub outstanding: u16,
    /// Counted transfers.
    pub transfers: u64,
    /// Seed of the addresses.
    pub seed: u64,
    /// The interface of the card.
    pub path: CardPath,
    /// State of the caches at the start.
    pub cache: CacheState,
    /// Order of the units in the window.
    pub pattern: transfers::Pattern,
    /// Offset of a transfer from a cache line of the host, in bytes.
    pub host_offset_bytes: u32,
    /// Offset from a cache line in the card's memory, in bytes.
    pub device_offset_bytes: u32,
    /// Size of the window in bytes.
    pub window_bytes: u64,
}

impl Plan {
    /// Returns the settings of a row of `test`.
    ///
    /// # Errors
    /// A part of the workload that the model cannot do.
    pub fn settings(&self, test: Test, size: u32) -> Result<MeasurementSettings, BenchError> {
        let offer = self.offer(test, size, 0).map_err(|fault| fault.message)?;
        let link = lab::links::config(&self.link, &schema::Link::default());
        let [posted, non_posted] = [Class::Posted, Class::NonPosted].map(|c| link.root.rx_buffer[c.index()]);
        Ok(MeasurementSettings {
            host: self.host.clone(),
            iommu: self.iommu,
            buffer_pages: self.pages,
            device: offer.device,
            generation: link.root.rate.generation(),
            lanes: link.root.width.lanes(),
            mps_bytes: link.root.mps.bytes(),
            mrrs_bytes: self.link.mrrs_bytes.map_or_else(Mrrs::default, |m| m.0).bytes(),
            rcb_bytes: self.rcb()?.bytes(),
            // Zero is infinite, as on the wire.
            posted_header_credits: posted.header.unwrap_or(0),
            posted_data_credits: posted.data.unwrap_or(0),
            non_posted_header_credits: non_posted.header.unwrap_or(0),
            non_posted_data_credits: non_posted.data.unwrap_or(0),
            addr_bits: if offer.memory == MemoryKind::Low { 32 } else { 64 },
            outstanding: if test.is_latency() { 1 } else { offer.outstanding },
            transfers: if test.is_latency() { self.latency_transfers } else { self.bandwidth_transfers },
            seed: self.seed,
            path: CardPath::Dma,
            cache: offer.cache,
            pattern: offer.pattern,
            host_offset_bytes: offer.host_offset_bytes,
            device_offset_bytes: 0,
            window_bytes: offer.window_bytes,
        })
    }
}
