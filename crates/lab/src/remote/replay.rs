// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a record again: the same lab, the same inputs at the same virtual times, and no socket. Never waits for a clock.

use super::backend::Core;
use super::record::{Event, RecordError, Recording};
use crate::build::{Assembly, build};
use crate::{Folder, Overrides, parse_with};
use plug::Models;
use std::path::Path;
use thiserror::Error;
use tlp::Time;

/// Why a record was not run to its end.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ReplayError {
    /// The record.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// Its lab.
    #[error("the lab of the record: {0}")]
    Lab(String),
}

/// A record that is to be run.
pub struct Replay<'a> {
    recording: Recording<'a>,
    core: Core,
}

impl<'a> Replay<'a> {
    /// The lab of a record, put together as it was of these models.
    ///
    /// # Errors
    /// Where the bytes are no record, or their lab cannot be put together: also where it names a file that the record does not
    /// hold, or, with a record of version 1, that is no longer there.
    pub fn new(bytes: &'a [u8], models: &Models) -> Result<Replay<'a>, ReplayError> {
        let recording = Recording::new(bytes)?;
        let lab = &recording.lab;
        let path = Path::new(&lab.path);
        let folder = Folder::of(path);
        let base = lab.files.clone().map_or(folder.clone(), |files| Folder::of_kept(folder.path(), files));
        let mut file = parse_with(models, path, &lab.text, base, &Overrides::new(&lab.set))
            .map_err(|e| ReplayError::Lab(e.to_string()))?;
        file.lab.seed = lab.seed;
        let assembly = build(&file).map_err(ReplayError::Lab)?;
        let core = Core::new(assembly).map_err(ReplayError::Lab)?;
        Ok(Replay { recording, core })
    }

    /// The lab, to put taps in before it runs.
    pub fn assembly_mut(&mut self) -> &mut Assembly {
        &mut self.core.assembly
    }

    /// The path of the lab's file, as it was named.
    #[must_use]
    pub fn lab(&self) -> &str {
        &self.recording.lab.path
    }

    /// Runs it to the end of the record, or until the lab fails as it had when it was recorded; gives the lab back, how many inputs
    /// there were, and whether the record had its end.
    ///
    /// # Errors
    /// Where bytes of the record mean nothing.
    pub fn run(mut self) -> Result<Replayed, ReplayError> {
        let (mut inputs, mut complete) = (0, false);
        while let Some((time, event)) = self.recording.next_event()? {
            if let Err(why) = self.run_until(time) {
                let failure = Some(why);
                return Ok(Replayed { assembly: self.core.assembly, inputs, complete, failure });
            }
            self.core.apply(&event);
            complete = event == Event::End;
            inputs += u64::from(!complete);
        }
        Ok(Replayed { assembly: self.core.assembly, inputs, complete, failure: None })
    }

    fn run_until(&mut self, time: Time) -> Result<(), String> {
        if time > self.core.now() { self.core.run_until(time) } else { Ok(()) }
    }
}

/// What a replay leaves behind.
pub struct Replayed {
    /// The lab.
    pub assembly: Assembly,
    /// Inputs from outside.
    pub inputs: u64,
    /// The record had an end; else the adapter was killed, or the lab has failed before it.
    pub complete: bool,
    /// Why the lab has failed, where it has.
    pub failure: Option<String>,
}
