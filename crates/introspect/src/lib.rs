// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A running Linux kernel (x86-64), read from outside through its physical memory: NetTLP section 6.3.
//!
//! Nothing of a kernel's build is known here. [`find`] looks for the kernel in memory, wherever KASLR has put it; where the
//! members of its structures lie is told by its own [`Btf`]. Then [`Kernel::tasks`] walks its processes, and
//! [`Code::of`] the page tables of one.
//!
//! The kernel runs meanwhile, and may be hostile: what is read is checked, every walk has an end, and what does not fit
//! together is an [`Error`], never a panic.

mod btf;
mod cache;
mod code;
mod find;
mod kernel;
mod layout;
mod marks;
mod pages;
mod tasks;

pub use btf::{Btf, BtfError};
pub use code::{Code, Gap, Run};
pub use find::{Progress, Search, find};
pub use kernel::Kernel;
pub use layout::Layout;
pub use pages::{Levels, Missing};
pub use tasks::Task;

use std::ops::Range;
use thiserror::Error;

/// What a read came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// All bytes have come.
    Read,
    /// There is no memory, or none that may be read: Unsupported Request or Completer Abort.
    Refused,
}

/// Physical memory of the machine, by DMA or by a file.
pub trait Memory {
    /// Why reading cannot go on.
    type Error;

    /// Reads from this physical address. What `data` holds is undefined unless all was read.
    ///
    /// # Errors
    /// Whatever ends the whole: no answer, an interruption.
    fn read(&mut self, address: u64, data: &mut [u8]) -> Result<Answer, Self::Error>;
}

/// Why a kernel could not be read.
#[derive(Debug, Error)]
pub enum Error<E> {
    /// Reading failed.
    #[error(transparent)]
    Memory(E),
    /// Not even the first read was answered with data.
    #[error(
        "no memory can be read: the read at {0:#x} was refused, as where the adapter is no bus master, or an IOMMU grants it nothing"
    )]
    NothingReadable(u64),
    /// Memory that the kernel points at.
    #[error("memory at {0:#x} cannot be read: the read was refused")]
    Refused(u64),
    /// No `init_task` was found.
    #[error("no Linux kernel was found in {} MiB of memory{}", .searched_bytes >> 20, hint(*.btfs))]
    NoKernel {
        /// How much memory there was.
        searched_bytes: u64,
        /// How many BTFs were there.
        btfs: usize,
    },
    /// The first task's address in the direct map leads nowhere.
    #[error("the first process, at the kernel's address {0:#x}, is in none of the memory that can be read")]
    NoDirectMap(u64),
    /// The type information is not that of such a kernel.
    #[error(transparent)]
    Btf(BtfError),
    /// An address of the kernel's that is neither in its image nor in its direct map.
    #[error("{what} at {address:#x} is neither in the kernel's image nor in its direct map")]
    Untranslatable {
        /// Whose address it is.
        what: &'static str,
        /// The kernel's virtual address.
        address: u64,
    },
    /// The list of tasks kept changing, or is no list.
    #[error("the list of processes did not hold together in {0} attempts: the last break was at {1:#x}")]
    Torn(u32, u64),
    /// There is no such process.
    #[error("no process has PID {0}")]
    NoProcess(i32),
    /// A kernel thread has no memory of its own.
    #[error("PID {0} ({1}) is a thread of the kernel's: it has no code area of its own")]
    KernelThread(i32, String),
    /// The process ended while it was read.
    #[error("PID {0} ended or started another program while it was read")]
    Ended(i32),
    /// The page tables do not map the kernel's own memory.
    #[error("the page tables at {0:#x} do not map the kernel's own memory, with 4 levels or with 5")]
    NoPageTables(u64),
    /// Not an area of code.
    #[error("PID {pid} says that its code is at {:#x}-{:#x}, which is none", .area.start, .area.end)]
    NoCode {
        /// Its number.
        pid: i32,
        /// From `start_code` to `end_code`.
        area: Range<u64>,
    },
}

fn hint(btfs: usize) -> &'static str {
    match btfs {
        0 => ", nor its type information (BTF): a kernel without CONFIG_DEBUG_INFO_BTF needs a file of it",
        _ => ", though type information (BTF) was",
    }
}

impl<E> From<BtfError> for Error<E> {
    fn from(error: BtfError) -> Error<E> {
        Error::Btf(error)
    }
}

impl Answer {
    /// An error where the kernel's own memory is refused.
    fn expect<E>(self, address: u64) -> Result<(), Error<E>> {
        match self {
            Answer::Read => Ok(()),
            Answer::Refused => Err(Error::Refused(address)),
        }
    }
}

/// Little-endian words out of what was read.
fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

fn half(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}
