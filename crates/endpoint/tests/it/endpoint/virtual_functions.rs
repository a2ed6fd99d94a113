// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Virtual functions: their IDs, windows and registers, reads that are outstanding when their function is disabled, and
//! 256 functions (`PCIe 5.0 §9`).

use crate::endpoint::harness::*;
use crate::endpoint::properties;
use config::{Bar, Builder, ConfigSpace, Identity, MsixLayout, PcieLayout, SriovLayout, VfNumbering};
use device::*;
use proptest::prelude::*;
use riser_endpoint::VirtualFunctions;
use riser_endpoint::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use tlp::*;

pub(crate) const SRIOV: u16 = 0x0010;
// DWs of the capability (PCIe 5.0 §9.3.3).
pub(crate) const CONTROL: u16 = 2;
const NUM_VFS: u16 = 4;
const VF_BAR0: u16 = 9;
pub(crate) const VF_ENABLE: u32 = 1;
pub(crate) const VF_MSE: u32 = 1 << 3;
pub(crate) const ARI: u32 = 1 << 4;
/// BAR of the first virtual function; each has 16 KiB.
const VF_BASE: u64 = 0x20_0000_0000;
const VF_SIZE: u64 = 0x4000;
const TABLE: u64 = 0x2000;

type Probes = Rc<RefCell<BTreeMap<u16, Probe>>>;

pub(crate) fn physical(vfs: u16) -> ConfigSpace {
    let numbering = VfNumbering { first_offset: 1, stride: 1 };
    let sriov = SriovLayout { ari: numbering, ..SriovLayout::new(vfs, 0x1001) };
    Builder::type0(Identity { vendor: 0x1234, device: 1, ..Identity::default() })
        .bar(0, Bar::memory64(64 << 10))
        .pcie(PcieLayout { mps_supported: Mps::from_encoding(5).unwrap(), ..PcieLayout::default() })
        .advanced_error_reporting()
        .single_root_virtualization(sriov.bar(0, Bar::memory64(VF_SIZE)))
        .build()
        .unwrap()
}

pub(crate) fn virtual_space() -> ConfigSpace {
    Builder::virtual_function(Identity::default())
        .pcie(PcieLayout::default())
        .msix(MsixLayout { vectors: 4, table: (0, TABLE as u32), pending: (0, 0x3000) })
        .advanced_error_reporting()
        .build()
        .unwrap()
}

/// A bench with virtual functions and their devices, each made whenever the function is enabled.
pub(crate) struct Vfs {
    pub(crate) bench: Bench,
    probes: Probes,
}

pub(crate) fn with_vfs(limits: EndpointLimits, total: u16) -> Vfs {
    with_vfs_of(limits, physical(total))
}

fn with_vfs_of(limits: EndpointLimits, physical: ConfigSpace) -> Vfs {
    let Bench { endpoint, probes: physical_probes, pool } = Bench::of(limits, vec![physical]);
    let probes = Probes::default();
    let made = Rc::clone(&probes);
    let device = Box::new(move |n: u16| -> Box<dyn Device> {
        let probe = Probe::default();
        probe.0.borrow_mut().takes = true;
        made.borrow_mut().insert(n, probe.clone());
        Box::new(probe)
    });
    let made_of = VirtualFunctions { config: virtual_space(), device };
    let endpoint = endpoint.with_virtual_functions(0, made_of).unwrap();
    Vfs { bench: Bench { endpoint, probes: physical_probes, pool }, probes }
}

/// `count` virtual functions, enabled with their memory and ARI. Bus Master Enable is set in each.
pub(crate) fn enabled(limits: EndpointLimits, count: u16) -> Vfs {
    let mut vfs = with_vfs(limits, count);
    vfs.enable(count);
    for n in 0..count {
        vfs.write(n, COMMAND, 0x4);
    }
    let _ = vfs.bench.poll_all(Class::Completion);
    vfs
}

impl Vfs {
    pub(crate) fn enable(&mut self, count: u16) {
        let bench = &mut self.bench;
        bench.write_config(0, 4, BAR0 as u32);
        bench.write_config(0, 5, (BAR0 >> 32) as u32);
        bench.write_config(0, COMMAND, 0x6);
        bench.write_config(0, bench.endpoint.config(0).unwrap().pcie_capability().unwrap() + 2, 0x2930);
        bench.write_extended(0, SRIOV, NUM_VFS, u32::from(count));
        bench.write_extended(0, SRIOV, VF_BAR0, VF_BASE as u32);
        bench.write_extended(0, SRIOV, VF_BAR0 + 1, (VF_BASE >> 32) as u32);
        bench.write_extended(0, SRIOV, CONTROL, ARI);
        bench.write_extended(0, SRIOV, CONTROL, ARI | VF_MSE | VF_ENABLE);
    }

