// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Replays a record: the same lab, the same inputs at the same virtual times, the same answers of memory, without the
//! outside. A replay never waits for a clock.

use super::clock::Clock;
use super::driver::Driver;
use super::host::OUTSIDE;
use super::record::RecordedLab;
use super::recording::{Entry, RecordError, Recording};
use crate::report::DeviceReport;
use crate::{Session, SessionReport};
use fabric::Stop;
use lab::{BuildError, BuildOptions, Folder, Overrides, parse_with};
use plug::Models;
use plug::file::FileErrors;
use plug::place::InputError;
use plug::site::NativeCode;
use serde::Serialize;
use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};
use std::path::Path;
use thiserror::Error;
use tlp::{Duration, Time};

/// Virtual time between two checks whether to continue.
const SLICE: Duration = Duration::from_ms(1);

/// Reason why a record was not replayed to its end.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// The bytes are not a record.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The lab of the record has errors.
    #[error("the lab of the record: {0}")]
    Lab(FileErrors),
    /// The lab of the record cannot be built.
    #[error("the lab of the record: {0}")]
    Build(BuildError),
    /// The record was made with another lab.
    #[error("the record was made with another lab: its {what} differs from {path}")]
    OtherLab {
        /// The part of the lab that differs.
        what: &'static str,
        /// Path of the lab to compare with.
        path: String,
    },
    /// The record has a place that the lab lacks.
    #[error(
        "the record was made with another lab: it uses the place `{name}`, but this lab has the places {there}"
    )]
    Attachment {
        /// Name of the missing place.
        name: String,
        /// Names of the lab's places.
        there: String,
    },
    /// An input is invalid for its place.
    #[error("byte {at}: {why}")]
    Input {
        /// Position in bytes.
        at: usize,
        /// The error in the input.
        why: InputError,
    },
    /// The replay differs from the recorded run.
    #[error(
        "before byte {at} the run differs from the recorded one, so the lab or its models differ: {what}"
    )]
    Differs {
        /// Position of the next entry in bytes.
        at: usize,
        /// The difference.
        what: String,
    },
}

/// A record to replay.
pub struct Replay<'a> {
    recording: Recording<'a>,
    driver: Driver,
    /// The lab's number of each place of the record.
    places: Vec<usize>,
}

/// An input that joins after the reader has read the entries that follow it.
struct Pending<'a> {
    at: usize,
    place: u16,
    bytes: Cow<'a, [u8]>,
}

impl RecordedLab {
    /// Checks that this record was made with the given lab.
    ///
    /// # Errors
    /// [`ReplayError::OtherLab`] with the first difference.
    pub fn check_same(&self, other: &RecordedLab) -> Result<(), ReplayError> {
        // If the lab has no external host, the override for one is added automatically.
        let given =
            |lab: &RecordedLab| lab.set.iter().filter(|set| *set != OUTSIDE).cloned().collect::<Vec<_>>();
        let rows = [
            ("text", self.text == other.text),
            ("--set", given(self) == given(other)),
            ("seed", self.seed == other.seed),
            ("files", self.files.is_none() || self.files == other.files),
        ];
        match rows.iter().find(|(_, same)| !same) {
            Some(&(what, _)) => Err(ReplayError::OtherLab { what, path: other.path.clone() }),
            None => Ok(()),
        }
    }
}

