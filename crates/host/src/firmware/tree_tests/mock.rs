// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A mock tree of configuration spaces below `Cpu`: registers with writable bits, and bridges that forward by their
//! bus numbers and windows. Written from the specification, independent of `config`.

use crate::{AsyncProgram, Cpu, HostMemory};
use crate::{HostError, HostInput, HostOutput, HostProgram};
use device::seam::CompletionError;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use tlp::{Bdf, Data, PayloadPool, Time};

pub(super) const IO_SPACE: u32 = 1 << 0;
pub(super) const MEMORY_SPACE: u32 = 1 << 1;
/// Device/Port Types (`PCIe 5.0 Table 7-12`).
pub(super) const ROOT_PORT: u32 = 4;
pub(super) const UPSTREAM: u32 = 5;
pub(super) const DOWNSTREAM: u32 = 6;
/// DW of the PCI Express capability in all nodes.
pub(super) const PCIE: u16 = 0x40 / 4;

/// Virtual functions of a physical function.
#[derive(Clone, Debug)]
pub(super) struct Vfs {
    at: u16,
    /// First VF Offset without and with ARI Capable Hierarchy.
    offsets: (u16, u16),
    stride: u16,
    spaces: Vec<Node>,
}

/// A function, and the functions on its secondary bus.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    value: Vec<u32>,
    writable: Vec<u32>,
    next_capability: u16,
    next_extended: u16,
    last_capability: Option<u16>,
    last_extended: Option<u16>,
    pub(super) below: BTreeMap<u8, Node>,
    /// Number of further answers with CRS.
    pub(super) retries: u32,
    pub(super) vfs: Option<Vfs>,
}

impl Node {
    fn new(id: u32, class: u32, header_type: u32) -> Node {
        let mut node = Node { value: vec![0; 1024], writable: vec![0; 1024], ..Node::default() };
        (node.next_capability, node.next_extended) = (PCIE, 0x40);
        node.set(0, id, 0);
        node.set(1, 0, 0x547);
        node.set(2, class << 8 | 1, 0);
        node.set(3, header_type << 16, 0);
        node.set(15, 0, 0xff);
        node
    }

    /// An endpoint that supports MPS 256 B, 8-bit tags, 10-bit tags as requester and completer.
    pub(super) fn endpoint() -> Node {
        Node::new(0xabcd_1234, 0x02_0000, 0).pcie(0, 1 | 1 << 5, 1 << 16 | 1 << 17)
    }

    /// A bridge of this port type that supports MPS 512 B and all kinds of windows.
    pub(super) fn bridge(port: u32) -> Node {
        let mut node = Node::new(0x0001_1b36, 0x06_0400, 1);
        node.set(6, 0, 0x00ff_ffff);
        node.set(7, 0x0101, 0xf0f0);
        node.set(8, 0, 0xfff0_fff0);
        node.set(9, 0x0001_0001, 0xfff0_fff0);
        for dw in [10, 11, 12] {
            node.set(dw, 0, !0);
        }
        node.set(15, 0, 0x2_00ff);
        node.pcie(port, 2 | 1 << 5, 1 << 5 | 1 << 16)
    }

    pub(super) fn set(&mut self, dw: u16, value: u32, writable: u32) {
        (self.value[usize::from(dw)], self.writable[usize::from(dw)]) = (value, writable);
    }

    pub(super) fn register(&self, dw: u16) -> u32 {
        self.value[usize::from(dw)]
    }

    pub(super) fn id(mut self, id: u32) -> Node {
        self.set(0, id, 0);
        self
    }

    pub(super) fn multi_function(mut self) -> Node {
        self.value[3] |= 1 << 23;
        self
    }

    pub(super) fn pin(mut self, pin: u32) -> Node {
        self.value[15] |= pin << 8;
        self
    }

    pub(super) fn with(mut self, device_function: u8, node: Node) -> Node {
        self.below.insert(device_function, node);
        self
    }

    /// A memory BAR; `kind` is its bits 3:0.
    pub(super) fn bar(mut self, index: u16, kind: u32, size: u64) -> Node {
        self.bar_at(4 + index, kind, size);
        self
    }

    pub(super) fn io_bar(mut self, index: u16, size: u64) -> Node {
        self.set(4 + index, 1, !(size as u32 - 1));
        self
    }

    pub(super) fn rom(mut self, size: u32) -> Node {
        let dw = if self.is_bridge() { 0x38 / 4 } else { 0x30 / 4 };
        self.set(dw, 0, !(size - 1) | 1);
        self
    }

    fn bar_at(&mut self, dw: u16, kind: u32, size: u64) {
        let mask = !(size - 1);
        self.set(dw, kind, mask as u32 & !0xf);
        if kind & 0b100 != 0 {
            self.set(dw + 1, 0, (mask >> 32) as u32);
        }
    }

