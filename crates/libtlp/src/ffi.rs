// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The functions of `include/libtlp.h`: converts pointers to references, and errors to errno. Never keeps a pointer
//! beyond the call.

use crate::callbacks::{self, CONTEXTS_MAX, Kind};
use crate::types::{Callbacks, InAddr, Msix, Nettlp, OnData, OnTlp, PcieCfg};
use crate::{ask, dma, header, strays};
use nettlp::wire::messaging::{Reply, Request};
use nix::errno::Errno;
use std::ffi::{c_int, c_void};

fn status(result: Result<(), Errno>) -> c_int {
    result.map_or_else(
        |error| {
            error.set();
            -1
        },
        |()| 0,
    )
}

/// Returns the structure at a pointer of the program; `EFAULT` if it is null.
///
/// # Safety
/// The pointer is null, or valid for reads and writes and not used by others during the call.
unsafe fn structure<'a, T>(pointer: *mut T) -> Result<&'a mut T, Errno> {
    // SAFETY: as the caller promises.
    unsafe { pointer.as_mut() }.ok_or(Errno::EFAULT)
}

/// Checks that a buffer of `count` bytes may be at a pointer.
fn check(pointer: *const c_void, count: usize) -> Result<(), Errno> {
    match isize::try_from(count) {
        _ if pointer.is_null() => Err(Errno::EFAULT),
        Err(_) => Err(Errno::EINVAL),
        Ok(_) => Ok(()),
    }
}

/// Returns the program's buffer.
///
/// # Safety
/// The pointer is null, or valid for `count` bytes.
unsafe fn buffer<'a>(pointer: *mut c_void, count: usize) -> Result<&'a mut [u8], Errno> {
    if count == 0 {
        return Ok(&mut []);
    }
    check(pointer, count)?;
    // SAFETY: not null, not longer than an object may be, and valid as the caller promises.
    Ok(unsafe { std::slice::from_raw_parts_mut(pointer.cast(), count) })
}

/// Returns the bytes to write from the program's buffer, which may be constant.
///
/// # Safety
/// The pointer is null, or readable for `count` bytes.
unsafe fn data<'a>(pointer: *const c_void, count: usize) -> Result<&'a [u8], Errno> {
    if count == 0 {
        return Ok(&[]);
    }
    check(pointer, count)?;
    // SAFETY: not null, not longer than an object may be, and readable as the caller promises.
    Ok(unsafe { std::slice::from_raw_parts(pointer.cast(), count) })
}

/// Calls `does` with a structure and a buffer of `count` bytes. Returns `count`, or -1 with errno if the call fails.
///
/// # Safety
/// `nt` is as [`structure`] requires.
unsafe fn transfer<T, B>(
    nt: *mut T,
    bytes: Result<B, Errno>,
    count: usize,
    does: impl FnOnce(&mut T, B) -> Result<(), Errno>,
) -> isize {
    // SAFETY: as the caller promises.
    match status(unsafe { structure(nt) }.and_then(|nt| does(nt, bytes?))) {
        0 => isize::try_from(count).unwrap_or(isize::MAX),
        _ => -1,
    }
}

/// `nettlp_init`.
///
/// # Safety
/// As `libtlp.h` requires of its pointers.
#[unsafe(no_mangle)]
unsafe extern "C" fn nettlp_init(nt: *mut Nettlp) -> c_int {
    // SAFETY: the program's structure.
    status(unsafe { structure(nt) }.and_then(dma::init))
}

/// `dma_read`.
///
/// # Safety
/// As `libtlp.h` requires of its pointers.
#[unsafe(no_mangle)]
unsafe extern "C" fn dma_read(nt: *mut Nettlp, addr: usize, buf: *mut c_void, count: usize) -> isize {
    // SAFETY: the same contract.
    unsafe { dma_read_aligned(nt, addr, buf, count, usize::MAX) }
}

/// `dma_write`.
///
/// # Safety
/// As `libtlp.h` requires of its pointers.
#[unsafe(no_mangle)]
unsafe extern "C" fn dma_write(nt: *mut Nettlp, addr: usize, buf: *mut c_void, count: usize) -> isize {
    // SAFETY: the same contract.
    unsafe { dma_write_aligned(nt, addr, buf, count, usize::MAX) }
}

