// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Completions that do not repeat the Traffic Class and attributes of their request, in labs that accept them and in others.

use config::{Bar, Builder, Identity};
use device::io::{Io, Request};
use device::{AsyncDevice, Ready};
use endpoint::{CreditReturn, Endpoint, FunctionConfig, TlpPort};
use host::Cpu;
use host::firmware::FoundFunction;
use lab::{LabFile, parse};
use link::Notice;
use plug::{Fault, Model, Models, Plugged, Site};
use riser_session::Session;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;
use tlp::{Attributes, Class, TcSet, Time, Tlp, TrafficClass};

/// Bytes of the reads whose completions are changed.
const BYTES: u32 = 64;

/// An endpoint with changed completions. Received ones get Relaxed Ordering, sent ones get another Traffic Class.
struct Changed(Endpoint);

fn is_changed(tlp: &Tlp) -> bool {
    tlp.class() == Class::Completion && tlp.data.len() == BYTES as usize
}

impl TlpPort for Changed {
    fn handle_tlp(&mut self, now: Time, tlp: &Tlp) {
        let mut tlp = tlp.clone();
        if is_changed(&tlp) {
            tlp.repr.attr |= Attributes::RELAXED_ORDERING;
        }
        self.0.handle_tlp(now, &tlp);
    }

    fn poll_tlp(&mut self, now: Time, class: Class, room: TcSet) -> Option<Tlp> {
        let mut tlp = self.0.poll_tlp(now, class, room)?;
        if is_changed(&tlp) {
            tlp.repr.tc = TrafficClass::from_bits(1);
        }
        Some(tlp)
    }

    fn ready(&self) -> Ready {
        self.0.ready()
    }

    fn poll_credits(&mut self) -> Option<CreditReturn> {
        self.0.poll_credits()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.0.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.0.handle_timeout(now);
    }

    fn handle_notice(&mut self, now: Time, notice: Notice) {
        self.0.handle_notice(now, notice);
    }
}

/// A device that reads host memory at the address that the host writes to it, and reports whether it got the bytes.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Reader {}

async fn device(io: Io) {
    let mut got = 0;
    while let Some(request) = io.next_request().await {
        match request {
            Request::Write(write) => got = u32::from(io.dma_read(write.u64(), BYTES).await.is_ok()),
            Request::Read(read) if read.len() == BYTES as usize => read.complete([0u8; BYTES as usize]),
            Request::Read(read) => read.complete(got),
            _ => {}
        }
    }
}

/// Returns, as its error, whether the device's read and the host's have succeeded.
async fn driver(cpu: Cpu, found: FoundFunction) -> Result<(), String> {
    let memory = cpu.memory().alloc(4096, 4096).map_err(|e| e.to_string())?;
    let register = found.address(0, 0)?;
    cpu.write_u64(register, memory).await.map_err(|e| e.to_string())?;
    let host = cpu.read(register, BYTES).await.is_ok();
    let device = cpu.read_u32(register).await.map_err(|e| e.to_string())?;
    Err(format!("device: {device}, host: {host}"))
}

impl Model for Reader {
    const NAME: &'static str = "reader";

    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        let identity = Identity { vendor: 0x7269, device: 0x7ffd, ..Identity::default() };
        let config = Builder::type0(identity).bar(0, Bar::memory32(4096)).pcie(site.pcie).usual().build()?;
        let device = Box::new(AsyncDevice::new(device));
        let plugged = Plugged::new(FunctionConfig { config, device }, driver);
        Ok(plugged.behind(|endpoint| Box::new(Changed(endpoint))))
    }
}

#[test]
fn lab_key_allows_lenient_completions() {
    let rows = [("", "device: 0, host: false"), ("lenient_completions = true\n", "device: 1, host: true")];
    for (key, expected) in rows {
        let text = format!("version = 1\n{key}[[slot]]\nname = \"a\"\ndevice = \"reader\"\n");
        let lab = parse(&Models::default().with::<Reader>(), Path::new("lab.toml"), &text);
        let file = LabFile { lab: lab.unwrap_or_else(|e| panic!("{e}")), base: ".".into() };
        let stop = Session::new(&file).unwrap().fabric.run(fabric::Limits::default());
        assert!(matches!(&stop, fabric::Stop::Failed(why) if why.ends_with(expected)), "{key}: {stop}");
    }
}
