// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A kernel that was found, and the translation of its addresses.

use crate::layout::Layout;
use crate::{Answer, Error, PhysicalMemory, word};
use std::ops::Range;

/// Alignment of the image under KASLR: `CONFIG_PHYSICAL_ALIGN`.
pub(crate) const STEP: u64 = 2 << 20;
pub(crate) const GIB: u64 = 1 << 30;
/// Virtual addresses of kernel images: `__START_KERNEL_map` and the GiB that KASLR uses (`KERNEL_IMAGE_SIZE`).
pub(crate) const IMAGE: Range<u64> = 0xffff_ffff_8000_0000..0xffff_ffff_c000_0000;

/// Location of `init_task`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Init {
    /// Physical address.
    pub(crate) physical: u64,
    /// Virtual address in the kernel's image.
    pub(crate) address: u64,
}
/// Maximum size of a direct map: 52 bits of physical address.
const DIRECT_BYTES: u64 = 1 << 52;

/// A kernel that runs in this memory.
pub struct Kernel<'m, M> {
    pub(crate) memory: &'m mut M,
    pub(crate) layout: Layout,
    pub(crate) init: Init,
    /// Start of the direct map: `page_offset_base`.
    direct: u64,
    ranges: Vec<Range<u64>>,
}

impl<'m, M: PhysicalMemory> Kernel<'m, M> {
    /// Locates the direct map. The list of tasks gives the virtual address of the second task in the direct map.
    /// The low 30 bits of this address equal those of the physical address. The back link of the second task must
    /// point to the first task.
    pub(crate) fn new(
        memory: &'m mut M,
        init: Init,
        layout: Layout,
        ranges: Vec<Range<u64>>,
    ) -> Result<Kernel<'m, M>, Error<M::Error>> {
        let mut kernel = Kernel { memory, layout, init, direct: 0, ranges };
        let tasks = kernel.layout.task.tasks;
        let next = kernel.word_at(init.physical + tasks)?;
        let (first, last) = (next % GIB, kernel.ranges.iter().map(|range| range.end).max().unwrap_or(0));
        for physical in (first..last).step_by(GIB as usize) {
            let (mut link, back) = ([0; 8], physical.saturating_add(8));
            if !kernel.ranges.iter().any(|range| range.contains(&back))
                || kernel.memory.read(back, &mut link).map_err(Error::Memory)? == Answer::Refused
                || word(&link, 0) != init.address.wrapping_add(tasks)
            {
                continue;
            }
            if let Some(direct) = next.checked_sub(physical).filter(|base| *base >= 1 << 63) {
                kernel.direct = direct;
                return Ok(kernel);
            }
        }
        Err(Error::NoDirectMap(next))
    }

    /// Returns the physical address of `init_task`.
    pub fn init_task(&self) -> u64 {
        self.init.physical
    }

    /// Returns the image's virtual address minus its physical address.
    pub fn image_offset(&self) -> u64 {
        self.init.address.wrapping_sub(self.init.physical)
    }

    /// Returns the start of the direct map of all memory.
    pub fn direct_map(&self) -> u64 {
        self.direct
    }

    /// Returns the memory ranges that were found.
    pub fn memory(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// Translates a virtual address of the kernel to a physical address.
    pub(crate) fn physical(&self, what: &'static str, address: u64) -> Result<u64, Error<M::Error>> {
        if IMAGE.contains(&address) {
            return Ok(address.wrapping_sub(self.image_offset()));
        }
        let offset = address.checked_sub(self.direct).filter(|offset| *offset < DIRECT_BYTES);
        offset.ok_or(Error::Untranslatable { what, address })
    }

    /// Reads the 64-bit word at a physical address.
    pub(crate) fn word_at(&mut self, address: u64) -> Result<u64, Error<M::Error>> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Ok(word(&bytes, 0))
    }

    /// Reads memory. Returns an error if the read is refused.
    pub(crate) fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), Error<M::Error>> {
        self.memory.read(address, bytes).map_err(Error::Memory)?.expect(address)
    }
}