    pub(crate) fn id(n: u16) -> Bdf {
        Bdf::from_bits(EP.bits() + 1 + n)
    }

    /// Returns a configuration request as it arrives at the endpoint: of type 1 for a bus other than the captured one.
    fn config(&mut self, op: Access, id: Bdf, dw: u16, data: &[u8]) -> Tlp {
        let mut tlp = cfg(op, id, dw, 0xf, data);
        if let Body::Config(c) = &mut tlp.repr.body
            && id.bus() != EP.bus()
        {
            c.kind = ConfigKind::Type1;
        }
        self.bench.handle(tlp);
        self.bench.poll(Class::Completion).unwrap()
    }

    pub(crate) fn write(&mut self, n: u16, dw: u16, value: u32) {
        let answer = self.config(Access::Write, Vfs::id(n), dw, &value.to_le_bytes());
        assert_eq!(completion(&answer).status, Status::Success, "VF {n}");
    }

    fn read(&mut self, n: u16, dw: u16) -> u32 {
        let answer = self.config(Access::Read, Vfs::id(n), dw, &[]);
        assert_eq!(completion(&answer).completer, Vfs::id(n));
        u32::from_le_bytes(answer.data.bytes().unwrap().try_into().unwrap())
    }

    pub(crate) fn probe(&self, n: u16) -> Probe {
        self.probes.borrow()[&n].clone()
    }

    pub(crate) fn flr(&mut self, n: u16) {
        let config = self.bench.endpoint.config_of(Vfs::id(n)).unwrap();
        let at = config.pcie_capability().unwrap() + 2;
        self.write(n, at, 1 << 15);
    }
}

#[test]
fn each_of_256_functions_has_own_id_registers_and_window() {
    let mut vfs = enabled(EndpointLimits::default(), 256);
    assert_eq!(
        vfs.bench.endpoint.virtual_function_id(0, 255),
        Some(Bdf::from_bits(0x0400)),
        "on the next bus"
    );
    assert_eq!(vfs.bench.endpoint.virtual_function_id(0, 256), None);
    for n in 0..256 {
        assert_eq!(vfs.read(n, 0), 0xffff_ffff, "Vendor ID and Device ID read FFFFh");
        vfs.bench.handle(mrd(1, VF_BASE + u64::from(n) * VF_SIZE + 0x10, 4));
        let inputs = vfs.probe(n).take_inputs();
        assert!(
            matches!(
                &inputs[..],
                [Input::Request(Request { op: RequestOp::Read { bar: BarIndex(0), offset: 0x10, .. }, .. })]
            ),
            "VF {n}: {inputs:?}"
        );
        vfs.probe(n).push(Class::NonPosted, read(1, 0x1000, 4));
    }
    let mut requesters: Vec<u16> =
        vfs.bench.poll_all(Class::NonPosted).iter().map(|t| request(t).requester.bits()).collect();
    requesters.sort_unstable();
    assert_eq!(requesters, (0x0301..=0x0400).collect::<Vec<u16>>());
}

/// A window ends with the last function. A request across two functions belongs to neither.
#[test]
fn requests_to_no_function_are_refused() {
    let mut vfs = enabled(EndpointLimits::default(), 3);
    let beyond = [VF_BASE + 3 * VF_SIZE, VF_BASE - 4];
    for address in beyond {
        vfs.bench.handle(mrd(1, address, 4));
        let c = completion(&vfs.bench.poll(Class::Completion).unwrap());
        assert_eq!(c.status, Status::UnsupportedRequest, "{address:#x}");
    }
    vfs.bench.write_extended(0, SRIOV, CONTROL, ARI | VF_ENABLE);
    vfs.bench.handle(mrd(1, VF_BASE, 4));
    let c = completion(&vfs.bench.poll(Class::Completion).unwrap());
    assert_eq!(c.status, Status::UnsupportedRequest, "VF MSE is clear");
    vfs.bench.handle(mrd(1, BAR0, 4));
    assert_eq!(vfs.bench.probe().tokens().len(), 1, "the physical function is as it was");
}

#[test]
fn each_virtual_function_has_its_own_bus_master_enable() {
    let mut vfs = enabled(EndpointLimits::default(), 2);
    vfs.write(0, COMMAND, 0);
    vfs.probe(0).push(Class::NonPosted, read(1, 0x1000, 4));
    vfs.probe(1).push(Class::NonPosted, read(1, 0x1000, 4));
    let asked = vfs.bench.poll_all(Class::NonPosted);
    assert_eq!(asked.iter().map(|t| request(t).requester).collect::<Vec<_>>(), [Vfs::id(1)]);
    assert!(matches!(vfs.probe(0).done()[..], [(1, Err(DmaError::BusMasterDisabled))]));
}

