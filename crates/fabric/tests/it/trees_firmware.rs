// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random trees that the host's firmware enumerates over TLPs; endpoints that access host memory and their peers; and
//! software that resets or disables a link during this (`PCIe 5.0 §7.5.1.3.13`, §7.5.3.7). Devices that are not below
//! that link finish their work, and every credit returns.

use crate::common::tree;
use crate::common::tree::checks::{Case, Trouble};
use crate::common::tree::watch::Watch;
use crate::common::tree::{RunPlan, TreePlan};
use config::{Bar, Builder, Identity, PcieLayout};
use device::io::{RegisterFile, Request};
use device::{AsyncDevice, Io};
use endpoint::{Endpoint, EndpointConfig, EndpointLimits, FunctionConfig, TlpPort};
use host::firmware::{self, Function, HostMap, MpsPolicy};
use host::memory::HostMemory;
use host::{AsyncProgram, Cpu};
use proptest::prelude::*;
use riser_fabric::{Limits, Stop};
use std::cell::RefCell;
use std::rc::Rc;
use tlp::{Bdf, Duration, PayloadPool};

/// Registers of the device: addresses of its peer and its memory, the number of rounds to do, and of rounds done.
const PEER: u64 = 0;
const MEMORY: u64 = 8;
const ROUNDS: u64 = 16;
const DONE: u64 = 24;
const BAR_BYTES: u64 = 4096;
/// Number of rounds of each device, and the time after which a link changes, during these rounds.
const COUNT: u32 = 40;
const MIDST: Duration = Duration::from_us(8);

/// Does the requested number of rounds: writes and reads host memory and its peer.
async fn worker(io: Io) {
    let registers = Rc::new(RefCell::new(RegisterFile::new(BAR_BYTES as usize)));
    while let Some(request) = io.next_request().await {
        match request {
            Request::Write(w) => {
                let works = w.at(device::BarIndex(0), ROUNDS);
                registers.borrow_mut().write(&w);
                if works {
                    io.spawn(rounds(io.clone(), Rc::clone(&registers)));
                }
            }
            Request::Read(r) => {
                let registers = registers.borrow();
                let answer = registers.read(&r);
                r.complete(answer);
            }
            _ => {}
        }
    }
}

async fn rounds(io: Io, registers: Rc<RefCell<RegisterFile>>) {
    let read = |at: u64| registers.borrow().u64(at);
    let (peer, memory, count) = (read(PEER), read(MEMORY), read(ROUNDS) as u32);
    for round in 0..count {
        // Accesses that fail because the peer is gone are skipped.
        let _ = io.dma_write(memory, u64::from(round)).await;
        let _ = io.dma_write(peer + 0x100, u64::from(round)).await;
        let _ = io.dma_read(peer + 0x100, 256).await;
        let seen = io.dma_read(memory, 8).await;
        let same = seen.is_ok_and(|bytes| bytes[..] == u64::from(round).to_le_bytes());
        registers.borrow_mut().set_u64(DONE, if same { u64::from(round) + 1 } else { 1 << 32 });
    }
}

fn endpoint(plan: &TreePlan, pool: &PayloadPool, n: usize) -> Box<dyn TlpPort> {
    let pcie = PcieLayout { mps_supported: plan.mps(), ..PcieLayout::default() };
    let config = Builder::type0(Identity { vendor: 0x1af4, device: 0x10ff, ..Identity::default() })
        .bar(0, Bar::memory32(BAR_BYTES))
        .pcie(pcie)
        .advanced_error_reporting()
        .build()
        .unwrap();
    let device = Box::new(AsyncDevice::with_pool(pool.clone(), worker));
    let functions = vec![FunctionConfig { config, device }];
    let (name, limits) = (format!("device {n}"), EndpointLimits::default());
    Box::new(Endpoint::new(EndpointConfig { name, functions, limits, pool: pool.clone() }).unwrap())
}

