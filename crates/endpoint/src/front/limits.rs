// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The limits of an endpoint, and the errors of making one. Never changes once it is made.

use config::VfNumbering;
use thiserror::Error;
use tlp::{Duration, Rcb};

/// The limits of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndpointLimits {
    /// Memory read requests that a function may have outstanding, or all functions together (`tags_per`), 1 to 768; the tags
    /// that are enabled (32, 256 or 768) are a limit too.
    pub max_outstanding_reads: u16,
    /// Whose these tags are.
    pub tags_per: TagsPer,
    /// Completion timeout while Device Control 2 names the default range (50 us to 50 ms, `PCIe 5.0 §7.5.3.16`).
    pub completion_timeout: Duration,
    /// Non-posted requests of one Traffic Class that may be under way, 1 to 32768: taken by devices, and their last
    /// completion not yet sent. While there are more, the credits of further ones are withheld, so that at most these and
    /// the receive buffer wait.
    pub max_requests: u16,
    /// Where completions are cut. Endpoints have 128 B (`PCIe 5.0 §2.3.1.1`).
    pub rcb: Rcb,
    /// The longest DMA read, in bytes; longer ones fail.
    pub max_dma_len: u32,
    /// Cut reads at multiples of Max_Read_Request_Size, so that only the first and last are shorter; else each is as
    /// long as it may be from where the last one ended.
    pub align_reads: bool,
    /// Completions whose Traffic Class, No Snoop or Relaxed Ordering differ from those of their request are taken; else they are
    /// malformed, as `PCIe 5.0 §2.3.2` strongly recommends.
    pub lenient_completions: bool,
    /// MSI-X tables and Pending Bit Arrays are the device's own: accesses to them reach it as any others, and it writes its messages
    /// itself. Else the front has them.
    pub msix_in_device: bool,
}

impl Default for EndpointLimits {
    /// 256 reads of each function, 50 ms, 256 requests, 128 B, 16 MiB, not aligned, not lenient, MSI-X in the front.
    fn default() -> EndpointLimits {
        EndpointLimits {
            max_outstanding_reads: 256,
            tags_per: TagsPer::Function,
            completion_timeout: Duration::from_ms(50),
            max_requests: 256,
            rcb: Rcb::ENDPOINT,
            max_dma_len: 16 << 20,
            align_reads: false,
            lenient_completions: false,
            msix_in_device: false,
        }
    }
}

/// Whose the tags are by which requests are told apart (`PCIe 5.0 §2.2.6.2`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TagsPer {
    /// Each function has its own: Requester ID and tag together name a request.
    #[default]
    Function,
    /// All functions, virtual ones among them, draw on one pool: no two requests under way have the same tag, as behind hard
    /// blocks where the tag alone says whose a completion is. A function uses those of the pool that software has enabled for it.
    Endpoint,
}

/// Why an endpoint cannot be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum EndpointError {
    /// There are no functions, or too many; how many.
    #[error("{0} functions: legal are 1 to 256")]
    Functions(usize),
    /// More functions than a device has without Alternative Routing-ID Interpretation.
    #[error("{0} functions without the ARI capability: legal are 1 to 8")]
    Ari(usize),
    /// This function is to have virtual functions, but has no SR-IOV capability.
    #[error("function {0} has virtual functions: its configuration space has to have the SR-IOV capability")]
    NoSriov(u16),
    /// The virtual functions of all functions are too many.
    #[error("{0} virtual functions: legal are 1 to 4096")]
    VirtualFunctions(u16),
    /// A virtual function would have the ID of another function.
    #[error(
        "virtual function {index} of function {physical}: First VF Offset {} and VF Stride {} give it the ID of another \
         function: legal are those that give each its own",
        numbering.first_offset, numbering.stride
    )]
    Numbering {
        /// The physical function.
        physical: u16,
        /// The first virtual function whose ID is taken, counted from zero.
        index: u16,
        /// The numbering that gives it this ID.
        numbering: VfNumbering,
    },
    /// [`EndpointLimits::max_outstanding_reads`] is not legal.
    #[error("max_outstanding_reads {0}: legal are 1 to 768")]
    OutstandingReads(u16),
    /// [`EndpointLimits::max_requests`] is not legal.
    #[error("max_requests {0}: legal are 1 to 32768")]
    Requests(u16),
    /// [`EndpointLimits::max_dma_len`] is not legal.
    #[error("max_dma_len {0}: legal are 1 B to 1 GiB")]
    DmaLen(u32),
    /// [`EndpointLimits::completion_timeout`] is not legal.
    #[error("completion_timeout {0}: legal are 50 us (50000 ns) to 50 ms (50000000 ns)")]
    CompletionTimeout(Duration),
}

impl EndpointLimits {
    pub(crate) fn check(&self) -> Result<(), EndpointError> {
        if !(1..=768).contains(&self.max_outstanding_reads) {
            return Err(EndpointError::OutstandingReads(self.max_outstanding_reads));
        }
        if !(1..=32768).contains(&self.max_requests) {
            return Err(EndpointError::Requests(self.max_requests));
        }
        if !(1..=1 << 30).contains(&self.max_dma_len) {
            return Err(EndpointError::DmaLen(self.max_dma_len));
        }
        if !(Duration::from_us(50)..=Duration::from_ms(50)).contains(&self.completion_timeout) {
            return Err(EndpointError::CompletionTimeout(self.completion_timeout));
        }
        Ok(())
    }
}