/// Each has all tags. A reset of one function drops its late completions, and quarantines its tags (`PCIe 5.0 §6.6.2`).
#[test]
fn flr_during_reads_affects_only_its_function() {
    let limits = EndpointLimits { max_outstanding_reads: 2, ..EndpointLimits::default() };
    let mut vfs = enabled(limits, 3);
    for n in 0..3 {
        vfs.probe(n).push(Class::NonPosted, read(7, 0x1000 * u64::from(n), 1024));
    }
    let asked = vfs.bench.poll_all(Class::NonPosted);
    assert_eq!(asked.len(), 6);
    vfs.flr(1);
    assert!(vfs.probe(1).take_inputs().iter().any(|i| matches!(i, Input::Reset(ResetKind::FunctionLevel))));
    vfs.write(1, COMMAND, 0x4);
    vfs.probe(1).push(Class::NonPosted, read(8, 0x1000, 512));
    assert!(vfs.bench.poll(Class::NonPosted).is_none(), "both tags rest");
    for tlp in asked.iter().flat_map(answer) {
        vfs.bench.handle(tlp);
    }
    for n in [0, 2] {
        let expected: Vec<u8> = (0..1024).map(|i| byte_at(0x1000 * u64::from(n) + i)).collect();
        assert_eq!(vfs.probe(n).done()[0].1.as_ref().unwrap().bytes(), Some(&expected[..]), "VF {n}");
    }
    assert!(vfs.probe(1).done().is_empty());
    let again = vfs.bench.poll(Class::NonPosted).unwrap();
    assert_eq!(request(&again).requester, Vfs::id(1));
    let counters = vfs.bench.endpoint.counters();
    assert_eq!((counters.unexpected_completions, counters.function_level_resets), (0, 1));
}

#[test]
fn clearing_vf_enable_removes_functions_and_drops_late_completions() {
    let mut vfs = enabled(EndpointLimits::default(), 2);
    vfs.probe(1).push(Class::NonPosted, read(1, 0x1000, 64));
    vfs.probe(1).push(Class::NonPosted, read(2, 0x2000, 64));
    let mut asked = vfs.bench.poll_all(Class::NonPosted);
    vfs.bench.write_extended(0, SRIOV, CONTROL, ARI | VF_MSE);
    let late = asked.pop().unwrap();
    answer(&late).into_iter().for_each(|c| vfs.bench.handle(c));
    answer(&late).into_iter().for_each(|c| vfs.bench.handle(c));
    let counters = vfs.bench.endpoint.counters();
    assert_eq!(
        (counters.swallowed_completions, counters.unexpected_completions),
        (1, 1),
        "the second is one too many"
    );
    let gone = completion(&vfs.config(Access::Read, Vfs::id(1), 0, &[]));
    assert_eq!((gone.status, gone.completer), (Status::UnsupportedRequest, Vfs::id(1)));
    assert_eq!(vfs.bench.endpoint.virtual_function_id(0, 0), None);

    let former = vfs.probe(1);
    former.take_inputs();
    vfs.bench.write_extended(0, SRIOV, CONTROL, ARI | VF_MSE | VF_ENABLE);
    vfs.write(1, COMMAND, 0x4);
    asked.iter().flat_map(answer).for_each(|c| vfs.bench.handle(c));
    assert!(vfs.probe(1).take_inputs().is_empty() && former.take_inputs().is_empty());
    assert_eq!(vfs.bench.endpoint.counters().swallowed_completions, 2);
    assert_eq!(vfs.bench.endpoint.counters().virtual_functions_enabled, 4);
}

#[test]
fn reset_of_physical_function_removes_virtual_functions() {
    let mut vfs = enabled(EndpointLimits::default(), 2);
    let at = vfs.bench.endpoint.config(0).unwrap().pcie_capability().unwrap() + 2;
    vfs.bench.write_config(0, at, 1 << 15);
    assert_eq!(vfs.bench.extended(0, SRIOV, CONTROL) & VF_ENABLE, 0);
    vfs.bench.handle(mrd(1, VF_BASE, 4));
    assert_eq!(completion(&vfs.bench.poll(Class::Completion).unwrap()).status, Status::UnsupportedRequest);
    vfs.enable(2);
    vfs.bench.handle(mrd(1, VF_BASE, 4));
    assert_eq!(vfs.probe(0).tokens().len(), 1);
}

