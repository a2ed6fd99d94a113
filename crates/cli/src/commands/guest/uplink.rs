// SPDX-License-Identifier: Apache-2.0 OR MIT
//! NetTLP peers of a lab whose host is a machine: the sockets of the adapter in its slot, from `riser-nettlp`.

use crate::commands::nettlp::adapter::{Listening, Scheme};
use crate::failure::Failure;
use nettlp::adapter::{Adapter, Settings};
use nettlp::allow::{AllowList, Rule};
use nettlp::carrier::Wait;
use nettlp::net::AdapterSockets;
use session::external::Driver;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use tlp::{Bdf, Duration, Time};
use worlds::adapter::{AdapterPlace, LabBackend};
use worlds::machine::Transport;

/// Whom the adapter serves.
#[derive(clap::Args)]
pub(super) struct UplinkArgs {
    /// NetTLP peers that reach the machine through the slot with the device `nettlp-adapter`, where, and which way; may be given again.
    /// As --allow of `riser nettlp adapter`; without it, nobody
    #[arg(long, value_name = "PEER,WINDOW,r|w|rw")]
    nettlp_allow: Vec<Rule>,

    /// Address to listen on for them
    #[arg(long, value_name = "ADDRESS", requires = "nettlp_allow", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    nettlp_listen: IpAddr,

    /// Which ways to serve them
    #[arg(long, value_enum, requires = "nettlp_allow", default_value = "auto")]
    nettlp_scheme: Scheme,

    /// Demand that they prove to have this key: a file of 64 hexadecimal digits. Serves sessions alone
    #[arg(long, value_name = "FILE", requires = "nettlp_allow")]
    nettlp_key: Option<PathBuf>,

    /// The peer that serves the machine's requests; without it the only one that --nettlp-allow names
    #[arg(long, value_name = "PEER", requires = "nettlp_allow")]
    nettlp_device: Option<IpAddr>,
}

/// Most sessions of one peer.
const SESSIONS_PER_PEER: u8 = 16;
/// Batches taken from the sockets before the lab goes on.
const BURST: usize = 8;

impl UplinkArgs {
    /// Listens, where anybody is allowed.
    pub(super) fn open(&self, driver: &Driver) -> Result<Option<Uplink>, Failure> {
        if self.nettlp_allow.is_empty() {
            return Ok(None);
        }
        let allow = AllowList::new(self.nettlp_allow.iter().copied()).map_err(Failure::usage)?;
        let listening = Listening {
            prefix: "--nettlp-",
            address: self.nettlp_listen,
            rules: &self.nettlp_allow,
            scheme: self.nettlp_scheme,
            key: self.nettlp_key.as_deref(),
            sessions_per_peer: SESSIONS_PER_PEER,
        };
        let options = listening.options(&allow)?;
        let device = listening.device(&allow, self.nettlp_device)?;
        let place =
            AdapterPlace::of(driver).map_err(|why| Failure::Usage(format!("--nettlp-allow: {why}")))?;
        let sockets = AdapterSockets::bind(&options).map_err(|e| Failure::Run(e.to_string()))?;
        listening.greet("the machine's adapter", &allow, device);
        let settings = Settings { allow, id: Bdf::default(), device, scheme: self.nettlp_scheme.ports() };
        Ok(Some(Uplink { sockets, adapter: Some(Adapter::new(settings, place)) }))
    }
}

/// The adapter's sockets, and the adapter.
pub(super) struct Uplink {
    sockets: AdapterSockets,
    /// There but while it is joined with the lab.
    adapter: Option<Adapter<AdapterPlace>>,
}

/// An adapter before a lab that machines are served by too.
type Joined<'d> = Adapter<LabBackend<&'d mut Driver>>;

impl Uplink {
    /// Does something with the adapter before the lab.
    fn join<T>(
        &mut self,
        lab: &mut Driver,
        act: impl FnOnce(&mut Joined<'_>, &mut AdapterSockets) -> T,
    ) -> Option<T> {
        let mut adapter = self.adapter.take()?.map(|place| LabBackend::joined(lab, place));
        let done = act(&mut adapter, &mut self.sockets);
        self.adapter = Some(adapter.map(LabBackend::part));
        Some(done)
    }

    fn asks(&self, what: impl FnOnce(&AdapterPlace) -> bool) -> bool {
        self.adapter.as_ref().is_some_and(|adapter| what(adapter.backend()))
    }
}

impl Transport for Uplink {
    fn take(&mut self, lab: &mut Driver, now: Time) -> usize {
        let taken = self.join(lab, |adapter, sockets| {
            let mut taken = 0;
            for _ in 0..BURST {
                if !adapter.is_ready() {
                    break;
                }
                let batch = sockets.poll(Wait::AtMost(Duration::ZERO), |out, port, from, bytes| {
                    adapter.handle(now, port, from, bytes, out)
                });
                match batch {
                    Ok(more) if more > 0 => taken += more,
                    _ => break,
                }
            }
            adapter.advance(now, sockets.outbox());
            taken
        });
        // What the kernel did not take is counted; peers that it failed do not stop the others.
        let _ = self.sockets.flush();
        taken.unwrap_or(0)
    }

    fn carry(&mut self, lab: &mut Driver) {
        if self.asks(AdapterPlace::has_egress) {
            let now = lab.now();
            self.join(lab, |adapter, sockets| adapter.advance(now, sockets.outbox()));
            let _ = self.sockets.flush();
        }
    }

    fn interest(&self) -> Option<BorrowedFd<'_>> {
        // While there is no room, what has come waits.
        self.asks(AdapterPlace::has_room).then(|| self.sockets.readable())
    }
}
