// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The limits of an endpoint, and the errors of making one.

use config::VfNumbering;
use thiserror::Error;
use tlp::{Duration, Rcb};

/// The limits of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndpointLimits {
    /// Maximum number of outstanding memory read requests of a function, or of all functions together (`tags_per`), 1
    /// to 768. The number of enabled tags (32, 256 or 768) is a limit too.
    pub max_outstanding_reads: u16,
    /// Whether each function has its own tags.
    pub tags_per: TagsPer,
    /// Completion timeout while Device Control 2 selects the default range (50 us to 50 ms, `PCIe 5.0 §7.5.3.16`).
    pub completion_timeout: Duration,
    /// Maximum number of outstanding non-posted requests of one Traffic Class, 1 to 32768. Outstanding requests were
    /// accepted by devices, and their last completion has not been sent. While there are more, the endpoint withholds
    /// the credits of further requests. So at most these requests and the content of the receive buffer wait.
    pub max_requests: u16,
    /// Boundary at which completions are split. Endpoints have 128 B (`PCIe 5.0 §2.3.1.1`).
    pub rcb: Rcb,
    /// Maximum length of a DMA read, in bytes; longer ones fail.
    pub max_dma_len: u32,
    /// Whether reads are split at multiples of Max_Read_Request_Size, so that only the first and last request are
    /// shorter. Otherwise each request starts at the end of the previous one and is as long as possible.
    pub align_reads: bool,
    /// Whether completions are accepted whose Traffic Class, No Snoop or Relaxed Ordering differ from those of their
    /// request. Otherwise they are malformed, as `PCIe 5.0 §2.3.2` strongly recommends.
    pub lenient_completions: bool,
    /// Whether the device implements its MSI-X tables and Pending Bit Arrays. If so, accesses to these structures reach
    /// the design like any others, and the design writes its messages itself. Otherwise the front implements them.
    pub msix_in_device: bool,
}

impl Default for EndpointLimits {
    /// Returns 256 reads of each function, 50 ms, 256 requests, 128 B, 16 MiB, not aligned, not lenient, MSI-X in the front.
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

/// Scope of the tags that distinguish requests (`PCIe 5.0 §2.2.6.2`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TagsPer {
    /// Each function has its own: Requester ID and tag together identify a request.
    #[default]
    Function,
    /// All functions, including virtual ones, share one pool: no two outstanding requests have the same tag. Hard
    /// blocks that identify a completion by its tag alone need this. A function uses the tags of the pool that software
    /// has enabled for it.
    Endpoint,
}

/// Error in making an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum EndpointError {
    /// There are no functions, or too many. Holds the number of functions.
    #[error("{0} functions; expected 1 to 256")]
    Functions(usize),
    /// More functions than a device has without Alternative Routing-ID Interpretation.
    #[error("{0} functions without the ARI capability; expected 1 to 8")]
    Ari(usize),
    /// This function is to have virtual functions, but has no SR-IOV capability.
    #[error("function {0} has virtual functions but no SR-IOV capability in its configuration space")]
    NoSriov(u16),
    /// The total number of virtual functions is out of range.
    #[error("{0} virtual functions; expected 1 to 4096")]
    VirtualFunctions(u16),
    /// A virtual function would have the ID of another function.
    #[error(
        "virtual function {index} of function {physical}: First VF Offset {} and VF Stride {} give it the ID of another \
         function; expected a unique ID for each",
        numbering.first_offset, numbering.stride
    )]
    Numbering {
        /// The physical function.
        physical: u16,
        /// The first virtual function whose ID is taken, counted from zero.
        index: u16,
        /// The numbering in which the virtual function has this ID.
        numbering: VfNumbering,
    },
    /// [`EndpointLimits::max_outstanding_reads`] is out of range.
    #[error("max_outstanding_reads {0}; expected 1 to 768")]
    OutstandingReads(u16),
    /// [`EndpointLimits::max_requests`] is out of range.
    #[error("max_requests {0}; expected 1 to 32768")]
    Requests(u16),
    /// [`EndpointLimits::max_dma_len`] is out of range.
    #[error("max_dma_len {0}; expected 1 B to 1 GiB")]
    DmaLen(u32),
    /// [`EndpointLimits::completion_timeout`] is out of range.
    #[error("completion_timeout {0}; expected 50 us (50000 ns) to 50 ms (50000000 ns)")]
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
