// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser guest serve`: a lab's hierarchy for virtual machines that somebody else starts, from `riser-lab` and `riser-guest`.

use crate::commands::cpu;
use crate::commands::outside::{Opened, Opening};
use crate::failure::Failure;
use crate::{interrupt, output};
use lab::external::Clock;
use lab::external::host::HostPlace;
use lab::guest::{Guest, Told};
use nettlp::net::Clock as WallClock;
use plug::Models;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// Serve a lab's hierarchy to a virtual machine that you start yourself
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The lab, whose simulated host the machine takes the place of
    #[arg(value_name = "LAB.toml")]
    lab: PathBuf,

    /// Where to listen: a Unix socket, which is made
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,

    #[command(flatten)]
    opening: Opening,
}

pub(crate) fn run(args: &Args, models: &Models) -> Result<(), Failure> {
    let stop = interrupt::flag()?;
    let mut opened = args.opening.open(&args.lab, models, Clock::Virtual)?;
    let guest = seat(&opened, "host root", &args.socket)?;
    let mut guests = [guest];
    let (before, clock) = (cpu::seconds(), WallClock::new());
    output::note(format_args!("serving {} at {}; Ctrl-C ends it", opened.name, args.socket.display()));
    let served = lab::guest::serve(
        &mut opened.driver,
        &mut guests,
        || clock.now(),
        |_, told| tell(&told),
        || !stop.load(Ordering::Relaxed),
    );
    let spent = cpu::seconds() - before;
    opened.finish(clock.now())?;
    output::text(&format!("{spent:.3} s of CPU, {:?}", guests[0].counters()))?;
    served.map_err(|e| Failure::Run(format!("serving: {e}")))?;
    opened.driver.failure().map_or(Ok(()), |why| Err(Failure::Run(why.to_owned())))
}

fn tell(told: &Told) {
    match told {
        Told::Came(peer) if peer.is_served => {
            output::note(format_args!("process {} is connected", peer.process))
        }
        Told::Came(peer) => output::note(format_args!(
            "process {} of user {} is not served: the machine must run as the same user",
            peer.process, peer.user
        )),
        Told::Joined => output::note(format_args!("the machine has its VMD")),
        Told::Refused(why) => output::note(format_args!("refused: {why}")),
        Told::Unreachable(why) => output::note(format_args!("its memory: {why}")),
        Told::Gone(why) => output::note(format_args!("the machine has gone: {why}")),
    }
}

fn seat(opened: &Opened, place: &str, socket: &Path) -> Result<Guest, Failure> {
    let layout = lab::guest::layout(&opened.file, place).map_err(Failure::Run)?;
    let door = opened.driver.door_named::<HostPlace>(place);
    let door = door.ok_or_else(|| Failure::Run(format!("no place `{place}`")))?;
    Guest::new(door, layout, socket).map_err(|e| Failure::Run(e.to_string()))
}
