// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares the requests of model and RTL. Each engine has four streams with a fixed order each: fetches of descriptors,
//! reads of data, writes of data, and reports to the host (STATUS, write-back, interrupt).
//!
//! If a round ends by itself, all four streams are equal, except reads of descriptors that fail: an engine may stop
//! reading at any point. The number of descriptors per fetch may differ too. If a round is interrupted, one side has
//! advanced further. The requests of the other side are then a prefix of its requests, and each side has counted ends
//! up to its posted descriptors.

use super::plan::{Kill, Kind, MOST_DESCRIPTORS};
use super::program::Noted;
use super::watch::{Act, Seen};
use std::fmt::Debug;
use tlp::Duration;

/// A round of an engine may take at most `TIMES` as long on one side as on the other, plus `BESIDE`, plus `TURN` for
/// each of its descriptors. All engines of the RTL share one sequencer and wait for each other, but the model decides
/// in zero time.
const TIMES: u64 = 2;
const BESIDE: Duration = Duration::from_us(5);
const TURN: Duration = Duration::from_us(1);
/// In a loop-back the RTL starts a descriptor when the previous one has ended. Each takes an additional round trip, and both engines wait for it.
const ROUND_TRIPS: Duration = Duration::from_us(2 * MOST_DESCRIPTORS);

/// Durations of rounds: of the model and of the RTL.
pub(crate) type Times = Vec<[Duration; 2]>;

/// Compares the rounds of an engine.
///
/// # Errors
/// The first difference.
pub(crate) fn compare(model: &[Noted], rtl: &[Noted], times: &mut Times) -> Result<(), String> {
    same("rounds", &model.len(), &rtl.len())?;
    for (n, (one, other)) in model.iter().zip(rtl).enumerate() {
        round(one, other, times).map_err(|e| format!("round {n}, {:?}: {e}\n{:x?}", one.kind, one.work))?;
    }
    Ok(())
}

fn same<T: PartialEq + Debug>(what: &str, model: &T, rtl: &T) -> Result<(), String> {
    if model == rtl { Ok(()) } else { Err(format!("{what}: {model:x?} of the model, {rtl:x?} of the RTL")) }
}

fn round(model: &Noted, rtl: &Noted, times: &mut Times) -> Result<(), String> {
    let streams = |noted: &Noted| Streams::of(noted);
    let (one, other) = (streams(model), streams(rtl));
    let said = || model.said.iter().zip(&rtl.said).try_for_each(|(one, other)| same("said", one, other));
    if let Kind::Killed(kill) = model.kind {
        said()?;
        begin_alike("fetches", &one.fetches, &other.fetches)?;
        begin_alike("reads", &one.reads, &other.reads)?;
        begin_alike("writes", &one.writes, &other.writes)?;
        let told = [&one, &other].map(Streams::counted);
        return match kill {
            Kill::Abort | Kill::Disable => same("ends", &told[0].clone()?, &told[1].clone()?),
            Kill::Reset | Kill::FunctionLevelReset => told.into_iter().try_for_each(|told| told.map(drop)),
        };
    }
    in_step("fetches", &one.fetches, &other.fetches)?;
    in_step("reads", &one.reads, &other.reads)?;
    in_step("writes", &one.writes, &other.writes)?;
    in_step("ends", &one.ends, &other.ends)?;
    said()?;
    for noted in [model, rtl] {
        data_are_before_their_end(noted)?;
    }
    if matches!(model.kind, Kind::Ring(_)) {
        return Ok(());
    }
    let took = [model.took, rtl.took];
    let turns = TURN * model.work.descriptors.len() as u64;
    let all = if model.kind == Kind::Loop { ROUND_TRIPS } else { turns };
    let bound = |of: Duration| of * TIMES + BESIDE + all;
    times.push(took);
    match took[1] <= bound(took[0]) && took[0] <= bound(took[1]) {
        true => Ok(()),
        false => Err(format!("times: {} of the model, {} of the RTL", took[0], took[1])),
    }
}

/// Requests by stream, without times.
struct Streams {
    fetches: Vec<Act>,
    reads: Vec<Act>,
    writes: Vec<Act>,
    ends: Vec<Act>,
}

impl Streams {
    fn of(noted: &Noted) -> Streams {
        let only = |wanted: &dyn Fn(&Act) -> bool| -> Vec<Act> {
            noted.seen.iter().map(|(_, act)| *act).filter(wanted).collect()
        };
        let moves = |address: u64| !noted.failed.iter().any(|range| range.contains(&address));
        Streams {
            fetches: only(&|act| matches!(act, Act::Fetch(_))),
            reads: only(&|act| matches!(act, Act::Read(address, _) if moves(*address))),
            writes: only(&|act| matches!(act, Act::Write(..))),
            ends: only(&|act| matches!(act, Act::Status(..) | Act::WriteBack(..) | Act::Interrupt)),
        }
    }

    /// Final value of DONE, which increases by one each time.
    fn counted(&self) -> Result<u32, String> {
        let mut done = 0;
        for act in &self.ends {
            if let Act::WriteBack(now, _) = act {
                if *now != done + 1 {
                    return Err(format!("DONE is {now} behind {done}"));
                }
                done = *now;
            }
        }
        Ok(done)
    }
}

fn in_step(what: &str, model: &[Act], rtl: &[Act]) -> Result<(), String> {
    begin_alike(what, model, rtl)?;
    same(&format!("{what} in all"), &model.len(), &rtl.len())
}

fn begin_alike(what: &str, model: &[Act], rtl: &[Act]) -> Result<(), String> {
    match model.iter().zip(rtl).position(|(one, other)| one != other) {
        Some(n) => Err(format!("{what}, {n}: {:x?} of the model, {:x?} of the RTL", model[n], rtl[n])),
        None => Ok(()),
    }
}

/// Checks that the data of all descriptors counted in DONE are in memory before DONE is.
fn data_are_before_their_end(noted: &Noted) -> Result<(), String> {
    let (mut written, mut fails) = (0, noted.work.failing());
    if noted.kind == Kind::NoMaster {
        fails.fill(true);
    }
    let bytes: Vec<u64> =
        noted.work.descriptors.iter().zip(fails).map(|(d, fails)| if fails { 0 } else { d.bytes }).collect();
    let is_writer = noted.seen.iter().any(|(_, act)| matches!(act, Act::Write(..)));
    for (time, act) in &noted.seen as &[Seen] {
        match act {
            Act::Write(_, bytes, _) => written += u64::from(*bytes),
            Act::WriteBack(done, _) if is_writer => {
                let due: u64 = bytes.iter().take(*done as usize).sum();
                if written < due {
                    return Err(format!("{time}: DONE is {done} with {written} B of {due} B written"));
                }
            }
            _ => {}
        }
    }
    Ok(())
}
