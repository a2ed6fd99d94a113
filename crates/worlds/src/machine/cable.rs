// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The far ends of NIC cables that lead outside: the cable of another slot, or a network interface of this machine. Frames and link
//! changes are
//! recorded inputs.

use super::error::VmCommandError;
use devices::ethernet::{Cable, FrameFromWire, LinkInput, MAX_FRAMES_TO_WIRE, NetInterface};
use session::external::{Driver, Handle};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::BorrowedFd;
use thiserror::Error;
use tlp::Time;

/// Bytes of the longest carried frame: a long packet (82574 datasheet, §10.2.5.1) with a tag, without FCS.
const MAX_FRAME: usize = 9234;
/// Bytes of an Ethernet header.
const MIN_FRAME: usize = 14;
/// Maximum number of frames that are read from an interface before the lab continues.
const BURST: usize = 64;

/// Carries traffic between a lab and the outside while machines are served. Its functions never block.
pub trait Transport {
    /// Receives from outside, and returns how many inputs joined the lab.
    fn take(&mut self, _lab: &mut Driver, _now: Time) -> usize {
        0
    }

    /// Passes on frames that have left the lab. Called repeatedly while the lab runs.
    fn carry(&mut self, lab: &mut Driver);

    /// Returns the descriptor to wait for.
    fn interest(&self) -> Option<BorrowedFd<'_>>;
}

enum To {
    Slot(Handle<Cable>),
    Interface(Box<dyn NetInterface>),
}

/// The far end of a cable.
pub struct CableLink {
    handle: Handle<Cable>,
    to: To,
    lost: u64,
}

impl CableLink {
    /// Connects two NICs.
    pub fn between(one: Handle<Cable>, other: Handle<Cable>) -> CableLink {
        CableLink { handle: one, to: To::Slot(other), lost: 0 }
    }

    /// Connects a NIC with a network interface.
    pub fn to_interface(handle: Handle<Cable>, interface: Box<dyn NetInterface>) -> CableLink {
        CableLink { handle, to: To::Interface(interface), lost: 0 }
    }

    /// Returns the number of frames that the interface did not take, or that were too short or too long.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

impl Transport for CableLink {
    fn interest(&self) -> Option<BorrowedFd<'_>> {
        match &self.to {
            To::Slot(_) => None,
            // If there is no room for a frame, a new frame is no reason to wake.
            To::Interface(interface) => self.handle.place.has_room().then(|| interface.readable()),
        }
    }

    /// Forwards the frames for which there is room.
    fn carry(&mut self, lab: &mut Driver) {
        match &mut self.to {
            To::Slot(other) => {
                for (from, to) in [(&self.handle, &*other), (other, &self.handle)] {
                    pass(lab, from, to);
                    tell_link(lab, from, to);
                }
            }
            To::Interface(interface) => {
                while let Some(frame) = self.handle.place.frame_to_wire() {
                    self.lost += u64::from(interface.send(&frame).is_err());
                }
                self.lost += take(lab, &self.handle, &**interface);
            }
        }
    }
}

/// Passes frames of one NIC to another. Frames without room wait at the first.
fn pass(lab: &mut Driver, from: &Handle<Cable>, to: &Handle<Cable>) {
    for _ in 0..MAX_FRAMES_TO_WIRE {
        if !to.place.has_room() {
            return;
        }
        let Some(frame) = from.place.frame_to_wire() else { return };
        lab.inject(lab.now(), to, FrameFromWire(&frame));
    }
}

/// Passes changed link modes of one NIC to the other.
fn tell_link(lab: &mut Driver, from: &Handle<Cable>, to: &Handle<Cable>) {
    let offered = from.place.offered();
    if to.place.far() != offered {
        lab.inject(lab.now(), to, LinkInput::Far(offered));
    }
}

/// Returns the cable of a slot, or the names of the slots that have one.
fn cable_of(lab: &Driver, slot: &str) -> Result<Handle<Cable>, Vec<String>> {
    let names = || lab.handles::<Cable>().map(|name| name.trim_start_matches("slot ").to_owned()).collect();
    lab.handle_named::<Cable>(&format!("slot {slot}")).ok_or_else(names)
}

