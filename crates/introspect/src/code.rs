// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds a process's code area through its page tables.

use crate::cache;
use crate::kernel::Kernel;
use crate::pages::{Levels, Missing, Tables};
use crate::tasks::Task;
use crate::{Error, PhysicalMemory};
use serde::Serialize;
use std::io::{self, Write};
use std::ops::Range;

/// Maximum size of a code area in bytes. A larger area is an error.
const MAX_BYTES: u64 = 4 << 30;
/// Bytes per read and per write of [`Code::write_to`].
const CHUNK_BYTES: u64 = 1 << 20;

/// Code in memory, contiguous in virtual and physical addresses.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct CodeRun {
    /// First virtual address.
    pub address: u64,
    /// First physical address.
    #[serde(rename = "physical_address")]
    pub physical: u64,
    /// Length in bytes.
    #[serde(rename = "length_bytes")]
    pub bytes: u64,
    /// True if the process maps this code. Otherwise the code is only in the page cache of the program's file.
    pub is_mapped: bool,
}

/// Code that is not in memory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Gap {
    /// First virtual address.
    pub address: u64,
    /// Length in bytes.
    #[serde(rename = "length_bytes")]
    pub bytes: u64,
    /// Why it is missing.
    pub why: Missing,
}

/// The code of one process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Code {
    /// The process.
    pub task: Task,
    /// Virtual addresses from `start_code` to `end_code`, the executable part of the program's file.
    pub area: Range<u64>,
    /// Levels of the page tables.
    pub levels: Levels,
    /// Code in memory, by address.
    pub runs: Vec<CodeRun>,
    /// Code not in memory, by address.
    pub gaps: Vec<Gap>,
}

impl Code {
    /// Finds the code of process `pid`.
    ///
    /// # Errors
    /// [`Error`] if there is no such process, or if the process has no user memory or code.
    pub fn of<M: PhysicalMemory>(kernel: &mut Kernel<'_, M>, pid: i32) -> Result<Code, Error<M::Error>> {
        let task = kernel.task(pid)?;
        if task.is_kernel_thread() {
            return Err(Error::KernelThread(pid, task.name));
        }
        let mm = kernel.physical("an mm_struct", task.mm)?;
        let layout = kernel.layout.mm.clone();
        let mut member = |offset: u64| kernel.word_at(mm.saturating_add(offset));
        let (root, area) = (member(layout.pgd)?, member(layout.start_code)?..member(layout.end_code)?);
        let len = area.end.checked_sub(area.start);
        // The upper half of the address space belongs to the kernel.
        if len.is_none_or(|len| len == 0 || len > MAX_BYTES) || area.end >> 63 != 0 {
            return Err(Error::NoCode { pid, area });
        }
        let root = kernel.physical("a page table", root)?;
        let mut tables = Tables::new(kernel, root)?;
        let levels = tables.levels();
        let mut code = Code { task, area, levels, runs: Vec::new(), gaps: Vec::new() };
        code.walk(kernel, &mut tables)?;
        if !code.gaps.is_empty() {
            cache::fill(&mut code, kernel, &mut tables, mm)?;
        }
        code.is_still_there(kernel)?;
        Ok(code)
    }

    /// Checks that the process still exists and has the same memory.
    ///
    /// # Errors
    /// [`Error::Ended`]
    pub fn is_still_there<M: PhysicalMemory>(
        &self,
        kernel: &mut Kernel<'_, M>,
    ) -> Result<(), Error<M::Error>> {
        let now = kernel.task(self.task.pid);
        match now {
            Ok(now) if (now.physical, now.mm) == (self.task.physical, self.task.mm) => Ok(()),
            Ok(_) | Err(Error::NoProcess(_)) => Err(Error::Ended(self.task.pid)),
            Err(error) => Err(error),
        }
    }

    /// Reads the area's bytes from virtual address `address`. Bytes that are not in memory are zero.
    ///
    /// # Errors
    /// [`Error::Refused`], and errors of [`PhysicalMemory`].
    ///
    /// # Panics
    /// If the bytes are not all within the area.
    pub fn read<M: PhysicalMemory>(
        &self,
        kernel: &mut Kernel<'_, M>,
        address: u64,
        data: &mut [u8],
    ) -> Result<(), Error<M::Error>> {
        let end = address + data.len() as u64;
        assert!(self.area.start <= address && end <= self.area.end, "within the area");
        data.fill(0);
        let first = self.runs.partition_point(|run| run.address + run.bytes <= address);
        for run in self.runs[first..].iter().take_while(|run| run.address < end) {
            let (from, to) = (run.address.max(address), (run.address + run.bytes).min(end));
            let part = &mut data[(from - address) as usize..(to - address) as usize];
            kernel.read(run.physical + (from - run.address), part)?;
        }
        Ok(())
    }

    /// Writes the whole area to `out`, with zeros for bytes that are not in memory. Calls `progress` with each address that is read next.
    /// Returns an error of `out`.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn write_to<M: PhysicalMemory>(
        &self,
        kernel: &mut Kernel<'_, M>,
        out: &mut impl Write,
        mut progress: impl FnMut(u64),
    ) -> Result<io::Result<()>, Error<M::Error>> {
        let mut chunk = vec![0; CHUNK_BYTES as usize];
        let mut at = self.area.start;
        while at < self.area.end {
            progress(at);
            let part = &mut chunk[..(self.area.end - at).min(CHUNK_BYTES) as usize];
            self.read(kernel, at, part)?;
            if let Err(error) = out.write_all(part) {
                return Ok(Err(error));
            }
            at += part.len() as u64;
        }
        Ok(Ok(()))
    }

    /// Returns the number of bytes that are not in memory.
    pub fn missing_bytes(&self) -> u64 {
        self.gaps.iter().map(|gap| gap.bytes).sum()
    }

    fn walk<M: PhysicalMemory>(
        &mut self,
        kernel: &mut Kernel<'_, M>,
        tables: &mut Tables,
    ) -> Result<(), Error<M::Error>> {
        let mut address = self.area.start;
        while address < self.area.end {
            let page = tables.page(kernel, address)?;
            let within = address % page.bytes;
            let bytes = (page.bytes - within).min(self.area.end - address);
            match page.start {
                Ok(start) => {
                    self.add_run(CodeRun { address, physical: start + within, bytes, is_mapped: true })
                }
                Err(why) => self.add_gap(Gap { address, bytes, why }),
            }
            address += bytes;
        }
        Ok(())
    }

    pub(crate) fn add_run(&mut self, new: CodeRun) {
        match self.runs.last_mut() {
            Some(run)
                if run.address + run.bytes == new.address
                    && run.physical + run.bytes == new.physical
                    && run.is_mapped == new.is_mapped =>
            {
                run.bytes += new.bytes;
            }
            _ => self.runs.push(new),
        }
    }

    pub(crate) fn add_gap(&mut self, new: Gap) {
        match self.gaps.last_mut() {
            Some(gap) if gap.address + gap.bytes == new.address && gap.why == new.why => {
                gap.bytes += new.bytes
            }
            _ => self.gaps.push(new),
        }
    }
}
