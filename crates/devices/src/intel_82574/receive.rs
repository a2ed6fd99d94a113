// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Receive: filters, the ring of queue 0 (82574 datasheet, §7.1), and wake-up.

use super::nic::Nic;
use super::offload::{check, fcs};
use super::registers::{self as r, cause, ctrl, rctl, statistics};
use super::split::{self, BUFFERS, Layout, UNIT_BYTES};
use device::DmaError;
use std::collections::VecDeque;
use std::rc::Rc;

/// Maximum length of a frame without FCS and tag, if long packets are disabled.
pub(super) const MAX_SHORT: usize = 1514;
/// Maximum with long packets enabled (§10.2.5.1: 9234 with FCS).
pub(super) const MAX_FRAME: usize = 9230;
pub(super) const VLAN_BYTES: usize = 4;
/// Maximum number of descriptors per read.
const BATCH: u32 = 32;
/// Repetitions of the address in a magic packet, after six bytes of ones.
const MAGIC_REPEATS: usize = 16;

/// Status and errors of a descriptor, in either format.
mod state {
    pub(super) const DD: u32 = 1;
    pub(super) const EOP: u32 = 1 << 1;
    pub(super) const IXSM: u32 = 1 << 2;
    pub(super) const VP: u32 = 1 << 3;
    pub(super) const UDPCS: u32 = 1 << 4;
    pub(super) const TCPCS: u32 = 1 << 5;
    pub(super) const IPCS: u32 = 1 << 6;
    /// Passed by an inexact filter.
    pub(super) const PIF: u32 = 1 << 7;
    /// TCP or UDP checksum error, and IP error, in the extended format.
    pub(super) const TCPE: u32 = 1 << 29;
    pub(super) const IPE: u32 = 1 << 30;
}

/// Buffer addresses of the descriptors that have been read, from the ring's head on.
#[derive(Default)]
pub(super) struct Buffers(VecDeque<[u64; BUFFERS]>);

impl Buffers {
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}

/// How a frame passed the filters: exactly, or by a hash or promiscuous mode.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Passed {
    Exactly,
    Inexactly,
}

impl Nic {
    /// Receives frames in order of arrival.
    pub(super) async fn receiver(self: Rc<Nic>) {
        loop {
            let frame = self.card.arrived.pop().await;
            if frame.len() < 14 {
                self.count(statistics::RUC, 1);
                self.counters.change(|c| c.filtered += 1);
                continue;
            }
            self.wake(&frame).await;
            let is_open = self.u32(r::RCTL) & rctl::EN != 0 && self.is_up();
            match self.filter(&frame).filter(|_| is_open) {
                None => self.counters.change(|c| c.filtered += 1),
                Some(passed) => {
                    if self.receive(frame, passed).await.is_err() {
                        self.counters.change(|c| c.dma_errors += 1);
                        self.buffers.borrow_mut().forget();
                    }
                }
            }
        }
    }

    // ---- filters ----

    fn filter(&self, frame: &[u8]) -> Option<Passed> {
        let control = self.u32(r::RCTL);
        self.count(statistics::TPR, 1);
        self.count_bytes(statistics::TORL, frame.len() + 4);
        let most = if control & rctl::LPE != 0 { MAX_FRAME } else { MAX_SHORT };
        if frame.len() > most + VLAN_BYTES {
            self.count(statistics::ROC, 1);
            return None;
        }
        let passed = self.filter_address(frame, control)?;
        let is_in = control & rctl::VFE == 0 || self.vlan(frame).is_none_or(|tag| self.has_vlan(tag));
        is_in.then_some(passed)
    }

    fn filter_address(&self, frame: &[u8], control: u32) -> Option<Passed> {
        let address = &frame[..6];
        let inexactly = |is: bool| is.then_some(Passed::Inexactly);
        if address == [0xff; 6] {
            return (control & (rctl::BAM | rctl::MPE) != 0)
                .then_some(Passed::Exactly)
                .or(inexactly(control & rctl::UPE != 0));
        }
        if (0..16).any(|n| self.is_address(n, address)) {
            return Some(Passed::Exactly);
        }
        match address[0] & 1 {
            0 => inexactly(control & rctl::UPE != 0),
            _ => inexactly(control & (rctl::MPE | rctl::UPE) != 0 || self.hashes(address, control)),
        }
    }

    fn is_address(&self, n: u64, address: &[u8]) -> bool {
        let (low, high) = (self.u32(r::RAL + 8 * n), self.u32(r::RAH + 8 * n));
        let bytes = [&low.to_le_bytes()[..], &high.to_le_bytes()[..2]].concat();
        high >> 31 == 1 && bytes == address
    }

