// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A NetTLP adapter in a slot: its function, its driver, and a handle on both for code that carries TLPs. Never carries any.

use super::bridge::{Bridge, BridgeCounters, BridgeDevice};
use super::schema::{NettlpAdapter, NettlpDriver};
use config::{Bar, BuildError, Builder, ConfigSpace, Identity, MsixLayout, PcieLayout, SriovLayout};
use device::{Device, Ready};
use devices::ethernet::{MacAddress, Station};
use devices::simple_nic::{StationReport, StationSettings};
use devices::{memory, simple_nic};
use endpoint::{CreditReturn, Endpoint, FunctionConfig, TlpPort, VirtualFunctions};
use host::firmware::FoundFunction;
use host::{Cpu, DriverError};
use link::{Channels, Notice};
use nettlp::wire::messaging::{MSIX_ENTRIES, MsixEntry};
use plug::plugged::StandIn;
use plug::{DriverFuture, Fault, Model, Needs, Plugged, Shared, Site};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tlp::rules::Refusal;
use tlp::{Bdf, Class, Duration, Mps, PayloadPool, TcSet, Time, Tlp};

/// The IDs of the function: NetTLP's, with a Class Code of no defined class (PCI Code and ID Assignment
/// Specification, §1.1).
const IDENTITY: Identity = Identity {
    vendor: 0x3776,
    device: 0x8022,
    revision: 0,
    class: 0xff_0000,
    subsystem_vendor: 0x3776,
    subsystem: 0x8022,
};
/// VF Device ID: riser's own, because NetTLP's adapter has no virtual functions.
const VF_DEVICE: u16 = 0x8023;
/// Bytes of BAR 0, and of BAR 2: the MSI-X table, and from the middle on its Pending Bit Array.
const OWN_BAR_BYTES: u64 = 4096;
const PENDING_AT: u32 = 2048;
/// The host's Ethernet address: locally administered (IEEE 802, bit 1 of the first byte).
const HOST_MAC: MacAddress = [0x02, 0, 0, 0, 0, 1];
/// Interval at which a driver checks for device software.
const LOOK: Duration = Duration::from_ms(1);

/// Bytes that the driver `mmio` writes before it reads them back: 128 TLPs of 256 B. These TLPs fit into the default
/// socket buffer of Linux, so none is lost if the reader of the socket is slow.
const MMIO_BLOCK: u32 = 32 << 10;

/// Bytes of one read of the driver `mmio`. Reads of 4 KiB have Length 0, which upstream's psmem takes for no data.
const MMIO_READ: u32 = 512;

/// Minimum wall-clock time for which a host waits for device software: the end of range C of Completion Timeout Value
/// (`PCIe 5.0 §7.5.3.16`). A request and its answer pass two machines and their schedulers.
const HOST_PATIENCE: Duration = Duration::from_ms(900);

/// Number of times that device software has become ready. Drivers start at the first.
pub(crate) type Arrivals = Rc<Cell<u32>>;

/// An adapter in a lab. Clones are handles on the same adapter.
#[derive(Clone)]
pub struct AdapterSlot {
    pub(crate) bridge: Rc<RefCell<Bridge>>,
    endpoint: Rc<RefCell<Option<Endpoint>>>,
    pub(crate) arrivals: Arrivals,
    station: StationReport,
    bar: u8,
    /// The driver starts by itself.
    pub(crate) starts_alone: bool,
    /// The peer's address register chooses the peer that serves the host's requests.
    pub(crate) peer_by_register: bool,
}

impl AdapterSlot {
    /// Returns its counters.
    pub fn counters(&self) -> BridgeCounters {
        self.bridge.borrow().counters
    }

    /// Returns the number of the host's reads that the device software has not answered yet.
    pub fn open_host_reads(&self) -> u64 {
        let host = &self.bridge.borrow().host;
        (0..host.replies.len()).map(|function| host.open(function) as u64).sum()
    }

    /// Returns the counters of the driver `station`.
    pub fn station(&self) -> simple_nic::StationCounters {
        self.station.get().clone()
    }

    /// Returns whether the host has enabled the function, so that its addresses are valid.
    pub fn is_enabled(&self) -> bool {
        self.with(|e| e.config(0).is_some_and(|c| c.memory_enable() && c.bus_master_enable()))
            .unwrap_or(false)
    }

