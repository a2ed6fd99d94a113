// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waiting for TLPs: `await cpu.tlp("type=MWr and dir=up")`. TLPs are seen at the device's end of each link, as in captures by default.
//! A run without waiting coroutines is not slowed down.

use crate::error::{self, RiserError};
use crate::operation::{Operation, Value};
use crate::run_state::RunState;
use ::capture::Direction as Way;
use ::capture::filter::{Filter, FilterError};
use ::capture::render::JsonRecord;
use ::capture::{DeviceRegisters, Names};
use ::capture::{End, Interface, Origin, Outcome, Record, Timestamp};
use ::session::TappedLink;
use fabric::{Side, Tap, TapRecord};
use link::Frame;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::Value as Json;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use tlp::{Body, Tlp};

/// Bytes of the data of a configuration read.
const DW_BYTES: usize = 4;

/// Waiting coroutines of a run.
#[derive(Default)]
pub(crate) struct Waiting {
    all: RefCell<Vec<Rc<Wait>>>,
    /// True if one of the waiting coroutines got its TLP since the last check.
    has_news: Cell<bool>,
    /// Whether a [`Sight`] shows the TLPs of the run.
    is_shown: Cell<bool>,
}

impl Waiting {
    /// Returns whether one of the waiting coroutines got its TLP since the last call.
    pub(crate) fn take_news(&self) -> bool {
        self.has_news.take()
    }
}

/// A coroutine that waits for a TLP.
struct Wait {
    filter: Filter,
    seen: RefCell<Option<(Json, Vec<u8>)>>,
    waker: RefCell<Option<Waker>>,
}

/// Removes a waiting coroutine when dropped, for example after its timeout.
struct Gone {
    run: Rc<RunState>,
    wait: Rc<Wait>,
}

impl Drop for Gone {
    fn drop(&mut self) {
        self.run.waiting.all.borrow_mut().retain(|wait| !Rc::ptr_eq(wait, &self.wait));
    }
}

/// A tap that shows TLPs to waiting coroutines, and passes all frames to another tap.
pub(crate) struct Sight {
    run: Rc<RunState>,
    /// Interfaces by link and direction.
    interfaces: Vec<[Interface; 2]>,
    names: Names,
    /// Number of TLPs so far, counted as in a capture at the device's end.
    number: u64,
    /// Bytes of the current TLP.
    bytes: Vec<u8>,
    behind: Option<Box<dyn Tap>>,
}

impl Sight {
    /// Returns a sight of links for the coroutines that wait in `run`, in front of another tap; `devices` knows the registers of
    /// devices.
    pub(crate) fn new(
        run: &Rc<RunState>,
        links: &[TappedLink],
        devices: DeviceRegisters,
        behind: Option<Box<dyn Tap>>,
    ) -> Sight {
        run.waiting.is_shown.set(true);
        let both = |(n, TappedLink { slot, registers, .. }): (usize, &TappedLink)| {
            [Way::Downstream, Way::Upstream].map(|way| Interface {
                registers: registers.clone(),
                ..Interface::of_link(n as u16, way, &Interface::description(slot, way, End::Device))
            })
        };
        let interfaces = links.iter().enumerate().map(both).collect();
        let (names, bytes) = (Names::new(devices), Vec::new());
        Sight { run: Rc::clone(run), interfaces, names, number: 0, bytes, behind }
    }

    fn show(&mut self, record: &TapRecord<'_>, tlp: &Tlp) {
        let Some(interface) = self.interfaces.get(record.link.0 as usize) else { return };
        self.bytes.clear();
        self.bytes.resize(tlp.wire_len(), 0);
        tlp.emit(&mut self.bytes);
        let (way, time) = (::session::way(record.direction), Timestamp::from_ps(record.time.as_ps().into()));
        let origin = Origin::of(way, tlp.class());
        let shown = Record::of_tlp(&interface[record.direction as usize], time, &self.bytes, origin);
        let shown = Record { number: self.number, ..shown };
        let meaning = self.names.see(&shown);
        let waiting = &self.run.waiting;
        waiting.all.borrow_mut().retain(|wait| {
            let holds = wait.filter.holds(&shown, &Outcome::default());
            if holds {
                let json = JsonRecord::new(&shown).with_meaning(meaning.as_ref());
                let json = serde_json::to_value(json).unwrap_or_default();
                *wait.seen.borrow_mut() = Some((json, tlp.data.bytes().unwrap_or_default().to_vec()));
                waiting.has_news.set(true);
                if let Some(waker) = wait.waker.borrow_mut().take() {
                    waker.wake();
                }
            }
            !holds
        });
    }
}

/// Returns whether [`Names`] may learn from a TLP: configuration, or a write to an MSI-X table. DMA, most of the traffic, is skipped.
fn teaches(way: Way, tlp: &Tlp) -> bool {
    match &tlp.repr.body {
        Body::Config(_) => true,
        Body::Completion(_) => tlp.data.len() <= DW_BYTES,
        Body::Memory(request) => matches!(way, Way::Downstream) && !request.op.is_read(),
        _ => false,
    }
}

impl Tap for Sight {
    fn frame(&mut self, record: &TapRecord<'_>) {
        if let (Frame::Tlp { tlp, .. }, Side::Device) = (record.frame, record.at) {
            self.number += 1;
            let is_lost = record.damaged || record.dropped || record.malformed.is_some();
            if !is_lost
                && (teaches(::session::way(record.direction), tlp)
                    || !self.run.waiting.all.borrow().is_empty())
            {
                self.show(record, tlp);
            }
        }
        if let Some(behind) = self.behind.as_mut().filter(|behind| behind.looks_at(record.at)) {
            behind.frame(record);
        }
    }

    fn sees_refreshes(&self) -> bool {
        self.behind.as_ref().is_some_and(|behind| behind.sees_refreshes())
    }
}

/// Waits for the next TLP of `run` that passes `filter`, and returns it as a dict.
pub(crate) fn next(run: &Rc<RunState>, filter: &str) -> PyResult<Operation> {
    let filter: Filter = filter.parse().map_err(|e: FilterError| PyValueError::new_err(e.to_string()))?;
    if filter.asks_for_outcome() {
        return Err(PyValueError::new_err(
            "the filter uses terms that are known only for whole captures: time, latency, error, replay",
        ));
    }
    if !run.waiting.is_shown.get() {
        return Err(RiserError::new_err("no run provides TLPs here"));
    }
    let run = Rc::clone(run);
    let wait = Rc::new(Wait { filter, seen: RefCell::default(), waker: RefCell::default() });
    Ok(Operation::new(async move {
        run.waiting.all.borrow_mut().push(Rc::clone(&wait));
        let _gone = Gone { run, wait: Rc::clone(&wait) };
        let (json, data) = poll_fn(|cx| match wait.seen.take() {
            Some(seen) => Poll::Ready(seen),
            None => {
                *wait.waker.borrow_mut() = Some(cx.waker().clone());
                Poll::Pending
            }
        })
        .await;
        Python::attach(|py| {
            let record = pythonize::pythonize(py, &json).map_err(error::internal)?;
            record.set_item("data", PyBytes::new(py, &data))?;
            Ok(Value::Any(record.unbind()))
        })
    }))
}
