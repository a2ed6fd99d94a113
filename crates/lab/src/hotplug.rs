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

use crate::boot::{Seat, Work, is_as_found, is_occupied};
use crate::fate::{Fate, Loss};
use crate::services::Services;
use crate::slot_port::{Indication, SlotPort};
use config::cap::pcie::slot_control as slot;
use host::cpu::{Either, select};
use host::firmware::{self, Function, System};
use plug::DriverFuture;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use tlp::{Bdf, Duration, Time};

/// Time in which a second press of the attention button takes the first one back. The specification says 5 s
/// (`PCIe 5.0 §6.7.1.5`); a thousandth of it here, since no hand of a person is simulated.
pub(crate) const BUTTON_DELAY: Duration = Duration::from_ms(5);
/// How long a link may take to come up after power-on or insertion. The specification gives software 1 s to be patient
/// for (`PCIe 5.0 §6.6.1`); training is not modelled, and takes microseconds here.
const LINK_PATIENCE: Duration = Duration::from_ms(1);
/// Between two looks at Data Link Layer Link Active.
const LINK_POLL: Duration = Duration::from_us(5);
/// Time after Bus Master Enable is cleared, for outstanding requests to complete.
const QUIESCE: Duration = Duration::from_us(50);
/// Time after the last event of a slot, for its interrupt to come.
const SETTLE: Duration = Duration::from_us(100);
/// Time after the link of a switch has come up, for the links below it, which come up one after the other. The specification has software
/// wait 100 ms before it looks at anything (`PCIe 5.0 §6.6.1`); see [`LINK_PATIENCE`].
const LINKS_BELOW: Duration = Duration::from_us(500);

/// What a hot-plug driver knows of its slot beside its registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    /// Time of the lab's last event in the slot; the driver does not end before it.
    pub(crate) last_event: Time,
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
    /// The port is not there any more.
    Lost(Loss),
    /// The driver has ended.
    Ended(Result<(), String>),
    /// The port interrupts.
    Interrupt,
    /// The time that was waited for has come.
    Timer,
}

/// The hot-plug driver of one slot, or of the port above a switch, below which it serves all seats again and again.
pub(crate) struct HotPlug {
    host: Rc<Services>,
    seat: Rc<Seat>,
    plan: Plan,
    /// Of the port.
    fate: Fate,
    port: SlotPort,
    state: State,
    driver: Option<DriverFuture>,
}

impl HotPlug {
    /// Serves `seat`, as enumeration has `found` it, until its driver has ended and nothing more will happen to it.
    ///
    /// # Errors
    /// What the slot's driver says, while its device is there; or that the port does not answer.
    pub(crate) async fn serve(
        host: &Rc<Services>,
        seat: &Rc<Seat>,
        plan: Plan,
        fate: &Fate,
        found: &System,
    ) -> Result<(), String> {
        let (host, seat, fate) = (Rc::clone(host), Rc::clone(seat), fate.clone());
        let port = match found.at_path(&seat.port()) {
            Some(port) => SlotPort::new(&host.cpu, port)?,
            None => return Err("no port leads to it".to_owned()),
        };
        let mut this = HotPlug { host, seat, plan, fate, port, state: State::Off, driver: None };
        let served = match this.run(found).await {
            Ok(None) => return Ok(()),
            Ok(Some(loss)) => Ok(loss),
            // Its port may be gone, as whoever looks after the port above is about to say.
            Err(error) => this.fate.soon(&this.host.cpu, this.host.terms.drain).await.ok_or(error),
        };
        this.lose(served?).await
    }

    /// Serves the slot until nothing more will happen to it, or until its port is lost: then `Some`.
    async fn run(&mut self, found: &System) -> Result<Option<Loss>, String> {
        self.begin(found).await?;
        loop {
            match self.next().await {
                Next::Lost(loss) => return Ok(Some(loss)),
                Next::Ended(result) => self.driver_ended(result).await?,
                Next::Interrupt => self.interrupt().await?,
                Next::Timer => match self.state {
                    State::TurningOff(_) => self.turn_off(false).await?,
                    State::TurningOn(_) => self.turn_on().await?,
                    State::Off | State::On => return Ok(None),
                },
            }
        }
    }

    fn note(&self, what: String) {
        self.host.note(&self.seat.name, what);
    }

    /// The port is gone, and all below it: ends the driver. The task that serves the port above starts anew what comes back.
    async fn lose(&mut self, loss: Loss) -> Result<(), String> {
        self.note("its port is gone".to_owned());
        let is_running = self.driver.is_some();
        self.end_driver(true).await?;
        if let (Loss::ForGood(why), true) = (loss, is_running) {
            self.host.fail_as_told(&self.seat, &why);
        }
        Ok(())
    }

    /// Takes the slot over from enumeration. What enumeration has seen is no event; a card that has come or gone since, or a link
    /// that has changed since, is one.
    async fn begin(&mut self, found: &System) -> Result<(), String> {
        let (host, seat) = (Rc::clone(&self.host), Rc::clone(&self.seat));
        let port = found.get(self.port.bdf()).ok_or_else(|| "no port leads to it".to_owned())?;
        let is_on = is_occupied(&host.cpu, &seat, found, port).await?;
        if is_on {
            self.state = State::On;
            self.driver = Some(seat.start(&host, found).await?);
        } else {
            self.note("nothing is in the slot".to_owned());
        }
        let events = self.port.take_events().await? & slot::PRESENCE;
        self.port.enable(is_on).await?;
        let now = self.port.look().await?;
        let is_news = events != 0 && (is_on || now.present);
        let was_reset = is_on && !is_as_found(&host, &seat, found).await;
        if is_news || was_reset || is_on != now.link_active { self.changed(events).await } else { Ok(()) }
    }

