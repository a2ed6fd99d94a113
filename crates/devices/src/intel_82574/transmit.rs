// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transmit: legacy, context and data descriptors (82574 datasheet, §7.2), up to the wire.

use super::nic::Nic;
use super::offload::{Context, Span, segments};
use super::receive::{MAX_FRAME, VLAN_BYTES};
use super::registers::{self as r, cause, ctrl, statistics, tctl};
use crate::ethernet::{FRAME_OVERHEAD_BYTES, GAP_BYTES, MAX_FRAMES_ON_WIRE, Mode};
use device::DmaError;
use std::rc::Rc;
use tlp::Duration;

/// Maximum number of descriptors per read.
const BATCH: u32 = 32;
/// Maximum size of a descriptor's buffer (§7.2.7).
const MAX_BUFFER: u32 = 24 << 10;
/// Maximum size of a packet before segmentation: 64 KiB of IP, and headers.
const MAX_PACKET: usize = 68 << 10;
const DESCRIPTOR_BYTES: u32 = 16;

/// Commands of descriptors, in bits 31:24 of the third word.
mod command {
    pub(super) const EOP: u32 = 1 << 24;
    /// Legacy descriptors: insert a checksum.
    pub(super) const IC: u32 = 1 << 26;
    /// Other descriptors: segmentation.
    pub(super) const TSE: u32 = 1 << 26;
    pub(super) const RS: u32 = 1 << 27;
    pub(super) const DEXT: u32 = 1 << 29;
    pub(super) const VLE: u32 = 1 << 30;
}

/// A descriptor in words.
#[derive(Clone, Copy)]
struct Descriptor([u32; 4]);

impl Descriptor {
    fn address(self) -> u64 {
        u64::from(self.0[0]) | u64::from(self.0[1]) << 32
    }

    fn has(self, command: u32) -> bool {
        self.0[2] & command != 0
    }

    fn is_context(self) -> bool {
        self.has(command::DEXT) && self.0[2] >> 20 & 0xf == 0
    }

    fn length(self) -> u32 {
        if self.has(command::DEXT) { self.0[2] & 0xf_ffff } else { self.0[2] & 0xffff }
    }

    fn context(self) -> Context {
        let span = |word: u32| Span { start: word as u8, at: (word >> 8) as u8, end: (word >> 16) as u16 };
        Context {
            ip: span(self.0[0]),
            tcp: span(self.0[1]),
            header_bytes: (self.0[3] >> 8) as u8,
            segment_bytes: (self.0[3] >> 16) as u16,
            is_tcp: self.0[2] & 1 << 24 != 0,
            is_ipv4: self.0[2] & 1 << 25 != 0,
        }
    }
}

/// Offloads for a packet, as requested by its first descriptor.
#[derive(Clone, Copy)]
struct Wishes {
    segmentation: bool,
    ip_checksum: bool,
    tcp_checksum: bool,
    legacy_checksum: Option<Span>,
}

/// The part of a ring's packet that has been read so far.
#[derive(Default)]
struct Packet {
    bytes: Vec<u8>,
    wishes: Option<Wishes>,
    is_refused: bool,
}

impl Nic {
    /// Serves a ring whenever its doorbell is rung.
    pub(super) async fn transmitter(self: Rc<Nic>, queue: usize) {
        let (mut context, mut packet) = (Context::default(), Packet::default());
        let mut life = self.lives.get();
        loop {
            self.tx[queue].pop().await;
            while let Some((head, count)) = self.waiting(queue) {
                if std::mem::replace(&mut life, self.lives.get()) != self.lives.get() {
                    packet = Packet::default();
                }
                let sent = self.send_batch(queue, head, count, &mut context, &mut packet).await;
                if sent.is_err() {
                    self.counters.change(|c| c.dma_errors += 1);
                    packet = Packet::default();
                    break;
                }
            }
        }
    }

    fn tx_register(&self, register: u64, queue: usize) -> u32 {
        self.u32(register + 0x100 * queue as u64)
    }

