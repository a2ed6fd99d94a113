// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host's hot-plug driver, one task for each slot that is hot-plug capable, as software does it (`PCIe 5.0 §6.7`): it
//! serves the interrupts of the port above, ends and starts the slot's driver, and has firmware look again. Knows the slot
//! by its registers alone: it is never told what a lab does to it.
//!
//! | what the registers say | what is done |
//! |---|---|
//! | Presence Detect Changed, or Data Link Layer State Changed | what was there is given up, even where something is there again; then what is there is brought up |
//! | Attention Button Pressed | the power indicator blinks; after [`BUTTON_DELAY`] the slot is emptied in order, or filled; a second press before that cancels |
//! | Root Error Status | the error's source is read and cleared, and the function that it names has its status read and cleared |

use crate::boot::{DriverFuture, Seat};
use crate::slot_port::SlotPort;
use config::cap::pcie::slot_control as slot;
use device::Cpu;
use device::cpu::{Either, select};
use device::firmware::{self, Function, System};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use tlp::{Bdf, Duration, Time};

/// In which a second press of the attention button takes the first one back. The specification says 5 s
/// (`PCIe 5.0 §6.7.1.5`); a thousandth of it here, since no hand of a person is simulated.
pub(crate) const BUTTON_DELAY: Duration = Duration::from_ms(5);
/// How long a link may take to come up after power-on or insertion. The specification gives software 1 s to be patient
/// for (`PCIe 5.0 §6.6.1`); training is not modelled, and takes microseconds here.
const LINK_PATIENCE: Duration = Duration::from_ms(1);
/// Between two looks at Data Link Layer Link Active.
const LINK_POLL: Duration = Duration::from_us(5);
/// After Bus Master Enable is cleared, for what a function has asked for to come back.
const QUIESCE: Duration = Duration::from_us(50);
/// After the last event of a slot, for its interrupt to come.
const SETTLE: Duration = Duration::from_us(100);
/// Events of one run that are kept.
const MAX_EVENTS: usize = 10_000;

/// Something that the hot-plug driver has seen or done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HotPlugEvent {
    /// When.
    pub at: Time,
    /// Name of the slot.
    pub slot: String,
    /// What, as a line.
    pub what: String,
}

/// What the hot-plug drivers of a lab have to tell: up to 10,000 events, in the order of time.
#[derive(Clone, Default)]
pub(crate) struct Log(Rc<RefCell<Vec<HotPlugEvent>>>);

impl Log {
    fn note(&self, at: Time, slot: &str, what: String) {
        let mut events = self.0.borrow_mut();
        if events.len() < MAX_EVENTS {
            events.push(HotPlugEvent { at, slot: slot.to_owned(), what });
        }
    }

    pub(crate) fn events(&self) -> Vec<HotPlugEvent> {
        self.0.borrow().clone()
    }
}

/// What a slot's hot-plug driver goes by, beside registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    /// When the lab does something to the slot for the last time: until then the driver does not end.
    pub(crate) last_event: Time,
    /// How long a driver whose device is gone may go on: its requests end by then, at the latest by Completion Timeout.
    pub(crate) drain: Duration,
}

/// What enumeration has found, for one task at a time.
pub(crate) struct Hierarchy {
    system: RefCell<Option<System>>,
    waiting: RefCell<VecDeque<Waker>>,
}

impl Hierarchy {
    pub(crate) fn new(system: System) -> Hierarchy {
        Hierarchy { system: RefCell::new(Some(system)), waiting: RefCell::default() }
    }

    /// Waits until no other task has it.
    async fn take(&self) -> System {
        poll_fn(|cx| match self.system.borrow_mut().take() {
            Some(system) => Poll::Ready(system),
            None => {
                self.waiting.borrow_mut().push_back(cx.waker().clone());
                Poll::Pending
            }
        })
        .await
    }

    fn give_back(&self, system: System) {
        *self.system.borrow_mut() = Some(system);
        // Each looks again: one of them has it.
        let waiting = std::mem::take(&mut *self.waiting.borrow_mut());
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// What the slot is, as software sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Nothing in it is in use.
    Off,
    /// What is in it has been brought up.
    On,
    /// The button was pressed: off at this time.
    TurningOff(Time),
    /// The button was pressed: on at this time.
    TurningOn(Time),
}

/// What happens next.
enum Next {
    /// The driver has ended.
    Ended(Result<(), String>),
    /// The port interrupts.
    Interrupt,
    /// The time that was waited for has come.
    Timer,
}

/// The hot-plug driver of one slot.
pub(crate) struct HotPlug {
    cpu: Cpu,
    hierarchy: Rc<Hierarchy>,
    seat: Seat,
    plan: Plan,
    port: SlotPort,
    log: Log,
    state: State,
    driver: Option<DriverFuture>,
}

impl HotPlug {
    /// The driver of the slot below `port`, whose function's driver is `driver`, where there is one.
    pub(crate) fn new(
        cpu: &Cpu,
        hierarchy: &Rc<Hierarchy>,
        (seat, plan): (Seat, Plan),
        port: &Function,
        log: &Log,
        driver: Option<DriverFuture>,
    ) -> Result<HotPlug, String> {
        let state = if driver.is_some() { State::On } else { State::Off };
        Ok(HotPlug {
            port: SlotPort::new(cpu, port)?,
            cpu: cpu.clone(),
            hierarchy: Rc::clone(hierarchy),
            seat,
            plan,
            log: log.clone(),
            state,
            driver,
        })
    }