/// Max_Payload_Size, Max_Read_Request_Size and the rest of Device Control are the physical function's (`PCIe 5.0 §9.3.5.4`).
#[test]
fn virtual_functions_use_sizes_of_the_physical_function() {
    let mut vfs = enabled(EndpointLimits::default(), 1);
    let at = vfs.bench.endpoint.config(0).unwrap().pcie_capability().unwrap() + 2;
    for (control, pieces) in [(0x0930u32, 32), (0x2930, 8), (0x5930, 1)] {
        vfs.bench.write_config(0, at, control);
        vfs.probe(0).push(Class::NonPosted, read(1, 0x1000, 4096));
        let asked = vfs.bench.poll_all(Class::NonPosted);
        assert_eq!(asked.len(), pieces, "Device Control {control:#x}");
        asked.iter().flat_map(answer).for_each(|c| vfs.bench.handle(c));
        assert_eq!(vfs.probe(0).done().len(), 1);
    }
}

/// VF MSE, bit 3 of SR-IOV Control (`PCIe 5.0 §9.3.3.3.4`): without it no virtual function claims memory, but their
/// registers still answer.
#[test]
fn vf_mse_gates_memory_of_all_virtual_functions() {
    let mut vfs = enabled(EndpointLimits::default(), 2);
    for (control, status) in [(0, Status::UnsupportedRequest), (VF_MSE, Status::Success)] {
        vfs.bench.write_extended(0, SRIOV, CONTROL, ARI | VF_ENABLE | control);
        for n in 0..2u64 {
            vfs.bench.handle(mrd(1, VF_BASE + n * VF_SIZE + 0x3000, 8));
            let answer = vfs.bench.poll(Class::Completion).unwrap();
            assert_eq!(completion(&answer).status, status, "VF {n}, SR-IOV Control {control:#x}");
            assert_eq!(vfs.read(n as u16, 0), 0xffff_ffff, "Vendor ID of VF {n}");
        }
    }
}

/// ARI Capable Hierarchy, bit 4 of SR-IOV Control (`PCIe 5.0 §9.3.3.3.5`), selects First VF Offset and VF Stride: here
/// 1 with it and 100h, the next bus, without. VF BAR0 is the start of the memory of VF 0. NumVFs is their number.
#[test]
fn virtual_functions_are_numbered_and_placed_by_the_capability() {
    let next_bus = Bdf::from_bits(EP.bits() + 0x100);
    let rows = [(ARI, VF_BASE, 2, Vfs::id(1)), (0, VF_BASE, 2, Bdf::from_bits(next_bus.bits() + 1))];
    for (control, base, count, second) in rows {
        let mut vfs = with_vfs(EndpointLimits::default(), 4);
        vfs.bench.write_extended(0, SRIOV, NUM_VFS, count);
        vfs.bench.write_extended(0, SRIOV, VF_BAR0 + 1, (base >> 32) as u32);
        vfs.bench.write_extended(0, SRIOV, CONTROL, control);
        vfs.bench.write_extended(0, SRIOV, CONTROL, control | VF_MSE | VF_ENABLE);
        let answer = vfs.config(Access::Read, second, 0, &[]);
        assert_eq!((completion(&answer).status, completion(&answer).completer), (Status::Success, second));
        let third = Bdf::from_bits(second.bits() + 1);
        let answer = vfs.config(Access::Read, third, 0, &[]);
        assert_eq!(completion(&answer).status, Status::UnsupportedRequest, "NumVFs is 2");
        vfs.bench.handle(mrd(1, base + VF_SIZE + 0x3000, 8));
        assert_eq!(completion(&vfs.bench.poll(Class::Completion).unwrap()).completer, second, "its memory");
        vfs.bench.handle(mrd(1, base + 2 * VF_SIZE, 8));
        assert_eq!(
            completion(&vfs.bench.poll(Class::Completion).unwrap()).status,
            Status::UnsupportedRequest
        );
    }
}

/// System Page Size (`PCIe 5.0 §9.3.3.12`): bit 4 is 64 KiB, to which the 16 KiB of each virtual function are rounded up.
#[test]
fn each_virtual_function_has_whole_system_pages() {
    const SYSTEM_PAGE_SIZE: u16 = 8;
    for (page, size) in [(1, VF_SIZE), (1 << 1, VF_SIZE), (1 << 4, 0x1_0000)] {
        let mut vfs = with_vfs(EndpointLimits::default(), 2);
        vfs.bench.write_extended(0, SRIOV, SYSTEM_PAGE_SIZE, page);
        vfs.enable(2);
        // VF 1's own MSI-X pending bits, which the endpoint reads.
        vfs.bench.handle(mrd(1, VF_BASE + size + 0x3000, 8));
        let answer = completion(&vfs.bench.poll(Class::Completion).unwrap());
        assert_eq!(
            (answer.status, answer.completer),
            (Status::Success, Vfs::id(1)),
            "System Page Size {page:#x}"
        );
    }
}