    /// Returns the address of the BAR of a function that leads to the device software: function 0 is the physical one, n is
    /// virtual function n.
    pub fn bar_address(&self, function: u16) -> u64 {
        let address = |config: &ConfigSpace| match function.checked_sub(1) {
            None => config.bar(self.bar).map(|bar| bar.address),
            Some(n) => config.vf_bar(self.bar).map(|window| window.address + u64::from(n) * window.size),
        };
        self.with(|e| e.config(0).and_then(address)).flatten().unwrap_or(0)
    }

    /// Returns the ID of the physical function.
    pub fn id(&self) -> Bdf {
        self.id_of(0).unwrap_or_default()
    }

    /// Returns the ID of a function: 0 is the physical one, n is virtual function n. `None` if it does not exist or is not enabled.
    pub fn id_of(&self, function: u16) -> Option<Bdf> {
        let id = |endpoint: &Endpoint| match function.checked_sub(1) {
            None => endpoint.function_id(0),
            Some(n) => endpoint.virtual_function_id(0, n),
        };
        self.with(id).flatten()
    }

    /// Returns whether the host has enabled bus mastering of the function with this ID. It does so after it has set the MSI-X table of
    /// a virtual function.
    pub(crate) fn is_bus_master(&self, id: Bdf) -> bool {
        self.with(|e| e.config_of(id).is_some_and(ConfigSpace::bus_master_enable)).unwrap_or(false)
    }

    /// Returns the number of the function with this ID. Any other ID means the physical function, because peers choose theirs.
    pub(crate) fn function_of(&self, id: Bdf) -> usize {
        let number = self.with(|endpoint| endpoint.virtual_function_number(0, id)).flatten();
        number.map_or(0, |n| usize::from(n) + 1)
    }

    /// Returns the first entries of the MSI-X table of the function with this ID, with zeros after the last.
    pub fn msix_table(&self, id: Bdf) -> [MsixEntry; MSIX_ENTRIES] {
        let mut table = [MsixEntry::default(); MSIX_ENTRIES];
        let entries = self.with(|e| e.msix_table_of(id)).unwrap_or_default();
        for (to, (address, data)) in table.iter_mut().zip(entries) {
            *to = MsixEntry { address, data };
        }
        table
    }

    /// Reads register `register_dw` of its configuration space.
    pub fn config_read(&self, register_dw: u16) -> u32 {
        self.with(|e| e.config(0).map_or(0, |c| c.read(register_dw))).unwrap_or(0)
    }

    /// Writes the bytes `byte_enables` of a register of its configuration space.
    pub(crate) fn config_write(&self, now: Time, register_dw: u16, byte_enables: u8, value: u32) {
        let id = self.id();
        if let Some(endpoint) = self.endpoint.borrow_mut().as_mut() {
            endpoint.write_config(now, id, register_dw, byte_enables, value);
        }
    }

    /// Sets the Read Completion Boundary for completions to peers from Link Control, which holds the root port's value.
    pub(crate) fn follow_rcb(&self) {
        let rcb = self.with(|e| e.config(0).map(ConfigSpace::rcb)).flatten();
        self.bridge.borrow_mut().rcb = rcb.unwrap_or_default();
    }

    fn with<R>(&self, look: impl FnOnce(&Endpoint) -> R) -> Option<R> {
        self.endpoint.borrow().as_ref().map(look)
    }

    /// Stores the endpoint, and returns the port that the fabric drives.
    pub(crate) fn port(&self, endpoint: Endpoint, timeout: Duration) -> AdapterPort {
        *self.endpoint.borrow_mut() = Some(endpoint);
        self.bridge.borrow_mut().host.timeout = timeout;
        AdapterPort { endpoint: Rc::clone(&self.endpoint), bridge: Rc::clone(&self.bridge) }
    }

    /// Waits until a driver may start.
    pub(crate) async fn arrival(&self, cpu: &Cpu, keys: &NettlpAdapter) {
        match keys.start_after_ms {
            Some(ms) => cpu.sleep(Duration::from_ms(ms.into())).await,
            None => {
                while self.arrivals.get() == 0 {
                    cpu.sleep(LOOK).await;
                }
            }
        }
    }

