// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The functions of `include/libtlp.h`. Pointers become references, errors become errno; nothing is done here that has a
//! place elsewhere. Never keeps a pointer beyond the call.

use crate::callbacks::{self, CONTEXTS_MAX, Kind};
use crate::types::{Callbacks, InAddr, Msix, Nettlp, PcieCfg};
use crate::{ask, dma, header};
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

fn total(count: usize, result: Result<(), Errno>) -> isize {
    match status(result) {
        0 => isize::try_from(count).unwrap_or(isize::MAX),
        _ => -1,
    }
}

/// The structure behind a pointer of the program's; `EFAULT` where it is null.
///
/// # Safety
/// Null, or valid for reads and writes, and used by nobody else meanwhile.
unsafe fn structure<'a, T>(pointer: *mut T) -> Result<&'a mut T, Errno> {
    // SAFETY: as the caller promises.
    unsafe { pointer.as_mut() }.ok_or(Errno::EFAULT)
}

/// The program's buffer.
///
/// # Safety
/// Null, or valid for `count` bytes.
unsafe fn buffer<'a>(pointer: *mut c_void, count: usize) -> Result<&'a mut [u8], Errno> {
    if count == 0 {
        return Ok(&mut []);
    }
    if pointer.is_null() {
        return Err(Errno::EFAULT);
    }
    if isize::try_from(count).is_err() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: not null, no longer than an object may be, and valid as the caller promises.
    Ok(unsafe { std::slice::from_raw_parts_mut(pointer.cast(), count) })
}

/// The bytes that are written from the program's buffer, which may be constant.
///
/// # Safety
/// Null, or readable for `count` bytes.
unsafe fn data<'a>(pointer: *const c_void, count: usize) -> Result<&'a [u8], Errno> {
    if count == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(Errno::EFAULT);
    }
    if isize::try_from(count).is_err() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: not null, no longer than an object may be, and readable as the caller promises.
    Ok(unsafe { std::slice::from_raw_parts(pointer.cast(), count) })
}

/// `nettlp_init`.
///
/// # Safety
/// As `libtlp.h` says of its pointers.
#[unsafe(no_mangle)]
unsafe extern "C" fn nettlp_init(nt: *mut Nettlp) -> c_int {
    // SAFETY: the program's structure.
    status(unsafe { structure(nt) }.and_then(dma::init))
}

/// `dma_read`.
///
/// # Safety
/// As `libtlp.h` says of its pointers.
#[unsafe(no_mangle)]
unsafe extern "C" fn dma_read(nt: *mut Nettlp, addr: usize, buf: *mut c_void, count: usize) -> isize {
    // SAFETY: the same contract.
    unsafe { dma_read_aligned(nt, addr, buf, count, usize::MAX) }
}

/// `dma_write`.
///
/// # Safety
/// As `libtlp.h` says of its pointers.
#[unsafe(no_mangle)]
unsafe extern "C" fn dma_write(nt: *mut Nettlp, addr: usize, buf: *mut c_void, count: usize) -> isize {
    // SAFETY: the same contract.
    unsafe { dma_write_aligned(nt, addr, buf, count, usize::MAX) }
}

/// `dma_read_aligned`.
///
/// # Safety
/// As `libtlp.h` says of its pointers.
#[unsafe(no_mangle)]
unsafe extern "C" fn dma_read_aligned(
    nt: *mut Nettlp,
    addr: usize,
    buf: *mut c_void,
    count: usize,
    mrrs: usize,
) -> isize {
    // SAFETY: the program's structure.
    let nt = unsafe { structure(nt) };
    // SAFETY: the program's buffer.
    let out = unsafe { buffer(buf, count) };
    let result = nt.and_then(|nt| dma::read(nt, addr as u64, out?, mrrs));
    total(count, result)
}

/// `dma_write_aligned`.
///
/// # Safety
/// As `libtlp.h` says of its pointers.
#[unsafe(no_mangle)]
unsafe extern "C" fn dma_write_aligned(
    nt: *mut Nettlp,
    addr: usize,
    buf: *mut c_void,
    count: usize,
    mps: usize,
) -> isize {
    // SAFETY: the program's structure.
    let nt = unsafe { structure(nt) };
    // SAFETY: the program's buffer.
    let data = unsafe { data(buf, count) };
    let result = nt.and_then(|nt| dma::write(nt, addr as u64, data?, mps));
    total(count, result)
}