/// VF 10-Bit Tag Requester Enable, bit 5 of SR-IOV Control (`PCIe 5.0 §9.3.3.3.6`): the first tag of a read.
#[test]
fn virtual_functions_use_long_tags_if_enabled() {
    const TEN_BIT_TAG: u32 = 1 << 5;
    let sriov = SriovLayout { ten_bit_tag: true, ..SriovLayout::new(1, 0x1001) };
    let space = Builder::type0(Identity { vendor: 0x1234, device: 1, ..Identity::default() })
        .bar(0, Bar::memory64(64 << 10))
        .pcie(PcieLayout { ten_bit_tag: true, ..PcieLayout::default() })
        .single_root_virtualization(sriov.bar(0, Bar::memory64(VF_SIZE)))
        .build()
        .unwrap();
    for (control, first) in [(0, 0), (TEN_BIT_TAG, 256)] {
        let mut vfs = with_vfs_of(EndpointLimits::default(), space.clone());
        let device_control_2 = vfs.bench.endpoint.config(0).unwrap().pcie_capability().unwrap() + 10;
        vfs.bench.write_config(0, device_control_2, 1 << 12);
        vfs.enable(1);
        vfs.bench.write_extended(0, SRIOV, CONTROL, ARI | VF_MSE | VF_ENABLE | control);
        vfs.write(0, COMMAND, 0x4);
        vfs.probe(0).push(Class::NonPosted, read(1, 0x1000, 4));
        let asked = vfs.bench.poll(Class::NonPosted).unwrap();
        assert_eq!((request(&asked).tag.bits(), request(&asked).requester), (first, Vfs::id(0)));
    }
}

/// Bits of Status of a virtual function (`PCIe 5.0 §9.3.4.1.4`). The bits of its physical function stay clear.
#[test]
fn status_events_set_bits_only_in_their_function() {
    type Event = fn(&mut Vfs);
    fn answered(vfs: &mut Vfs, status: Status) {
        vfs.probe(0).push(Class::NonPosted, read(1, 0x1000, 4));
        let asked = vfs.bench.poll(Class::NonPosted).unwrap();
        vfs.bench.handle(refuse(&asked, status));
    }
    fn poisoned(vfs: &mut Vfs) {
        let mut tlp = mwr(VF_BASE, &[0; 4]);
        tlp.repr.ep = true;
        vfs.bench.handle(tlp);
        let _ = vfs.bench.messages();
    }
    let abort: Event = |vfs| {
        vfs.bench.handle(mrd(7, VF_BASE, 4));
        let token = vfs.probe(0).tokens()[0];
        let result = Err(CompletionError::CompleterAbort);
        vfs.probe(0).push(Class::Completion, Output::Complete { token, result });
        assert!(vfs.bench.poll(Class::Completion).is_some());
    };
    let rows: [(&str, Event, u32); 4] = [
        ("CA of the function", abort, 1 << 27),
        ("CA of another", |vfs| answered(vfs, Status::CompleterAbort), 1 << 28),
        ("UR of another", |vfs| answered(vfs, Status::UnsupportedRequest), 1 << 29),
        ("a poisoned write, reported by SERR# Enable of the physical function", poisoned, 1 << 31 | 1 << 30),
    ];
    for (what, event, bits) in rows {
        let mut vfs = enabled(EndpointLimits::default(), 2);
        vfs.bench.write_config(0, COMMAND, 0x106);
        event(&mut vfs);
        assert_eq!(vfs.read(0, COMMAND) & 0xf900_0000, bits, "{what}");
        assert_eq!(
            (vfs.read(1, COMMAND) & 0xf900_0000, vfs.bench.config(COMMAND) & 0xf900_0000),
            (0, 0),
            "{what}"
        );
        vfs.write(0, COMMAND, 0xf900_0004);
        assert_eq!(vfs.read(0, COMMAND) & 0xf900_0000, 0, "{what}: writing ones clears it");
    }
}

