// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The place of raw TLPs instead of an endpoint: an outside program, such as RTL or a peer with its own tags, is the
//! design of a slot's hard block. The hard block itself answers or rejects some TLPs. It gates and checks the TLPs from
//! the outside.
//!
//! ```text
//! u8 kind, and                      6 a request of the host is taken   u32 token
//!   1 a TLP          u16 function, its bytes as on a link
//!   2 a relayed one  u16 function, its bytes
//!   3 an interrupt   u16 function, u16 vector
//!   4 INTx           u16 function, u8 level
//!   5 a PME          u16 function
//! ```
//!
//! Numbers are little endian, except in TLPs.

use super::bytes::{Cursor, Put};
use device::{Ready, Token};
use endpoint::hard_block::{DesignInput, DesignOutput, TlpDesign};
use plug::Attachment;
use plug::place::{Input, InputError};
use std::cell::{RefCell, RefMut};
use std::collections::VecDeque;
use std::rc::Rc;
use tlp::{Body, Class, Data, PayloadPool, Status, Time, Tlp};

/// Maximum number of TLPs and interrupts from outside that wait for the slot's link.
pub const MAX_WAITING: usize = 1024;

/// The place of raw TLPs. Clones are handles of the same place.
#[derive(Clone)]
pub struct TlpPlace(Rc<RefCell<TlpsState>>);

struct TlpsState {
    pool: PayloadPool,
    waiting: [VecDeque<DesignOutput>; 3],
    taken: VecDeque<Token>,
    /// Inputs that the outside has not fetched; `None` if no program fetches them.
    inputs: Option<VecDeque<(Time, OutsideInput)>>,
    /// Requests of the outside that await an answer.
    open: usize,
    /// True if an input has arrived from outside: the design must be called.
    woken: bool,
}

impl TlpsState {
    fn tell(&mut self, now: Time, what: OutsideInput) {
        if let Some(inputs) = &mut self.inputs {
            inputs.push_back((now, what));
        }
    }
}

/// An input for the outside.
#[derive(Debug)]
pub enum OutsideInput {
    /// An input for the design.
    Input(DesignInput),
    /// The outside has sent this output without room for it: see [`TlpPlace::has_room`].
    NoRoom(DesignOutput),
}

/// An action of the outside.
#[derive(Debug)]
pub enum TlpInput {
    /// An output of the design. Data that is only counted becomes zeroes.
    Output(DesignOutput),
    /// Takes a request of the host, which returns its credits.
    Taken(Token),
}

impl TlpPlace {
    /// Returns a place whose payloads come from `pool`.
    pub fn new(pool: &PayloadPool) -> TlpPlace {
        let ((waiting, taken), inputs) = (Default::default(), Some(VecDeque::new()));
        TlpPlace(Rc::new(RefCell::new(TlpsState {
            pool: pool.clone(),
            waiting,
            taken,
            inputs,
            open: 0,
            woken: false,
        })))
    }

    /// Returns the design, for the slot's [`HardBlock`](endpoint::HardBlock).
    pub fn design(&self) -> impl TlpDesign + use<> {
        Outside(self.clone())
    }

    /// Returns true if there is room for another output of a class. Interrupts and PMEs are posted.
    pub fn has_room(&self, class: Class) -> bool {
        self.0.borrow().waiting[class.index()].len() < MAX_WAITING
    }

    /// Takes the next input for the outside, in the order of time. Query this after every drain of the lab.
    pub fn poll_input(&self) -> Option<(Time, OutsideInput)> {
        self.0.borrow_mut().inputs.as_mut()?.pop_front()
    }
}

fn class_of(output: &DesignOutput) -> Class {
    match output {
        DesignOutput::Tlp { tlp, .. } | DesignOutput::Relayed { tlp, .. } => tlp.class(),
        _ => Class::Posted,
    }
}

impl Attachment for TlpPlace {
    fn take_recorded(&self, now: Time, input: &[u8]) -> Result<bool, InputError> {
        let input = parse(input, &self.0.borrow().pool)?;
        Ok(input.join(self, now))
    }

    fn awaits_fabric(&self) -> bool {
        let state = self.0.borrow();
        state.open > 0 || state.waiting.iter().any(|queue| !queue.is_empty())
    }

    fn has_output(&self) -> bool {
        self.0.borrow().inputs.as_ref().is_some_and(|inputs| !inputs.is_empty())
    }

    fn discard_outputs(&self) {
        self.0.borrow_mut().inputs = None;
    }
}

impl Input<TlpPlace> for TlpInput {
    fn emit(&self, out: &mut Vec<u8>) {
        match self {
            TlpInput::Taken(token) => {
                out.put_u8(6);
                out.put_u32(token.0);
            }
            TlpInput::Output(output) => emit_output(out, output),
        }
    }

