// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser nettlp snic`: runs the simple NIC as device software on a tap interface, from `riser-nettlp`.

use super::target::TargetArgs;
use super::{report_attachment, report_lost_adapter};
use crate::commands::tap::Tap;
use crate::{Failure, interrupt, output};
use nettlp::tools::{Count, DeviceSoftware, SoftwareRun, TapNic, run as run_device};
use tlp::rules::Refusals;
use worlds::tools::SoftwareReport;

const EXAMPLE: &str = "\
Examples:
  riser nettlp snic --remote 192.168.10.1 --tap tap0
  riser nettlp snic --remote 127.0.0.1 --local 127.0.0.2 --tap tap0 &
  ip addr add 192.0.2.2/24 dev tap0; ip link set tap0 up

Replaces NetTLP's simple_nic. Needs an adapter whose host has a driver of the simple NIC: a real adapter, or \
`riser nettlp adapter` with a lab such as labs/nettlp/station.toml, whose host is then a station on the tap's network.
A missing tap interface is created, which needs root or CAP_NET_ADMIN, and removed at the end. If the adapter goes away, the \
NIC waits for it, starts again from reset, and notifies the driver as at the start. \
Ctrl-C ends the command. --json prints one object: session (false: a port per tag), from_wire, from_wire_lost, to_wire, to_wire_lost,
  tx_frames, rx_frames, refused_doorbells, refused_descriptors, no_buffer, lost_frames, dma_errors, interrupts, \
  lost_interrupts, received_tlps, sent_tlps, malformed, not_carried; over LibTLP's ports also reads_asked_again, \
  reads_timed_out, late_completions; came_back (how often the adapter came back); and refusals (as in riser run; \
  omitted if empty).";

/// Run the simple NIC of a remote host, connected to a tap interface
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    #[command(flatten)]
    target: TargetArgs,

    /// Name of the tap interface
    #[arg(short, long, value_name = "NAME")]
    tap: String,

    /// Print one JSON object, at the end
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let (target, tap) = (args.target.target()?, Tap::open(&args.tap)?);
    let stop = interrupt::flag()?;
    let attach = || {
        let attachment = target.attach(0).map_err(Failure::run)?;
        let what =
            format!("{} at {} is the network interface of {}", args.tap, target.remote, attachment.place.id);
        report_attachment(&what, "BAR4", &attachment);
        TapNic::new(attachment, &tap).map_err(Failure::run)
    };
    let (mut counts, mut refused) = (Vec::<Count>::new(), Refusals::default());
    let SoftwareRun { came_back, is_session, result } =
        run_device(attach()?, &target, &stop, attach, |nic, _, has_gone| {
            let before = counts.drain(..).map(|(_, count)| count).chain(std::iter::repeat(0));
            counts = nic.counters().into_iter().zip(before).map(|((name, n), sum)| (name, n + sum)).collect();
            refused.extend(&nic.refusals());
            nic.carrier().drops().iter().for_each(output::note);
            report_lost_adapter(&target, has_gone);
        });
    let report = SoftwareReport::new("nettlp snic", (is_session, came_back), counts, &refused);
    output::report(args.json, &report)?;
    result.map_err(|e| Failure::Run(format!("{}: {e}", target.remote)))
}
