// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records the visible behaviour of a design in a run: the outputs that it sends, and the values that it drives. Two
//! runs can be compared by these records.

use crate::block::{Port, Shape, Width};
use crate::common::emit;
use crate::design::Design;
use crate::findings::DesignStatus;
use endpoint::hard_block::DesignOutput;
use plug::Shared;
use plug::file::hash;
use std::path::PathBuf;
use tlp::{Time, Tlp};

/// Limits of the record of a run: sent outputs, and cycles in which the driven values change.
const MOST_LEFT: usize = 1 << 20;
const MOST_DRIVEN: usize = 1 << 22;
/// Number of recorded bytes of a TLP.
const HEAD: usize = 32;
/// Compared ports in addition to the streams: those for interrupt requests.
const STROBES: [&str; 4] =
    ["cfg_interrupt", "cfg_interrupt_int", "cfg_interrupt_msi_int", "cfg_interrupt_msix_int"];

/// Settings of the record of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecordSettings {
    /// Seed of the values of registers without a reset.
    pub(crate) seed: u64,
    /// A design, by its index in the lab, and a cycle whose port values are stored; waves up to a time.
    pub(crate) at: Option<(usize, u64)>,
    pub(crate) waves: Option<(PathBuf, Time)>,
}

/// The designs of a run.
#[derive(Default)]
struct Watched {
    look: RecordSettings,
    design_records: Vec<Shared<DesignRecord>>,
}

/// Records the designs of a run. The context of this run has a clone.
#[derive(Clone)]
pub(crate) struct DesignRecorder(Shared<Watched>);

impl DesignRecorder {
    pub(crate) fn new(look: RecordSettings) -> DesignRecorder {
        DesignRecorder(Shared::new(Watched { look, design_records: Vec::new() }))
    }

    /// Returns the record of each design.
    pub(crate) fn end(self) -> Vec<Shared<DesignRecord>> {
        self.0.take().design_records
    }

    /// Starts the record of a design that is being plugged in, and returns its settings.
    pub(crate) fn design_record(
        &self,
        design: &Design,
        path: PathBuf,
        status: &Shared<DesignStatus>,
    ) -> (Shared<DesignRecord>, RecordSettings) {
        self.0.change(|watched| {
            let RecordSettings { seed, at, waves } = watched.look.clone();
            let at = at.filter(|(which, _)| *which == watched.design_records.len());
            let design_record = DesignRecord {
                masks: Masks::of(design.shape()),
                keep_at: at.map(|(_, cycle)| cycle),
                status: status.clone(),
                path,
                ..DesignRecord::default()
            };
            let design_record: Shared<DesignRecord> = Shared::new(design_record);
            watched.design_records.push(design_record.clone());
            (design_record, RecordSettings { seed, at, waves: waves.filter(|_| at.is_some()) })
        })
    }
}

/// A sent output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Left {
    pub(crate) cycle: u64,
    pub(crate) at: Time,
    pub(crate) what: What,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    Tlp { head: [u8; HEAD], len: usize, hash: u64 },
    Interrupt { function: u16, vector: u16 },
    Intx { function: u16, asserted: bool },
    Other,
}

/// See the [module](self).
#[derive(Clone, Default)]
pub(crate) struct DesignRecord {
    pub(crate) left: Vec<Left>,
    /// Cycles in which the driven values changed, with a digest of them.
    pub(crate) driven: Vec<(u64, u64)>,
    /// The time of each of these cycles.
    pub(crate) times: Vec<Time>,
    /// Driven values of the cycle whose values are stored.
    pub(crate) kept: Option<Vec<u32>>,
    pub(crate) masks: Masks,
    pub(crate) status: Shared<DesignStatus>,
    /// Path of the design's file.
    pub(crate) path: PathBuf,
    keep_at: Option<u64>,
    now: Vec<u32>,
    next: Vec<u32>,
    bytes: Vec<u8>,
}

impl DesignRecord {
    /// Returns true if the record contains the whole run.
    pub(crate) fn is_whole(&self) -> bool {
        self.left.len() < MOST_LEFT && self.driven.len() < MOST_DRIVEN
    }

    /// Records the values that the design drives at an edge.
    pub(crate) fn edge(&mut self, cycle: u64, time: Time, read: &[u32]) {
        if self.kept.is_none() && self.keep_at.is_some_and(|at| at < cycle) {
            self.kept = Some(self.now.clone());
        }
        self.masks.apply(read, &mut self.next);
        if self.next != self.now && self.driven.len() < MOST_DRIVEN {
            self.now.clone_from(&self.next);
            self.bytes.clear();
            self.bytes.extend(self.now.iter().flat_map(|word| word.to_le_bytes()));
            self.driven.push((cycle, hash(&self.bytes)));
            self.times.push(time);
        }
    }

    /// Returns the driven values of the cycle whose values are stored, which may be the last cycle.
    pub(crate) fn kept(&self) -> &[u32] {
        self.kept.as_ref().unwrap_or(&self.now)
    }

    /// Records a sent output.
    pub(crate) fn leaves(&mut self, cycle: u64, at: Time, output: &DesignOutput) {
        if self.left.len() == MOST_LEFT {
            return;
        }
        let what = match output {
            DesignOutput::Tlp { tlp, .. } | DesignOutput::Relayed { tlp, .. } => self.tlp(tlp),
            DesignOutput::Interrupt { function, vector } => {
                What::Interrupt { function: *function, vector: *vector }
            }
            DesignOutput::Intx { function, asserted } => {
                What::Intx { function: *function, asserted: *asserted }
            }
            _ => What::Other,
        };
        self.left.push(Left { cycle, at, what });
    }