/// Carries out the command `cable` with the arguments `words`.
///
/// # Errors
/// The command is invalid.
pub(super) fn plug(lab: &mut Driver, now: Time, words: &[&str]) -> Result<(), VmCommandError> {
    let &[name, state] = words else {
        return Err(VmCommandError::CableForm(words.join(" ")));
    };
    let is_plugged = match state {
        "down" => false,
        "up" => true,
        _ => return Err(VmCommandError::CableState { name: name.to_owned(), state: state.to_owned() }),
    };
    let handle = cable_of(lab, name).map_err(|names| {
        let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        VmCommandError::NoNic { name: name.to_owned(), known }
    })?;
    lab.inject(now, &handle, LinkInput::Plugged(is_plugged));
    Ok(())
}

/// Takes frames from an interface. Returns the number of frames with an invalid length.
fn take(lab: &mut Driver, to: &Handle<Cable>, interface: &dyn NetInterface) -> u64 {
    let (mut buffer, mut lost) = ([0; MAX_FRAME + 1], 0);
    for _ in 0..BURST {
        if !to.place.has_room() {
            break;
        }
        match interface.receive(&mut buffer) {
            Ok(len) if (MIN_FRAME..=MAX_FRAME).contains(&len) => {
                lab.inject(lab.now(), to, FrameFromWire(&buffer[..len]));
            }
            Ok(_) => lost += 1,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            // No frame is waiting, or the interface is down.
            Err(_) => break,
        }
    }
    lost
}

/// The reason why cables cannot be connected as requested.
#[derive(Debug, Error)]
pub enum CableLinkError {
    /// The text has another form.
    #[error("`{0}`, expected SLOT=SLOT or SLOT=tap:NAME")]
    Form(String),
    /// No slot of this name has such a cable. Has the names of the slots that do.
    #[error("{}", no_cable(.0, .1))]
    NoCable(String, Vec<String>),
    /// The cable of this slot is already connected.
    #[error("`{0}`: its cable is already connected")]
    Taken(String),
}

fn no_cable(slot: &str, slots: &[String]) -> String {
    match slots.join(", ") {
        none if none.is_empty() => format!("`{slot}`: no slot has a NIC with `cable = \"outside\"`"),
        slots => format!(
            "`{slot}`: expected a slot whose NIC has `cable = \"outside\"`: {slots}; or tap:NAME after the ="
        ),
    }
}

/// Connects cables of a lab. Each text of `given` names two ends: `SLOT=SLOT` or `SLOT=tap:NAME`. `open` opens the interface
/// NAME.
///
/// # Errors
/// A text of another form, a slot without such a cable, a cable that is connected twice, or errors of `open`.
pub fn cable_links<E: From<CableLinkError>>(
    driver: &Driver,
    given: &[String],
    open: impl Fn(&str) -> Result<Box<dyn NetInterface>, E>,
) -> Result<Vec<Box<dyn Transport>>, E> {
    let mut taken = BTreeSet::new();
    let mut end = |slot: &str| {
        let handle =
            cable_of(driver, slot).map_err(|legal| CableLinkError::NoCable(slot.to_owned(), legal))?;
        if taken.insert(slot.to_owned()) { Ok(handle) } else { Err(CableLinkError::Taken(slot.to_owned())) }
    };
    let link = |given: &String| {
        let form = || E::from(CableLinkError::Form(given.clone()));
        let (slot, to) = given.split_once('=').ok_or_else(form)?;
        let handle = end(slot)?;
        let link = match to.strip_prefix("tap:") {
            Some("") => return Err(form()),
            Some(name) => CableLink::to_interface(handle, open(name)?),
            None => CableLink::between(handle, end(to)?),
        };
        Ok(Box::new(link) as Box<dyn Transport>)
    };
    given.iter().map(link).collect()
}