    fn join(self, place: &TlpPlace, now: Time) -> bool {
        let mut state = place.0.borrow_mut();
        match self {
            TlpInput::Taken(token) => state.taken.push_back(token),
            TlpInput::Output(mut output) => {
                let class = class_of(&output).index();
                if state.waiting[class].len() >= MAX_WAITING {
                    state.tell(now, OutsideInput::NoRoom(output));
                    return false;
                }
                if let DesignOutput::Tlp { tlp, .. } | DesignOutput::Relayed { tlp, .. } = &mut output {
                    // The outside needs the data as bytes.
                    tlp.carry = true;
                    if let Data::Counted(bytes @ 1..) = tlp.data {
                        tlp.data = Data::Carried(state.pool.fill(bytes as usize, |data| data.fill(0)));
                    }
                }
                state.waiting[class].push_back(output);
            }
        }
        state.woken = true;
        true
    }
}

fn emit_output(out: &mut Vec<u8>, output: &DesignOutput) {
    let mut begin = |kind: u8, function: u16| {
        out.put_u8(kind);
        out.put_u16(function);
    };
    match output {
        DesignOutput::Tlp { function, tlp } => {
            begin(1, *function);
            emit_tlp(out, tlp);
        }
        DesignOutput::Relayed { function, tlp } => {
            begin(2, *function);
            emit_tlp(out, tlp);
        }
        DesignOutput::Interrupt { function, vector } => {
            begin(3, *function);
            out.put_u16(*vector);
        }
        DesignOutput::Intx { function, asserted } => {
            begin(4, *function);
            out.put_u8((*asserted).into());
        }
        DesignOutput::Pme { function } => begin(5, *function),
        // Outputs of other versions of the seam are not supported yet.
        _ => {}
    }
}

fn emit_tlp(out: &mut Vec<u8>, tlp: &Tlp) {
    let at = out.len();
    out.resize(at + tlp.wire_len(), 0);
    tlp.emit(&mut out[at..]);
}

fn parse(input: &[u8], pool: &PayloadPool) -> Result<TlpInput, InputError> {
    let cut = || InputError::Form("an input of raw TLPs that is cut off");
    let mut from = Cursor::new(input);
    let kind = from.u8().ok_or_else(cut)?;
    if kind == 6 {
        return from.u32().map(|token| TlpInput::Taken(Token(token))).ok_or_else(cut);
    }
    let function = from.u16().ok_or_else(cut)?;
    let output = match kind {
        1 | 2 => {
            let tlp =
                Tlp::parse(from.rest(), pool).map_err(|e| InputError::Value(format!("not a TLP: {e}")))?;
            if kind == 1 {
                DesignOutput::Tlp { function, tlp }
            } else {
                DesignOutput::Relayed { function, tlp }
            }
        }
        3 => DesignOutput::Interrupt { function, vector: from.u16().ok_or_else(cut)? },
        4 => DesignOutput::Intx { function, asserted: from.u8().ok_or_else(cut)? != 0 },
        5 => DesignOutput::Pme { function },
        kind => {
            return Err(InputError::Value(format!("an input of raw TLPs of kind {kind}, expected 1 to 6")));
        }
    };
    Ok(TlpInput::Output(output))
}

/// The design that the outside program implements.
struct Outside(TlpPlace);

impl Outside {
    fn state(&mut self) -> RefMut<'_, TlpsState> {
        self.0.0.borrow_mut()
    }
}

/// True if this input is the last one for a request of the outside.
fn ends_request(input: &DesignInput) -> bool {
    match input {
        DesignInput::Completion { tlp, .. } => {
            matches!(tlp.repr.body, Body::Completion(c) if c.is_last() || c.status != Status::Success)
        }
        DesignInput::Lost { .. } => true,
        DesignInput::Refused { tlp, .. } => tlp.class() == Class::NonPosted,
        _ => false,
    }
}

impl TlpDesign for Outside {
    fn handle(&mut self, now: Time, input: DesignInput) {
        let mut state = self.state();
        match input {
            DesignInput::Timer => return state.woken = false,
            DesignInput::Reset { .. } => {
                state.waiting.iter_mut().for_each(VecDeque::clear);
                state.taken.clear();
                state.open = 0;
            }
            _ => state.open -= usize::from(ends_request(&input)).min(state.open),
        }
        state.tell(now, OutsideInput::Input(input));
    }

    fn poll_output(&mut self, _: Time, class: Class) -> Option<DesignOutput> {
        let mut state = self.state();
        let output = state.waiting[class.index()].pop_front()?;
        state.open += usize::from(class == Class::NonPosted);
        Some(output)
    }

    /// An input from outside also sets the timer, which leads to a call.
    fn ready(&self) -> Ready {
        let state = self.0.0.borrow();
        let some = Class::ALL.into_iter().filter(|class| !state.waiting[class.index()].is_empty());
        let taken = if state.taken.is_empty() { Ready::NONE } else { Ready::TAKEN };
        some.fold(taken, |ready, class| ready.or(Ready::output(class)))
    }

    fn poll_taken(&mut self) -> Option<Token> {
        self.state().taken.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.0.0.borrow().woken.then_some(Time::ZERO)
    }
}