    /// The first waiting descriptor, and the number of waiting descriptors before the ring's end.
    fn waiting(&self, queue: usize) -> Option<(u32, u32)> {
        let entries = self.tx_register(r::TDLEN, queue) / DESCRIPTOR_BYTES;
        let (head, tail) = (self.tx_register(r::TDH, queue), self.tx_register(r::TDT, queue));
        let is_legal = head < entries && tail < entries;
        let is_on = self.u32(r::TCTL) & tctl::EN != 0 && self.is_up();
        if !is_on || !is_legal || head == tail {
            return None;
        }
        let end = if tail > head { tail } else { entries };
        Some((head, (end - head).min(BATCH)))
    }

    /// Sends the contents of `count` descriptors. Their buffers are read in parallel.
    async fn send_batch(
        self: &Rc<Nic>,
        queue: usize,
        head: u32,
        count: u32,
        context: &mut Context,
        packet: &mut Packet,
    ) -> Result<(), DmaError> {
        let life = self.lives.get();
        let base =
            u64::from(self.tx_register(r::TDBAL, queue)) | u64::from(self.tx_register(r::TDBAH, queue)) << 32;
        let at = |index: u32| base.wrapping_add(u64::from(index * DESCRIPTOR_BYTES));
        let bytes = self.io.dma_read(at(head), count * DESCRIPTOR_BYTES).await?;
        let mut reads = Vec::with_capacity(count as usize);
        for descriptor in bytes.as_chunks::<16>().0 {
            let words = descriptor.as_chunks::<4>().0;
            let descriptor = Descriptor(std::array::from_fn(|n| u32::from_le_bytes(words[n])));
            let is_read = !descriptor.is_context() && (1..=MAX_BUFFER).contains(&descriptor.length());
            let read = match is_read {
                true => Some(self.io.dma_read(descriptor.address(), descriptor.length()).begin().await),
                false => None,
            };
            reads.push((descriptor, read));
        }
        for (index, (descriptor, read)) in (head..).zip(reads) {
            let data = match read {
                Some(read) => Some(read.await?),
                None => None,
            };
            if self.lives.get() != life {
                return Ok(());
            }
            match data {
                Some(data) => self.take(descriptor, &data, context, packet),
                None if descriptor.is_context() => *context = descriptor.context(),
                None => self.refuse(descriptor, packet),
            }
            // The frame occupies the wire for this time.
            let on_wire = self.wire_bytes.take();
            if on_wire > 0 {
                let mbps = self.link_mode().unwrap_or(Mode::GIGABIT).mbps;
                self.io.sleep(Duration::from_ns(8000 / u64::from(mbps)) * on_wire).await;
            }
            self.done(queue, index, at(index), descriptor).await?;
        }
        Ok(())
    }

    /// Refuses a descriptor with an invalid length. Its packet is not sent.
    fn refuse(&self, descriptor: Descriptor, packet: &mut Packet) {
        self.counters.change(|c| c.refused_descriptors += 1);
        packet.is_refused = true;
        if descriptor.has(command::EOP) {
            *packet = Packet::default();
        }
    }

    /// Adds bytes to a packet, and sends it when it is complete.
    fn take(self: &Rc<Nic>, descriptor: Descriptor, data: &[u8], context: &Context, packet: &mut Packet) {
        if packet.bytes.len() + data.len() > MAX_PACKET {
            return self.refuse(descriptor, packet);
        }
        packet.wishes.get_or_insert_with(|| wishes(descriptor));
        packet.bytes.extend_from_slice(data);
        if !descriptor.has(command::EOP) {
            return;
        }
        let Packet { mut bytes, wishes, is_refused } = std::mem::take(packet);
        let (Some(wishes), false) = (wishes, is_refused) else { return };
        let tag = descriptor.has(command::VLE).then_some((descriptor.0[3] >> 16) as u16);
        if let Some(span) = wishes.legacy_checksum {
            span.insert(&mut bytes, 0, false);
        }
        if wishes.segmentation {
            self.count(statistics::TSCTC, 1);
            segments(&bytes, context, |segment| self.finish(segment, context, wishes, tag));
        } else {
            self.finish(bytes, context, wishes, tag);
        }
    }