    /// Twelve bits of the address select a bit of the multicast table (§10.2.5.14).
    fn hashes(&self, address: &[u8], control: u32) -> bool {
        let shift = [4, 3, 2, 0][(control >> 12 & 0b11) as usize];
        let bits = (u32::from(address[4]) | u32::from(address[5]) << 8) >> shift & 0xfff;
        self.u32(r::MTA + 4 * u64::from(bits >> 5)) >> (bits & 31) & 1 == 1
    }

    /// The VLAN tag of a frame, if there is one.
    fn vlan(&self, frame: &[u8]) -> Option<u16> {
        let ethertype = (self.u32(r::VET) as u16).to_be_bytes();
        let &[a, b, high, low, ..] = frame.get(12..)? else { return None };
        ([a, b] == ethertype).then_some(u16::from_be_bytes([high, low]))
    }

    fn has_vlan(&self, tag: u16) -> bool {
        let id = u64::from(tag & 0xfff);
        self.u32(r::VFTA + 4 * (id >> 5)) >> (id & 31) & 1 == 1
    }

    // ---- wake ----

    /// A magic packet, or another frame selected by WUFC, wakes the host by PME if WUC enables that (§5.5).
    async fn wake(&self, frame: &[u8]) {
        const PME_EN: u32 = 0b10;
        const PME_STATUS: u32 = 0b100;
        if self.u32(r::WUC) & PME_EN == 0 {
            return;
        }
        let wanted = self.u32(r::WUFC);
        let is_all = frame[..6] == [0xff; 6];
        let kinds = [
            (1, self.is_magic(frame)),
            (2, !is_all && frame[0] & 1 == 0 && self.is_address(0, &frame[..6])),
            (3, !is_all && frame[0] & 1 == 1 && self.hashes(&frame[..6], self.u32(r::RCTL))),
            (4, is_all),
        ];
        let why = kinds.iter().filter(|(_, is)| *is).fold(0, |why, (bit, _)| why | 1 << bit) & wanted;
        if why != 0 {
            self.set(r::WUS, self.u32(r::WUS) | why);
            self.set(r::WUC, self.u32(r::WUC) | PME_STATUS);
            self.counters.change(|c| c.wakes += 1);
            let _ = self.io.pme().await;
        }
    }

    fn is_magic(&self, frame: &[u8]) -> bool {
        let mac: Vec<u8> = self.card.nvm.borrow()[..3].iter().flat_map(|word| word.to_le_bytes()).collect();
        let magic = [vec![0xff; 6], mac.repeat(MAGIC_REPEATS)].concat();
        frame.windows(magic.len()).any(|part| part == magic)
    }

    // ---- the ring ----

    /// Stores a frame in buffers of the ring, as soon as there are any.
    async fn receive(&self, mut frame: Vec<u8>, passed: Passed) -> Result<(), DmaError> {
        let control = self.u32(r::RCTL);
        let Some(layout) = Layout::of(control, self.u32(r::PSRCTL)) else {
            self.counters.change(|c| c.refused_frames += 1);
            return Ok(());
        };
        self.count_received(&frame);
        let mut state = state::DD | self.checksums(&frame);
        state |= if passed == Passed::Inexactly { state::PIF } else { 0 };
        let tag = self.vlan(&frame).filter(|_| self.u32(r::CTRL) & ctrl::VME != 0);
        if tag.is_some() {
            frame.drain(12..16);
            state |= state::VP;
        }
        if control & rctl::SECRC == 0 {
            frame.extend(fcs(&frame));
        }
        let header = layout.header(&frame);
        let pieces = layout.cut(&frame, header);
        let (life, count) = (self.lives.get(), pieces.len());
        for (n, parts) in pieces.into_iter().enumerate() {
            let Some((index, addresses)) = self.buffer(life, layout).await? else { return Ok(()) };
            for (address, part) in addresses.into_iter().zip(parts).filter(|(_, part)| !part.is_empty()) {
                self.io.dma_write(address, part).await?;
            }
            let state = state | if n + 1 == count { state::EOP } else { 0 };
            let tag = tag.unwrap_or(0);
            let at = self.descriptor_at(index);
            if layout.is_split {
                let header = header.filter(|_| n == 0);
                self.io.dma_write(at, &split::write_back(parts, state, tag, header)[..]).await?;
            } else {
                let bytes = self.written_back(addresses[0], parts[0].len(), state, tag);
                self.io.dma_write(at, &bytes[..]).await?;
            }
        }
        self.counters.change(|c| c.rx_frames += 1);
        self.raise(cause::RXT0 | cause::RXQ0);
        Ok(())
    }

