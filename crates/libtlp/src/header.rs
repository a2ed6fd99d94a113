// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The functions of `include/tlp.h`, on headers in the caller's memory. Never reads more bytes of a header than its
//! first byte declares.

use std::ffi::{c_int, c_void};
use tlp::Span;
use tlp::wire::{Field, field};

/// Fmt bit 0: four DW of header.
const FOUR_DW: u8 = 0x20;
/// Fmt bit 1: data after the header.
const WITH_DATA: u8 = 0x40;
const CPL_LEN: usize = 12;

/// Returns the span of a request for `count` bytes; a zero-length request if `count` is 0.
fn span(address: usize, count: usize) -> Span {
    // Byte Enables and Length depend only on the position in a DW.
    let in_dw = address as u64 & 3;
    u32::try_from(count)
        .ok()
        .and_then(|len| Span::covering(in_dw, len).ok())
        .unwrap_or(Span::zero_length(in_dw))
}

/// `tlp_calculate_fstdw`: First DW Byte Enables.
#[unsafe(no_mangle)]
extern "C" fn tlp_calculate_fstdw(addr: usize, count: usize) -> c_int {
    c_int::from(span(addr, count).first_be())
}

/// `tlp_calculate_lstdw`: Last DW Byte Enables.
#[unsafe(no_mangle)]
extern "C" fn tlp_calculate_lstdw(addr: usize, count: usize) -> c_int {
    c_int::from(span(addr, count).last_be())
}

/// `tlp_calculate_length`: Length in DW, even if it exceeds the limit of a request.
#[unsafe(no_mangle)]
extern "C" fn tlp_calculate_length(addr: usize, count: usize) -> c_int {
    let dws = (addr & 3).saturating_add(count).div_ceil(4).max(1);
    c_int::try_from(dws).unwrap_or(c_int::MAX)
}

/// Returns the bytes of the header of a memory request or completion: as many as its first byte declares.
///
/// # Safety
/// `header` points to that many bytes.
unsafe fn bytes<'a>(header: *const c_void) -> &'a [u8] {
    // SAFETY: the caller promises a header, which has a first byte.
    let first = unsafe { *header.cast::<u8>() };
    let len = if first & FOUR_DW == 0 { CPL_LEN } else { CPL_LEN + 4 };
    // SAFETY: the caller promises as many bytes as the first one declares.
    unsafe { std::slice::from_raw_parts(header.cast(), len) }
}

/// Returns two numbers for the data of a request: the bytes before the first enabled byte, and the bytes from there
/// to the last enabled byte.
fn enabled(header: &[u8]) -> (usize, usize) {
    let get = |field: Field| field.get(header);
    let (first, last) = (get(field::FIRST_BE) as u8, get(field::LAST_BE) as u8);
    let dws = if get(field::LENGTH) == 0 { 1024 } else { get(field::LENGTH) };
    if first == 0 && (dws == 1 || last == 0) {
        // The answer to a zero-length read has a Byte Count of one. A zero-length write changes no bytes.
        return (0, usize::from(header[0] & WITH_DATA == 0));
    }
    let lead = if first == 0 { 4 } else { first.trailing_zeros() };
    let last = if dws == 1 { first } else { last };
    let trail = if last == 0 { 4 } else { last.leading_zeros() - 4 };
    (lead as usize, (dws * 4).saturating_sub(lead + trail) as usize)
}

/// Returns the address of the first enabled byte, from the address after a request's header.
fn address(header: &[u8]) -> u64 {
    let dw = |at| u64::from(Field::new(at, 31, 0).get(header));
    let base = if header.len() == CPL_LEN { dw(2) } else { dw(2) << 32 | dw(3) };
    (base & !3).wrapping_add(enabled(header).0 as u64)
}

/// `tlp_mr_addr`.
///
/// # Safety
/// `mh` points to a memory request's header with its address.
#[unsafe(no_mangle)]
unsafe extern "C" fn tlp_mr_addr(mh: *mut c_void) -> usize {
    // SAFETY: as the caller promises.
    address(unsafe { bytes(mh) }) as usize
}

/// `tlp_mr_data_length`.
///
/// # Safety
/// `mh` points to a memory request's header with its address.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn tlp_mr_data_length(mh: *mut c_void) -> c_int {
    // SAFETY: as the caller promises.
    enabled(unsafe { bytes(mh) }).1 as c_int
}

/// `tlp_mwr_data`.
///
/// # Safety
/// `mh` points to a complete MWr.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn tlp_mwr_data(mh: *mut c_void) -> *mut c_void {
    // SAFETY: as the caller promises.
    let header = unsafe { bytes(mh) };
    mh.wrapping_byte_add(header.len() + enabled(header).0)
}

/// `tlp_cpld_data`.
///
/// # Safety
/// `ch` points to a complete CplD.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn tlp_cpld_data(ch: *mut c_void) -> *mut c_void {
    // SAFETY: as the caller promises.
    let header = unsafe { bytes(ch) };
    ch.wrapping_byte_add(CPL_LEN + (field::LOWER_ADDRESS.get(header) & 3) as usize)
}

/// `tlp_cpld_data_length`.
///
/// # Safety
/// `ch` points to a completion's header.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn tlp_cpld_data_length(ch: *mut c_void) -> c_int {
    // SAFETY: as the caller promises.
    let header = unsafe { bytes(ch) };
    let or = |value: u32, zero: u32| if value == 0 { zero } else { value };
    let room = or(field::LENGTH.get(header), 1024) * 4 - (field::LOWER_ADDRESS.get(header) & 3);
    or(field::BYTE_COUNT.get(header), 4096).min(room) as c_int
}

#[cfg(test)]
mod tests;
