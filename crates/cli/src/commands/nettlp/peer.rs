// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arguments and client of the tools that access the memory of an adapter's host.

use super::target::TargetArgs;
use crate::commands::sizes::{mps, mrrs, whole};
use crate::commands::words::{Word, one_of};
use crate::{Failure, interrupt, output};
use nettlp::client::{Client, ClientError, Waiting};
use nettlp::dropped::Drops;
use nettlp::net::{AnyCarrier, MAX_TLP_BYTES, SocketCounters};
use nettlp::requester::{Fault, Rest};
use nettlp::tools::{ClientOptions, Target};
use nettlp::wire::header::NETTLP_LEN;
use plug::counted;
use std::ops::RangeInclusive;
use tlp::rules::Refusal;
use tlp::{Bdf, Duration, Mps, Mrrs};
use worlds::tools::refusals;

/// Time for which a tag is not reused after a read. `None`: depends on the adapter's address.
const RESTS: [Word<Option<Rest>>; 3] = [
    ("auto", "loopback if the peer is on this machine, else network", None),
    ("loopback", "100 ms after a read that timed out", Some(Rest::LOOPBACK)),
    ("network", "1 s after a read that timed out, 1 ms after any other", Some(Rest::NETWORK)),
];

#[derive(clap::Args)]
pub(crate) struct PeerArgs {
    #[command(flatten)]
    target: TargetArgs,

    /// ID of the adapter's function, the requester [default: ask the driver of the adapter's host]
    #[arg(short, long, value_name = "BUS:DEVICE.FUNCTION")]
    bus: Option<Bdf>,

    /// Tags to use, such as 0-15: one per outstanding read. In the tagged scheme each tag needs a UDP port
    #[arg(long, value_name = "FIRST-LAST", value_parser = tags)]
    tags: Option<RangeInclusive<u16>>,

    /// Max_Payload_Size in bytes: limit of a write TLP
    #[arg(long, value_name = "BYTES", default_value = "256", value_parser = mps)]
    mps: Mps,

    /// Max_Read_Request_Size in bytes: limit of a read TLP
    #[arg(long, value_name = "BYTES", default_value = "512", value_parser = mrrs)]
    mrrs: Mrrs,

    /// Timeout of a read TLP in milliseconds [default: 100; 5000 in a session, which loses no TLP]
    #[arg(long, value_name = "MS", value_parser = whole::<u64>(1..=600_000))]
    timeout_ms: Option<u64>,

    /// Retries of a read TLP after a timeout [default: 3; 0 in a session]
    #[arg(long, value_name = "COUNT", value_parser = whole(0..=u8::MAX))]
    retries: Option<u8>,

    /// Time before a tag is reused, so that late data cannot complete a later read, if TLPs may be lost or duplicated
    #[arg(long, value_parser = one_of(&RESTS), default_value = "auto")]
    rest: std::option::Option<Rest>,

    /// Poll instead of sleeping: lowest latency, but occupies a core
    #[arg(long = "busy-poll", alias = "busy")]
    busy: bool,
}

fn tags(text: &str) -> Result<RangeInclusive<u16>, String> {
    let legal = || "expected FIRST-LAST or a single tag, within 0 to 1023".to_owned();
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.parse::<u16>().ok().filter(|tag| *tag < 1024).ok_or_else(legal);
    let (first, last) = (number(first)?, number(last)?);
    if first <= last { Ok(first..=last) } else { Err(legal()) }
}

impl PeerArgs {
    /// Returns the client's options. Reads the key file.
    pub(super) fn options(&self) -> Result<ClientOptions, Failure> {
        let target = self.target.target()?;
        let rest = self.rest.unwrap_or_else(|| target.rest());
        Ok(ClientOptions {
            target,
            requester: self.bus,
            tags: self.tags.clone(),
            mps: self.mps,
            mrrs: self.mrrs,
            timeout: self.timeout_ms.map(Duration::from_ms),
            retries: self.retries,
            rest,
            waiting: if self.busy { Waiting::Busy } else { Waiting::Asleep },
        })
    }

    /// Opens the client of a tool with one thread, which Ctrl-C stops.
    pub(super) fn client(&self) -> Result<(Client<AnyCarrier>, Target), Failure> {
        let (options, stop) = (self.options()?, interrupt::flag()?);
        let client = options.client(requester(&options)?, options.single_tags());
        let mut client = client.map_err(Failure::run)?;
        client.stop_with(stop);
        Ok((client, options.target))
    }
}

/// Returns the given Requester ID, or asks the driver of the adapter's host.
pub(super) fn requester(options: &ClientOptions) -> Result<Bdf, Failure> {
    options.requester().map_err(|e| Failure::Run(format!("{e}; name the Requester ID with --bus")))
}

/// Returns a line about datagrams that cannot be a TLP, if there were any.
pub(super) fn malformed_datagrams(sockets: &SocketCounters) -> Option<String> {
    let (count, header) = (sockets.malformed_datagrams, NETTLP_LEN);
    (count > 0).then(|| {
        let datagrams = counted(count, "datagram");
        format!("{datagrams} dropped: expected a NetTLP header of {header} bytes and a TLP of up to {MAX_TLP_BYTES} bytes")
    })
}

/// Returns the failure of an interrupted command. `done` describes the finished part.
pub(super) fn interrupted(target: &Target, done: &str) -> Failure {
    Failure::Interrupted(format!("{}: interrupted: {done}", target.remote))
}

/// Returns the failure for an error of `client`. Prints what the client and its sockets refused.
pub(super) fn failure_of(target: &Target, error: &ClientError, client: &Client<AnyCarrier>) -> Failure {
    let carrier = client.carrier();
    failure(target, error, client.refusals(), &carrier.counters(), &carrier.drops())
}

/// Returns the failure for a client's error. Prints what the client and its sockets refused.
pub(super) fn failure(
    target: &Target,
    error: &ClientError,
    refused: &[Refusal],
    sockets: &SocketCounters,
    drops: &Drops,
) -> Failure {
    output::refusals(&refusals(refused));
    drops.iter().for_each(output::note);
    malformed_datagrams(sockets).iter().for_each(output::note);
    let hint = match error {
        ClientError::Fault(Fault::TimedOut { .. }) => {
            "; an adapter answers only addresses of its --allow: set this host's with -l"
        }
        _ => "",
    };
    Failure::Run(format!("{}: {error}{hint}", target.remote))
}