    fn count_received(&self, frame: &[u8]) {
        let (is_all, is_group) = (frame[..6] == [0xff; 6], frame[0] & 1 == 1);
        if is_group {
            self.count(if is_all { statistics::BPRC } else { statistics::MPRC }, 1);
        }
        self.count_bytes(statistics::GORCL, frame.len() + 4);
        self.count(statistics::GPRC, 1);
        let size = [64, 127, 255, 511, 1023].iter().filter(|most| frame.len() + 4 > **most).count() as u64;
        self.count(statistics::PRC64 + 4 * size, 1);
    }

    /// The descriptor's bits for the packet's checksums.
    fn checksums(&self, frame: &[u8]) -> u32 {
        let wanted = self.u32(r::RXCSUM);
        let (checks_ip, checks_tcp) = (wanted & 1 << 8 != 0, wanted & 1 << 9 != 0);
        if !checks_ip && !checks_tcp {
            return state::IXSM;
        }
        let checked = check(frame);
        let say = |found: Option<bool>, looked: u32, wrong: u32| match found {
            None => 0,
            Some(is_right) => looked | if is_right { 0 } else { wrong },
        };
        let ip = say(checked.ip.filter(|_| checks_ip), state::IPCS, state::IPE);
        let tcp = say(checked.tcp.filter(|_| checks_tcp), state::TCPCS, state::TCPE);
        ip | tcp | say(checked.udp.filter(|_| checks_tcp), state::TCPCS | state::UDPCS, state::TCPE)
    }

    /// Waits for the next descriptor, and returns its number and buffers; `None` after a restart.
    async fn buffer(&self, life: u32, layout: Layout) -> Result<Option<(u32, [u64; BUFFERS])>, DmaError> {
        let mut has_waited = false;
        loop {
            if self.lives.get() != life || self.u32(r::RCTL) & rctl::EN == 0 {
                self.counters.change(|c| c.filtered += 1);
                return Ok(None);
            }
            let head = self.u32(r::RDH);
            let first = self.buffers.borrow_mut().0.pop_front();
            let (entries, units) = (self.u32(r::RDLEN) / UNIT_BYTES, layout.descriptor_units());
            if let Some(addresses) = first {
                self.set(r::RDH, if head + units < entries { head + units } else { 0 });
                return Ok(Some((head, addresses)));
            }
            let tail = self.u32(r::RDT);
            let end = if tail > head { tail } else { entries };
            let count = (end.saturating_sub(head) / units).min(BATCH);
            if head == tail || count == 0 || tail >= entries {
                if !std::mem::replace(&mut has_waited, true) {
                    self.count(statistics::RNBC, 1);
                    self.counters.change(|c| c.no_buffer += 1);
                    self.raise(cause::RXO);
                }
                self.rx.pop().await;
                continue;
            }
            let each = units * UNIT_BYTES;
            let bytes = self.io.dma_read(self.descriptor_at(head), count * each).await?;
            if self.u32(r::RDH) == head {
                self.buffers.borrow_mut().0 = bytes.chunks_exact(each as usize).map(addresses).collect();
            }
        }
    }

    fn descriptor_at(&self, index: u32) -> u64 {
        let base = u64::from(self.u32(r::RDBAL)) | u64::from(self.u32(r::RDBAH)) << 32;
        base.wrapping_add(u64::from(index * UNIT_BYTES))
    }

    /// Returns the write-back of a descriptor with one buffer, in the format that RFCTL selects.
    fn written_back(&self, address: u64, len: usize, state: u32, tag: u16) -> Vec<u8> {
        const EXTEN: u32 = 1 << 15;
        let behind = [(len as u16).to_le_bytes(), tag.to_le_bytes()].concat();
        if self.u32(r::RFCTL) & EXTEN != 0 {
            [&[0; 8][..], &state.to_le_bytes(), &behind].concat()
        } else {
            let (status, errors) = (state as u8, (state >> 24) as u8);
            [&address.to_le_bytes()[..], &behind[..2], &[0, 0, status, errors], &behind[2..]].concat()
        }
    }
}

/// Reads the buffer addresses of a descriptor. A descriptor of 16 bytes has only the first.
fn addresses(descriptor: &[u8]) -> [u64; BUFFERS] {
    let words = descriptor.as_chunks::<8>().0;
    std::array::from_fn(|n| words.get(n).map_or(0, |word| u64::from_le_bytes(*word)))
}
