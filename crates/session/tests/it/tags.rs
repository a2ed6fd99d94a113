// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tags of a card with virtual functions, on its link: separate tags of each function, or tags of one pool.

use fabric::{Direction, Limits, Side, Stop, Tap, TapRecord};
use lab::{LabFile, parse};
use link::Frame;
use riser_session::Session;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;
use tlp::{Bdf, Body, MemoryOp};

/// The outstanding reads of a card, and the observations about them.
#[derive(Default)]
struct Seen {
    under_way: BTreeSet<(Bdf, u16)>,
    by_tag: BTreeMap<u16, u16>,
    most: usize,
    requesters: BTreeSet<Bdf>,
    /// Reads that were sent with a tag that another function was using.
    shared: usize,
}

#[derive(Clone, Default)]
struct Wire(Rc<RefCell<Seen>>);

impl Tap for Wire {
    /// Observes requests when they leave the card, and completions when they arrive.
    fn frame(&mut self, record: &TapRecord<'_>) {
        let Frame::Tlp { tlp, .. } = record.frame else { return };
        let seen = &mut *self.0.borrow_mut();
        match (&tlp.repr.body, record.at, record.direction) {
            (Body::Memory(m), Side::Device, Direction::Upstream) if m.op == MemoryOp::Read => {
                let of_tag = seen.by_tag.entry(m.tag.bits()).or_default();
                seen.shared += usize::from(*of_tag > 0);
                *of_tag += 1;
                assert!(seen.under_way.insert((m.requester, m.tag.bits())), "two requests of one name");
                seen.most = seen.most.max(seen.under_way.len());
                seen.requesters.insert(m.requester);
            }
            (Body::Completion(c), Side::Device, Direction::Downstream) if c.is_last() => {
                assert!(seen.under_way.remove(&(c.requester, c.tag.bits())), "of nothing that was asked");
                *seen.by_tag.get_mut(&c.tag.bits()).unwrap() -= 1;
            }
            _ => {}
        }
    }
}

/// Runs a card with `vfs` virtual functions to its end, which is successful only if every byte was right.
fn run(vfs: usize, keys: &str) -> Seen {
    let text = format!(
        "version = 1\n[[slot]]\nname = \"card\"\ndevice = \"dma-engine\"\n{keys}[slot.dma-engine]\nvfs = {vfs}\n"
    );
    let lab = parse(&devices::models(), Path::new("lab.toml"), &text).unwrap_or_else(|e| panic!("{e}"));
    let mut session = Session::new(&LabFile { lab, base: ".".into() }).unwrap();
    let wire = Wire::default();
    session.fabric.set_tap(Box::new(wire.clone()));
    assert_eq!(session.fabric.run(Limits::default()), Stop::Finished);
    let seen = wire.0.take();
    assert_eq!((seen.under_way.len(), seen.requesters.len()), (0, vfs + 1));
    seen
}

/// Few functions, and a number at which not all are polled each time.
#[test]
fn functions_of_one_pool_have_no_tag_in_common() {
    for (vfs, tags) in [(3, 8), (12, 16), (12, 1)] {
        let seen = run(vfs, &format!("tags = {tags}\ntags_per = \"endpoint\"\n"));
        assert_eq!((seen.shared, seen.most), (0, tags), "{vfs} virtual functions");
    }
}

#[test]
fn functions_have_separate_tags_by_default() {
    for keys in ["tags = 8\n", "tags = 8\ntags_per = \"function\"\n"] {
        let seen = run(3, keys);
        assert!(seen.shared > 0 && seen.most > 8, "{} under way", seen.most);
    }
}