    fn note(&self, what: String) {
        self.log.note(self.cpu.now(), &self.seat.name, what);
    }

    /// Serves the slot until its driver has ended and nothing more will happen to it.
    ///
    /// # Errors
    /// What the slot's driver says, while its device is there; or that the port does not answer.
    pub(crate) async fn run(mut self) -> Result<(), String> {
        self.begin().await?;
        loop {
            match self.next().await {
                Next::Ended(result) => self.driver_ended(result).await?,
                Next::Interrupt => self.interrupt().await?,
                Next::Timer => match self.state {
                    State::TurningOff(_) => self.turn_off(false).await?,
                    State::TurningOn(_) => self.turn_on().await?,
                    State::Off | State::On => return Ok(()),
                },
            }
        }
    }

    /// Takes the slot over from enumeration. That the link came up was before that; a card that has come or gone since, and a
    /// link that is not as enumeration found it, is news.
    async fn begin(&mut self) -> Result<(), String> {
        let is_on = self.state == State::On;
        if !is_on {
            self.note("nothing is in the slot".to_owned());
        }
        let events = self.port.take_events().await? & slot::PRESENCE;
        self.port.enable(is_on).await?;
        let now = self.port.look().await?;
        let is_news = events != 0 && (is_on || now.present);
        if is_news || is_on != now.link_active { self.changed(events).await } else { Ok(()) }
    }

    async fn next(&mut self) -> Next {
        let until = match (self.state, &self.driver) {
            (State::TurningOff(at) | State::TurningOn(at), _) => at,
            (_, Some(_)) => Time::MAX,
            (_, None) => self.plan.last_event.max(self.cpu.now()) + SETTLE,
        };
        let mut interrupt = self.cpu.interrupt(self.port.vector());
        let mut timer = self.cpu.sleep_until(until);
        let driver = &mut self.driver;
        poll_fn(|cx| {
            // What a driver says of a device that has gone comes before the end of the driver.
            if Pin::new(&mut interrupt).poll(cx).is_ready() {
                return Poll::Ready(Next::Interrupt);
            }
            if let Some(Poll::Ready(result)) = driver.as_mut().map(|d| d.as_mut().poll(cx)) {
                *driver = None;
                return Poll::Ready(Next::Ended(result));
            }
            Pin::new(&mut timer).poll(cx).map(|()| Next::Timer)
        })
        .await
    }

