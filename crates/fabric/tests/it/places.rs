// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A switch with one place, kept by a request that is never answered: the switch lets the next request in nevertheless.

use crate::common::system::{credits, text};
use crate::common::{config, link};
use crate::root_rig::{End, bdf, below, served};
use crate::switch_rig;
use host::memory::HostMemory;
use host::{AsyncProgram, Cpu, HostError};
use riser_fabric::{
    Above, AddressMap, Fabric, Forwarding, HostConfig, HostId, HostProfile, Limits, LinkChange, LinkEvent,
    LinkId, PlaceUntil, PortArbitration, SlotConfig, Stop, Switch, SwitchSlot,
};
use tlp::{Class, Duration, PayloadPool, Rate, Time};

const TIMEOUT: Duration = Duration::from_us(300);

/// Returns a switch that opens its upstream port's memory window, and keeps places.
fn switch() -> Switch {
    let window = AddressMap.mmio32(0);
    let (first, last) = (window.base as u32, (window.base + window.size - 1) as u32);
    let mut config = switch_rig::config(1, Forwarding::StoreAndForward, PortArbitration::RoundRobin);
    for (port, buses) in [(&mut config.upstream, 0x0003_0201), (&mut config.downstream[0], 0x0003_0302)] {
        port.space.write(6, 0xf, buses);
        port.space.write(8, 0xf, last & 0xfff0_0000 | first >> 16);
        // Prefetchable base above limit: closed.
        port.space.write(9, 0xf, 0x0000_fff0);
        port.space.write(1, 0x3, 0x0006);
    }
    let mut switch = Switch::new(config).unwrap();
    switch.keep_places(PlaceUntil::Received, TIMEOUT);
    switch
}

/// A host that runs `program` above this switch, which has one place for non-posted requests, and `end` below the
/// switch.
fn fabric<F, Fut>(end: &End, program: F) -> Fabric
where
    F: FnOnce(Cpu) -> Fut + 'static,
    Fut: Future<Output = Result<(), String>> + 'static,
{
    let (memory, payloads) = (HostMemory::new(1 << 20, 0).unwrap(), PayloadPool::new());
    let program = AsyncProgram::with_pool(payloads.clone(), memory.clone(), |cpu: Cpu| async move {
        // The switch captures its ID from this write. Before it, the switch has the ID of the root complex.
        cpu.config_write(bdf(1, 0, 0), 1, 0x3, 0x0006).await.map_err(text)?;
        program(cpu).await
    });
    let profile = HostProfile { completion_timeout: TIMEOUT, ..HostProfile::ideal() };
    let root_ports = Vec::new();
    let mut up = link(Rate::Gt8, 16, 256);
    credits(&mut up, false, Class::NonPosted, 1, 8);
    let (down, above) = (link(Rate::Gt8, 8, 256), Above::Switch { switch: 0, port: 1 });
    let host = HostConfig { profile, memory, payloads, root_ports, program: Some(Box::new(program)) };
    let slot = SlotConfig { link: down, above, device: Box::new(end.clone()) };
    let switch = SwitchSlot { link: up, above: Above::RootPort(HostId::FIRST), switch: switch().into() };
    Fabric::new(config(host, vec![slot], vec![switch])).unwrap()
}

/// A device that answers all reads but the first.
fn silent_once() -> End {
    let (end, mut asked) = (End::default(), 0);
    end.answer(move |request| {
        asked += 1;
        if asked == 1 { None } else { served(request, below(0)) }
    });
    end
}

#[test]
fn a_place_is_free_again_after_the_completion_timeout() {
    let mut fabric = fabric(&silent_once(), |cpu| async move {
        let base = AddressMap.mmio32(0).base;
        let first = cpu.read_u32(base).await;
        let rest = [cpu.read_u32(base).await.is_ok(), cpu.read_u32(base).await.is_ok()];
        match (first, rest) {
            (Err(HostError::CompletionTimeout), [true, true]) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    assert_eq!(fabric.run(Limits::default()), Stop::Finished);
}

#[test]
fn a_place_is_free_again_when_the_link_below_goes_down() {
    let mut fabric = fabric(&silent_once(), |cpu| async move {
        let base = AddressMap.mmio32(0).base;
        let unanswered = cpu.clone();
        let first = cpu.spawn(async move { unanswered.read_u32(base).await });
        cpu.sleep(Duration::from_us(60)).await;
        let second = cpu.read_u32(base).await;
        let in_time = cpu.now() < Time::ZERO + TIMEOUT;
        match (first.await, second, in_time) {
            (Ok(Err(HostError::CompletionTimeout)), Ok(_), true) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    for (us, change) in [(20, LinkChange::Cut), (30, LinkChange::Restore)] {
        let at = Time::ZERO + Duration::from_us(us);
        fabric.schedule(LinkEvent { at, link: LinkId(0), change });
    }
    assert_eq!(fabric.run(Limits::default()), Stop::Finished);
}