/// `nettlp_strays`.
#[unsafe(no_mangle)]
extern "C" fn nettlp_strays() -> u64 {
    dma::strays()
}

/// `nettlp_run_cb`.
///
/// # Safety
/// As `libtlp.h` says of its pointers.
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
/// As `libtlp.h` says of the pointers of `nettlp_run_cb`.
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
    // SAFETY: not null, and of `nnts` pointers.
    let contexts = unsafe { std::slice::from_raw_parts(nt, count) }.to_vec();
    // SAFETY: null, or the program's structure.
    let callbacks = *unsafe { cb.as_ref() }.ok_or(Errno::EFAULT)?;
    let mut fds = [-1; CONTEXTS_MAX];
    for (fd, context) in fds.iter_mut().zip(&contexts) {
        // SAFETY: null, or the program's structure.
        *fd = unsafe { structure(*context) }?.sockfd;
    }
    callbacks::run(&fds[..count], |index, kind, tlp| {
        // SAFETY: the functions and what they are given are the program's, but for the TLP, whose length was checked.
        unsafe { call(&callbacks, contexts[index], kind, tlp, arg) };
    })
}

/// Calls back for one TLP.
///
/// # Safety
/// The functions take what `libtlp.h` says; the TLP is as long as its header says.
unsafe fn call(cb: &Callbacks, nt: *mut Nettlp, kind: Kind, tlp: &mut [u8], arg: *mut c_void) {
    let header: *mut c_void = tlp.as_mut_ptr().cast();
    let plain = |on: Option<unsafe extern "C" fn(*mut Nettlp, *mut c_void, *mut c_void) -> c_int>| {
        if let Some(on) = on {
            // SAFETY: as the caller promises.
            unsafe { on(nt, header, arg) };
        }
    };
    match kind {
        Kind::Mrd => plain(cb.mrd),
        Kind::Cpl => plain(cb.cpl),
        Kind::Other => plain(cb.other),
        Kind::Mwr => {
            if let Some(on) = cb.mwr {
                // SAFETY: a whole MWr.
                let (m, count) =
                    unsafe { (header::tlp_mwr_data(header), header::tlp_mr_data_length(header)) };
                // SAFETY: as the caller promises.
                unsafe { on(nt, header, m, count as usize, arg) };
            }
        }
        Kind::Cpld => {
            if let Some(on) = cb.cpld {
                // SAFETY: a whole CplD.
                let (m, count) =
                    unsafe { (header::tlp_cpld_data(header), header::tlp_cpld_data_length(header)) };
                // SAFETY: as the caller promises.
                unsafe { on(nt, header, m, count as usize, arg) };
            }
        }
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
/// As `libtlp.h` says of its pointers.
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
            // SAFETY: not null, of `max_msix` entries; packed, so that any address will do.
            unsafe { msix.wrapping_add(index).write_unaligned(entry) };
        }
        Ok(())
    };
    status(fill())
}

/// `nettlp_pcie_cfg_init`.
///
/// # Safety
/// As `libtlp.h` says of its pointers.
#[unsafe(no_mangle)]
unsafe extern "C" fn nettlp_pcie_cfg_init(nt: *mut PcieCfg) -> c_int {
    // SAFETY: the program's structure.
    status(unsafe { structure(nt) }.and_then(ask::init))
}

/// `nettlp_pcie_cfg_read`.
///
/// # Safety
/// As `libtlp.h` says of its pointers.
#[unsafe(no_mangle)]
unsafe extern "C" fn nettlp_pcie_cfg_read(
    nt: *mut PcieCfg,
    addr: u16,
    buf: *mut c_void,
    count: usize,
) -> isize {
    // SAFETY: the program's structure.
    let nt = unsafe { structure(nt) };
    // SAFETY: the program's buffer.
    let out = unsafe { buffer(buf, count) };
    total(count, nt.and_then(|nt| ask::read(nt, addr, out?)))
}

/// `nettlp_pcie_cfg_write`.
///
/// # Safety
/// As `libtlp.h` says of its pointers.
#[unsafe(no_mangle)]
unsafe extern "C" fn nettlp_pcie_cfg_write(
    nt: *mut PcieCfg,
    addr: u16,
    buf: *mut c_void,
    count: usize,
) -> isize {
    // SAFETY: the program's structure.
    let nt = unsafe { structure(nt) };
    // SAFETY: the program's buffer.
    let data = unsafe { data(buf, count) };
    total(count, nt.and_then(|nt| ask::write(nt, addr, data?)))
}
