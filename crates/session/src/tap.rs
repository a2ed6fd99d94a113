// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A tap that writes the packets of links into a capture.

use capture::writer::{InterfaceId, Writer};
use capture::{Direction as Way, End, Interface, Mark, Origin, OwnRegisters};
use fabric::{Direction, Side, Tap, TapRecord};
use lab::LinkInfo;
use link::Frame;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::rc::Rc;
use tlp::{Dllp, FlowControlKind, Rate, Time, Tlp, Vc};

/// Options of a capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CaptureOptions {
    /// End of each link at which the tap is.
    pub at: Side,
    /// Whether DLLPs are written. If so, frames that were damaged or lost on the link are written too, marked as such, and positions
    /// of TLPs by sequence number.
    pub dllps: bool,
}

impl Default for CaptureOptions {
    /// At the device, without DLLPs.
    fn default() -> CaptureOptions {
        CaptureOptions { at: Side::Device, dllps: false }
    }
}

struct TapState<W: Write> {
    writer: Option<Writer<W>>,
    error: Option<io::Error>,
    /// Frames that are leaving the ends with the tap, at most one per link. The tap sees a frame when its first symbol
    /// leaves. It writes the frame with the time of its last symbol, in the order of this time, then of links.
    leaving: VecDeque<Leaving>,
    /// By link: time when its latest frame has left.
    left_at: Vec<Time>,
}

struct Leaving {
    time: Time,
    link: usize,
    interface: InterfaceId,
    direction: Direction,
    frame: Frame,
    mark: Mark,
}

/// The description of a link in a capture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TappedLink {
    /// The slot below it.
    pub slot: String,
    /// Data bits per second of each direction, without the encoding overhead.
    pub speed_bps: u64,
    /// The device's own registers.
    pub registers: OwnRegisters,
}

impl TappedLink {
    pub(crate) fn of(link: &LinkInfo) -> TappedLink {
        let symbol = Rate::from_generation(link.generation).unwrap_or(Rate::Gt2_5).symbol_time_ps();
        // One byte per lane and symbol time.
        let speed_bps = 8_000_000_000_000 * u64::from(link.lanes) * symbol.den / symbol.num;
        TappedLink { slot: link.name.clone(), speed_bps, registers: link.registers.clone() }
    }
}

/// A tap at one end of every link, with an interface for each direction. Without DLLPs, each TLP is written once: damaged and lost
/// frames, replays and TLPs out of sequence are omitted. With DLLPs, all frames are written and marked.
pub struct CaptureTap<W: Write> {
    state: Rc<RefCell<TapState<W>>>,
    interfaces: Vec<[InterfaceId; 2]>,
    /// By link and direction: position of the latest TLP.
    places: Vec<[u64; 2]>,
    /// By link and direction: the next sequence number that the receiver accepts, if known.
    next: Vec<[Option<u16>; 2]>,
    options: CaptureOptions,
}

impl<W: Write> TapState<W> {
    fn write(
        &mut self,
        time: Time,
        interface: InterfaceId,
        direction: Direction,
        frame: Frame<&Tlp>,
        malformed: Option<[u32; 4]>,
        mark: Mark,
    ) {
        let Some(writer) = self.writer.as_mut().filter(|_| self.error.is_none()) else { return };
        let result = match frame {
            Frame::Tlp { tlp, .. } => {
                let origin = Origin::of(way(direction), tlp.class());
                match malformed {
                    None => writer.write_tlp_marked(interface, time, tlp, origin, mark),
                    Some(header) => writer.write_malformed(interface, time, tlp, header, origin, mark),
                }
            }
            Frame::Dllp(dllp) => writer.write_dllp_marked(interface, time, &dllp, mark),
        };
        self.error = result.err();
    }

    /// Stores a frame until its last symbol has left.
    fn keep(&mut self, leaving: Leaving) {
        self.left_at[leaving.link] = leaving.time;
        let is_before = |other: &Leaving| (other.time, other.link) < (leaving.time, leaving.link);
        let at = self.leaving.iter().rposition(is_before).map_or(0, |n| n + 1);
        self.leaving.insert(at, leaving);
    }

    /// Writes the frames that have left by `now`.
    fn write_left(&mut self, now: Time) {
        while self.leaving.front().is_some_and(|leaving| leaving.time <= now)
            && let Some(Leaving { time, interface, direction, frame, mark, .. }) = self.leaving.pop_front()
        {
            self.write(time, interface, direction, frame.as_ref(), None, mark);
        }
    }
}

/// Handle that ends a capture. The fabric owns the tap itself.
pub struct CaptureHandle<W: Write>(Rc<RefCell<TapState<W>>>);

