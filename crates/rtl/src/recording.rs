// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records the inputs of a design in a run. A minimal C++ loop can then replay them, to measure what riser adds.

use crate::loader::{Eval, Instance, LoadError, Loaded, RunError, in_folder};
use plug::Shared;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use thiserror::Error;
use tlp::Time;

/// Maximum number of recorded edges of the user clock: some hundred MB.
const MOST_EDGES: usize = 1 << 22;

/// Records the inputs of one design.
#[derive(Default)]
pub(crate) struct Recorder {
    /// The library, its seed, and the folder from which it reads files.
    source: Option<(Rc<Loaded>, u64, PathBuf)>,
    evals: Vec<Eval>,
    reset_until: Time,
    is_reset_again: bool,
    driven: Vec<u32>,
    /// Number of words driven at an edge.
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

/// Reason why a recording cannot be replayed.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// No design was loaded.
    #[error("the lab runs no design in RTL; expected one, such as a slot with `device = \"rtl\"`")]
    None,
    /// The run was too long.
    #[error("{0} cycles; expected at most {MOST_EDGES}: use a lab with less work, or limit_us")]
    TooLong(usize),
    /// The slot is not only reset at the beginning.
    #[error("the design was reset during the run; expected a lab that resets it only at the start")]
    Reset,
    /// The folder of the design cannot be entered.
    #[error("{0}")]
    Folder(io::Error),
    /// The library cannot create the design.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// Error of the design.
    #[error(transparent)]
    Design(#[from] RunError),
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

    /// Returns the number of recorded cycles of the user clock.
    pub fn cycles(&self) -> usize {
        self.0.change(|recorder| recorder.edges)
    }

    /// Creates a new instance of the design for the replay.
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
        let instance = made.map_err(ReplayError::Folder)??;
        Ok(Replay { instance, recorder: self.0.clone() })
    }
}

/// A design with its recorded inputs.
pub struct Replay {
    instance: Instance,
    recorder: Shared<Recorder>,
}

impl Replay {
    /// Replays all inputs.
    ///
    /// # Errors
    /// The error of the design.
    pub fn run(mut self) -> Result<(), ReplayError> {
        let recorder = &self.recorder;
        let replayed = recorder.change(|r| self.instance.replay(&r.evals, r.reset_until, &r.driven, r.words));
        Ok(replayed?)
    }
}