impl<'a> Replay<'a> {
    /// Builds the lab of a record from these models.
    ///
    /// # Errors
    /// The bytes are not a record, or the lab cannot be built. For example, it names a file that the record does not
    /// hold or, with a record of version 1, that no longer exists.
    pub fn new(bytes: &'a [u8], models: &Models) -> Result<Replay<'a>, ReplayError> {
        Replay::with_native(bytes, models, NativeCode::default())
    }

    /// As [`new`](Self::new), with this permission for native code.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_native(
        bytes: &'a [u8],
        models: &Models,
        native: NativeCode,
    ) -> Result<Replay<'a>, ReplayError> {
        let recording = Recording::new(bytes)?;
        let lab = &recording.lab;
        let path = Path::new(&lab.path);
        let folder = Folder::of(path);
        let base = lab.files.clone().map_or(folder.clone(), |files| Folder::of_kept(folder.path(), files));
        let mut file =
            parse_with(models, path, &lab.text, base, &Overrides::new(&lab.set)).map_err(ReplayError::Lab)?;
        file.lab.seed = lab.seed;
        let options = BuildOptions::native(native);
        let session = Session::with(&file, options).map_err(ReplayError::Build)?;
        let places = places(&recording, &session)?;
        session.journal.replay();
        session.join_points.iter().for_each(|point| point.place.discard_outputs());
        Ok(Replay { recording, driver: Driver::new(session, Clock::Wall), places })
    }

    /// Returns the lab, to add taps before it runs.
    pub fn session_mut(&mut self) -> &mut Session {
        self.driver.session_mut()
    }

    /// Returns the description of the lab in the record.
    pub fn lab(&self) -> &RecordedLab {
        &self.recording.lab
    }

    /// Runs to the end of the record, to the point where it was cut off, or until the lab fails like in the recorded
    /// run. Returns the lab.
    ///
    /// # Errors
    /// The record contains invalid bytes, or the run differs from the recorded one.
    pub fn run(self) -> Result<Replayed, ReplayError> {
        self.run_while(|_| true)
    }

    /// Like [`run`](Self::run), until `go_on` returns false. `go_on` is called repeatedly with the current virtual
    /// time.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_while(mut self, mut go_on: impl FnMut(Time) -> bool) -> Result<Replayed, ReplayError> {
        let (mut inputs, mut end, mut pending) = (0, RecordEnd::Whole, None);
        loop {
            let at = self.recording.at();
            let entry = match self.recording.next_entry() {
                Ok(None) => break,
                Err(cut @ RecordError::Cut(_)) => {
                    self.apply(pending.take())?;
                    end = RecordEnd::Cut(cut);
                    break;
                }
                entry => entry?,
            };
            let time = match entry {
                Some(Entry::Answer(answer)) => {
                    self.driver.session().journal.expect(answer);
                    continue;
                }
                Some(Entry::Input { time, .. } | Entry::End(time)) => Some(time),
                _ => None,
            };
            self.apply(pending.take())?;
            match time {
                Some(time) if !self.run_until(time, at, &mut go_on)? => {
                    end = RecordEnd::Stopped;
                    break;
                }
                Some(_) => {}
                None => end = RecordEnd::Full,
            }
            if self.driver.failure().is_some() {
                break;
            }
            if let Some(Entry::Input { place, bytes, .. }) = entry {
                pending = Some(Pending { at, place, bytes });
                inputs += 1;
            }
        }
        let failure = self.driver.failure().map(str::to_owned);
        let complete = end == RecordEnd::Whole && failure.is_none();
        Ok(Replayed { session: self.driver.into_session(), inputs, complete, end, failure })
    }

    /// Runs until `time`; returns false if `go_on` has stopped the replay.
    fn run_until(
        &mut self,
        time: Time,
        at: usize,
        go_on: &mut impl FnMut(Time) -> bool,
    ) -> Result<bool, ReplayError> {
        loop {
            let now = self.driver.now();
            if !go_on(now) {
                return Ok(false);
            }
            self.driver.run_until(time.min(now + SLICE));
            if self.driver.now() >= time || self.driver.now() == now {
                break;
            }
        }
        let differs = self.driver.session().journal.difference();
        differs.map_or(Ok(true), |what| Err(ReplayError::Differs { at, what }))
    }

    fn apply(&mut self, input: Option<Pending<'_>>) -> Result<(), ReplayError> {
        let Some(Pending { at, place, bytes }) = input else { return Ok(()) };
        let joined = self.driver.inject_recorded(self.places[usize::from(place)], &bytes);
        joined.map_err(|why| ReplayError::Input { at, why })
    }
}

/// The lab's number of each place of the record. Earlier versions have one unnamed place, which is the lab's only
/// place.
fn places(recording: &Recording<'_>, session: &Session) -> Result<Vec<usize>, ReplayError> {
    let there: Vec<&str> = session.join_points.iter().map(|point| point.name.as_str()).collect();
    let missing = |name: &str| ReplayError::Attachment {
        name: name.to_owned(),
        there: if there.is_empty() { "none".to_owned() } else { there.join(", ") },
    };
    let Some(names) = &recording.places else {
        return if there.is_empty() { Err(missing("slot")) } else { Ok(vec![0]) };
    };
    let place = |name: &String| there.iter().position(|n| n == name).ok_or_else(|| missing(name));
    names.iter().map(place).collect()
}

/// End of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RecordEnd {
    /// The record contains the whole run.
    Whole,
    /// The record has reached its size limit.
    Full,
    /// The record was cut off.
    Cut(RecordError),
    /// The caller has stopped the replay.
    Stopped,
}

/// Report of a replay.
#[derive(Serialize)]
pub struct ReplayReport {
    record: String,
    lab: String,
    seed: u64,
    inputs: u64,
    complete: bool,
    full: bool,
    /// Virtual time at the end.
    pub simulated_ns: f64,
    tlp_hops: u64,
    /// Why the lab failed, or where its record is truncated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    devices: Vec<DeviceReport>,
}

impl Display for ReplayReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let end = match (&self.failure, self.full) {
            (Some(_), _) => "; incomplete",
            (None, true) => "; the record reached its size limit there",
            (None, false) => "",
        };
        write!(
            f,
            "{}: {} inputs, {:.3} us simulated, {} TLP-hops{end}",
            self.lab,
            self.inputs,
            self.simulated_ns / 1_000.0,
            self.tlp_hops
        )
    }
}

impl Replayed {
    /// Returns the report on the replay of `record`, a record of `lab`.
    pub fn report(&self, record: String, lab: String) -> ReplayReport {
        let SessionReport { seed, simulated_ns, tlp_hops, devices, .. } =
            self.session.report(&lab, &Stop::TimeLimit, 0.0);
        let failure = match (&self.failure, &self.end) {
            (None, RecordEnd::Cut(cut)) => Some(cut.to_string()),
            (failure, _) => failure.clone(),
        };
        let (full, &Replayed { inputs, complete, .. }) = (self.end == RecordEnd::Full, self);
        ReplayReport { record, lab, seed, inputs, complete, full, simulated_ns, tlp_hops, failure, devices }
    }
}

/// The result of a replay.
pub struct Replayed {
    /// The lab after its run.
    pub session: Session,
    /// Number of inputs from outside.
    pub inputs: u64,
    /// True if the record contained the whole run and the lab has not failed.
    pub complete: bool,
    /// How the record ended.
    pub end: RecordEnd,
    /// Reason of the lab's failure, if it has failed.
    pub failure: Option<String>,
}