#[test]
fn each_virtual_function_has_its_own_msix() {
    let mut vfs = enabled(EndpointLimits::default(), 2);
    for n in 0..2u64 {
        let entry = VF_BASE + n * VF_SIZE + TABLE + 16;
        let address = 0xfee0_0000u32 + n as u32 * 0x1000;
        let words = [address, 0, 0x40 + n as u32, 0].map(u32::to_le_bytes);
        vfs.bench.handle(mwr(entry, words.as_flattened()));
        let at = vfs.bench.endpoint.config_of(Vfs::id(n as u16)).unwrap().msix_capability().unwrap();
        vfs.write(n as u16, at, 1 << 31);
    }
    for n in 0..2u16 {
        vfs.probe(n).push(Class::Posted, Output::Interrupt { vector: 1 });
        let sent = vfs.bench.poll(Class::Posted).unwrap();
        assert_eq!(request(&sent).span.address(), 0xfee0_0000 + u64::from(n) * 0x1000);
        assert_eq!(request(&sent).requester, Vfs::id(n));
        assert_eq!(sent.data.bytes(), Some(&[0x40 + n as u8, 0, 0, 0][..]));
    }
    // Function Mask, bit 30 of Message Control.
    let at = vfs.bench.endpoint.config_of(Vfs::id(1)).unwrap().msix_capability().unwrap();
    vfs.write(1, at, 1 << 31 | 1 << 30);
    vfs.probe(1).push(Class::Posted, Output::Interrupt { vector: 1 });
    assert!(vfs.bench.poll(Class::Posted).is_none(), "all masked");
    vfs.write(1, at, 1 << 31);
    assert!(vfs.bench.poll(Class::Posted).is_some());
    vfs.probe(0).push(Class::Posted, Output::Interrupt { vector: 0 });
    assert!(vfs.bench.poll(Class::Posted).is_none(), "masked");
    vfs.bench.handle(mrd(1, VF_BASE + 0x3000, 8));
    assert_eq!(vfs.bench.poll(Class::Completion).unwrap().data.bytes(), Some(&[1, 0, 0, 0, 0, 0, 0, 0][..]));
}

/// The virtual function's error: its own registers, its own ID, and the physical function's enables (`PCIe 5.0 §9.4.2`).
#[test]
fn errors_are_logged_only_in_their_virtual_function() {
    const AER: u16 = 0x0001;
    let mut vfs = enabled(EndpointLimits::default(), 2);
    let at = vfs.bench.endpoint.config(0).unwrap().pcie_capability().unwrap() + 2;
    vfs.bench.write_config(0, at, 0x293f);
    let mut poisoned = mwr(VF_BASE + VF_SIZE, &[0; 4]);
    poisoned.repr.ep = true;
    vfs.bench.handle(poisoned);
    assert_eq!(vfs.bench.messages(), [(0x31, Vfs::id(1))]);
    let status = |vfs: &mut Vfs, n: u16| {
        let at = vfs.bench.endpoint.config_of(Vfs::id(n)).unwrap().extended_capability(AER).unwrap();
        vfs.read(n, at + 1)
    };
    assert_eq!((status(&mut vfs, 0), status(&mut vfs, 1)), (0, 1 << 12));
    assert_eq!(vfs.bench.extended(0, AER, 1), 0);
}