/// `dma_read_aligned`.
///
/// # Safety
/// As `libtlp.h` requires of its pointers.
#[unsafe(no_mangle)]
unsafe extern "C" fn dma_read_aligned(
    nt: *mut Nettlp,
    addr: usize,
    buf: *mut c_void,
    count: usize,
    mrrs: usize,
) -> isize {
    // SAFETY: the program's structure and buffer.
    unsafe { transfer(nt, buffer(buf, count), count, |nt, out| dma::read(nt, addr as u64, out, mrrs)) }
}

/// `dma_write_aligned`.
///
/// # Safety
/// As `libtlp.h` requires of its pointers.
#[unsafe(no_mangle)]
unsafe extern "C" fn dma_write_aligned(
    nt: *mut Nettlp,
    addr: usize,
    buf: *mut c_void,
    count: usize,
    mps: usize,
) -> isize {
    // SAFETY: the program's structure and buffer.
    unsafe { transfer(nt, data(buf, count), count, |nt, data| dma::write(nt, addr as u64, data, mps)) }
}

/// `nettlp_strays`.
#[unsafe(no_mangle)]
extern "C" fn nettlp_strays() -> u64 {
    strays::count()
}

/// `nettlp_stray_reason`.
///
/// # Safety
/// As `libtlp.h` requires of its pointers.
#[unsafe(no_mangle)]
unsafe extern "C" fn nettlp_stray_reason(text: *mut c_void, size: usize) -> usize {
    let reason = strays::reason();
    // SAFETY: the program's buffer.
    if let Ok([room @ .., end]) = unsafe { buffer(text, size) } {
        let len = reason.floor_char_boundary(room.len().min(reason.len()));
        room[..len].copy_from_slice(&reason.as_bytes()[..len]);
        match room.get_mut(len) {
            Some(after) => *after = 0,
            None => *end = 0,
        }
    }
    reason.len()
}

/// `nettlp_run_cb`.
///
/// # Safety
/// As `libtlp.h` requires of its pointers.
#[unsafe(no_mangle)]
unsafe extern "C" fn nettlp_run_cb(
    nt: *mut *mut Nettlp,
    nnts: c_int,
    cb: *const Callbacks,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: the same contract.
    status(unsafe { run_cb(nt, nnts, cb, arg) })
}

/// # Safety
/// As `libtlp.h` requires of the pointers of `nettlp_run_cb`.
unsafe fn run_cb(
    nt: *mut *mut Nettlp,
    nnts: c_int,
    cb: *const Callbacks,
    arg: *mut c_void,
) -> Result<(), Errno> {
    let count = usize::try_from(nnts).ok().filter(|n| (1..=CONTEXTS_MAX).contains(n)).ok_or(Errno::EINVAL)?;
    if nt.is_null() {
        return Err(Errno::EFAULT);
    }
    // SAFETY: not null, and an array of `nnts` pointers.
    let contexts = unsafe { std::slice::from_raw_parts(nt, count) }.to_vec();
    // SAFETY: null, or the program's structure.
    let callbacks = *unsafe { cb.as_ref() }.ok_or(Errno::EFAULT)?;
    let mut fds = [-1; CONTEXTS_MAX];
    for (fd, context) in fds.iter_mut().zip(&contexts) {
        // SAFETY: null, or the program's structure.
        *fd = unsafe { structure(*context) }?.sockfd;
    }
    callbacks::run(&fds[..count], |index, kind, tlp| {
        // SAFETY: the functions and their arguments come from the program. Only the TLP does not, and its length
        // was checked.
        unsafe { call(&callbacks, contexts[index], kind, tlp, arg) };
    })
}

