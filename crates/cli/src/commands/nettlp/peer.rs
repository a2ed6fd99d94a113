// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a tool asks an adapter: the arguments that tools with a client share, and the client that follows from them.

use super::bytes::{mps, mrrs};
use super::way::WayArgs;
use crate::failure::Failure;
use clap::ValueEnum;
use nettlp::client::{Client, ClientError, Waiting};
use nettlp::net::AnyCarrier;
use nettlp::requester::{Fault, Rest, Settings};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use tlp::{Bdf, Duration, Mps, Mrrs};

/// What tags do after their read.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum RestName {
    /// As between machines, unless the peer is on this one
    Auto,
    /// 100 ms after a read that was given up
    Loopback,
    /// 1 s after a read that was given up, 1 ms after any other
    Network,
}

#[derive(clap::Args, Clone)]
pub(crate) struct PeerArgs {
    #[command(flatten)]
    way: WayArgs,

    /// Requester ID; without it the driver of the adapter's host is asked
    #[arg(short, long, value_name = "BUS:DEVICE.FUNCTION")]
    bus: Option<Bdf>,

    /// Tags to use, as in 0-15: each is a read that may be under way. In the tagged scheme each needs a port of its own
    #[arg(long, value_name = "FIRST-LAST", value_parser = tags)]
    tags: Option<RangeInclusive<u16>>,

    /// Most bytes of a write TLP: Max_Payload_Size
    #[arg(long, value_name = "BYTES", default_value = "256", value_parser = mps)]
    mps: Mps,

    /// Most bytes that a read TLP asks for: Max_Read_Request_Size
    #[arg(long, value_name = "BYTES", default_value = "512", value_parser = mrrs)]
    mrrs: Mrrs,

    /// Milliseconds after which a read TLP counts as lost [default: 100; 5000 in a session, which loses none]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=600_000))]
    timeout_ms: Option<u64>,

    /// How often a read TLP that was lost is sent again [default: 3; 0 in a session]
    #[arg(long, value_name = "COUNT")]
    retries: Option<u8>,

    /// How long tags rest, where TLPs may be lost or doubled, so that late data answers no later read
    #[arg(long, value_enum, default_value = "auto")]
    rest: RestName,

    /// Ask for what has come again and again instead of sleeping: the least latency, for a whole core
    #[arg(long)]
    busy: bool,
}

fn tags(text: &str) -> Result<RangeInclusive<u16>, String> {
    let legal = || "legal are FIRST-LAST and a single tag, within 0 to 1023".to_owned();
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.parse::<u16>().ok().filter(|tag| *tag < 1024).ok_or_else(legal);
    let (first, last) = (number(first)?, number(last)?);
    if first <= last { Ok(first..=last) } else { Err(legal()) }
}

impl PeerArgs {
    /// The adapter's address.
    pub(super) fn remote(&self) -> IpAddr {
        self.way.remote()
    }

    /// This side's address, where it was named.
    pub(super) fn local(&self) -> Option<IpAddr> {
        self.way.local()
    }

    /// The tags that were named, or these.
    pub(super) fn tags_or(&self, default: RangeInclusive<u16>) -> RangeInclusive<u16> {
        self.tags.clone().unwrap_or(default)
    }

    /// The tags that were named, or as many as one thread has use for.
    pub(super) fn tags_of_one(&self) -> RangeInclusive<u16> {
        self.tags_or(if self.rests_after_all() { 0..=255 } else { 0..=15 })
    }

    /// The last tag that the scheme has a port for.
    pub(super) fn last_tag(&self) -> u16 {
        if self.way.is_paper() { 15 } else { 255 }
    }

    /// The scheme, where no session was made.
    pub(super) fn fallback(&self) -> &'static str {
        if self.way.is_paper() { "paper" } else { "tagged" }
    }

    /// Max_Payload_Size.
    pub(super) fn mps(&self) -> Mps {
        self.mps
    }

    /// Max_Read_Request_Size.
    pub(super) fn mrrs(&self) -> Mrrs {
        self.mrrs
    }

    /// Whether tags rest after every read, so that more of them make more reads.
    pub(super) fn rests_after_all(&self) -> bool {
        self.rest() == Rest::NETWORK
    }

    /// The Requester ID: as named, or as the driver of the adapter's host says.
    pub(super) fn requester(&self) -> Result<Bdf, Failure> {
        if let Some(bus) = self.bus {
            return Ok(bus);
        }
        let asked = self.way.messaging().and_then(|mut driver| driver.device_id());
        asked.map_err(|e| Failure::Run(format!("{e}; name the Requester ID with --bus")))
    }

    /// A client of these tags (in a session: all).
    pub(super) fn client(
        &self,
        requester: Bdf,
        tags: RangeInclusive<u16>,
    ) -> Result<Client<AnyCarrier>, Failure> {
        let carrier = self.way.open(tags, false)?;
        let settings = self.settings(&carrier, requester);
        let mut client = Client::new(carrier, settings);
        client.set_waiting(if self.busy { Waiting::Busy } else { Waiting::Asleep });
        Ok(client)
    }

    fn rest(&self) -> Rest {
        match self.rest {
            RestName::Loopback => Rest::LOOPBACK,
            RestName::Network => Rest::NETWORK,
            RestName::Auto if self.remote().is_loopback() => Rest::LOOPBACK,
            RestName::Auto => Rest::NETWORK,
        }
    }

    fn settings(&self, carrier: &AnyCarrier, requester: Bdf) -> Settings {
        let mut settings = Settings::for_carrier(carrier, requester, self.rest());
        (settings.mps, settings.mrrs) = (self.mps, self.mrrs);
        settings.timeout = self.timeout_ms.map_or(settings.timeout, Duration::from_ms);
        settings.retries = self.retries.unwrap_or(settings.retries);
        settings
    }
}

/// What an interrupted command says at its end: what was done of it.
pub(super) fn interrupted(peer: &PeerArgs, done: &str) -> Failure {
    Failure::Interrupted(format!("{}: interrupted: {done}", peer.remote()))
}

/// What a client's error is to a user.
pub(super) fn failure(peer: &PeerArgs, error: &ClientError) -> Failure {
    let hint = match error {
        ClientError::Fault(Fault::TimedOut { .. }) => {
            "; whom an adapter does not allow it does not answer: -l names the address that its --allow has"
        }
        _ => "",
    };
    Failure::Run(format!("{}: {error}{hint}", peer.remote()))
}