    /// Adds a capability with these registers and their writable bits. The first register is given without the
    /// capability's header.
    pub(super) fn capability(mut self, id: u8, registers: &[(u32, u32)]) -> Node {
        let at = self.next_capability;
        self.next_capability += registers.len() as u16;
        self.value[1] |= 1 << 20;
        match self.last_capability.replace(at) {
            None => self.value[13] = u32::from(at) * 4,
            Some(last) => self.value[usize::from(last)] |= u32::from(at) << 10,
        }
        for (dw, (value, writable)) in (at..).zip(registers) {
            self.set(dw, *value, *writable);
        }
        self.value[usize::from(at)] |= u32::from(id);
        self
    }

    pub(super) fn extended(mut self, id: u16, registers: &[(u32, u32)]) -> Node {
        let at = self.next_extended;
        self.next_extended += registers.len() as u16;
        if let Some(last) = self.last_extended.replace(at) {
            self.value[usize::from(last)] |= u32::from(at) << 22;
        }
        for (dw, (value, writable)) in (at..).zip(registers) {
            self.set(dw, *value, *writable);
        }
        self.value[usize::from(at)] |= 1 << 16 | u32::from(id);
        self
    }

    fn pcie(self, port: u32, capabilities: u32, capabilities_2: u32) -> Node {
        let mut registers = [(0, 0); 15];
        registers[0].0 = 2 << 16 | port << 20;
        registers[1].0 = capabilities;
        registers[2] = (0x2810, 0x7fff);
        registers[4].1 = 0xffff;
        registers[7].1 = 0x1f;
        registers[9].0 = capabilities_2;
        registers[10].1 = 0xffff;
        self.capability(0x10, &registers)
    }

    pub(super) fn pcie_register(mut self, offset: u16, value: u32) -> Node {
        self.value[usize::from(PCIE + offset)] = value;
        self
    }

    /// A slot that is Hot-Plug Capable.
    pub(super) fn hot_plug(mut self) -> Node {
        self.value[usize::from(PCIE)] |= 1 << 24;
        self.pcie_register(5, 1 << 6)
    }

    /// A root port whose Read Completion Boundary is 128 B, with CRS Software Visibility.
    pub(super) fn root_port() -> Node {
        Node::bridge(ROOT_PORT).pcie_register(4, 1 << 3).pcie_register(7, 1 << 16)
    }

    pub(super) fn switch(ports: impl IntoIterator<Item = Node>) -> Node {
        (0u8..).zip(ports).fold(Node::bridge(UPSTREAM), |node, (n, port)| node.with(n << 3, port))
    }

    pub(super) fn downstream() -> Node {
        Node::bridge(DOWNSTREAM)
    }

    /// MSI-X with a table at offset 1000h of a BAR.
    pub(super) fn msix(self, vectors: u32, bar: u32) -> Node {
        self.capability(0x11, &[((vectors - 1) << 16, 0xc000_0000), (0x1000 | bar, 0), (0x2000 | bar, 0)])
    }

    pub(super) fn msi(self, log_vectors: u32) -> Node {
        self.capability(0x05, &[(1 << 23 | log_vectors << 17, 0x71_0000), (0, !3), (0, !0), (0, 0xffff)])
    }

    pub(super) fn ari(self, next: u32) -> Node {
        self.extended(0x0e, &[(0, 0), (next << 8, 0)])
    }

    /// SR-IOV: VFs like `vf`, each with a 64-bit prefetchable VF BAR 0.
    pub(super) fn sriov(mut self, total: u16, offsets: (u16, u16), stride: u16, bar: u64, vf: &Node) -> Node {
        let at = self.next_extended;
        let mut registers = [(0, 0); 16];
        registers[2].1 = 0x1f;
        registers[3].0 = u32::from(total) << 16 | u32::from(total);
        registers[4].1 = 0xffff;
        registers[5].0 = u32::from(stride) << 16 | u32::from(offsets.0);
        registers[6].0 = 0x5678 << 16;
        registers[7].0 = 0x553;
        registers[8] = (1, !0);
        self = self.extended(0x10, &registers);
        self.bar_at(at + 9, 0b1100, bar);
        let mut vf = vf.clone();
        vf.set(0, !0, 0);
        self.vfs = Some(Vfs { at, offsets, stride, spaces: vec![vf; usize::from(total)] });
        self
    }

    fn is_bridge(&self) -> bool {
        self.value[3] >> 16 & 0x7f == 1
    }

    pub(super) fn buses(&self) -> [u8; 3] {
        let [primary, secondary, subordinate, _] = self.register(6).to_le_bytes();
        [primary, secondary, subordinate]
    }

