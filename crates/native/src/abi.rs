// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The structures of `riser_device.h`; the header describes each field. A test compares sizes and offsets with those of the header.
//! This module never follows a pointer.

use std::ffi::{c_char, c_int, c_void};

/// `RISER_DEVICE_ABI`.
pub const ABI: u32 = 1;
/// `RISER_NEVER`.
pub const NEVER: u64 = u64::MAX;

/// `riser_read`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Read {
    /// `token`
    pub token: u32,
    /// `bar`
    pub bar: u8,
    /// `tc`
    pub tc: u8,
    /// `attr`
    pub attr: u8,
    /// `locked`
    pub locked: u8,
    /// `offset`
    pub offset: u64,
    /// `length`
    pub length: u32,
    /// `reserved`
    pub reserved: u32,
}

/// `riser_write`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Write {
    /// `token`
    pub token: u32,
    /// `bar`
    pub bar: u8,
    /// `tc`
    pub tc: u8,
    /// `attr`
    pub attr: u8,
    /// `flags`
    pub flags: u8,
    /// `offset`
    pub offset: u64,
    /// `length`
    pub length: u32,
    /// `reserved`
    pub reserved: u32,
    /// `data`
    pub data: *const u8,
    /// `enables`
    pub enables: *const u8,
}

/// `riser_atomic`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Atomic {
    /// `token`
    pub token: u32,
    /// `bar`
    pub bar: u8,
    /// `tc`
    pub tc: u8,
    /// `attr`
    pub attr: u8,
    /// `op`
    pub op: u8,
    /// `offset`
    pub offset: u64,
    /// `value_bytes`
    pub value_bytes: u32,
    /// `length`
    pub length: u32,
    /// `operands`
    pub operands: *const u8,
}

/// `riser_config`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Config {
    /// `token`
    pub token: u32,
    /// `register_dw`
    pub register_dw: u16,
    /// `byte_enables`
    pub byte_enables: u8,
    /// `is_write`
    pub is_write: u8,
    /// `value`
    pub value: u32,
}

/// `riser_message`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// `token`
    pub token: u32,
    /// `requester`
    pub requester: u16,
    /// `routing`
    pub routing: u8,
    /// `code`
    pub code: u8,
    /// `header`
    pub header: [u8; 8],
    /// `length`
    pub length: u32,
    /// `reserved`
    pub reserved: u32,
    /// `data`
    pub data: *const u8,
}

/// `riser_dma_done`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DmaDone {
    /// `id`
    pub id: u32,
    /// `status`
    pub status: u32,
    /// `length`
    pub length: u32,
    /// `reserved`
    pub reserved: u32,
    /// `data`
    pub data: *const u8,
}

/// `riser_dma_write`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DmaWrite {
    /// `address`
    pub address: u64,
    /// `length`
    pub length: u32,
    /// `tc`
    pub tc: u8,
    /// `attr`
    pub attr: u8,
    /// `reserved`
    pub reserved: [u8; 2],
    /// `data`
    pub data: *const u8,
}

/// `riser_dma_read`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DmaRead {
    /// `address`
    pub address: u64,
    /// `id`
    pub id: u32,
    /// `length`
    pub length: u32,
    /// `tc`
    pub tc: u8,
    /// `attr`
    pub attr: u8,
    /// `counted`
    pub counted: u8,
    /// `reserved`
    pub reserved: [u8; 5],
}

/// `riser_dma_atomic`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DmaAtomic {
    /// `address`
    pub address: u64,
    /// `id`
    pub id: u32,
    /// `length`
    pub length: u32,
    /// `tc`
    pub tc: u8,
    /// `attr`
    pub attr: u8,
    /// `op`
    pub op: u8,
    /// `reserved`
    pub reserved: [u8; 5],
    /// `operands`
    pub operands: *const u8,
}

/// `riser_completion`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    /// `token`
    pub token: u32,
    /// `status`
    pub status: u32,
    /// `length`
    pub length: u32,
    /// `reserved`
    pub reserved: u32,
    /// `data`
    pub data: *const u8,
}

/// `riser_send_message`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SendMessage {
    /// `routing`
    pub routing: u8,
    /// `code`
    pub code: u8,
    /// `tc`
    pub tc: u8,
    /// `attr`
    pub attr: u8,
    /// `length`
    pub length: u32,
    /// `header`
    pub header: [u8; 8],
    /// `data`
    pub data: *const u8,
}

/// Kinds of output: `RISER_WRITE` and so on.
pub mod kind {
    /// `RISER_WRITE`
    pub const WRITE: u32 = 1;
    /// `RISER_READ`
    pub const READ: u32 = 2;
    /// `RISER_ATOMIC`
    pub const ATOMIC: u32 = 3;
    /// `RISER_COMPLETE`
    pub const COMPLETE: u32 = 4;
    /// `RISER_ABANDON`
    pub const ABANDON: u32 = 5;
    /// `RISER_INTERRUPT`
    pub const INTERRUPT: u32 = 6;
    /// `RISER_INTX`
    pub const INTX: u32 = 7;
    /// `RISER_PME`
    pub const PME: u32 = 8;
    /// `RISER_SEND_MESSAGE`
    pub const SEND_MESSAGE: u32 = 9;
}

/// Contents of an output; the kind selects the member.
#[repr(C)]
#[derive(Clone, Copy)]
pub union OutputBody {
    /// `write`
    pub write: DmaWrite,
    /// `read`
    pub read: DmaRead,
    /// `atomic`
    pub atomic: DmaAtomic,
    /// `completion`
    pub completion: Completion,
    /// `message`
    pub message: SendMessage,
    /// `token`, `vector` and `asserted`
    pub word: u32,
}

/// `riser_output`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Output {
    /// `kind`
    pub kind: u32,
    /// `reserved`
    pub reserved: u32,
    /// `as`
    pub body: OutputBody,
}

/// Pointer to the library's own device. riser never dereferences it.
pub type DevicePointer = *mut c_void;

/// A function that receives an input.
type Takes<T> = Option<unsafe extern "C" fn(DevicePointer, u64, *const T)>;

/// `riser_device_ops`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Ops {
    /// `abi`
    pub abi: u32,
    /// `size`
    pub size: u32,
    /// `create`
    pub create: Option<unsafe extern "C" fn(*const c_char, *mut c_char, usize) -> DevicePointer>,
    /// `destroy`
    pub destroy: Option<unsafe extern "C" fn(DevicePointer)>,
    /// `reset`
    pub reset: Option<unsafe extern "C" fn(DevicePointer, u64, u32)>,
    /// `read`
    pub read: Takes<Read>,
    /// `write`
    pub write: Takes<Write>,
    /// `dma_done`
    pub dma_done: Takes<DmaDone>,
    /// `atomic`
    pub atomic: Takes<Atomic>,
    /// `config`
    pub config: Takes<Config>,
    /// `message`
    pub message: Takes<Message>,
    /// `timer`
    pub timer: Option<unsafe extern "C" fn(DevicePointer, u64)>,
    /// `poll_output`
    pub poll_output: Option<unsafe extern "C" fn(DevicePointer, u64, u32, *mut Output) -> c_int>,
    /// `poll_taken`
    pub poll_taken: Option<unsafe extern "C" fn(DevicePointer, *mut u32) -> c_int>,
    /// `next_timer`
    pub next_timer: Option<unsafe extern "C" fn(DevicePointer) -> u64>,
}

/// `riser_device_entry`.
pub type Entry = unsafe extern "C" fn(u32) -> *const Ops;
