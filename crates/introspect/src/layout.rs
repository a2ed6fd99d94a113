// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Offsets of the structure members that this crate reads.

use crate::btf::{Btf, BtfError};
use std::ops::Range;

/// `TASK_COMM_LEN` (Linux, `include/linux/sched.h`), which BTF has only as the size of an array.
pub(crate) const COMM_BYTES: usize = 16;
/// Upper limit on offsets in `task_struct`: Debian's have 9 to 14 KB.
const MAX_TASK_BYTES: u64 = 1 << 20;

/// Offsets of members, in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    pub(crate) task: TaskLayout,
    pub(crate) mm: MmLayout,
    /// `None` if the kernel's page cache has another structure.
    pub(crate) cache: Option<CacheLayout>,
}

/// `struct task_struct`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TaskLayout {
    pub(crate) state: u64,
    pub(crate) exit_state: u64,
    pub(crate) tasks: u64,
    pub(crate) mm: u64,
    pub(crate) pid: u64,
    pub(crate) real_parent: u64,
    pub(crate) group_leader: u64,
    pub(crate) comm: u64,
    /// Range that contains all of these members.
    pub(crate) span: Range<u64>,
}

/// `struct mm_struct`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MmLayout {
    pub(crate) pgd: u64,
    pub(crate) start_code: u64,
    pub(crate) end_code: u64,
}

/// From `struct mm_struct` to the `struct page`s of its program's file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CacheLayout {
    pub(crate) exe_file: u64,
    pub(crate) f_mapping: u64,
    /// In `struct address_space`.
    pub(crate) xa_head: u64,
    /// In `struct xa_node`.
    pub(crate) shift: u64,
    pub(crate) slots: u64,
    /// In `struct page`.
    pub(crate) flags: u64,
    /// Size of `struct page`.
    pub(crate) page_bytes: u64,
    /// Number of the flag `PG_uptodate`.
    pub(crate) up_to_date: u32,
}

impl Layout {
    /// Takes the offsets from a kernel's type information.
    ///
    /// # Errors
    /// [`BtfError::NoMember`]
    pub fn new(btf: &Btf) -> Result<Layout, BtfError> {
        let mm = |member| btf.offset_bytes("mm_struct", member);
        Ok(Layout {
            task: TaskLayout::new(btf)?,
            mm: MmLayout { pgd: mm("pgd")?, start_code: mm("start_code")?, end_code: mm("end_code")? },
            cache: CacheLayout::new(btf).ok(),
        })
    }
}

impl CacheLayout {
    fn new(btf: &Btf) -> Result<CacheLayout, BtfError> {
        Ok(CacheLayout {
            exe_file: btf.offset_bytes("mm_struct", "exe_file")?,
            f_mapping: btf.offset_bytes("file", "f_mapping")?,
            xa_head: btf.offset_bytes("address_space", "i_pages")? + btf.offset_bytes("xarray", "xa_head")?,
            shift: btf.offset_bytes("xa_node", "shift")?,
            slots: btf.offset_bytes("xa_node", "slots")?,
            flags: btf.offset_bytes("page", "flags")?,
            page_bytes: btf.size_bytes("page")?.max(1),
            up_to_date: btf.value("pageflags", "PG_uptodate")?.min(u64::BITS - 1),
        })
    }
}

impl TaskLayout {
    fn new(btf: &Btf) -> Result<TaskLayout, BtfError> {
        let at = |member| {
            let offset = btf.offset_bytes("task_struct", member)?;
            let fits = offset <= MAX_TASK_BYTES;
            fits.then_some(offset).ok_or(BtfError::NoMember { structure: "task_struct", member })
        };
        let mut layout = TaskLayout {
            // `state` before Linux 5.14.
            state: at("__state").or_else(|_| at("state"))?,
            exit_state: at("exit_state")?,
            tasks: at("tasks")?,
            mm: at("mm")?,
            pid: at("pid")?,
            real_parent: at("real_parent")?,
            group_leader: at("group_leader")?,
            comm: at("comm")?,
            span: 0..0,
        };
        let TaskLayout { state, exit_state, tasks, mm, pid, real_parent, group_leader, comm, .. } = layout;
        let starts = [state, exit_state, tasks, mm, pid, real_parent, group_leader, comm];
        let (first, last) = starts.iter().fold((u64::MAX, 0), |(a, b), at| (a.min(*at), b.max(*at)));
        // The longest of these members have 16 bytes: the name, and the two links of a list.
        layout.span = first..last + COMM_BYTES as u64;
        Ok(layout)
    }
}