    fn write(&mut self, dw: u16, byte_enables: u8, value: u32) {
        let bytes = [0, 1, 2, 3].map(|i| if byte_enables >> i & 1 == 1 { 0xff } else { 0 });
        let mask = u32::from_le_bytes(bytes) & self.writable[usize::from(dw)];
        let register = &mut self.value[usize::from(dw)];
        *register = *register & !mask | value & mask;
        let Some(vfs) = self.vfs.as_ref().filter(|v| v.at + 2 == dw) else { return };
        let (at, stride) = (vfs.at, vfs.stride);
        let offset = if value & 1 << 4 == 0 { vfs.offsets.0 } else { vfs.offsets.1 };
        self.set(at + 5, u32::from(stride) << 16 | u32::from(offset), 0);
    }

    /// The enabled virtual function with this ID of the physical function `own`.
    fn vf(&mut self, own: Bdf, bdf: Bdf) -> Option<&mut Node> {
        let at = self.vfs.as_ref()?.at;
        if self.register(at + 2) & 1 == 0 {
            return None;
        }
        let (spread, count) = (self.register(at + 5), self.register(at + 4) & 0xffff);
        let beyond = u32::from(bdf.bits()).checked_sub(u32::from(own.bits()) + (spread & 0xffff))?;
        let (index, rest) = (beyond / (spread >> 16), beyond % (spread >> 16));
        let spaces = &mut self.vfs.as_mut()?.spaces;
        spaces.get_mut(index as usize).filter(|_| rest == 0 && index < count)
    }

    /// The range of memory or I/O that the bridge forwards: first and last address.
    pub(super) fn window(&self, is_io: bool, prefetchable: bool) -> Option<(u64, u64)> {
        let enable = if is_io { IO_SPACE } else { MEMORY_SPACE };
        if !self.is_bridge() || self.register(1) & enable == 0 {
            return None;
        }
        let r = |dw| u64::from(self.register(dw));
        let (first, last) = match (is_io, prefetchable) {
            (true, _) => {
                ((r(7) & 0xf0) << 8 | (r(12) & 0xffff) << 16, r(7) & 0xf000 | 0xfff | r(12) >> 16 << 16)
            }
            (_, false) => ((r(8) & 0xfff0) << 16, r(8) & 0xfff0_0000 | 0xf_ffff),
            (_, true) => ((r(9) & 0xfff0) << 16 | r(10) << 32, r(9) & 0xfff0_0000 | 0xf_ffff | r(11) << 32),
        };
        (first <= last).then_some((first, last))
    }

    /// Its BARs that are enabled: number, first and last address.
    pub(super) fn decoded(&self, is_io: bool) -> Vec<(u8, u64, u64)> {
        let enable = if is_io { IO_SPACE } else { MEMORY_SPACE };
        let count = if self.is_bridge() { 2 } else { 6 };
        let (mut index, mut all) = (0, Vec::new());
        while index < count && self.register(1) & enable != 0 {
            let dw = 4 + index;
            let wide = self.value[usize::from(dw)] & 0b101 == 0b100;
            let kind = if self.register(dw) & 1 == 1 { 0b11 } else { 0xf };
            let high = if wide { self.register(dw + 1) } else { 0 };
            let address = u64::from(high) << 32 | u64::from(self.register(dw) & !kind);
            let high = if wide { self.writable[usize::from(dw) + 1] } else { !0 };
            let mask = u64::from(high) << 32 | u64::from(self.writable[usize::from(dw)]);
            if self.writable[usize::from(dw)] != 0 && (kind == 0b11) == is_io {
                all.push((index as u8, address, address + !mask));
            }
            index += if wide { 2 } else { 1 };
        }
        all
    }
}

/// A host with its root complex.
#[derive(Clone, Debug, Default)]
pub(super) struct Host {
    pub(super) functions: BTreeMap<u8, Node>,
    /// Number of configuration requests so far.
    pub(super) requests: u64,
    /// Memory writes, and the functions and BARs that claimed them.
    pub(super) writes: Vec<(u64, Vec<u8>, String)>,
}

impl Host {
    /// Root ports from device 1, with the given nodes as device 0 below them.
    pub(super) fn new(ports: impl IntoIterator<Item = Node>) -> Host {
        Host { functions: (1u8..).map(|n| n << 3).zip(ports).collect(), ..Host::default() }
    }

    fn answer(&mut self, bdf: Bdf) -> Result<&mut Node, HostError> {
        self.requests += 1;
        let absent = HostError::Completion(CompletionError::UnsupportedRequest);
        let node = find(&mut self.functions, 0, bdf).ok_or(absent)?;
        if node.retries > 0 {
            node.retries -= 1;
            return Err(HostError::ConfigRetry);
        }
        Ok(node)
    }

    pub(super) fn node(&mut self, bdf: Bdf) -> &mut Node {
        find(&mut self.functions, 0, bdf).unwrap_or_else(|| panic!("{bdf} is not reached"))
    }