    fn tlp(&mut self, tlp: &Tlp) -> What {
        emit(tlp, &mut self.bytes);
        let mut head = [0; HEAD];
        head.iter_mut().zip(&self.bytes).for_each(|(to, byte)| *to = *byte);
        What::Tlp { head, len: self.bytes.len(), hash: hash(&self.bytes) }
    }
}

/// Bits of the driven values that are significant: the bits of a stream while the stream is valid, and of its data only
/// the lanes that are kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Masks {
    words: Vec<u32>,
    streams: Vec<Stream>,
    /// All compared ports, each with its first bit and width.
    pub(crate) ports: Vec<(&'static str, u16, u16)>,
}

#[derive(Clone, Debug, Default)]
struct Stream {
    valid: u16,
    /// Bits that are significant only while the stream is valid.
    bits: Vec<(u16, u16)>,
    data: (u16, u16),
    keep: (u16, u16),
}

impl Masks {
    fn of(shape: Shape) -> Masks {
        let mut masks = Masks::default();
        let [bits, _] = shape.sizes();
        masks.words.resize(usize::from(bits).div_ceil(32), 0);
        let mut streams = std::collections::BTreeMap::<&str, Stream>::new();
        for (Port { name, width, .. }, at) in shape.read() {
            let bits = shape.bits(width);
            let is_ready = name.starts_with("m_axis_") && name.ends_with("_tready");
            if !(name.starts_with("s_axis_") || is_ready || STROBES.contains(&name)) {
                continue;
            }
            masks.ports.push((name, at, bits));
            (at..at + bits).for_each(|bit| masks.words[usize::from(bit / 32)] |= 1 << (bit % 32));
            let Some((of, part)) = name.strip_prefix("s_axis_").and_then(|name| name.split_once("_t")) else {
                continue;
            };
            let stream = streams.entry(of).or_default();
            match (part, width) {
                ("valid", _) => stream.valid = at,
                (_, Width::Data) => stream.data = (at, bits),
                (_, Width::Keep | Width::KeepDwords) => {
                    stream.keep = (at, bits);
                    stream.bits.push((at, bits));
                }
                _ => stream.bits.push((at, bits)),
            }
        }
        masks.streams.extend(streams.into_values());
        masks
    }

    /// Clears the bits of `read` that are not significant.
    fn apply(&self, read: &[u32], out: &mut Vec<u32>) {
        out.clear();
        out.extend(read.iter().zip(&self.words).map(|(word, mask)| word & mask));
        let is = |at: u16| read[usize::from(at / 32)] >> (at % 32) & 1 == 1;
        let clear = |out: &mut [u32], (at, bits): (u16, u16)| {
            (at..at + bits).for_each(|bit| out[usize::from(bit / 32)] &= !(1 << (bit % 32)));
        };
        for Stream { valid, bits, data, keep } in &self.streams {
            let is_valid = is(*valid);
            if !is_valid {
                bits.iter().for_each(|bits| clear(out, *bits));
            }
            // Data consists of whole words, with one keep bit per word or one per byte.
            let (lanes, each) = (data.1 / 32, keep.1 / (data.1 / 32).max(1));
            for lane in 0..lanes {
                let is_kept = is_valid && (0..each).any(|bit| is(keep.0 + lane * each + bit));
                if !is_kept {
                    out[usize::from(data.0 / 32 + lane)] = 0;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::BlockKind;

    /// Invalid beats, and lanes that are not kept, may have any value.
    #[test]
    fn insignificant_bits_are_not_compared() {
        for (kind, keep, more) in [(BlockKind::SevenSeries, 0xf, 0xff), (BlockKind::UltraScale, 1, 3)] {
            let shape = Shape { kind, data_bits: 64, lanes: 1, links: 1 };
            let masks = Masks::of(shape);
            let stream = if kind == BlockKind::SevenSeries { "s_axis_tx" } else { "s_axis_cc" };
            let [bits, _] = shape.sizes();
            let of = |set: &[(&str, u32)]| {
                let mut words = vec![0u32; usize::from(bits).div_ceil(32)];
                for (part, value) in set {
                    let name = format!("{stream}_{part}");
                    let (_, at, bits) = masks.ports.iter().find(|port| port.0 == name).unwrap();
                    (0..(*bits).min(32)).filter(|bit| value >> bit & 1 == 1).for_each(|bit| {
                        words[usize::from((at + bit) / 32)] |= 1 << ((at + bit) % 32);
                    });
                    if *part == "tdata" {
                        words[usize::from(at / 32) + 1] = !value;
                    }
                }
                let mut out = Vec::new();
                masks.apply(&words, &mut out);
                out
            };
            assert_eq!(of(&[("tdata", 7), ("tkeep", keep)]), of(&[("tdata", 8)]), "{kind:?}: not valid");
            let beat = |data: u32, keep: u32| of(&[("tvalid", 1), ("tdata", data), ("tkeep", keep)]);
            assert_ne!(beat(7, keep), beat(8, keep), "{kind:?}");
            let low = |words: Vec<u32>| words.iter().filter(|word| **word == !7).count();
            assert_eq!([low(beat(7, keep)), low(beat(7, more))], [0, 1], "{kind:?}: the upper lane");
        }
    }
}
