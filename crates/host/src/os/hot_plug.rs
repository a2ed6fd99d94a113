// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host's hot-plug driver (`PCIe 5.0 §6.7`), one task per hot-plug capable slot. The task serves the interrupts of
//! the port above, ends and starts the slot's driver, and makes the firmware rescan. The task sees the slot only
//! through its registers.
//!
//! | event in the registers | action |
//! |---|---|
//! | Presence Detect Changed, or Data Link Layer State Changed | remove the old component, even if the slot is occupied again; then bring up the new one |
//! | Attention Button Pressed | blink the power indicator; after [`BUTTON_DELAY`] power the slot off in order, or on; a second press before that cancels |
//! | Root Error Status | read and clear the error's source, then the status of the function that it names |

use super::component::{Component, Role};
use super::driver::DriverFuture;
use super::loss::{Loss, LossSignal};
use super::services::Services;
use super::slot_port::{Indication, SlotPort};
use crate::DriverError;
use crate::cpu::{Either, select};
use crate::firmware::{self, Function, System};
use config::cap::pcie::slot_control as slot;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use tlp::{Bdf, Duration, Time};

/// Time in which a second press of the attention button cancels the first. The specification says 5 s (`PCIe 5.0
/// §6.7.1.5`). riser uses a thousandth of that, because no person is simulated.
pub(super) const BUTTON_DELAY: Duration = Duration::from_ms(5);
/// How long a link may take to come up after power-on or insertion. The specification allows 1 s (`PCIe 5.0 §6.6.1`).
/// In riser a link needs only microseconds, because its training is not modelled in detail.
const LINK_TIMEOUT: Duration = Duration::from_ms(1);
/// Polling interval of Data Link Layer Link Active.
const LINK_POLL: Duration = Duration::from_us(5);
/// Time after Bus Master Enable is cleared, for outstanding requests to complete.
const QUIESCE: Duration = Duration::from_us(50);
/// Time after the last event of a slot, for its interrupt to come.
const SETTLE: Duration = Duration::from_us(100);
/// Time to wait after the link of a switch has come up, because the links below it come up one after the other. By the
/// specification, software waits 100 ms before its first access (`PCIe 5.0 §6.6.1`); see [`LINK_TIMEOUT`].
const LINKS_BELOW: Duration = Duration::from_us(500);

/// State of the slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum HotPlugState {
    /// Not in use.
    Off,
    /// In use.
    On,
    /// The button was pressed: power off at this time.
    TurningOff(Time),
    /// The button was pressed: power on at this time.
    TurningOn(Time),
}

/// The next event.
enum Event {
    /// The port is gone.
    Lost(Loss),
    /// The driver has ended.
    Ended(Result<(), DriverError>),
    /// The port interrupts.
    Interrupt,
    /// The timer has expired.
    Timer,
}

/// The hot-plug driver of one slot, or of the port above a switch.
pub(super) struct HotPlug {
    host: Rc<Services>,
    component: Rc<Component>,
    /// Time of the slot's last event; the driver does not end earlier.
    last_event: Time,
    /// Signals the loss of the port.
    signal: LossSignal,
    port: SlotPort,
    state: HotPlugState,
    driver: Option<DriverFuture>,
}

impl HotPlug {
    /// Serves `component` until its driver has ended and no more events are expected. `found` is what enumeration has
    /// found of it.
    ///
    /// # Errors
    /// The error of the slot's driver while its device is present, or of a port that does not answer.
    pub(super) async fn serve(
        host: &Rc<Services>,
        component: &Rc<Component>,
        last_event: Time,
        signal: &LossSignal,
        found: &System,
    ) -> Result<(), DriverError> {
        let (host, component, signal) = (Rc::clone(host), Rc::clone(component), signal.clone());
        let port = match found.at_path(&component.port()) {
            Some(port) => SlotPort::new(&host.cpu, port)?,
            None => return Err("no port leads to it".into()),
        };
        let mut this =
            HotPlug { host, component, last_event, signal, port, state: HotPlugState::Off, driver: None };
        let served = match this.run(found).await {
            Ok(None) => return Ok(()),
            Ok(Some(loss)) => Ok(loss),
            // The port may be gone although the signal of this has not arrived yet.
            Err(error) => this.signal.lost_within(&this.host.cpu, this.host.options.drain).await.ok_or(error),
        };
        this.lose(served?).await
    }

    /// Serves the slot until no more events are expected (`None`), or until its port is lost.
    async fn run(&mut self, found: &System) -> Result<Option<Loss>, DriverError> {
        self.begin(found).await?;
        loop {
            match self.next().await {
                Event::Lost(loss) => return Ok(Some(loss)),
                Event::Ended(result) => self.driver_ended(result).await?,
                Event::Interrupt => self.interrupt().await?,
                Event::Timer => match self.state {
                    HotPlugState::TurningOff(_) => self.turn_off(false).await?,
                    HotPlugState::TurningOn(_) => self.turn_on().await?,
                    HotPlugState::Off | HotPlugState::On => return Ok(None),
                },
            }
        }
    }

