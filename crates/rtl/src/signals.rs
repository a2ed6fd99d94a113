// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The two vectors of an edge by the names of their ports: what a block reads, and what it drives. Knows no protocol.

use crate::block::{Driven, Read, Shape};

/// Where each port of both vectors is: first bit, and bits.
#[derive(Clone, Default, Debug)]
pub(crate) struct Layout {
    read: Vec<(u16, u16)>,
    driven: Vec<(u16, u16)>,
    /// Words of both.
    pub(crate) words: [usize; 2],
}

impl Layout {
    pub(crate) fn of(shape: Shape) -> Layout {
        let place = |(port, at): (crate::block::Port, u16)| (at, shape.bits(port.width));
        Layout {
            read: shape.read().map(place).collect(),
            driven: shape.driven().map(place).collect(),
            words: shape.sizes().map(|bits| usize::from(bits).div_ceil(32)),
        }
    }
}

/// What a block reads at an edge.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) words: &'a [u32],
}

impl Inputs<'_> {
    /// A port of at most 32 bits.
    pub(crate) fn get(&self, port: Read) -> u32 {
        let (at, bits) = self.layout.read[port as usize];
        let word = |n: usize| u64::from(self.words.get(n).copied().unwrap_or(0));
        let first = usize::from(at / 32);
        let both = word(first) | word(first + 1) << 32;
        (both >> (at % 32)) as u32 & mask(bits)
    }

    pub(crate) fn is(&self, port: Read) -> bool {
        self.get(port) != 0
    }

    /// Words of the stream's data.
    pub(crate) fn lanes(&self) -> &[u32] {
        let (at, bits) = self.layout.read[Read::TxData as usize];
        &self.words[usize::from(at / 32)..][..usize::from(bits / 32)]
    }
}

/// What a block drives from an edge on.
pub(crate) struct Outputs<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) words: &'a mut [u32],
}

impl Outputs<'_> {
    /// Sets a port of at most 32 bits.
    pub(crate) fn set(&mut self, port: Driven, value: u32) {
        let (at, bits) = self.layout.driven[port as usize];
        let (first, shift) = (usize::from(at / 32), at % 32);
        let (mask, value) = (u64::from(mask(bits)) << shift, u64::from(value & mask(bits)) << shift);
        for (n, word) in self.words.iter_mut().skip(first).take(2).enumerate() {
            let (mask, value) = ((mask >> (32 * n)) as u32, (value >> (32 * n)) as u32);
            *word = *word & !mask | value;
        }
    }

    /// Sets the words of the stream's data.
    pub(crate) fn set_lanes(&mut self, lanes: &[u32]) {
        let (at, bits) = self.layout.driven[Driven::RxData as usize];
        let to = &mut self.words[usize::from(at / 32)..][..usize::from(bits / 32)];
        to.copy_from_slice(&lanes[..to.len()]);
    }
}

fn mask(bits: u16) -> u32 {
    if bits >= 32 { u32::MAX } else { (1 << bits) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::BlockKind;

    #[test]
    fn each_port_is_by_itself() {
        let shape = Shape { kind: BlockKind::SevenSeries, data_bits: 128, lanes: 4 };
        let layout = Layout::of(shape);
        let mut words = vec![0; layout.words[1]];
        let mut outputs = Outputs { layout: &layout, words: &mut words };
        outputs.set_lanes(&[1, 2, 3, 4]);
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
