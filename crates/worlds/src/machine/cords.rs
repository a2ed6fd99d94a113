// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is put into the cables of NICs that lead outside: the cable of another slot, or a wire of this machine. Frames and changes of the
//! link are inputs, and recorded as such.

use devices::ethernet::{Cable, FrameFromWire, LinkInput, MAX_FRAMES_TO_WIRE};
use session::external::{Door, Driver};
use std::io;
use std::os::fd::BorrowedFd;
use tlp::Time;

/// Bytes of the longest frame that is carried: a long one (82574 datasheet, §10.2.5.1) with a tag, without FCS.
const MAX_FRAME: usize = 9234;
/// Bytes of an Ethernet header.
const MIN_FRAME: usize = 14;
/// Frames taken from a wire before the lab goes on.
const BURST: usize = 64;

/// A wire of this machine, such as a tap interface. Nothing of it blocks.
pub trait Wire {
    /// Takes the next frame, of so many bytes.
    ///
    /// # Errors
    /// There is none, or the wire is out.
    fn receive(&mut self, frame: &mut [u8]) -> io::Result<usize>;

    /// Sends a frame.
    ///
    /// # Errors
    /// It is not taken.
    fn send(&mut self, frame: &[u8]) -> io::Result<()>;

    /// What is readable when a frame has come.
    fn readable(&self) -> BorrowedFd<'_>;
}

/// What carries between a lab and somebody outside while machines are served. Nothing of it blocks.
pub trait Carrier {
    /// Takes what has come from outside by now; says how much that was.
    fn take(&mut self, _lab: &mut Driver, _now: Time) -> usize {
        0
    }

    /// Carries on what has come of it. Called again and again while the lab goes on.
    fn carry(&mut self, lab: &mut Driver);

    /// What is to be waited for.
    fn interest(&self) -> Option<BorrowedFd<'_>>;
}

enum To {
    Slot(Door<Cable>),
    Wire(Box<dyn Wire>),
}

/// What is put into a cable.
pub struct Cord {
    door: Door<Cable>,
    to: To,
    lost: u64,
}

impl Cord {
    /// Joins two NICs.
    pub fn between(one: Door<Cable>, other: Door<Cable>) -> Cord {
        Cord { door: one, to: To::Slot(other), lost: 0 }
    }

    /// Joins a NIC with a wire.
    pub fn to_wire(door: Door<Cable>, wire: Box<dyn Wire>) -> Cord {
        Cord { door, to: To::Wire(wire), lost: 0 }
    }

    /// Frames that the wire did not take, or that were too short or too long to be any.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

impl Carrier for Cord {
    fn interest(&self) -> Option<BorrowedFd<'_>> {
        match &self.to {
            To::Slot(_) => None,
            // A frame that has no room yet is nothing to wake for.
            To::Wire(wire) => self.door.place.has_room().then(|| wire.readable()),
        }
    }

    /// Carries the frames that are there, as far as there is room for them.
    fn carry(&mut self, lab: &mut Driver) {
        match &mut self.to {
            To::Slot(other) => {
                for (from, to) in [(&self.door, &*other), (other, &self.door)] {
                    pass(lab, from, to);
                    tell_link(lab, from, to);
                }
            }
            To::Wire(wire) => {
                while let Some(frame) = self.door.place.frame_to_wire() {
                    self.lost += u64::from(wire.send(&frame).is_err());
                }
                self.lost += take(lab, &self.door, &mut **wire);
            }
        }
    }
}

/// Passes frames of one NIC to another: those that find no room wait where they are.
fn pass(lab: &mut Driver, from: &Door<Cable>, to: &Door<Cable>) {
    for _ in 0..MAX_FRAMES_TO_WIRE {
        if !to.place.has_room() {
            return;
        }
        let Some(frame) = from.place.frame_to_wire() else { return };
        lab.inject(lab.now(), to, FrameFromWire(&frame));
    }
}

/// Passes changed modes of one NIC to the other one.
fn tell_link(lab: &mut Driver, from: &Door<Cable>, to: &Door<Cable>) {
    let offered = from.place.offered();
    if to.place.far() != offered {
        lab.inject(lab.now(), to, LinkInput::Far(offered));
    }
}

/// The command that plugs and unplugs a cable.
pub(super) const FORM: &str = "cable NAME down|up";

/// Obeys [`FORM`]: the arguments are `words`.
///
/// # Errors
/// What is wrong with the command, and what is legal.
pub(super) fn plug(lab: &mut Driver, now: Time, words: &[&str]) -> Result<(), String> {
    let &[name, state] = words else {
        return Err(format!("cable {}: legal is {FORM}", words.join(" ")));
    };
    let is_plugged = match state {
        "down" => false,
        "up" => true,
        _ => return Err(format!("cable {name} {state}: legal are down, up")),
    };
    let door = lab.door_named::<Cable>(&format!("slot {name}")).ok_or_else(|| {
        let names: Vec<&str> = lab.doors::<Cable>().map(|name| name.trim_start_matches("slot ")).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        format!("no NIC `{name}` with `cable = \"outside\"`: there are {names}")
    })?;
    lab.inject(now, &door, LinkInput::Plugged(is_plugged));
    Ok(())
}

/// Takes frames of a wire; says how many were none.
fn take(lab: &mut Driver, to: &Door<Cable>, wire: &mut dyn Wire) -> u64 {
    let (mut buffer, mut lost) = ([0; MAX_FRAME + 1], 0);
    for _ in 0..BURST {
        if !to.place.has_room() {
            break;
        }
        match wire.receive(&mut buffer) {
            Ok(len) if (MIN_FRAME..=MAX_FRAME).contains(&len) => {
                lab.inject(lab.now(), to, FrameFromWire(&buffer[..len]));
            }
            Ok(_) => lost += 1,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            // Nothing there, or the wire is out.
            Err(_) => break,
        }
    }
    lost
}