/// Actions of software on the link below a bridge, by configuration writes.
#[derive(Clone, Copy, Debug)]
enum Blow {
    /// Secondary Bus Reset: Bridge Control bit 6.
    Reset,
    /// Link Disable: Link Control bit 4.
    Disable,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

async fn strike(cpu: &Cpu, bridge: &Function, blow: Blow) -> Result<(), String> {
    let (register, enables, bit) = match (blow, bridge.pcie) {
        (Blow::Disable, Some(pcie)) => (pcie.at + 4, 0x3, 1 << 4),
        _ => (15, 0xc, 1 << 22),
    };
    let id = bridge.found.bdf;
    let before = cpu.config_read(id, register).await.map_err(text)?;
    cpu.config_write(id, register, enables, before | bit).await.map_err(text)?;
    cpu.sleep(Duration::from_us(3)).await;
    cpu.config_write(id, register, enables, before & !bit).await.map_err(text)?;
    cpu.sleep(Duration::from_us(100)).await;
    Ok(())
}

/// Enumerates, starts all devices, resets or disables one bridge during their work, and waits for the others.
async fn program(cpu: Cpu, leaves: usize, blow: Option<(Blow, usize)>) -> Result<(), String> {
    let mut map = HostMap::default();
    // Peers below different root ports send to each other.
    map.policy.mps = MpsPolicy::Peer;
    let system = firmware::enumerate_host(&cpu, &map).await?;
    let ends: Vec<&Function> = system.functions().filter(|f| f.header_type == 0).collect();
    if ends.len() != leaves {
        return Err(format!("{} of {leaves} devices are found", ends.len()));
    }
    let bar = |end: &Function, at| end.found.address(0, at);
    for (n, end) in ends.iter().enumerate() {
        let peer = bar(ends[(n + 1) % ends.len()], 0)?;
        cpu.write_u64(bar(end, PEER)?, peer).await.map_err(text)?;
        cpu.write_u64(bar(end, MEMORY)?, tree::HIGH + 64 * n as u64).await.map_err(text)?;
        cpu.write_u64(bar(end, ROUNDS)?, u64::from(COUNT)).await.map_err(text)?;
    }
    let bridges: Vec<&Function> = system
        .functions()
        .filter(|f| f.pcie.and_then(|pcie| pcie.port).is_some_and(|port| port.is_above_link()))
        .collect();
    let mut struck = None;
    if let Some((blow, which)) = blow {
        cpu.sleep(MIDST).await;
        let bridge = bridges[which % bridges.len()];
        strike(&cpu, bridge, blow).await?;
        struck = bridge.bridge;
    }
    let is_below = |id: Bdf| struck.is_some_and(|b| (b.secondary..=b.subordinate).contains(&id.bus()));
    for end in ends.iter().filter(|end| !is_below(end.found.bdf)) {
        wait_for(&cpu, bar(end, DONE)?).await.map_err(|why| format!("{}: {why}", end.found.bdf))?;
    }
    for end in ends.iter().filter(|end| is_below(end.found.bdf)) {
        // The device has been reset, so no bridge leads to it or it does not answer memory requests.
        if cpu.read_u64(bar(end, DONE)?).await.is_ok() {
            return Err(format!("{} still answers", end.found.bdf));
        }
    }
    // Until every port has reported all its credits, which it does every 30 us (`PCIe 5.0 §2.6.1.2`).
    cpu.sleep(Duration::from_us(200)).await;
    Ok(())
}

async fn wait_for(cpu: &Cpu, address: u64) -> Result<(), String> {
    let mut done = 0;
    // A request to a device that is gone ends with a Completion Timeout of 50 ms at most (`PCIe 5.0 §2.8`).
    for _ in 0..1000 {
        done = cpu.read_u64(address).await.map_err(text)?;
        if done == u64::from(COUNT) {
            return Ok(());
        }
        cpu.sleep(Duration::from_us(100)).await;
    }
    Err(format!("has ended {done:#x} rounds of {COUNT}"))
}

fn check(bytes: &[u8], blow: Option<(Blow, usize)>) -> Result<(), TestCaseError> {
    let mut plan = Case::new(Trouble::Nothing, bytes).tree;
    (plan.preset, plan.two_channels) = (false, false);
    // A leaf alone has no peer.
    prop_assume!(plan.leaves.len() > 1);
    let pool = PayloadPool::new();
    let devices = (0..plan.leaves.len()).map(|n| endpoint(&plan, &pool, n)).collect();
    let memory = HostMemory::new(1 << 20, tree::HIGH_BYTES).unwrap();
    let leaves = plan.leaves.len();
    let program =
        AsyncProgram::with_pool(pool.clone(), memory.clone(), move |cpu| program(cpu, leaves, blow));
    let run = RunPlan { memory, program: Some(Box::new(program)), ..RunPlan::quiet() };
    let mut fabric = plan.build(devices, run);
    let watch = Watch::new(false);
    fabric.set_tap(Box::new(watch.clone()));
    let stop = fabric.run(Limits { events: 20_000_000, ..Limits::default() });
    prop_assert_eq!(stop, Stop::Finished, "{:?}: {:#?}", blow, plan);
    prop_assert_eq!(watch.missing_credits(|_| true), Vec::<String>::new(), "{:?}: {:#?}", blow, plan);
    let accounts = fabric.account_totals();
    let quiet = blow.is_some() || accounts.open == 0 && accounts.dropped == 0;
    prop_assert!(quiet && accounts.given_up == 0, "{:?}", accounts);
    Ok(())
}

fn cases() -> ProptestConfig {
    let wanted = std::env::var("RISER_TREES").ok().and_then(|n| n.parse().ok());
    ProptestConfig { cases: wanted.unwrap_or(5), failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn all_devices_finish_their_work(bytes in prop::collection::vec(any::<u8>(), 20..200)) {
        check(&bytes, None)?;
    }

    #[test]
    fn reset_disturbs_no_other_device(bytes in prop::collection::vec(any::<u8>(), 20..200), which in any::<u8>()) {
        check(&bytes, Some((Blow::Reset, usize::from(which))))?;
    }

    #[test]
    fn disabled_link_disturbs_no_other_device(bytes in prop::collection::vec(any::<u8>(), 20..200), which in any::<u8>()) {
        check(&bytes, Some((Blow::Disable, usize::from(which))))?;
    }
}
