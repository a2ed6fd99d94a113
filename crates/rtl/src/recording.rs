// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a design was given in a run, to be given it again by a loop in C++ that does nothing else: so what riser adds can be measured.

use crate::loader::{Eval, Instance, LoadError, Loaded};
use crate::model::in_folder;
use plug::Shared;
use std::path::PathBuf;
use std::rc::Rc;
use thiserror::Error;
use tlp::Time;

/// Edges of the user clock that are kept at most: some hundred MB.
const MOST_EDGES: usize = 1 << 22;

/// Keeps what one design is given.
#[derive(Default)]
pub(crate) struct Recorder {
    /// The library, its seed, and the folder that it reads files in.
    source: Option<(Rc<Loaded>, u64, PathBuf)>,
    evals: Vec<Eval>,
    reset_until: Time,
    is_reset_again: bool,
    driven: Vec<u32>,
    /// Words that are driven at an edge.
    words: usize,
    edges: usize,
}

impl Recorder {
    pub(crate) fn edge(&mut self, driven: &[u32]) {
        self.edges += 1;
        if self.edges <= MOST_EDGES {
            self.words = driven.len();
            self.driven.extend_from_slice(driven);
        }
    }

    pub(crate) fn evals(&mut self, evals: &[Eval], reset_until: Time) {
        self.is_reset_again |= !self.evals.is_empty() && reset_until != self.reset_until;
        self.reset_until = reset_until;
        if self.edges <= MOST_EDGES {
            self.evals.extend_from_slice(evals);
        }
    }
}

/// Records the inputs of the first design of a lab in one run. The caller puts a clone into the context of that run.
#[derive(Clone, Default)]
pub struct Recording(Shared<Recorder>);

/// Why it cannot be given it again.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// No design was loaded.
    #[error("no slot of the lab has a design that runs")]
    None,
    /// The run was too long.
    #[error("{0} cycles: legal are {MOST_EDGES}; a lab with less to do, or limit_us, ends sooner")]
    TooLong(usize),
    /// Its reset is not at the beginning alone.
    #[error("the slot is reset in the midst of the lab")]
    Reset,
    /// The library, or what the design says.
    #[error("{0}")]
    Design(String),
}

impl Recording {
    /// Returns the recorder for the design with this library, seed and folder, if it is the first design.
    pub(crate) fn start(&self, library: &Rc<Loaded>, seed: u64, folder: PathBuf) -> Option<Shared<Recorder>> {
        let is_first = self.0.get().source.is_none();
        is_first.then(|| {
            self.0.change(|recorder| recorder.source = Some((Rc::clone(library), seed, folder)));
            self.0.clone()
        })
    }

    /// Cycles of the user clock so far.
    pub fn cycles(&self) -> usize {
        self.0.change(|recorder| recorder.edges)
    }

    /// A design in its first state that can be given all of it.
    ///
    /// # Errors
    /// [`ReplayError`]
    pub fn replay(&self) -> Result<Replay, ReplayError> {
        let source = self.0.change(|recorder| recorder.source.clone());
        let (library, seed, folder) = source.ok_or(ReplayError::None)?;
        if self.0.get().is_reset_again {
            return Err(ReplayError::Reset);
        }
        if self.cycles() > MOST_EDGES {
            return Err(ReplayError::TooLong(self.cycles()));
        }
        let made = in_folder(&folder, || Instance::create(&library, seed));
        let wrong = |e: LoadError| ReplayError::Design(e.to_string());
        let instance = made.map_err(|e| ReplayError::Design(e.to_string()))?.map_err(wrong)?;
        Ok(Replay { instance, recorder: self.0.clone() })
    }
}

/// A design, and what it is to be given.
pub struct Replay {
    instance: Instance,
    recorder: Shared<Recorder>,
}

impl Replay {
    /// Gives it all of it.
    ///
    /// # Errors
    /// What the design says.
    pub fn run(mut self) -> Result<(), ReplayError> {
        let recorder = &self.recorder;
        let replayed = recorder.change(|r| self.instance.replay(&r.evals, r.reset_until, &r.driven, r.words));
        replayed.map_err(ReplayError::Design)
    }
}