    fn note(&self, what: String) {
        self.host.note(&self.component.name, what);
    }

    /// Ends the driver after the port is gone. When the port is back, the task that serves the port above starts the component again.
    async fn lose(&mut self, loss: Loss) -> Result<(), DriverError> {
        self.note("its port is gone".to_owned());
        let is_running = self.driver.is_some();
        self.end_driver(true).await?;
        if let (Loss::Permanent(why), true) = (loss, is_running) {
            self.host.fail_with(&self.component, &why);
        }
        Ok(())
    }

    /// Takes the slot over from enumeration. Changes since enumeration are events: a card was inserted or removed, or
    /// the link has changed.
    async fn begin(&mut self, found: &System) -> Result<(), DriverError> {
        let (host, component) = (Rc::clone(&self.host), Rc::clone(&self.component));
        let port = found.get(self.port.bdf()).ok_or("no port leads to it")?;
        let is_on = component.is_present(&host, found, port).await?;
        if is_on {
            self.state = HotPlugState::On;
            self.driver = Some(component.start(&host, found).await?);
        } else {
            self.note("the slot is empty".to_owned());
        }
        let events = self.port.take_events().await? & slot::PRESENCE;
        self.port.enable(is_on).await?;
        let now = self.port.status().await?;
        let is_news = events != 0 && (is_on || now.present);
        let was_reset = is_on && !component.is_as_found(&host, found).await;
        if is_news || was_reset || is_on != now.link_active { self.changed(events).await } else { Ok(()) }
    }

    async fn next(&mut self) -> Event {
        let until = match (self.state, &self.driver) {
            (HotPlugState::TurningOff(at) | HotPlugState::TurningOn(at), _) => at,
            (_, Some(_)) => Time::MAX,
            (_, None) => self.last_event.max(self.host.cpu.now()) + SETTLE,
        };
        let signal = self.signal.clone();
        let mut lost = std::pin::pin!(signal.lost());
        let mut interrupt = self.host.cpu.interrupt(self.port.vector());
        let mut timer = self.host.cpu.sleep_until(until);
        let driver = &mut self.driver;
        poll_fn(|cx| {
            if let Poll::Ready(loss) = lost.as_mut().poll(cx) {
                return Poll::Ready(Event::Lost(loss));
            }
            // Handle the interrupt of a removed device before the end of its driver.
            if Pin::new(&mut interrupt).poll(cx).is_ready() {
                return Poll::Ready(Event::Interrupt);
            }
            if let Some(Poll::Ready(result)) = driver.as_mut().map(|d| d.as_mut().poll(cx)) {
                *driver = None;
                return Poll::Ready(Event::Ended(result));
            }
            Pin::new(&mut timer).poll(cx).map(|()| Event::Timer)
        })
        .await
    }