/// Errors of one virtual function: its bits of Uncorrectable and Correctable Error Status and of Device Status, which
/// ones clear. It has no bits for errors that belong to no function (`PCIe 5.0 §9.4.2`).
#[test]
fn each_error_sets_status_of_its_virtual_function() {
    const AER: u16 = 0x0001;
    const ADVISORY: u32 = 1 << 13;
    type Event = fn(&mut Vfs);
    let poisoned: Event = |vfs| {
        let mut tlp = mwr(VF_BASE, &[0; 4]);
        tlp.repr.ep = true;
        vfs.bench.handle(tlp);
    };
    let unanswered: Event = |vfs| {
        vfs.probe(0).push(Class::NonPosted, read(1, 0x1000, 4));
        assert!(vfs.bench.poll(Class::NonPosted).is_some());
        vfs.bench.endpoint.handle_timeout(us(60));
    };
    let aborted: Event = |vfs| {
        vfs.bench.handle(mrd(7, VF_BASE, 4));
        let token = vfs.probe(0).tokens()[0];
        let result = Err(CompletionError::CompleterAbort);
        vfs.probe(0).push(Class::Completion, Output::Complete { token, result });
        assert!(vfs.bench.poll(Class::Completion).is_some());
    };
    let unexpected: Event = |vfs| {
        vfs.probe(0).push(Class::NonPosted, read(1, 0x1000, 4));
        let asked = vfs.bench.poll(Class::NonPosted).unwrap();
        let answer = answer(&asked).remove(0);
        vfs.bench.handle(answer.clone());
        vfs.bench.handle(answer);
    };
    let unsupported: Event = |vfs| {
        let (tag, operand) = (Tag::from_bits(2), OperandSize::Bits32);
        let op = AtomicOp::FetchAdd;
        let body = AtomicRequest { op, operand, requester: HOST, tag, address: VF_BASE };
        vfs.bench.handle(Tlp::new(Repr::new(Body::Atomic(body)), Data::Counted(4)));
        assert!(vfs.bench.poll(Class::Completion).is_some());
    };
    // Event; uncorrectable, correctable, Device Status.
    let rows = [
        ("poisoned", poisoned, 1 << 12, 0, 0b0010),
        ("completion timeout", unanswered, 1 << 14, 0, 0b0010),
        ("completer abort", aborted, 1 << 15, ADVISORY, 0b0001),
        ("unexpected completion", unexpected, 1 << 16, ADVISORY, 0b0001),
        ("unsupported request", unsupported, 1 << 20, ADVISORY, 0b1001),
    ];
    for (what, event, uncorrectable, correctable, device) in rows {
        for turned in [false, true] {
            let limits =
                EndpointLimits { completion_timeout: Duration::from_us(50), ..EndpointLimits::default() };
            let mut vfs = enabled(limits, 2);
            vfs.bench.write_extended(0, AER, 5, 0);
            if turned {
                vfs.bench.write_extended(0, AER, 3, uncorrectable);
            }
            event(&mut vfs);
            let config = vfs.bench.endpoint.config_of(Vfs::id(0)).unwrap();
            let (aer, pcie) = (config.extended_capability(AER).unwrap(), config.pcie_capability().unwrap());
            let device = if turned { 0b0100 | device & 0b1000 } else { device };
            let correctable = if turned { 0 } else { correctable };
            let registers = [
                (aer + 1, !0, uncorrectable),
                (aer + 4, !0, correctable),
                (pcie + 2, 0xf << 16, device << 16),
            ];
            for (register, mask, bits) in registers {
                assert_eq!(vfs.read(0, register) & mask, bits, "{what}, turned {turned}");
                vfs.write(0, register, bits);
                assert_eq!(vfs.read(0, register) & mask, 0, "{what}: cleared");
            }
        }
    }
}

/// Header Log Overflow of a virtual function: the log has no room for a second header (`PCIe 5.0 §6.2.4.2`).
#[test]
fn second_header_of_a_virtual_function_overflows() {
    const AER: u16 = 0x0001;
    let mut vfs = enabled(EndpointLimits::default(), 1);
    vfs.bench.write_extended(0, AER, 5, 0);
    for _ in 0..2 {
        let mut poisoned = mwr(VF_BASE, &[0; 4]);
        poisoned.repr.ep = true;
        vfs.bench.handle(poisoned);
    }
    let at = vfs.bench.endpoint.config_of(Vfs::id(0)).unwrap().extended_capability(AER).unwrap() + 4;
    assert_eq!(vfs.read(0, at), 1 << 15);
    vfs.write(0, at, 1 << 15);
    assert_eq!(vfs.read(0, at), 0);
}

/// Function numbers of eight bits take the place of the device number (`PCIe 5.0 §6.13`).
#[test]
fn ari_allows_256_physical_functions() {
    let space = |n: u16| {
        Builder::type0(Identity { vendor: 0x1234, device: n, ..Identity::default() })
            .bar(0, Bar::memory64(4096))
            .pcie(PcieLayout::default())
            .alternative_routing((n + 1) as u8)
            .build()
            .unwrap()
    };
    let mut bench = Bench::of(EndpointLimits::default(), (0..256).map(space).collect());
    for n in 0..256u16 {
        let id = Bdf::from_bits(EP.bits() + n);
        let at = BAR0 + u64::from(n) * 4096;
        for (dw, value) in [(4, at as u32), (5, (at >> 32) as u32), (COMMAND, 6)] {
            bench.handle(cfg(Access::Write, id, dw, 0xf, &value.to_le_bytes()));
        }
        bench.handle(mrd(1, at + 8, 4));
        bench.probes[usize::from(n)].push(Class::NonPosted, read(1, 0x1000, 4));
        let asked = bench.poll(Class::NonPosted).unwrap();
        assert_eq!(request(&asked).requester, id);
        answer(&asked).into_iter().for_each(|c| bench.handle(c));
        let inputs = bench.probes[usize::from(n)].take_inputs();
        assert!(matches!(&inputs[..], [Input::Request(_), Input::DmaDone { result: Ok(_), .. }]), "{n}");
    }
    let answers = bench.poll_all(Class::Completion);
    assert_eq!(answers.len(), 3 * 256);
    assert_eq!(completion(&answers[255 * 3]).completer, Bdf::from_bits(0x03ff));
}