    async fn driver_ended(&mut self, result: Result<(), String>) -> Result<(), String> {
        match result {
            Ok(()) => self.note("its driver has ended".to_owned()),
            // Not its fault where the device has gone: the interrupt that tells so is on its way.
            Err(error) if self.port.has_changed().await? => self.note(format!("its driver failed: {error}")),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    async fn interrupt(&mut self) -> Result<(), String> {
        let events = self.port.take_events().await?;
        for error in self.port.take_errors().await {
            self.note(error);
        }
        if events & slot::ATTENTION_BUTTON != 0 {
            self.button().await?;
        }
        if events & (slot::PRESENCE | slot::LINK_STATE) != 0 {
            self.changed(events).await?;
        }
        Ok(())
    }

    /// A press asks for the other state; another one before it has come takes it back.
    async fn button(&mut self) -> Result<(), String> {
        let at = self.cpu.now() + BUTTON_DELAY;
        let (state, what) = match self.state {
            State::On => (State::TurningOff(at), "attention button: to be powered off"),
            State::Off => (State::TurningOn(at), "attention button: to be powered on"),
            State::TurningOff(_) => (State::On, "attention button again: stays on"),
            State::TurningOn(_) => (State::Off, "attention button again: stays off"),
        };
        self.note(what.to_owned());
        self.state = state;
        match state {
            State::On => self.port.indicate_on().await,
            State::Off => self.port.indicate_off().await,
            State::TurningOff(_) | State::TurningOn(_) => self.port.indicate_blink().await,
        }
    }

    /// A card has come or gone, or the link has: what was there is given up, even where a card is there again, since nobody
    /// knows whether it is the same.
    async fn changed(&mut self, events: u32) -> Result<(), String> {
        let now = self.port.look().await?;
        let what = match (now.present, now.link_active, events & slot::PRESENCE != 0) {
            (false, _, _) => "removed",
            (true, _, true) => "inserted",
            (true, false, false) => "its link is down",
            (true, true, false) => "its link is up",
        };
        self.note(what.to_owned());
        if matches!(self.state, State::On | State::TurningOff(_)) {
            self.turn_off(true).await?;
        }
        self.state = State::Off;
        // What has come meanwhile is what is looked at now; a press of the button meanwhile counts for nothing.
        let meanwhile = self.port.take_events().await?;
        let now = self.port.look().await?;
        if now.present && meanwhile & slot::PRESENCE != 0 {
            self.note("inserted".to_owned());
        }
        if now.present || now.link_active { self.turn_on().await } else { Ok(()) }
    }

    /// Ends the driver, takes the power, and forgets what was there. `gone`: it does not answer any more.
    async fn turn_off(&mut self, gone: bool) -> Result<(), String> {
        self.end_driver(gone).await?;
        self.port.power_off().await?;
        let mut system = self.hierarchy.take().await;
        let result = firmware::rescan(&self.cpu, &mut system, self.port.bdf()).await;
        self.hierarchy.give_back(system);
        self.state = State::Off;
        let removed = result?.removed;
        for function in &removed {
            let first = function.found.vector_base;
            (first..first + function.found.vectors).for_each(|v| self.cpu.forget_interrupts(v));
        }
        let what = if gone { "gone" } else { "powered off" };
        self.note(format!("{what}: {}", names(removed.iter().map(Function::bdf))));
        Ok(())
    }

    async fn end_driver(&mut self, gone: bool) -> Result<(), String> {
        let driver = self.driver.take();
        if !gone {
            if driver.is_some() {
                self.note("its driver is stopped".to_owned());
            }
            drop(driver);
            return self.quiesce().await;
        }
        let Some(driver) = driver else { return Ok(()) };
        let drain = self.cpu.sleep(self.plan.drain);
        let what = match select(driver, drain).await {
            Either::Left(Err(error)) => format!("its driver failed: {error}"),
            Either::Left(Ok(())) => "its driver has ended".to_owned(),
            Either::Right(()) => "its driver is stopped".to_owned(),
        };
        self.note(what);
        Ok(())
    }

    /// No function below sends requests any more, and what it has sent is answered.
    async fn quiesce(&self) -> Result<(), String> {
        let system = self.hierarchy.take().await;
        let below: Vec<Bdf> = system.under(self.port.bdf()).map(Function::bdf).collect();
        self.hierarchy.give_back(system);
        for bdf in below {
            SlotPort::stop_requests(&self.cpu, bdf).await;
        }
        self.cpu.sleep(QUIESCE).await;
        Ok(())
    }

    /// Gives power, waits for the link, finds what is there, and starts its driver.
    async fn turn_on(&mut self) -> Result<(), String> {
        self.port.power_on().await?;
        let patience = self.cpu.now() + LINK_PATIENCE;
        while !self.port.look().await?.link_active {
            if self.cpu.now() >= patience {
                self.note("its link does not come up".to_owned());
                self.state = State::Off;
                return self.port.indicate_fault().await;
            }
            self.cpu.sleep(LINK_POLL).await;
        }
        self.port.forget_link_event().await?;
        self.state = State::On;
        match self.start().await {
            Ok(found) => self.note(format!("brought up: {found}")),
            // It has gone meanwhile, as the next interrupt tells.
            Err(error) if self.port.has_changed().await? => self.note(format!("not brought up: {error}")),
            Err(error) => return Err(error),
        }
        self.port.indicate_on().await
    }

    async fn start(&mut self) -> Result<String, String> {
        let mut system = self.hierarchy.take().await;
        let result = firmware::rescan(&self.cpu, &mut system, self.port.bdf()).await;
        let driver = match &result {
            Ok(_) => self.seat.start(&self.cpu, &system).await,
            Err(error) => Err(error.clone()),
        };
        self.hierarchy.give_back(system);
        self.driver = Some(driver?);
        Ok(names(result?.added.into_iter()))
    }
}

fn names(functions: impl Iterator<Item = Bdf>) -> String {
    let names: Vec<String> = functions.map(|bdf| bdf.to_string()).collect();
    if names.is_empty() { "no function".to_owned() } else { names.join(", ") }
}

/// Serves the error interrupts of a root port that has no such slot itself: what has become of links below its switch.
pub(crate) async fn serve_errors(cpu: Cpu, port: Function, name: String, log: Log) {
    let Ok(port) = SlotPort::new(&cpu, &port) else { return };
    loop {
        cpu.interrupt(port.vector()).await;
        for what in port.take_errors().await {
            log.note(cpu.now(), &name, what);
        }
    }
}