    /// Runs the host's driver.
    pub(crate) async fn drive(
        self,
        cpu: Cpu,
        found: FoundFunction,
        keys: NettlpAdapter,
    ) -> Result<(), DriverError> {
        if keys.driver == NettlpDriver::None {
            return Ok(());
        }
        self.arrival(&cpu, &keys).await;
        match keys.driver {
            NettlpDriver::None => Ok(()),
            NettlpDriver::Mmio => {
                let (bar, bytes) = (keys.bar.into(), keys.exercise_bytes.unwrap_or(4096));
                memory::driver_by_blocks(cpu, found, bar, bytes, MMIO_BLOCK, MMIO_READ).await
            }
            NettlpDriver::Station => {
                let (settings, arrivals) = (station_settings(&keys), self.arrivals.clone());
                simple_nic::station(cpu, found, settings, move || arrivals.get(), self.station).await
            }
        }
    }
}

fn station_settings(keys: &NettlpAdapter) -> StationSettings {
    StationSettings {
        bar: keys.bar.into(),
        local: Station { mac: HOST_MAC, ip: keys.host_ip },
        peer: keys.peer_ip,
        pings: keys.pings,
        ping_bytes: keys.ping_bytes,
        interval: Duration::from_ms(keys.ping_interval_ms.into()),
        rx_buffers: keys.rx_buffers,
    }
}

impl Model for NettlpAdapter {
    const NAME: &'static str = "nettlp-adapter";

    fn needs(&self) -> Needs {
        Needs { host_patience: HOST_PATIENCE, virtual_functions: self.vfs, ..Needs::default() }
    }

    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        let (function, slot) = function(self, site.pcie, site.mps, site.payloads)?;
        let (behind, timeout) = (slot.clone(), site.completion_timeout);
        let (driven, keys) = (slot.clone(), self.clone());
        // A program of the adapter drives the physical function, which is the first.
        let drive = move |cpu, found: Vec<FoundFunction>| driven.clone().drive(cpu, found[0], keys.clone());
        let virtual_functions =
            (self.vfs > 0).then(|| virtual_functions(self, site.pcie, &slot)).transpose()?;
        let plugged = Plugged::with_virtual_functions(function, virtual_functions, drive);
        let (awaited, keys) = (slot.clone(), self.clone());
        let arrival = move |cpu: Cpu| -> DriverFuture {
            let (awaited, keys) = (awaited.clone(), keys.clone());
            Box::pin(async move {
                awaited.arrival(&cpu, &keys).await;
                Ok(())
            })
        };
        let plugged = plugged.standing_in(StandIn { bar: self.bar, arrival: Box::new(arrival) });
        let plugged =
            plugged.behind(move |endpoint| Box::new(behind.port(endpoint, timeout)) as Box<dyn TlpPort>);
        Ok(plugged.joined_at(slot.clone()).reporting(&Shared::new(slot)))
    }

    fn check_together(&self) -> Result<(), Fault> {
        let (given, most) = (self.exercise_bytes.unwrap_or(0), self.bar_bytes);
        if u64::from(given) > most {
            let message = format!("exercise_bytes of {given}: expected 0 to {most}");
            return Err(Fault::at("exercise_bytes", message));
        }
        Ok(())
    }
}

/// Returns the adapter's function and its handle. `mps` is the Max_Payload_Size of the path.
///
/// # Errors
/// A BAR is invalid.
pub(crate) fn function(
    keys: &NettlpAdapter,
    pcie: PcieLayout,
    mps: Mps,
    pool: &PayloadPool,
) -> Result<(FunctionConfig, AdapterSlot), BuildError> {
    let bar = keys.bar;
    let builder = Builder::type0(IDENTITY)
        .bar(0, Bar::memory32(OWN_BAR_BYTES))
        .bar(2, Bar::memory32(OWN_BAR_BYTES))
        .bar(bar, Bar::memory32(keys.bar_bytes))
        .msix(msix(keys))
        .pcie(pcie)
        .usual();
    let config = match keys.vfs {
        0 => builder.build()?,
        vfs => {
            let sriov = SriovLayout::new(vfs, VF_DEVICE)
                .bar(2, Bar::memory32(OWN_BAR_BYTES))
                .bar(bar, Bar::memory32(keys.bar_bytes));
            builder.alternative_routing(0).single_root_virtualization(sriov).build()?
        }
    };
    let functions = 1 + usize::from(keys.vfs);
    let bridge = Rc::new(RefCell::new(Bridge::new(functions, bar, mps, pool)));
    let slot = AdapterSlot {
        bridge: Rc::clone(&bridge),
        endpoint: Rc::default(),
        arrivals: Arrivals::default(),
        station: StationReport::default(),
        bar,
        starts_alone: keys.start_after_ms.is_some(),
        peer_by_register: keys.peer_by_register,
    };
    Ok((FunctionConfig { config, device: Box::new(BridgeDevice { bridge, function: 0 }) }, slot))
}

