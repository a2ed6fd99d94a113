// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Page tables of x86-64: Intel SDM volume 3A, sections 4.5.4 and 4.5.5; what entries that are not present hold:
//! Linux, `arch/x86/include/asm/pgtable_64.h` and `pgtable-invert.h`.

use crate::kernel::Kernel;
use crate::{Error, Memory, word};

pub(crate) const PAGE_BYTES: u64 = 4096;
const ENTRIES: u64 = 512;
const PRESENT: u64 = 1;
/// The entry is of a page of 2 MiB or 1 GiB.
const HUGE: u64 = 1 << 7;
/// `_PAGE_PROTNONE`: the page is there, and nobody may touch it.
const PROTNONE: u64 = 1 << 8;
/// Bits 12 to 51: where the next table or the page is.
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// How many levels page tables have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Levels {
    /// 48 bits of address.
    Four = 4,
    /// 57 bits of address: LA57.
    Five = 5,
}

/// Why memory of a process is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Missing {
    /// It was never touched, or was dropped: its file has it.
    NotMapped,
    /// It is swapped out, or on its way elsewhere.
    Swapped,
    /// It is there, and the read was refused.
    Refused,
}

/// A page, or a hole of a size of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Page {
    /// Where its first byte is, or why there is none.
    pub(crate) start: Result<u64, Missing>,
    /// Its size.
    pub(crate) bytes: u64,
}

/// A process's tables, and of each level the one that was read last.
pub(crate) struct Tables {
    root: u64,
    levels: Levels,
    last: [Option<(u64, Box<[u8; PAGE_BYTES as usize]>)>; 5],
}

impl Tables {
    /// The tables at this physical address. They map the kernel's own `init_task` where they have this many levels.
    pub(crate) fn new<M: Memory>(kernel: &mut Kernel<'_, M>, root: u64) -> Result<Tables, Error<M::Error>> {
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

    /// The page that has this virtual address.
    pub(crate) fn page<M: Memory>(
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
            // Only tables' last entries and those of 2 MiB and 1 GiB lead to pages.
            let is_page = level == 0 || (level <= 2 && entry & HUGE != 0);
            match entry {
                0 => return hole(Missing::NotMapped),
                _ if entry & PRESENT == 0 && entry & PROTNONE == 0 => return hole(Missing::Swapped),
                // What nobody may touch has its address inverted, so that no speculation follows it.
                _ if entry & PRESENT == 0 => {
                    return Ok(Page { start: Ok(!entry & ADDRESS & !(bytes - 1)), bytes });
                }
                _ if is_page => return Ok(Page { start: Ok(entry & ADDRESS & !(bytes - 1)), bytes }),
                _ => table = entry & ADDRESS,
            }
        }
        unreachable!("level 0 leads to pages alone")
    }

    /// An entry of a table; none where the table cannot be read.
    fn entry<M: Memory>(
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