    async fn driver_ended(&mut self, result: Result<(), DriverError>) -> Result<(), DriverError> {
        match result {
            Ok(()) => self.note("its driver has ended".to_owned()),
            // Not a failure if the device was removed: its interrupt is still to come.
            Err(error) if self.port.has_changed().await? => self.note(format!("its driver failed: {error}")),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    async fn interrupt(&mut self) -> Result<(), DriverError> {
        let events = self.port.take_events().await?;
        let errors = self.port.take_errors().await;
        self.host.handle_errors(&self.component.name, errors).await;
        if events & slot::ATTENTION_BUTTON != 0 {
            self.button().await?;
        }
        if events & (slot::PRESENCE | slot::LINK_STATE) != 0 {
            self.changed(events).await?;
        }
        Ok(())
    }

    /// Handles a press of the attention button, which requests the other state. A second press before that cancels the first.
    async fn button(&mut self) -> Result<(), DriverError> {
        let at = self.host.cpu.now() + BUTTON_DELAY;
        let (state, what) = match self.state {
            HotPlugState::On => (HotPlugState::TurningOff(at), "attention button: to be powered off"),
            HotPlugState::Off => (HotPlugState::TurningOn(at), "attention button: to be powered on"),
            HotPlugState::TurningOff(_) => (HotPlugState::On, "attention button again: stays on"),
            HotPlugState::TurningOn(_) => (HotPlugState::Off, "attention button again: stays off"),
        };
        self.note(what.to_owned());
        self.state = state;
        let shown = match state {
            HotPlugState::On => Indication::On,
            HotPlugState::Off => Indication::Off,
            HotPlugState::TurningOff(_) | HotPlugState::TurningOn(_) => Indication::Blink,
        };
        self.port.indicate(shown).await
    }

    /// Handles a change of presence or of the link. Gives up the old card, even if the slot is occupied, as the card may be another
    /// one. Then brings up the present card.
    async fn changed(&mut self, events: u32) -> Result<(), DriverError> {
        let now = self.port.status().await?;
        let what = match (now.present, now.link_active, events & slot::PRESENCE != 0) {
            (false, _, _) => "removed",
            (true, _, true) => "inserted",
            (true, false, false) => "its link is down",
            (true, true, false) => "its link is up",
        };
        self.note(what.to_owned());
        if matches!(self.state, HotPlugState::On | HotPlugState::TurningOff(_)) {
            self.turn_off(true).await?;
        }
        self.state = HotPlugState::Off;
        // Handle a card that was inserted in the meantime, but ignore a press of the button.
        let meanwhile = self.port.take_events().await?;
        let now = self.port.status().await?;
        if now.present && meanwhile & slot::PRESENCE != 0 {
            self.note("inserted".to_owned());
        }
        if now.present || now.link_active { self.turn_on().await } else { Ok(()) }
    }

    /// Ends the driver, powers the slot off, and removes its functions. `gone` means that the component no longer answers.
    async fn turn_off(&mut self, gone: bool) -> Result<(), DriverError> {
        self.end_driver(gone).await?;
        self.port.power_off().await?;
        let removed = {
            let mut system = self.host.hierarchy.lock().await;
            firmware::rescan(&self.host.cpu, &mut system, self.port.bdf()).await
        };
        self.state = HotPlugState::Off;
        let removed = removed?.removed;
        for function in &removed {
            let first = function.found.vector_base;
            (first..first + function.found.vectors).for_each(|v| self.host.cpu.forget_interrupts(v));
        }
        let what = if gone { "gone" } else { "powered off" };
        self.note(format!("{what}: {}", names(removed.iter().map(Function::bdf))));
        Ok(())
    }

    async fn end_driver(&mut self, gone: bool) -> Result<(), DriverError> {
        let driver = self.driver.take();
        if !gone {
            if driver.is_some() {
                self.note("its driver is stopped".to_owned());
            }
            drop(driver);
            return self.quiesce().await;
        }
        let Some(driver) = driver else { return Ok(()) };
        if let Role::Switch(_) = self.component.role {
            self.host.lose_all_below(&self.component.path);
            // The drivers below end by themselves.
            return driver.await;
        }
        let drain = self.host.cpu.sleep(self.host.options.drain);
        let what = match select(driver, drain).await {
            Either::Left(Err(error)) => format!("its driver failed: {error}"),
            Either::Left(Ok(())) => "its driver has ended".to_owned(),
            Either::Right(()) => "its driver is stopped".to_owned(),
        };
        self.note(what);
        Ok(())
    }

    /// Stops the requests of all functions below, and waits for the outstanding ones.
    async fn quiesce(&self) -> Result<(), DriverError> {
        let below: Vec<Bdf> = {
            let system = self.host.hierarchy.lock().await;
            // Bridges must still forward the completions.
            let functions = system.under(self.port.bdf()).filter(|f| f.bridge.is_none());
            functions.map(Function::bdf).collect()
        };
        for bdf in below {
            SlotPort::stop_requests(&self.host.cpu, bdf).await;
        }
        self.host.cpu.sleep(QUIESCE).await;
        Ok(())
    }

    /// Switches power on, waits for the link, enumerates the card, and starts its driver.
    async fn turn_on(&mut self) -> Result<(), DriverError> {
        self.port.power_on().await?;
        let timeout = self.host.cpu.now() + LINK_TIMEOUT;
        while !self.port.status().await?.link_active {
            if self.host.cpu.now() >= timeout {
                self.note("its link does not come up".to_owned());
                self.state = HotPlugState::Off;
                return self.port.indicate(Indication::Fault).await;
            }
            self.host.cpu.sleep(LINK_POLL).await;
        }
        if let Role::Switch(_) = self.component.role {
            self.host.cpu.sleep(LINKS_BELOW).await;
        }
        self.port.forget_link_event().await?;
        self.state = HotPlugState::On;
        match self.start().await {
            Ok(found) => self.note(format!("brought up: {found}")),
            // The device was removed in the meantime: its interrupt is still to come.
            Err(error) if self.port.has_changed().await? => self.note(format!("not brought up: {error}")),
            Err(error) => return Err(error),
        }
        self.port.indicate(Indication::On).await
    }

    async fn start(&mut self) -> Result<String, DriverError> {
        let (host, component) = (Rc::clone(&self.host), Rc::clone(&self.component));
        let mut system = host.hierarchy.lock().await;
        let scan = firmware::rescan(&host.cpu, &mut system, self.port.bdf()).await?;
        self.driver = Some(component.start(&host, &system).await?);
        Ok(names(scan.added.into_iter()))
    }
}

fn names(functions: impl Iterator<Item = Bdf>) -> String {
    let names: Vec<String> = functions.map(|bdf| bdf.to_string()).collect();
    if names.is_empty() { "no function".to_owned() } else { names.join(", ") }
}