const fn msix(keys: &NettlpAdapter) -> MsixLayout {
    MsixLayout { vectors: keys.vectors, table: (2, 0), pending: (2, PENDING_AT) }
}

/// Returns the virtual functions of the adapter.
fn virtual_functions(
    keys: &NettlpAdapter,
    pcie: PcieLayout,
    slot: &AdapterSlot,
) -> Result<VirtualFunctions, BuildError> {
    let identity = Identity { device: VF_DEVICE, ..IDENTITY };
    let config = Builder::virtual_function(identity)
        .pcie(pcie)
        .msix(msix(keys))
        .advanced_error_reporting()
        .alternative_routing(0)
        .build()?;
    let bridge = Rc::clone(&slot.bridge);
    let device = move |n: u16| -> Box<dyn Device> {
        Box::new(BridgeDevice { bridge: Rc::clone(&bridge), function: usize::from(n) + 1 })
    };
    Ok(VirtualFunctions { config, device: Box::new(device) })
}

/// The endpoint's port for the fabric. The device shares the endpoint with the handle.
pub(crate) struct AdapterPort {
    endpoint: Rc<RefCell<Option<Endpoint>>>,
    bridge: Rc<RefCell<Bridge>>,
}

impl AdapterPort {
    fn with<R>(&self, none: R, call: impl FnOnce(&mut Endpoint) -> R) -> R {
        match self.endpoint.borrow_mut().as_mut() {
            Some(endpoint) => call(endpoint),
            None => none,
        }
    }
}

impl TlpPort for AdapterPort {
    fn handle_tlp(&mut self, now: Time, tlp: &Tlp) {
        self.with((), |e| {
            // The adapter's own registers show the ID, which configuration requests change.
            self.bridge.borrow_mut().registers.requester = e.function_id(0).unwrap_or_default();
            e.handle_tlp(now, tlp);
        });
    }

    fn poll_tlp(&mut self, now: Time, class: Class, room: TcSet) -> Option<Tlp> {
        self.with(None, |e| e.poll_tlp(now, class, room))
    }

    fn ready(&self) -> Ready {
        self.with(Ready::NONE, |e| e.ready())
    }

    fn poll_credits(&mut self) -> Option<CreditReturn> {
        self.with(None, |e| e.poll_credits())
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.with(None, |e| e.poll_timeout())
    }

    fn handle_timeout(&mut self, now: Time) {
        self.with((), |e| e.handle_timeout(now));
    }

    fn handle_notice(&mut self, now: Time, notice: Notice) {
        self.with((), |e| e.handle_notice(now, notice));
    }

    fn power_on(&mut self, now: Time) {
        self.with((), |e| e.power_on(now));
    }

    fn channels(&self) -> Option<Channels> {
        self.with(None, |e| e.channels())
    }

    fn longest_non_posted(&self) -> u32 {
        self.with(4, |e| e.longest_non_posted())
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        self.with(Vec::new(), |e| e.counts())
    }

    fn errors(&self) -> Vec<(&'static str, u64)> {
        self.with(Vec::new(), |e| e.errors())
    }

    fn refusals(&self) -> Vec<Refusal> {
        let endpoint = self.with(Vec::new(), |e| e.refusals());
        endpoint.into_iter().chain(self.bridge.borrow().refusals().iter().copied()).collect()
    }

    fn waits_for(&self) -> Option<String> {
        self.with(None, |e| e.waits_for())
    }
}
