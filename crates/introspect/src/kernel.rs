// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A kernel that was found: its addresses, and where they are in memory.

use crate::layout::Layout;
use crate::{Answer, Error, Memory, word};
use std::ops::Range;

/// What KASLR moves the image by: `CONFIG_PHYSICAL_ALIGN`.
pub(crate) const STEP: u64 = 2 << 20;
pub(crate) const GIB: u64 = 1 << 30;
/// Where images are: `__START_KERNEL_map` and the GiB that KASLR has for it (`KERNEL_IMAGE_SIZE`).
pub(crate) const IMAGE: Range<u64> = 0xffff_ffff_8000_0000..0xffff_ffff_c000_0000;

/// Where `init_task` is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Init {
    /// Its physical address.
    pub(crate) physical: u64,
    /// Its address in the kernel's image.
    pub(crate) address: u64,
}
/// The most that a direct map has: 52 bits of physical address.
const DIRECT_BYTES: u64 = 1 << 52;

/// A kernel that runs on this memory.
pub struct Kernel<'m, M> {
    pub(crate) memory: &'m mut M,
    pub(crate) layout: Layout,
    pub(crate) init: Init,
    /// Where the direct map begins: `page_offset_base`.
    direct: u64,
    ranges: Vec<Range<u64>>,
}

impl<'m, M: Memory> Kernel<'m, M> {
    /// Finds the direct map: the first task's successor is known by its address there, whose last 30 bits are those of its
    /// physical address, and by its link back.
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

    /// Physical address of `init_task`.
    pub fn init_task(&self) -> u64 {
        self.init.physical
    }

    /// What the image's virtual addresses are above their physical ones.
    pub fn image_offset(&self) -> u64 {
        self.init.address.wrapping_sub(self.init.physical)
    }

    /// Where the direct map of all memory begins.
    pub fn direct_map(&self) -> u64 {
        self.direct
    }

    /// Memory that was found.
    pub fn memory(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// The physical address behind a virtual one of the kernel's.
    pub(crate) fn physical(&self, what: &'static str, address: u64) -> Result<u64, Error<M::Error>> {
        if IMAGE.contains(&address) {
            return Ok(address.wrapping_sub(self.image_offset()));
        }
        let offset = address.checked_sub(self.direct).filter(|offset| *offset < DIRECT_BYTES);
        offset.ok_or(Error::Untranslatable { what, address })
    }

    /// The word at this physical address.
    pub(crate) fn word_at(&mut self, address: u64) -> Result<u64, Error<M::Error>> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Ok(word(&bytes, 0))
    }

    /// Memory that must be there.
    pub(crate) fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), Error<M::Error>> {
        self.memory.read(address, bytes).map_err(Error::Memory)?.expect(address)
    }
}
