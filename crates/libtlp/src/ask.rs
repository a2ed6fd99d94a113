// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messaging with the driver, and configuration space: small requests with one answer each. Never sends a request
//! again, except to find out which configuration port the adapter uses.

use crate::socket;
use crate::types::{InAddr, PcieCfg};
use capture::encap::{PORT_CONFIG, PORT_CONFIG_OLD, PORT_MESSAGING};
use nettlp::wire::config::{ConfigMessage, PADDED_LEN};
use nettlp::wire::messaging::{REPLY_MAX, Reply, Request};
use nix::errno::Errno;
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::time::{Duration, Instant};

/// `LIBTLP_CFG_TIMEOUT`: timeout of a configuration read.
const CONFIG_TIMEOUT: Duration = Duration::from_millis(1000);
/// Size of configuration space in bytes.
const CONFIG_SPACE: usize = 4096;
/// Maximum number of late answers that are dropped before a request is sent.
const DROP_MAX: usize = 64;

/// Asks the driver at `address`.
pub(crate) fn message(address: InAddr, request: Request) -> Result<Reply, Errno> {
    let timeout = crate::dma::TIMEOUT;
    let fd = socket::open(None, address.with_port(PORT_MESSAGING), timeout)?;
    socket::send_whole(fd.as_raw_fd(), &request.of_physical().emit())?;
    // One byte more than the longest answer, to detect a longer one.
    let mut buffer = [0; REPLY_MAX + 1];
    let len = socket::receive_by(fd.as_raw_fd(), &mut buffer, Instant::now() + timeout, false)?;
    let answer = buffer.get(..len).ok_or(Errno::EBADMSG)?;
    Reply::parse(request, answer).map_err(|_| Errno::EBADMSG)
}

/// Opens the socket, on the port of current adapters.
pub(crate) fn init(cfg: &mut PcieCfg) -> Result<(), Errno> {
    cfg.sockfd = open(cfg, PORT_CONFIG)?;
    // The port is not known yet: `ensure_port` finds it.
    cfg.port = 0;
    Ok(())
}

fn open(cfg: &PcieCfg, port: u16) -> Result<RawFd, Errno> {
    let (local, remote) = (cfg.local_addr.with_port(port), cfg.remote_addr.with_port(port));
    Ok(socket::open(Some(local), remote, CONFIG_TIMEOUT)?.into_raw_fd())
}

/// Finds out on which port the adapter answers. Does nothing if the port is already known.
fn ensure_port(cfg: &mut PcieCfg) -> Result<(), Errno> {
    if cfg.port != 0 {
        return Ok(());
    }
    let first = match ask(cfg.sockfd, 0) {
        Ok(_) => {
            cfg.port = i32::from(PORT_CONFIG);
            return Ok(());
        }
        Err(error @ (Errno::ETIME | Errno::ECONNREFUSED)) => error,
        Err(error) => return Err(error),
    };
    // Another program on this machine may use the old port. Then the result of the new port is returned.
    let Ok(old) = open(cfg, PORT_CONFIG_OLD) else { return Err(first) };
    match ask(old, 0) {
        Ok(_) => {
            crate::fd::replace(cfg.sockfd, old)?;
            cfg.port = i32::from(PORT_CONFIG_OLD);
            Ok(())
        }
        Err(error) => {
            crate::fd::close(old);
            Err(error)
        }
    }
}

/// Reads one DW of configuration space. Returns an error if no answer arrives in time.
fn ask(fd: RawFd, register_dw: u16) -> Result<u32, Errno> {
    let mut buffer = [0; PADDED_LEN + 1];
    for _ in 0..DROP_MAX {
        match socket::receive_now(fd, &mut buffer) {
            Ok(_) | Err(Errno::EINTR | Errno::ECONNREFUSED) => {}
            Err(_) => break,
        }
    }
    let question = ConfigMessage::read(register_dw);
    socket::send_whole(fd, &question.emit())?;
    let deadline = Instant::now() + CONFIG_TIMEOUT;
    loop {
        let len = socket::receive_by(fd, &mut buffer, deadline, false)?;
        let answer = buffer.get(..len).and_then(|bytes| ConfigMessage::parse_reply(bytes).ok());
        match answer {
            Some(a) if (a.command, a.register_dw) == (question.command, register_dw) => return Ok(a.data),
            _ => crate::strays::add(),
        }
        if Instant::now() >= deadline {
            return Err(Errno::ETIME);
        }
    }
}

/// Calls `each` for every DW of the `count` bytes from byte `address`, with the DW number, the first byte within
/// the DW, and the range in the buffer.
fn each_dw(
    address: u16,
    count: usize,
    mut each: impl FnMut(u16, usize, std::ops::Range<usize>) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let mut at = usize::from(address);
    let end = at.checked_add(count).filter(|end| *end <= CONFIG_SPACE).ok_or(Errno::EINVAL)?;
    let start = at;
    while at < end {
        let next = ((at & !3) + 4).min(end);
        each((at / 4) as u16, at % 4, at - start..next - start)?;
        at = next;
    }
    Ok(())
}

/// Reads configuration space from byte `address`.
pub(crate) fn read(cfg: &mut PcieCfg, address: u16, out: &mut [u8]) -> Result<(), Errno> {
    each_dw(address, out.len(), |_, _, _| Ok(()))?;
    ensure_port(cfg)?;
    let count = out.len();
    each_dw(address, count, |register_dw, lane, range| {
        let bytes = ask(cfg.sockfd, register_dw)?.to_le_bytes();
        out[range.clone()].copy_from_slice(&bytes[lane..lane + range.len()]);
        Ok(())
    })
}

/// Writes configuration space from byte `address`.
pub(crate) fn write(cfg: &mut PcieCfg, address: u16, data: &[u8]) -> Result<(), Errno> {
    each_dw(address, data.len(), |_, _, _| Ok(()))?;
    ensure_port(cfg)?;
    each_dw(address, data.len(), |register_dw, lane, range| {
        let mut bytes = [0; 4];
        bytes[lane..lane + range.len()].copy_from_slice(&data[range.clone()]);
        let enables = (0xf_u8 >> (4 - range.len())) << lane;
        let message = ConfigMessage::write(register_dw, enables, u32::from_le_bytes(bytes));
        socket::send_whole(cfg.sockfd, &message.emit())
    })
}
