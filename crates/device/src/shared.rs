// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shared engines and data of the functions of one endpoint. A physical function and its virtual functions are separate
//! devices, each with its own Requester ID, tags and resets, but often one engine does the work of all functions. A
//! function never gets the requests, tokens or DMA results of another function.
//!
//! - [`SharedEngine`]: callbacks. An [`Engine`] gets the inputs of all functions, each with the number of its
//!   function.
//! - [`Channel`](crate::Channel): `async` code. Tasks of one function send values to tasks of another. The channel
//!   survives their resets.
//!
//! Both use the [`Notifier`]s of the functions concerned. A device that shares data in another way may use these calls
//! too. Otherwise the device is polled after every call of another device.

pub use exec::{Notifier, Notifiers};

use crate::seam::{Device, Input, Output, Ready, Token};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use tlp::message::MessageCodes;
use tlp::{Class, Mps, Mrrs, Time};

/// An engine that does the work of several functions: a [`Device`] with the number of the function in each call. The
/// numbers are the arguments of [`SharedEngine::function`].
pub trait Engine {
    /// Takes an input of a function. A reset voids the transactions of its function only.
    fn handle(&mut self, now: Time, function: u16, input: Input);

    /// Returns the next output of a function, see [`Device::poll_output`].
    fn poll_output(&mut self, now: Time, function: u16, class: Class) -> Option<Output>;

    /// Returns the polls that may return something for a function, see [`Device::ready`].
    fn ready(&self, function: u16) -> Ready;

    /// Returns the next request of a function that the engine has taken, see [`Device::poll_taken`].
    fn poll_taken(&mut self, function: u16) -> Option<Token>;

    /// Returns the time of a function's next [`Input::Timer`], see [`Device::poll_timeout`].
    fn poll_timeout(&self, function: u16) -> Option<Time>;

    /// Returns the Message Codes that a function accepts, see [`Device::messages`].
    fn messages(&self, function: u16) -> MessageCodes {
        let _ = function;
        MessageCodes::NONE
    }

    /// Sets the number of interrupt vectors of a function, see [`Device::set_vectors`].
    fn set_vectors(&mut self, function: u16, vectors: u16) {
        let _ = (function, vectors);
    }

    /// Sets the sizes of a function, see [`Device::set_sizes`].
    fn set_sizes(&mut self, function: u16, mps: Mps, mrrs: Mrrs) {
        let _ = (function, mps, mrrs);
    }

    /// Sets whether a function may send requests, see [`Device::set_bus_master`].
    fn set_bus_master(&mut self, function: u16, may_send: bool) {
        let _ = (function, may_send);
    }

    /// Returns one of the other functions whose [`ready`](Self::ready) and [`poll_timeout`](Self::poll_timeout) may
    /// have changed since the last call. This is called until it returns `None` or `All`. This is only an optimization:
    /// with `All`, the default, the cost of each call is proportional to the number of functions.
    fn poll_stirred(&mut self) -> Stirred {
        Stirred::All
    }
}

/// Other functions that a call of one function affects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stirred {
    /// No other function.
    None,
    /// This function.
    One(u16),
    /// Perhaps every function.
    All,
}

/// An engine, and the notifiers of its functions by number.
struct Common<E> {
    engine: RefCell<E>,
    notifiers: RefCell<BTreeMap<u16, Notifier>>,
}

impl<E: Engine> Common<E> {
    /// Calls the engine, then notifies for the functions that the call affects.
    fn call<T>(&self, call: impl FnOnce(&mut E) -> T) -> T {
        let engine = &mut *self.engine.borrow_mut();
        let result = call(engine);
        let notifiers = self.notifiers.borrow();
        if notifiers.is_empty() {
            return result;
        }
        loop {
            match engine.poll_stirred() {
                Stirred::None => return result,
                Stirred::One(function) => notifiers.get(&function).into_iter().for_each(Notifier::notify),
                Stirred::All => {
                    notifiers.values().for_each(Notifier::notify);
                    return result;
                }
            }
        }
    }
}

/// An engine that several functions share. Clones are handles of the same engine.
pub struct SharedEngine<E>(Rc<Common<E>>);

impl<E> Clone for SharedEngine<E> {
    fn clone(&self) -> SharedEngine<E> {
        SharedEngine(Rc::clone(&self.0))
    }
}

impl<E: Engine + 'static> SharedEngine<E> {
    /// Returns a handle of `engine`.
    pub fn new(engine: E) -> SharedEngine<E> {
        SharedEngine(Rc::new(Common { engine: RefCell::new(engine), notifiers: RefCell::default() }))
    }

    /// Returns the device of function `number`. Call this once for each number.
    pub fn function(&self, number: u16) -> Box<dyn Device> {
        Box::new(EngineFunction { engine: self.clone(), number })
    }

    /// Calls `look` with the engine.
    pub fn with<T>(&self, look: impl FnOnce(&E) -> T) -> T {
        look(&self.0.engine.borrow())
    }
}

/// One function of a shared engine.
struct EngineFunction<E> {
    engine: SharedEngine<E>,
    number: u16,
}

impl<E: Engine> Device for EngineFunction<E> {
    fn handle(&mut self, now: Time, input: Input) {
        self.engine.0.call(|engine| engine.handle(now, self.number, input));
    }

    fn poll_output(&mut self, now: Time, class: Class) -> Option<Output> {
        self.engine.0.call(|engine| engine.poll_output(now, self.number, class))
    }

    fn ready(&self) -> Ready {
        self.engine.0.engine.borrow().ready(self.number)
    }

    fn poll_taken(&mut self) -> Option<Token> {
        self.engine.0.call(|engine| engine.poll_taken(self.number))
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.engine.0.engine.borrow().poll_timeout(self.number)
    }

    fn messages(&self) -> MessageCodes {
        self.engine.0.engine.borrow().messages(self.number)
    }

    fn set_vectors(&mut self, vectors: u16) {
        self.engine.0.call(|engine| engine.set_vectors(self.number, vectors));
    }

    fn set_sizes(&mut self, mps: Mps, mrrs: Mrrs) {
        self.engine.0.call(|engine| engine.set_sizes(self.number, mps, mrrs));
    }

    fn set_bus_master(&mut self, may_send: bool) {
        self.engine.0.call(|engine| engine.set_bus_master(self.number, may_send));
    }

    fn set_notifier(&mut self, notifier: Notifier) -> bool {
        self.engine.0.notifiers.borrow_mut().insert(self.number, notifier);
        true
    }
}
