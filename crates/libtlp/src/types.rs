// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The structures that C programs fill in, with the layout of `include/libtlp.h`; `types/tests.rs` checks it with a C
//! compiler. The library keeps no state in them, so programs may copy and discard them.

use nix::errno::Errno;
use std::ffi::{c_int, c_void};
use std::net::{Ipv4Addr, SocketAddrV4};
use tlp::{Bdf, Tag};

/// `DMA_ISSUED_BY_LIBTLP`: this program is the requester. This is the value after `memset` with 0.
pub(crate) const ISSUED_BY_LIBTLP: c_int = 0;
/// `DMA_ISSUED_BY_ADAPTER`: the adapter's host is the requester.
pub(crate) const ISSUED_BY_ADAPTER: c_int = 1;

/// `struct in_addr`: an IPv4 address in network byte order.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct InAddr {
    s_addr: u32,
}

impl InAddr {
    pub(crate) fn with_port(self, port: u16) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::from(self.s_addr.to_ne_bytes()), port)
    }
}

/// `struct nettlp`.
#[repr(C)]
pub(crate) struct Nettlp {
    pub(crate) remote_addr: InAddr,
    pub(crate) local_addr: InAddr,
    pub(crate) requester: u16,
    pub(crate) tag: u8,
    pub(crate) dir: c_int,
    pub(crate) sockfd: c_int,
    pub(crate) port: c_int,
}

impl Nettlp {
    pub(crate) fn requester(&self) -> Bdf {
        Bdf::from_bits(self.requester)
    }

    pub(crate) fn tag(&self) -> Tag {
        Tag::from_bits(u16::from(self.tag))
    }

    /// Returns true if only completions arrive on the socket of the context.
    pub(crate) fn is_own(&self) -> bool {
        self.dir == ISSUED_BY_LIBTLP
    }

    /// Returns the UDP port for the tag and direction of the context.
    pub(crate) fn port_of_tag(&self) -> Result<u16, Errno> {
        use capture::{Origin, PortScheme};
        let origin = match self.dir {
            ISSUED_BY_LIBTLP => Origin::Device,
            ISSUED_BY_ADAPTER => Origin::Host,
            _ => return Err(Errno::EINVAL),
        };
        Ok(PortScheme::Tagged.port(origin, self.tag()))
    }
}

/// `struct nettlp_msix`: 12 bytes, packed.
#[repr(C, packed)]
#[derive(Clone, Copy)]
pub(crate) struct Msix {
    pub(crate) address: u64,
    pub(crate) data: u32,
}

/// `struct nettlp_pcie_cfg`.
#[repr(C)]
pub(crate) struct PcieCfg {
    pub(crate) remote_addr: InAddr,
    pub(crate) local_addr: InAddr,
    pub(crate) sockfd: c_int,
    pub(crate) port: c_int,
}

pub(crate) type OnTlp = Option<unsafe extern "C" fn(*mut Nettlp, *mut c_void, *mut c_void) -> c_int>;
pub(crate) type OnData =
    Option<unsafe extern "C" fn(*mut Nettlp, *mut c_void, *mut c_void, usize, *mut c_void) -> c_int>;

/// `struct nettlp_cb`. Headers are passed as bytes; `start` and `end` are for the program's own use.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Callbacks {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) mrd: OnTlp,
    pub(crate) mwr: OnData,
    pub(crate) cpl: OnTlp,
    pub(crate) cpld: OnData,
    pub(crate) other: OnTlp,
}

#[cfg(test)]
mod tests;
