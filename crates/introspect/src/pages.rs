// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Page tables of x86-64: Intel SDM volume 3A, sections 4.5.4 and 4.5.5. For entries that are not present: Linux,
//! `arch/x86/include/asm/pgtable_64.h` and `pgtable-invert.h`.

use crate::kernel::Kernel;
use crate::{Error, PhysicalMemory, word};

pub(crate) const PAGE_BYTES: u64 = 4096;
const ENTRIES: u64 = 512;
const PRESENT: u64 = 1;
/// The entry maps a page of 2 MiB or 1 GiB.
const HUGE: u64 = 1 << 7;
/// `_PAGE_PROTNONE`: the page is in memory, but access is forbidden.
const PROTNONE: u64 = 1 << 8;
/// Bits 12 to 51: address of the next table or of the page.
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// Number of levels of page tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Levels {
    /// 48-bit addresses.
    Four = 4,
    /// 57-bit addresses: LA57.
    Five = 5,
}

/// Reason why part of a process's memory is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Missing {
    /// The process has never accessed it, or it was dropped because it is also in its file.
    NotMapped,
    /// It is swapped out or being migrated.
    Swapped,
    /// It is in memory, but the read was refused.
    Refused,
}

/// A page, or a hole of the size of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Page {
    /// Physical address of the first byte, or the reason why the page is missing.
    pub(crate) start: Result<u64, Missing>,
    /// Size in bytes.
    pub(crate) bytes: u64,
}

/// A process's page tables. Caches the last table read on each level.
pub(crate) struct Tables {
    root: u64,
    levels: Levels,
    last: [Option<(u64, Box<[u8; PAGE_BYTES as usize]>)>; 5],
}

impl Tables {
    /// Opens the tables at a physical address. The number of levels is the number with which the tables map the
    /// kernel's own `init_task`.
    pub(crate) fn new<M: PhysicalMemory>(
        kernel: &mut Kernel<'_, M>,
        root: u64,
    ) -> Result<Tables, Error<M::Error>> {
        let (address, physical) = (kernel.init.address, kernel.init.physical);
        for levels in [Levels::Four, Levels::Five] {
            let mut tables = Tables { root, levels, last: [const { None }; 5] };
            let page = tables.page(kernel, address)?;
            if page.start.is_ok_and(|start| start + address % page.bytes == physical) {
                return Ok(tables);
            }
        }
        Err(Error::NoPageTables(root))
    }

    pub(crate) fn levels(&self) -> Levels {
        self.levels
    }

    /// Returns the page with this virtual address.
    pub(crate) fn page<M: PhysicalMemory>(
        &mut self,
        kernel: &mut Kernel<'_, M>,
        address: u64,
    ) -> Result<Page, Error<M::Error>> {
        let mut table = self.root;
        for level in (0..self.levels as usize).rev() {
            let shift = 12 + 9 * level;
            let bytes = 1 << shift;
            let hole = |why| Ok(Page { start: Err(why), bytes });
            let entry = self.entry(kernel, level, table, address >> shift & (ENTRIES - 1))?;
            let Some(entry) = entry else { return hole(Missing::Refused) };
            // Only entries of the last level, and large entries for 2 MiB and 1 GiB, map pages.
            let is_page = level == 0 || (level <= 2 && entry & HUGE != 0);
            match entry {
                0 => return hole(Missing::NotMapped),
                _ if entry & PRESENT == 0 && entry & PROTNONE == 0 => return hole(Missing::Swapped),
                // Linux inverts the address of a forbidden page, so that no speculation follows it.
                _ if entry & PRESENT == 0 => {
                    return Ok(Page { start: Ok(!entry & ADDRESS & !(bytes - 1)), bytes });
                }
                _ if is_page => return Ok(Page { start: Ok(entry & ADDRESS & !(bytes - 1)), bytes }),
                _ => table = entry & ADDRESS,
            }
        }
        unreachable!("entries of level 0 refer only to pages")
    }

    /// Returns an entry of a table, or `None` if the table cannot be read.
    fn entry<M: PhysicalMemory>(
        &mut self,
        kernel: &mut Kernel<'_, M>,
        level: usize,
        table: u64,
        index: u64,
    ) -> Result<Option<u64>, Error<M::Error>> {
        let last = &mut self.last[level];
        if last.as_ref().is_none_or(|(at, _)| *at != table) {
            let mut bytes = Box::new([0; PAGE_BYTES as usize]);
            match kernel.read(table, &mut bytes[..]) {
                Err(Error::Refused(_)) => return Ok(None),
                read => read?,
            }
            *last = Some((table, bytes));
        }
        Ok(last.as_ref().map(|(_, bytes)| word(&bytes[..], index as usize * 8)))
    }
}
