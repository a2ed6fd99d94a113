// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tap interfaces of this machine as network interfaces of NICs.

use crate::Failure;
use devices::ethernet::NetInterface;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

/// A tap interface, which is created if it does not exist.
pub(crate) struct Tap(SyncDevice);

impl Tap {
    pub(crate) fn open(name: &str) -> Result<Tap, Failure> {
        let failed = |e: io::Error| {
            let hint = match e.kind() {
                ErrorKind::PermissionDenied => "; creating one requires root or CAP_NET_ADMIN",
                _ => "",
            };
            Failure::Run(format!("tap interface {name}: {e}{hint}"))
        };
        let tap = DeviceBuilder::new().name(name).layer(Layer::L2).build_sync().map_err(failed)?;
        tap.set_nonblocking(true).map_err(failed)?;
        Ok(Tap(tap))
    }
}

impl NetInterface for Tap {
    fn receive(&self, frame: &mut [u8]) -> io::Result<usize> {
        self.0.recv(frame)
    }

    fn send(&self, frame: &[u8]) -> io::Result<()> {
        self.0.send(frame).map(drop)
    }

    fn readable(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
