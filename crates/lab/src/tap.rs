// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A tap that writes what it sees into a capture.

use capture::writer::{InterfaceId, Writer};
use capture::{Direction as Way, Origin};
use fabric::{Direction, Side, Tap, TapRecord};
use link::Frame;
use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;
use tlp::Class;

/// What a capture shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CaptureOptions {
    /// At which end of each link the tap sits.
    pub at: Side,
    /// Whether DLLPs are written.
    pub dllps: bool,
}

impl Default for CaptureOptions {
    /// At the device, without DLLPs.
    fn default() -> CaptureOptions {
        CaptureOptions { at: Side::Device, dllps: false }
    }
}

struct State<W: Write> {
    writer: Option<Writer<W>>,
    error: Option<io::Error>,
}

/// A tap at one end of every link, with an interface for each direction. Damaged and lost frames are not written at
/// the end that they never reached in good order.
pub struct CaptureTap<W: Write> {
    state: Rc<RefCell<State<W>>>,
    interfaces: Vec<[InterfaceId; 2]>,
    options: CaptureOptions,
}

/// Ends a capture: the tap itself is owned by the fabric.
pub struct CaptureHandle<W: Write>(Rc<RefCell<State<W>>>);

impl<W: Write> CaptureTap<W> {
    /// A capture on `out` of the links that lead to `slots`.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(
        out: W,
        slots: &[String],
        options: CaptureOptions,
    ) -> io::Result<(CaptureTap<W>, CaptureHandle<W>)> {
        let mut writer = Writer::new(out)?;
        let mut interfaces = Vec::new();
        for (n, slot) in slots.iter().enumerate() {
            let end = match options.at {
                Side::Root => "root port",
                Side::Device => "device",
            };
            let text = |way: Way| format!("{slot}, {}, at the {end}", way.name());
            let mut tap = |way: Way| writer.tap(n as u16, way, &text(way));
            interfaces.push([tap(Way::Downstream)?, tap(Way::Upstream)?]);
        }
        let state = Rc::new(RefCell::new(State { writer: Some(writer), error: None }));
        Ok((CaptureTap { state: state.clone(), interfaces, options }, CaptureHandle(state)))
    }
}

impl<W: Write> Tap for CaptureTap<W> {
    fn frame(&mut self, record: &TapRecord<'_>) {
        if record.at != self.options.at || record.damaged || record.dropped {
            return;
        }
        let interface = self.interfaces[record.link.0 as usize][record.direction as usize];
        let mut state = self.state.borrow_mut();
        let State { writer: Some(writer), error } = &mut *state else { return };
        let result = match record.frame {
            Frame::Tlp { tlp, .. } => writer.write_tlp(interface, record.time, tlp, origin(record.direction, tlp.class())),
            Frame::Dllp(dllp) if self.options.dllps => writer.write_dllp(interface, record.time, dllp),
            Frame::Dllp(_) => Ok(()),
        };
        if let Err(e) = result {
            error.get_or_insert(e);
        }
    }
}

impl<W: Write> CaptureHandle<W> {
    /// Writes what is buffered and gives `out` back.
    ///
    /// # Errors
    /// The first error of writing.
    pub fn finish(self) -> io::Result<Option<W>> {
        let mut state = self.0.borrow_mut();
        if let Some(error) = state.error.take() {
            return Err(error);
        }
        state.writer.take().map(Writer::finish).transpose()
    }
}

/// Who issued the request that a TLP is, or answers.
fn origin(direction: Direction, class: Class) -> Origin {
    match (direction, class == Class::Completion) {
        (Direction::Upstream, false) | (Direction::Downstream, true) => Origin::Device,
        (Direction::Upstream, true) | (Direction::Downstream, false) => Origin::Host,
    }
}