impl<W: Write> CaptureTap<W> {
    /// Returns a tap that captures `links` on `out`.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn new(
        out: W,
        links: &[TappedLink],
        options: CaptureOptions,
    ) -> io::Result<(CaptureTap<W>, CaptureHandle<W>)> {
        let mut writer = Writer::new(out)?;
        let mut interfaces = Vec::new();
        for (n, TappedLink { slot, speed_bps, registers }) in links.iter().enumerate() {
            let end = match options.at {
                Side::Root => End::Root,
                Side::Device => End::Device,
            };
            let text = |way: Way| Interface::description(slot, way, end);
            let down = writer.tap_to_device(n as u16, &text(Way::Downstream), *speed_bps, registers)?;
            let up = writer.tap_with_speed(n as u16, Way::Upstream, &text(Way::Upstream), *speed_bps)?;
            interfaces.push([down, up]);
        }
        // From now on a truncated file is a valid, if empty, capture.
        writer.flush()?;
        let left_at = vec![Time::ZERO; links.len()];
        let state = TapState { writer: Some(writer), error: None, leaving: VecDeque::new(), left_at };
        let state = Rc::new(RefCell::new(state));
        let places = links.iter().map(|_| [0; 2]).collect();
        let next = links.iter().map(|_| [None; 2]).collect();
        Ok((CaptureTap { state: state.clone(), interfaces, places, next, options }, CaptureHandle(state)))
    }
}

impl<W: Write> Tap for CaptureTap<W> {
    fn frame(&mut self, record: &TapRecord<'_>) {
        let TapRecord { time, link, direction, frame, .. } = *record;
        if !self.options.dllps && !self.is_taken(record) {
            return;
        }
        let mark = self.mark(record);
        let link = link.0 as usize;
        let interface = self.interfaces[link][direction as usize];
        let mut state = self.state.borrow_mut();
        if direction == Direction::of_sender(record.at) {
            // The wire is free again: the frame before has left.
            let before = state.left_at[link];
            state.write_left(before);
            state.keep(Leaving { time, link, interface, direction, frame: frame.cloned(), mark });
        } else {
            state.write_left(time);
            state.write(time, interface, direction, frame, record.malformed, mark);
        }
    }

    fn looks_at(&self, end: Side) -> bool {
        end == self.options.at
    }

    fn sees_refreshes(&self) -> bool {
        self.options.dllps
    }
}

impl<W: Write> CaptureTap<W> {
    /// Returns whether the receiver accepts this frame as a TLP: it is the next in sequence (`PCIe 5.0 §3.6.3.1`), neither damaged
    /// nor dropped. A capture without DLLPs does not distinguish replays, so it omits them.
    fn is_taken(&mut self, record: &TapRecord<'_>) -> bool {
        if record.damaged || record.dropped {
            return false;
        }
        let next = &mut self.next[record.link.0 as usize];
        match record.frame {
            Frame::Tlp { sequence, .. } => {
                let next = &mut next[record.direction as usize];
                let is_next = next.is_none_or(|next| next == sequence);
                *next = if is_next { Some((sequence + 1) & 0xfff) } else { *next };
                is_next
            }
            Frame::Dllp(dllp) => {
                // After link-up, TLPs are numbered from 0 (`PCIe 5.0 §3.6.2.1`).
                if matches!(dllp, Dllp::FlowControl(fc) if fc.kind == FlowControlKind::InitFc1 && fc.vc == Vc::VC0)
                {
                    *next = [Some(0); 2];
                }
                false
            }
        }
    }

    /// Returns the mark of a frame; the default in a capture without DLLPs.
    fn mark(&mut self, record: &TapRecord<'_>) -> Mark {
        if !self.options.dllps {
            return Mark::default();
        }
        let place = match record.frame {
            Frame::Tlp { sequence, .. } => {
                let latest = &mut self.places[record.link.0 as usize][record.direction as usize];
                *latest = place_near(*latest, sequence);
                Some(*latest)
            }
            Frame::Dllp(_) => None,
        };
        Mark { damaged: record.damaged, dropped: record.dropped, place }
    }
}

/// Returns the position nearest to `latest` whose low 12 bits are `sequence`. At most 2047 TLPs are unacknowledged (`PCIe 5.0
/// §3.6.2.1`).
fn place_near(latest: u64, sequence: u16) -> u64 {
    let ahead = u64::from(sequence).wrapping_sub(latest) & 0xfff;
    if ahead < 0x800 { latest + ahead } else { (latest + ahead).saturating_sub(0x1000) }
}

impl<W: Write> CaptureHandle<W> {
    /// Writes the frames so far to `out`.
    ///
    /// # Errors
    /// The first write error, now or before. After an error the file stays unchanged, and [`finish`](Self::finish)
    /// returns the same error.
    pub fn flush(&self) -> io::Result<()> {
        let TapState { writer, error, .. } = &mut *self.0.borrow_mut();
        flush(writer.as_mut(), error, Writer::flush)
    }

    /// Writes buffered data and returns `out`.
    ///
    /// # Errors
    /// The first write error.
    pub fn finish(self) -> io::Result<Option<W>> {
        let mut state = self.0.borrow_mut();
        state.write_left(Time::MAX);
        if let Some(error) = state.error.take() {
            return Err(error);
        }
        state.writer.take().map(Writer::finish).transpose()
    }
}

/// Flushes `out` unless there was an error. Stores the error with its text.
pub(crate) fn flush<T>(
    out: Option<&mut T>,
    error: &mut Option<io::Error>,
    flush: impl FnOnce(&mut T) -> io::Result<()>,
) -> io::Result<()> {
    if error.is_none() {
        *error = out.and_then(|out| flush(out).err());
    }
    error.as_ref().map_or(Ok(()), |e| Err(io::Error::new(e.kind(), e.to_string())))
}

/// Converts a direction of the fabric to one of captures.
pub fn way(direction: Direction) -> Way {
    match direction {
        Direction::Downstream => Way::Downstream,
        Direction::Upstream => Way::Upstream,
    }
}
