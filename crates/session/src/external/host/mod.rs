// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The place of a host: an outside program, such as a kernel or another simulator, is above a root complex of the lab.
//!
//! It issues configuration, memory, I/O and message requests, enumerates, receives results, takes interrupts in the
//! form of their TLPs, and maps its own memory for DMA. riser runs no firmware and no drivers there.

mod memory;
mod request;

pub(crate) use memory::OutsideMemory;
pub use memory::{Backing, MAP_BYTES, MAX_MAPS, Map, MapAccess, MapError};
pub use request::HostRequest;

use host::memory::{DmaAccess, HostMemory};
use host::{DriverError, HostInput, HostOutput, HostProgram, HostReadId};
use plug::Attachment;
use plug::place::{Input, InputError};
use request::HostCommand;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use thiserror::Error;
use tlp::{Bdf, PayloadPool, Time};

/// Override of a lab that makes an outside program its host.
pub const OUTSIDE: &str = "host.outside=true";
/// Maximum number of outstanding and waiting requests of a host.
pub const MAX_HOST_REQUESTS: usize = 1024;
/// Maximum number of inputs that a host may leave untaken.
pub const MAX_WAITING_INPUTS: usize = 1 << 16;

/// Reason why an external host may not issue a request.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum HostRequestError {
    /// A configuration register that does not exist.
    #[error("configuration register {register_dw}, bytes {byte_enables:#x}, expected 0 to 1023, 0 to 0xf")]
    Register {
        /// Register number, in DWs.
        register_dw: u16,
        /// Byte Enables.
        byte_enables: u8,
    },
    /// The output is only for a program and its host's model.
    #[error(
        "an extension request is only for programs of a simulated host; expected a configuration, memory, I/O, AtomicOp or message request"
    )]
    Extension,
    /// Too many requests are outstanding or waiting.
    #[error("more than {MAX_HOST_REQUESTS} requests under way")]
    TooMany,
    /// A request with this ID is outstanding.
    #[error("request {} is under way already: ids are unique", .0.0)]
    Duplicate(HostReadId),
    /// A range cannot be mapped.
    #[error("map of {0}")]
    Map(MapError),
    /// A range cannot be unmapped.
    #[error(transparent)]
    Unmap(#[from] MapError),
}

/// An input of a host, with its time.
pub type TimedHostInput = (Time, HostInput);

/// The place of an external host. Clones are handles of the same place.
#[derive(Clone)]
pub struct HostPlace(Rc<RefCell<HostState>>);

struct HostState {
    pool: PayloadPool,
    memory: OutsideMemory,
    /// Functions with their own address space.
    spaces: BTreeMap<Bdf, OutsideMemory>,
    /// Functions that got or lost their own address space, which the root complex does not know yet.
    changed: Vec<Bdf>,
    requests: VecDeque<HostOutput>,
    /// Outstanding requests that need an answer.
    open: BTreeSet<HostReadId>,
    /// Inputs that the host has not fetched; `None` if no program fetches them.
    inputs: Option<VecDeque<TimedHostInput>>,
    outcome: Option<Result<(), DriverError>>,
    /// True if everything below must be reset.
    reset: bool,
}

impl HostPlace {
    pub(crate) fn new(pool: PayloadPool, memory: OutsideMemory) -> HostPlace {
        let ((requests, open), inputs) = (Default::default(), Some(VecDeque::new()));
        HostPlace(Rc::new(RefCell::new(HostState {
            pool,
            memory,
            spaces: BTreeMap::new(),
            changed: Vec::new(),
            requests,
            open,
            inputs,
            outcome: None,
            reset: false,
        })))
    }

    /// True if there is room for another request. If not, call `poll_input` and drain the lab first.
    pub fn has_room(&self) -> bool {
        let state = self.0.borrow();
        state.requests.len() + state.open.len() < MAX_HOST_REQUESTS
    }

    /// Checks whether `map` can be mapped now.
    ///
    /// # Errors
    /// The reason why it cannot be mapped.
    pub fn check_map(&self, map: &Map) -> Result<(), MapError> {
        self.check_map_of(None, map)
    }

    /// Like [`check_map`](Self::check_map), for the address space of `requester`, if it has its own.
    ///
    /// # Errors
    /// The reason if it cannot.
    pub fn check_map_of(&self, requester: Option<Bdf>, map: &Map) -> Result<(), MapError> {
        let state = self.0.borrow();
        let memory = requester.and_then(|requester| state.spaces.get(&requester));
        match (requester, memory) {
            (Some(_), None) => state.memory.beside().check(map),
            (_, memory) => memory.unwrap_or(&state.memory).check(map),
        }
    }