    /// Adds checksums, tag and padding, and sends the frame.
    fn finish(self: &Rc<Nic>, mut frame: Vec<u8>, context: &Context, wishes: Wishes, tag: Option<u16>) {
        let behind = frame.len().saturating_sub(context.tcp.start.into()) as u32;
        if wishes.tcp_checksum {
            let length = if wishes.segmentation { behind } else { 0 };
            context.tcp.insert(&mut frame, length, !context.is_tcp);
        }
        if wishes.ip_checksum {
            context.ip.insert(&mut frame, 0, false);
        }
        if let Some(tag) = tag.filter(|_| self.u32(r::CTRL) & ctrl::VME != 0 && frame.len() >= 14) {
            let ethertype = self.u32(r::VET) as u16;
            let bytes = [ethertype.to_be_bytes(), tag.to_be_bytes()].concat();
            frame.splice(12..12, bytes);
        }
        if self.u32(r::TCTL) & tctl::PSP != 0 && frame.len() < 60 {
            frame.resize(60, 0);
        }
        if !(14..=MAX_FRAME + VLAN_BYTES).contains(&frame.len()) {
            return self.counters.change(|c| c.refused_frames += 1);
        }
        self.send(frame);
    }

    fn send(self: &Rc<Nic>, frame: Vec<u8>) {
        self.counters.change(|c| c.tx_frames += 1);
        self.wire_bytes
            .update(|bytes| bytes + frame.len() as u64 + u64::from(FRAME_OVERHEAD_BYTES + GAP_BYTES));
        let kinds = [
            (frame[0] & 1 == 1 && frame[..6] != [0xff; 6], statistics::MPTC),
            (frame[..6] == [0xff; 6], statistics::BPTC),
        ];
        kinds.iter().filter(|(is, _)| *is).for_each(|(_, register)| self.count(*register, 1));
        self.count_frame(
            [statistics::GPTC, statistics::TPT],
            [statistics::GOTCL, statistics::TOTL],
            statistics::PTC64,
            frame.len(),
        );
        if self.is_loop() {
            return self.arrive(frame);
        }
        let Some(arrival) = self.card.wire.borrow_mut().transmit(&frame) else { return };
        if self.on_wire.get() == MAX_FRAMES_ON_WIRE {
            return self.counters.change(|c| c.lost_frames += 1);
        }
        self.on_wire.update(|n| n + 1);
        let nic = self.clone();
        self.io.spawn(async move {
            nic.io.sleep(arrival.after).await;
            nic.on_wire.update(|n| n - 1);
            nic.arrive(arrival.frame);
        });
    }

    /// Receives an unsolicited frame.
    fn arrive(&self, frame: Vec<u8>) {
        if !self.card.arrived.push(frame) {
            self.counters.change(|c| c.lost_frames += 1);
            self.count(statistics::MPC, 1);
        }
    }

    /// Counts a frame of `len` bytes without FCS in the counters of frames, bytes and sizes.
    pub(super) fn count_frame(&self, frames: [u64; 2], bytes: [u64; 2], sizes: u64, len: usize) {
        let len = len + 4;
        frames.into_iter().for_each(|register| self.count(register, 1));
        bytes.into_iter().for_each(|register| self.count_bytes(register, len));
        let size = [64, 127, 255, 511, 1023].iter().filter(|most| len > **most).count() as u64;
        self.count(sizes + 4 * size, 1);
    }

    /// Completes a descriptor: writes it back if requested, and advances the head.
    async fn done(&self, queue: usize, index: u32, at: u64, descriptor: Descriptor) -> Result<(), DmaError> {
        let life = self.lives.get();
        if descriptor.has(command::RS) {
            self.io.dma_write(at + 12, &(descriptor.0[3] | 1).to_le_bytes()[..]).await?;
        }
        if self.lives.get() == life {
            let entries = self.tx_register(r::TDLEN, queue) / DESCRIPTOR_BYTES;
            self.set(r::TDH + 0x100 * queue as u64, if index + 1 < entries { index + 1 } else { 0 });
            if descriptor.has(command::RS) {
                self.raise(cause::TXDW | cause::TXQ0 << queue);
            }
        }
        Ok(())
    }
}

fn wishes(first: Descriptor) -> Wishes {
    let (is_extended, options) = (first.has(command::DEXT), first.0[3] >> 8);
    let legacy = Span { start: (first.0[3] >> 8) as u8, at: (first.0[2] >> 16) as u8, end: 0 };
    Wishes {
        segmentation: is_extended && first.has(command::TSE),
        ip_checksum: is_extended && options & 1 != 0,
        tcp_checksum: is_extended && options & 2 != 0,
        legacy_checksum: (!is_extended && first.has(command::IC)).then_some(legacy),
    }
}