#[test]
fn function_without_sriov_has_no_virtual_functions() {
    let endpoint = Bench::new(EndpointLimits::default()).endpoint;
    let made_of =
        VirtualFunctions { config: virtual_space(), device: Box::new(|_| Box::new(Probe::default())) };
    let error = endpoint.with_virtual_functions(0, made_of).err().unwrap();
    assert_eq!(
        error.to_string(),
        "function 0 has virtual functions but no SR-IOV capability in its configuration space"
    );
}

#[derive(Clone, Debug)]
enum Step {
    /// A configuration write of a register of the function at this distance.
    Write(u16, u16, u32),
    Arrives(Tlp),
    Reads(u16, u32),
    Interrupts(u16, bool),
    Resets(bool),
}

fn step() -> impl Strategy<Value = Step> {
    let register = prop_oneof![0u16..0x40, 0x40u16..0xa0];
    let value = prop_oneof![any::<u32>(), 0u32..64, Just(ARI | VF_MSE | VF_ENABLE)];
    prop_oneof![
        6 => (0u16..5, register, value).prop_map(|(f, dw, value)| Step::Write(f, dw, value)),
        3 => properties::tlp().prop_map(Step::Arrives),
        2 => (0u16..4, 1u32..3000).prop_map(|(n, len)| Step::Reads(n, len)),
        1 => (0u16..4, any::<bool>()).prop_map(|(n, level)| Step::Interrupts(n, level)),
        1 => any::<bool>().prop_map(Step::Resets),
    ]
}

fn take(vfs: &mut Vfs, step: Step) -> [(u32, u32); 3] {
    let mut owed = [(0, 0); 3];
    match step {
        Step::Write(f, dw, value) => {
            let id = Bdf::from_bits(EP.bits() + f);
            vfs.bench.endpoint.write_config(Time::ZERO, id, dw, 0xf, value);
        }
        Step::Arrives(tlp) => {
            owed[tlp.class().index()] = (1, tlp.data_credits());
            vfs.bench.handle(tlp);
        }
        Step::Reads(n, len) => {
            if let Some(probe) = vfs.probes.borrow().get(&n) {
                probe.push(Class::NonPosted, read(1, 0x1000, len));
            }
        }
        Step::Interrupts(n, asserted) => {
            if let Some(probe) = vfs.probes.borrow().get(&n) {
                probe.push(Class::Posted, Output::Intx { asserted });
                probe.push(Class::Posted, Output::Interrupt { vector: n });
            }
        }
        // The link stays up, so credits must still be returned.
        Step::Resets(true) => vfs.bench.endpoint.reset(Time::ZERO, ResetKind::FunctionLevel),
        Step::Resets(false) => vfs.bench.endpoint.handle_notice(Time::ZERO, link::Notice::BadTlp),
    }
    owed
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// With any writes and any TLPs: no panic, no credit lost or invented, each function answers as long as it exists,
    /// and its outstanding work ends with a reset.
    #[test]
    fn random_input_keeps_endpoint_consistent(steps in prop::collection::vec(step(), 1..80)) {
        let limits = EndpointLimits { max_requests: 4, ..EndpointLimits::default() };
        let mut vfs = enabled(limits, 4);
        let _ = vfs.bench.credits();
        let (mut owed, mut returned) = ([(0, 0); 3], [(0, 0); 3]);
        let add = |sum: &mut [(u32, u32); 3], more: [(u32, u32); 3]| {
            sum.iter_mut().zip(more).for_each(|(s, m)| *s = (s.0 + m.0, s.1 + m.1));
        };
        for step in steps {
            add(&mut owed, take(&mut vfs, step));
            for class in Class::ALL {
                prop_assert!(vfs.bench.poll_all(class).len() < 2_000);
            }
            add(&mut returned, vfs.bench.credits());
            let count = (0..4).take_while(|&n| vfs.bench.endpoint.virtual_function_id(0, n).is_some()).count();
            let state = vfs.bench.endpoint.config(0).unwrap().sriov().unwrap();
            prop_assert_eq!(count, usize::from(state.vfs()));
        }
        vfs.bench.endpoint.reset(Time::ZERO, ResetKind::FunctionLevel);
        for class in Class::ALL {
            let _ = vfs.bench.poll_all(class);
        }
        add(&mut returned, vfs.bench.credits());
        prop_assert_eq!(returned, owed);
        prop_assert_eq!(vfs.bench.endpoint.virtual_function_id(0, 0), None);
        let id = vfs.bench.endpoint.function_id(0).unwrap();
        vfs.bench.handle(cfg(Access::Read, id, 0, 0xf, &[]));
        let answer = vfs.bench.poll(Class::Completion).unwrap();
        prop_assert_eq!(answer.data.bytes(), Some(&[0x34, 0x12, 1, 0][..]));
    }
}