    /// Takes the first DMA that was rejected since the last query because of missing or read-only maps, and the number
    /// of rejected DMAs.
    pub fn refused_dma(&self) -> Option<(DmaAccess, u64)> {
        self.0.borrow().memory.refused()
    }

    /// Takes the next input for the host, in the order of time. Query this after every drain of the lab.
    pub fn poll_input(&self) -> Option<TimedHostInput> {
        self.0.borrow_mut().inputs.as_mut()?.pop_front()
    }

    /// Takes the request to reset everything below.
    pub(crate) fn takes_reset(&self) -> bool {
        std::mem::take(&mut self.0.borrow_mut().reset)
    }

    /// Reports each function once that now has its own address space or, without a memory, no longer has one.
    pub(crate) fn grants(&self, mut grant: impl FnMut(Bdf, Option<HostMemory>)) {
        let mut state = self.0.borrow_mut();
        for requester in std::mem::take(&mut state.changed) {
            grant(requester, state.spaces.get(&requester).cloned().map(HostMemory::of));
        }
    }

    fn take(&self, request: HostRequest) {
        let mut state = self.0.borrow_mut();
        if let Err(why) = state.take(request) {
            state.fail(why.to_string());
        }
    }
}

impl HostState {
    /// # Errors
    /// The host's request is illegal. This ends the host, and thus the run.
    fn take(&mut self, HostRequest(asked): HostRequest) -> Result<(), HostRequestError> {
        match asked {
            HostCommand::Issue(mut output) => {
                if self.requests.len() + self.open.len() >= MAX_HOST_REQUESTS {
                    return Err(HostRequestError::TooMany);
                }
                if let Some(id) = output.id_mut().filter(|id| !self.open.insert(**id)) {
                    return Err(HostRequestError::Duplicate(*id));
                }
                self.requests.push_back(output);
            }
            HostCommand::Map { of, map, backing } => {
                self.memory_of(of).map(map, backing).map_err(HostRequestError::Map)?;
            }
            HostCommand::Unmap { of, address, bytes } => {
                self.memory_of(of).unmap(address, bytes)?;
            }
            HostCommand::End(outcome) => self.outcome = Some(outcome),
            HostCommand::Reset => self.reset = true,
            HostCommand::Grant(requester) => _ = self.memory_of(Some(requester)),
            HostCommand::Revoke(requester) => {
                self.spaces.remove(&requester);
                self.changed.push(requester);
            }
        }
        Ok(())
    }

    /// Returns the memory for a function's addresses. If `requester` is given, it has its own address space from now on.
    fn memory_of(&mut self, requester: Option<Bdf>) -> &OutsideMemory {
        let Some(requester) = requester else { return &self.memory };
        let (memory, changed) = (&self.memory, &mut self.changed);
        self.spaces.entry(requester).or_insert_with(|| {
            changed.push(requester);
            memory.beside()
        })
    }

    fn fail(&mut self, why: impl Into<DriverError>) {
        self.outcome.get_or_insert(Err(why.into().at("the external host")));
    }
}

impl Attachment for HostPlace {
    fn take_recorded(&self, now: Time, input: &[u8]) -> Result<bool, InputError> {
        let request = HostRequest::parse(input, &self.0.borrow().pool);
        let request = request
            .ok_or(InputError::Form("not a host request, expected a complete request of kind 1 to 18"))?;
        Ok(request.join(self, now))
    }

    fn awaits_fabric(&self) -> bool {
        let state = self.0.borrow();
        !state.requests.is_empty() || !state.open.is_empty()
    }

    fn has_output(&self) -> bool {
        self.0.borrow().inputs.as_ref().is_some_and(|inputs| !inputs.is_empty())
    }

    fn discard_outputs(&self) {
        self.0.borrow_mut().inputs = None;
    }
}

/// For the root complex, the host is a program.
impl HostProgram for HostPlace {
    fn handle(&mut self, now: Time, input: HostInput) {
        let mut state = self.0.borrow_mut();
        if let HostInput::Done { id, .. } = &input {
            state.open.remove(id);
        }
        let Some(inputs) = &mut state.inputs else { return };
        inputs.push_back((now, input));
        if inputs.len() > MAX_WAITING_INPUTS {
            state.fail(format!("{MAX_WAITING_INPUTS} interrupts, messages and answers are not taken"));
        }
    }

    fn poll_output(&mut self, _: Time) -> Option<HostOutput> {
        self.0.borrow_mut().requests.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    fn outcome(&self) -> Option<Result<(), DriverError>> {
        self.0.borrow().outcome.clone()
    }

    fn waits_for(&self) -> Option<String> {
        let open = self.0.borrow().open.len();
        (open > 0).then(|| format!("{open} requests of the external host are under way"))
    }
}