    async fn next(&mut self) -> Next {
        let until = match (self.state, &self.driver) {
            (State::TurningOff(at) | State::TurningOn(at), _) => at,
            (_, Some(_)) => Time::MAX,
            (_, None) => self.plan.last_event.max(self.host.cpu.now()) + SETTLE,
        };
        let fate = self.fate.clone();
        let mut lost = std::pin::pin!(fate.lost());
        let mut interrupt = self.host.cpu.interrupt(self.port.vector());
        let mut timer = self.host.cpu.sleep_until(until);
        let driver = &mut self.driver;
        poll_fn(|cx| {
            if let Poll::Ready(loss) = lost.as_mut().poll(cx) {
                return Poll::Ready(Next::Lost(loss));
            }
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
        let errors = self.port.take_errors().await;
        self.host.hear(&self.seat.name, errors).await;
        if events & slot::ATTENTION_BUTTON != 0 {
            self.button().await?;
        }
        if events & (slot::PRESENCE | slot::LINK_STATE) != 0 {
            self.changed(events).await?;
        }
        Ok(())
    }

    /// Handles a press of the attention button: it asks for the other state, and a second press before that takes it back.
    async fn button(&mut self) -> Result<(), String> {
        let at = self.host.cpu.now() + BUTTON_DELAY;
        let (state, what) = match self.state {
            State::On => (State::TurningOff(at), "attention button: to be powered off"),
            State::Off => (State::TurningOn(at), "attention button: to be powered on"),
            State::TurningOff(_) => (State::On, "attention button again: stays on"),
            State::TurningOn(_) => (State::Off, "attention button again: stays off"),
        };
        self.note(what.to_owned());
        self.state = state;
        let shown = match state {
            State::On => Indication::On,
            State::Off => Indication::Off,
            State::TurningOff(_) | State::TurningOn(_) => Indication::Blink,
        };
        self.port.indicate(shown).await
    }

    /// A card or the link has come or gone: gives up what was there, even if a card is there, which may be another one, and brings
    /// up what is there now.
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
        let removed = {
            let mut system = self.host.hierarchy.take().await;
            firmware::rescan(&self.host.cpu, &mut system, self.port.bdf()).await
        };
        self.state = State::Off;
        let removed = removed?.removed;
        for function in &removed {
            let first = function.found.vector_base;
            (first..first + function.found.vectors).for_each(|v| self.host.cpu.forget_interrupts(v));
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
        if let Work::Below(_) = self.seat.work {
            self.host.lose_all_below(&self.seat.path);
            // Each of them ends by itself.
            return driver.await;
        }
        let drain = self.host.cpu.sleep(self.host.terms.drain);
        let what = match select(driver, drain).await {
            Either::Left(Err(error)) => format!("its driver failed: {error}"),
            Either::Left(Ok(())) => "its driver has ended".to_owned(),
            Either::Right(()) => "its driver is stopped".to_owned(),
        };
        self.note(what);
        Ok(())
    }

    /// Stops the requests of all functions below, and waits for the outstanding ones.
    async fn quiesce(&self) -> Result<(), String> {
        let below: Vec<Bdf> = {
            let system = self.host.hierarchy.take().await;
            // Bridges pass on what comes back.
            let functions = system.under(self.port.bdf()).filter(|f| f.bridge.is_none());
            functions.map(Function::bdf).collect()
        };
        for bdf in below {
            SlotPort::stop_requests(&self.host.cpu, bdf).await;
        }
        self.host.cpu.sleep(QUIESCE).await;
        Ok(())
    }

    /// Gives power, waits for the link, finds what is there, and starts its driver.
    async fn turn_on(&mut self) -> Result<(), String> {
        self.port.power_on().await?;
        let patience = self.host.cpu.now() + LINK_PATIENCE;
        while !self.port.look().await?.link_active {
            if self.host.cpu.now() >= patience {
                self.note("its link does not come up".to_owned());
                self.state = State::Off;
                return self.port.indicate(Indication::Fault).await;
            }
            self.host.cpu.sleep(LINK_POLL).await;
        }
        if let Work::Below(_) = self.seat.work {
            self.host.cpu.sleep(LINKS_BELOW).await;
        }
        self.port.forget_link_event().await?;
        self.state = State::On;
        match self.start().await {
            Ok(found) => self.note(format!("brought up: {found}")),
            // It has gone meanwhile, as the next interrupt tells.
            Err(error) if self.port.has_changed().await? => self.note(format!("not brought up: {error}")),
            Err(error) => return Err(error),
        }
        self.port.indicate(Indication::On).await
    }

    async fn start(&mut self) -> Result<String, String> {
        let (host, seat) = (Rc::clone(&self.host), Rc::clone(&self.seat));
        let mut system = host.hierarchy.take().await;
        let scan = firmware::rescan(&host.cpu, &mut system, self.port.bdf()).await?;
        self.driver = Some(seat.start(&host, &system).await?);
        Ok(names(scan.added.into_iter()))
    }
}

fn names(functions: impl Iterator<Item = Bdf>) -> String {
    let names: Vec<String> = functions.map(|bdf| bdf.to_string()).collect();
    if names.is_empty() { "no function".to_owned() } else { names.join(", ") }
}