    /// The functions and BARs that claim this address, according to the registers on the path.
    pub(super) fn claimants(&self, address: u64, is_io: bool) -> Vec<String> {
        let mut all = Vec::new();
        claim(&self.functions, 0, address, is_io, &mut all);
        all
    }
}

fn find(functions: &mut BTreeMap<u8, Node>, bus: u8, bdf: Bdf) -> Option<&mut Node> {
    for (number, node) in functions {
        let own = Bdf::from_bits(u16::from(bus) << 8 | u16::from(*number));
        if own == bdf {
            return Some(node);
        }
        let [_, secondary, subordinate] = node.buses();
        if node.is_bridge() && secondary > 0 && (secondary..=subordinate).contains(&bdf.bus()) {
            return find(&mut node.below, secondary, bdf);
        }
        if node.vf(own, bdf).is_some() {
            return node.vf(own, bdf);
        }
    }
    None
}

fn claim(functions: &BTreeMap<u8, Node>, bus: u8, address: u64, is_io: bool, all: &mut Vec<String>) {
    for (number, node) in functions {
        let bdf = Bdf::from_bits(u16::from(bus) << 8 | u16::from(*number));
        for (bar, first, last) in node.decoded(is_io) {
            if (first..=last).contains(&address) {
                all.push(format!("{bdf} BAR {bar}"));
            }
        }
        let windows = [false, true].into_iter().filter_map(|p| node.window(is_io, p));
        if windows.into_iter().any(|(first, last)| (first..=last).contains(&address)) {
            claim(&node.below, node.buses()[1], address, is_io, all);
        }
        if let Some(vfs) = node.vfs.as_ref().filter(|v| !is_io && node.register(v.at + 2) & 0b1001 == 0b1001)
        {
            let base =
                u64::from(node.register(vfs.at + 10)) << 32 | u64::from(node.register(vfs.at + 9) & !0xf);
            let mask = u64::from(node.writable[usize::from(vfs.at) + 10]) << 32
                | u64::from(node.writable[usize::from(vfs.at) + 9]);
            let size = mask.wrapping_neg();
            let count = u64::from(node.register(vfs.at + 4) & 0xffff);
            if (base..base + size * count).contains(&address) {
                all.push(format!("{bdf} VF {} BAR 0", (address - base) / size));
            }
        }
    }
}

impl Serve for Host {
    fn serve(&mut self, pool: &PayloadPool, output: HostOutput) -> Option<HostInput> {
        let (id, result) = match output {
            HostOutput::ConfigRead { id, function, register_dw, byte_enables: 0xf } => {
                let value = self.answer(function).map(|f| f.register(register_dw));
                (id, value.map(|v| Data::Carried(pool.copy(&v.to_le_bytes()))))
            }
            HostOutput::ConfigWrite { id, function, register_dw, byte_enables, value } => {
                let written = self.answer(function).map(|f| f.write(register_dw, byte_enables, value));
                (id, written.map(|()| Data::NONE))
            }
            HostOutput::MmioWrite { address, data: Data::Carried(bytes) } => {
                let takers = self.claimants(address, false);
                self.writes.push((address, bytes.to_vec(), takers.join(" and ")));
                return None;
            }
            other => panic!("enumeration does nothing like {other:?}"),
        };
        Some(HostInput::Done { id, result })
    }
}

/// Answers the requests of a program.
pub(super) trait Serve {
    /// Returns the answer, if the request has one.
    fn serve(&mut self, pool: &PayloadPool, output: HostOutput) -> Option<HostInput>;
}

/// Runs a program on this host to its end. Also returns the simulated time that this took.
pub(super) fn run<T: 'static, E: Into<String>, F>(
    host: &mut impl Serve,
    program: impl FnOnce(Cpu) -> F,
) -> (Result<T, String>, Time)
where
    F: Future<Output = Result<T, E>> + 'static,
{
    let result = Rc::new(RefCell::new(None));
    let kept = Rc::clone(&result);
    let mut program = AsyncProgram::new(HostMemory::new(4096, 0).unwrap(), |cpu| {
        let future = program(cpu);
        async move {
            *kept.borrow_mut() = Some(future.await.map_err(Into::into)?);
            Ok::<(), String>(())
        }
    });
    let (pool, mut now) = (PayloadPool::new(), Time::ZERO);
    loop {
        while let Some(output) = program.poll_output(now) {
            if let Some(input) = host.serve(&pool, output) {
                program.handle(now, input);
            }
        }
        if let Some(outcome) = program.outcome() {
            let outcome = outcome.map(|()| result.take().expect("it has ended"));
            return (outcome.map_err(|e| e.to_string()), now);
        }
        now = program.poll_timeout().expect("firmware waits for an answer or for time");
        program.handle(now, HostInput::Timer);
    }
}
