// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Access by port name to the two vectors of an edge: the signals that a block reads, and the signals that it drives.

use crate::block::{Named, Role, Shape};

/// Position of each port in both vectors: first bit, and width; a missing port has width 0.
#[derive(Clone, Default, Debug)]
pub(crate) struct Layout {
    read: Vec<(u16, u16)>,
    driven: Vec<(u16, u16)>,
    /// Size of both vectors in words.
    pub(crate) words: [usize; 2],
}

impl Layout {
    pub(crate) fn of(shape: Shape) -> Layout {
        let mut layout =
            Layout { words: shape.sizes().map(|bits| usize::from(bits).div_ceil(32)), ..Layout::default() };
        for (port, at) in shape.read().chain(shape.driven()) {
            let (places, number) = match port.role {
                Role::Read(number, _) => (&mut layout.read, usize::from(number)),
                Role::Driven(number) => (&mut layout.driven, usize::from(number)),
                _ => continue,
            };
            places.resize(places.len().max(number + 1), (0, 0));
            places[number] = (at, shape.bits(port.width));
        }
        layout
    }

    /// Swaps the read and the driven vector, so that a test can set inputs.
    #[cfg(test)]
    pub(crate) fn swapped(&self) -> Layout {
        let (read, driven) = (self.driven.clone(), self.read.clone());
        Layout { read, driven, words: [self.words[1], self.words[0]] }
    }
}

fn place(places: &[(u16, u16)], port: impl Named) -> (u16, u16) {
    places.get(port.index()).copied().unwrap_or_default()
}

/// Some of the ports that a block reads: words, and the bits of these ports in each.
#[derive(Clone, Default, Debug)]
pub(crate) struct Ports(Vec<(usize, u32)>);

impl Ports {
    pub(crate) fn of<N: Named>(layout: &Layout, ports: impl IntoIterator<Item = N>) -> Ports {
        let mut words = vec![0; layout.words[0]];
        for port in ports {
            let (at, bits) = place(&layout.read, port);
            for bit in at..at + bits {
                words[usize::from(bit / 32)] |= 1u32 << (bit % 32);
            }
        }
        Ports(words.into_iter().enumerate().filter(|(_, mask)| *mask != 0).collect())
    }
}

/// Values that a block reads at an edge.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) words: &'a [u32],
}

impl<'a> Inputs<'a> {
    /// Returns a port of at most 32 bits; zero if the block does not have it.
    pub(crate) fn get(&self, port: impl Named) -> u32 {
        self.field(port, 0, 32)
    }

    /// Returns bits of a port, at most 32; bits beyond its end are zero.
    pub(crate) fn field(&self, port: impl Named, first: u16, bits: u16) -> u32 {
        let (at, all) = place(&self.layout.read, port);
        let (at, bits) = (at + first, bits.min(all.saturating_sub(first)));
        let (begin, shift) = (usize::from(at / 32), at % 32);
        let word = |n: usize| self.words.get(n).copied().unwrap_or(0);
        let low = word(begin) >> shift;
        let value = if shift + bits > 32 { low | word(begin + 1) << (32 - shift) } else { low };
        value & mask(bits)
    }

    /// Returns a port of at most 64 bits; bits beyond its end are zero.
    pub(crate) fn wide(&self, port: impl Named) -> u64 {
        u64::from(self.field(port, 0, 32)) | u64::from(self.field(port, 32, 32)) << 32
    }

    /// Returns true if any of these ports is not zero.
    pub(crate) fn any(&self, ports: &Ports) -> bool {
        ports.0.iter().any(|(word, mask)| self.words[*word] & mask != 0)
    }

    pub(crate) fn is(&self, port: impl Named) -> bool {
        self.get(port) != 0
    }

    /// Returns the words of a stream's data.
    pub(crate) fn lanes(&self, port: impl Named) -> &'a [u32] {
        let (at, bits) = place(&self.layout.read, port);
        &self.words[usize::from(at / 32)..][..usize::from(bits / 32)]
    }
}

/// Values that a block drives from an edge on.
pub(crate) struct Outputs<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) words: &'a mut [u32],
}

impl Outputs<'_> {
    /// Sets a port of at most 32 bits, if the block has it.
    pub(crate) fn set(&mut self, port: impl Named, value: u32) {
        self.set_field(port, 0, 32, value);
    }

    /// Sets bits of a port, at most 32; bits beyond its end are ignored.
    pub(crate) fn set_field(&mut self, port: impl Named, first: u16, bits: u16, value: u32) {
        let (at, all) = place(&self.layout.driven, port);
        let (at, bits) = (at + first, bits.min(all.saturating_sub(first)));
        let (begin, shift) = (usize::from(at / 32), at % 32);
        if let Some(word) = self.words.get_mut(begin)
            && shift + bits <= 32
        {
            let mask = mask(bits) << shift;
            *word = *word & !mask | value << shift & mask;
            return;
        }
        let (mask, value) = (u64::from(mask(bits)) << shift, u64::from(value & mask(bits)) << shift);
        let mut set = |n: usize, mask: u32, value: u32| {
            if let Some(word) = self.words.get_mut(n) {
                *word = *word & !mask | value;
            }
        };
        set(begin, mask as u32, value as u32);
        set(begin + 1, (mask >> 32) as u32, (value >> 32) as u32);
    }

    /// Sets all bits of a port of any width from its first bit; missing words are zero.
    pub(crate) fn set_wide(&mut self, port: impl Named, words: &[u32]) {
        let (_, all) = place(&self.layout.driven, port);
        for first in (0..all).step_by(32) {
            self.set_field(port, first, 32, words.get(usize::from(first / 32)).copied().unwrap_or(0));
        }
    }

    /// Sets the words of a stream's data.
    pub(crate) fn set_lanes(&mut self, port: impl Named, lanes: &[u32]) {
        let (at, bits) = place(&self.layout.driven, port);
        let to = &mut self.words[usize::from(at / 32)..][..usize::from(bits / 32)];
        to.copy_from_slice(&lanes[..to.len()]);
    }

    /// Sets some words of a port, from word `first` on. The port is aligned to words.
    pub(crate) fn set_lanes_from(&mut self, port: impl Named, first: usize, lanes: &[u32]) {
        let (at, _) = place(&self.layout.driven, port);
        self.words[usize::from(at / 32) + first..][..lanes.len()].copy_from_slice(lanes);
    }
}

fn mask(bits: u16) -> u32 {
    if bits >= 32 { u32::MAX } else { (1 << bits) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::BlockKind;
    use crate::block::seven_series::Driven;

    #[test]
    fn ports_do_not_overlap() {
        let shape = Shape { kind: BlockKind::SevenSeries, data_bits: 128, lanes: 4, links: 1 };
        let layout = Layout::of(shape);
        let mut words = vec![0; layout.words[1]];
        let mut outputs = Outputs { layout: &layout, words: &mut words };
        outputs.set_lanes(Driven::RxData, &[1, 2, 3, 4]);
        for (port, value) in
            [(Driven::RxKeep, 0xffff), (Driven::RxUser, 0x2a_aaaa), (Driven::Command, 0xf00f)]
        {
            outputs.set(port, value);
        }
        let before = words.clone();
        let mut outputs = Outputs { layout: &layout, words: &mut words };
        outputs.set(Driven::RxUser, 0);
        outputs.set(Driven::RxUser, 0xffea_aaaa);
        assert_eq!(words, before);
    }
}