/// Calls the callback of one TLP.
///
/// # Safety
/// The functions have the signatures of `libtlp.h`; the TLP is as long as its header says.
unsafe fn call(cb: &Callbacks, nt: *mut Nettlp, kind: Kind, tlp: &mut [u8], arg: *mut c_void) {
    let header: *mut c_void = tlp.as_mut_ptr().cast();
    let plain = |on: OnTlp| {
        if let Some(on) = on {
            // SAFETY: as the caller promises.
            unsafe { on(nt, header, arg) };
        }
    };
    let with_data = |on: OnData, data: *mut c_void, count: c_int| {
        if let Some(on) = on {
            // SAFETY: as the caller promises.
            unsafe { on(nt, header, data, count as usize, arg) };
        }
    };
    match kind {
        Kind::Mrd => plain(cb.mrd),
        Kind::Cpl => plain(cb.cpl),
        Kind::Other => plain(cb.other),
        // SAFETY: a complete MWr.
        Kind::Mwr => unsafe {
            with_data(cb.mwr, header::tlp_mwr_data(header), header::tlp_mr_data_length(header))
        },
        // SAFETY: a complete CplD.
        Kind::Cpld => unsafe {
            with_data(cb.cpld, header::tlp_cpld_data(header), header::tlp_cpld_data_length(header))
        },
    }
}

/// `nettlp_stop_cb`.
#[unsafe(no_mangle)]
extern "C" fn nettlp_stop_cb() {
    callbacks::stop();
}

/// `nettlp_msg_get_bar4_start`.
#[unsafe(no_mangle)]
extern "C" fn nettlp_msg_get_bar4_start(addr: InAddr) -> usize {
    match ask::message(addr, Request::Bar4Start) {
        Ok(Reply::Bar4Start(start)) => start as usize,
        other => failed(other) as usize,
    }
}

/// `nettlp_msg_get_dev_id`.
#[unsafe(no_mangle)]
extern "C" fn nettlp_msg_get_dev_id(addr: InAddr) -> u16 {
    match ask::message(addr, Request::DeviceId) {
        Ok(Reply::DeviceId(id)) => id.bits(),
        other => failed(other),
    }
}

fn failed(answer: Result<Reply, Errno>) -> u16 {
    answer.err().unwrap_or(Errno::EBADMSG).set();
    0
}

/// `nettlp_msg_get_msix_table`.
///
/// # Safety
/// As `libtlp.h` requires of its pointers.
#[unsafe(no_mangle)]
unsafe extern "C" fn nettlp_msg_get_msix_table(addr: InAddr, msix: *mut Msix, max_msix: c_int) -> c_int {
    let fill = || {
        let max = usize::try_from(max_msix).map_err(|_| Errno::EINVAL)?;
        if msix.is_null() && max > 0 {
            return Err(Errno::EFAULT);
        }
        let Reply::MsixTable(entries) = ask::message(addr, Request::MsixTable)? else {
            return Err(Errno::EBADMSG);
        };
        for (index, entry) in entries.iter().take(max).enumerate() {
            let entry = Msix { address: entry.address, data: entry.data };
            // SAFETY: not null, of `max_msix` entries; packed, so any alignment is valid.
            unsafe { msix.wrapping_add(index).write_unaligned(entry) };
        }
        Ok(())
    };
    status(fill())
}

/// `nettlp_pcie_cfg_init`.
///
/// # Safety
/// As `libtlp.h` requires of its pointers.
#[unsafe(no_mangle)]
unsafe extern "C" fn nettlp_pcie_cfg_init(nt: *mut PcieCfg) -> c_int {
    // SAFETY: the program's structure.
    status(unsafe { structure(nt) }.and_then(ask::init))
}

/// `nettlp_pcie_cfg_read`.
///
/// # Safety
/// As `libtlp.h` requires of its pointers.
#[unsafe(no_mangle)]
unsafe extern "C" fn nettlp_pcie_cfg_read(
    nt: *mut PcieCfg,
    addr: u16,
    buf: *mut c_void,
    count: usize,
) -> isize {
    // SAFETY: the program's structure and buffer.
    unsafe { transfer(nt, buffer(buf, count), count, |nt, out| ask::read(nt, addr, out)) }
}

/// `nettlp_pcie_cfg_write`.
///
/// # Safety
/// As `libtlp.h` requires of its pointers.
#[unsafe(no_mangle)]
unsafe extern "C" fn nettlp_pcie_cfg_write(
    nt: *mut PcieCfg,
    addr: u16,
    buf: *mut c_void,
    count: usize,
) -> isize {
    // SAFETY: the program's structure and buffer.
    unsafe { transfer(nt, data(buf, count), count, |nt, data| ask::write(nt, addr, data)) }
}
