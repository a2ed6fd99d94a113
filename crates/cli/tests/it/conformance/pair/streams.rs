// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What model and RTL asked for, held side by side. Of each engine there are four streams, each of which has one order: fetches of descriptors,
//! reads of data, writes of data, and what the host is told (STATUS, write-back, interrupt).
//!
//! Of a round that ends by itself all four are equal, but for reads of descriptors that fail: an engine may stop asking where it likes. How many
//! descriptors a request fetches is its own, too. Of one that something ends in its midst, one side has got further: what the other has is
//! how that begins, and each side's ends are counted up to what was posted.

use super::plan::{Kill, Kind, MOST_DESCRIPTORS};
use super::program::Noted;
use super::watch::{Act, Seen};
use std::fmt::Debug;
use tlp::Duration;

/// A round of an engine takes on neither side longer than so many times what it takes on the other, and beside that a time, and one for each of
/// its descriptors: all engines of the RTL share one sequencer, and wait for each other's turns, where the model takes no time to decide.
const TIMES: u64 = 2;
const BESIDE: Duration = Duration::from_us(5);
const TURN: Duration = Duration::from_us(1);
/// In a loop-back the RTL begins a descriptor when the one before has ended: each takes a round trip more, and both engines wait for the one.
const ROUND_TRIPS: Duration = Duration::from_us(2 * MOST_DESCRIPTORS);

/// Times of rounds: of the model and of the RTL.
pub(crate) type Times = Vec<[Duration; 2]>;

/// Holds the rounds of an engine side by side.
///
/// # Errors
/// What differs first.
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

/// By stream, without times.
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

    /// How far DONE has come: one by one.
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

/// Whoever has seen DONE finds the data of all these in memory.
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
