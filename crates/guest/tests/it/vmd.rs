// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The VMD: the requests that its windows produce, their order, and the registers that its Linux driver reads.

use host::{HostError, HostInterrupt, HostOutput, HostReadId};
use proptest::prelude::*;
use riser_guest::accesses::Answer;
use riser_guest::vfio_device::{Outcome, VfioDevice};
use riser_guest::vfio_user::Irq;
use riser_guest::vfio_user::region::CONFIG;
use riser_guest::vmd::{CFGBAR, Layout, LayoutError, OWN_BYTES, Vmd};
use std::collections::BTreeMap;
use tlp::{Bdf, Data, PayloadPool};

const LAYOUT: Layout = Layout { buses: 32, prefetchable_bytes: 1 << 30, memory_bytes: 1 << 25, vectors: 16 };
const MEMBAR1: usize = 2;
const MEMBAR2: usize = 4;
/// Addresses that the guest assigns to MEMBAR1 and MEMBAR2.
const BASES: [(u64, u64); 2] = [(0x18, 0x38_0000_0000), (0x20, 0xd000_0000)];

fn vmd() -> Vmd<u32> {
    let mut vmd = Vmd::new(LAYOUT, PayloadPool::new()).unwrap();
    for (register, base) in BASES {
        vmd.write(0, CONFIG, register, &(base as u32).to_le_bytes());
    }
    vmd.write(0, CONFIG, 0x1c, &((BASES[0].1 >> 32) as u32).to_le_bytes());
    vmd
}

/// Returns the outcome of an ended access with these bytes. `is_whole`: whether each of its requests succeeded.
fn ended(token: u32, bytes: &[u8], is_whole: bool) -> Option<Outcome<u32>> {
    Some(Outcome::Answer(Answer { token, bytes: bytes.into(), is_whole }))
}

fn own(vmd: &mut Vmd<u32>, offset: u64, len: u32) -> Vec<u8> {
    let answer = vmd.read(7, CONFIG, offset, len);
    let Some(Outcome::Answer(Answer { token: 7, bytes, .. })) = answer else { panic!("answered at once") };
    bytes.to_vec()
}

fn u32_of(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().unwrap())
}

fn bytes(bytes: &[u8]) -> Result<Data, HostError> {
    Ok(Data::Carried(PayloadPool::new().copy(bytes)))
}

#[test]
fn registers_match_the_vmd_driver() {
    let mut vmd = vmd();
    assert_eq!(u32_of(&own(&mut vmd, 0, 4)), 0xa77f_8086);
    assert_eq!(own(&mut vmd, 0x40, 8), [0; 8], "VMCAP and VMCONFIG: nothing is restricted");
    assert_eq!(own(&mut vmd, 0x34, 1), [0x50]);
    assert_eq!(own(&mut vmd, 0x50, 4), [0x11, 0, 15, 0], "MSI-X, 16 vectors");
    // Sizing: CFGBAR has 1 MiB per bus.
    vmd.write(0, CONFIG, 0x10, &[0xff; 8]);
    let (low, high) = (u32_of(&own(&mut vmd, 0x10, 4)), u32_of(&own(&mut vmd, 0x14, 4)));
    assert_eq!((low & 0xf, u64::from(high) << 32 | u64::from(low & !0xf)), (0xc, !0 << 25));
    vmd.reset();
    assert_eq!(own(&mut vmd, 0x20, 4), [0; 4]);
}

#[test]
fn start_of_membar2_is_memory_of_the_vmd() {
    let mut vmd = vmd();
    assert_eq!(vmd.write(1, MEMBAR2, OWN_BYTES - 4, &[1, 2, 3, 4]), ended(1, &[], true));
    assert_eq!(vmd.read(2, MEMBAR2, OWN_BYTES - 4, 4), ended(2, &[1, 2, 3, 4], true));
    assert!(vmd.poll_request().is_none());
    vmd.read(3, MEMBAR2, OWN_BYTES, 4);
    let Some(HostOutput::MmioRead { id, address, len: 4, locked: false }) = vmd.poll_request() else {
        panic!("a memory read")
    };
    assert_eq!(address, BASES[1].1 + OWN_BYTES);
    assert_eq!(vmd.handle(id, &Err(HostError::NoDevice)), ended(3, &[0xff; 4], false));
}

#[test]
fn requests_wait_for_a_configuration_write() {
    let mut vmd = vmd();
    assert_eq!(vmd.write(1, CFGBAR, 0x10_8000 + 0x3e, &[0x40, 0]), None);
    assert_eq!(vmd.read(2, MEMBAR1, 0x100, 8), None);
    let Some(HostOutput::ConfigWrite { id, function, register_dw: 15, byte_enables: 0xc, value: 0x40_0000 }) =
        vmd.poll_request()
    else {
        panic!("a configuration write")
    };
    assert_eq!(function, Bdf::new(1, 1, 0).unwrap());
    assert!(vmd.poll_request().is_none());
    assert!(!vmd.has_room());
    assert_eq!(vmd.handle(id, &Ok(Data::NONE)), ended(1, &[], true));
    assert!(matches!(vmd.poll_request(), Some(HostOutput::MmioRead { len: 8, .. })));
}

#[test]
fn client_that_left_gets_no_answer() {
    let mut vmd = vmd();
    vmd.read(1, CFGBAR, 0, 8);
    vmd.read(2, CFGBAR, 0x1000, 4);
    let Some(HostOutput::ConfigRead { id, .. }) = vmd.poll_request() else { panic!("a read") };
    vmd.leave();
    assert!(vmd.poll_request().is_none() && vmd.has_room());
    assert_eq!(vmd.handle(id, &bytes(&[1; 4])), None);
    assert_eq!(vmd.handle(HostReadId(99), &bytes(&[1; 4])), None);
    vmd.read(3, CFGBAR, 0, 4);
    let Some(HostOutput::ConfigRead { id, .. }) = vmd.poll_request() else { panic!("a read") };
    assert_eq!(vmd.handle(id, &bytes(&[5; 4])), ended(3, &[5; 4], true));
}

#[test]
fn interrupt_address_selects_the_vector() {
    let mut vmd = vmd();
    let message = |address| HostInterrupt::Message { requester: Bdf::default(), address, data: 0 };
    for (address, vector) in [
        (0xfee0_0000, Some(0)),
        (0xfee0_f000, Some(15)),
        (0xfee1_0000, None),
        (0xfedf_f000, None),
        (!0, None),
    ] {
        let expected = vector.map(|vector| (Irq::Msix, vector));
        assert_eq!(vmd.interrupt(&message(address)), expected, "{address:#x}");
    }
}

#[test]
fn rejects_invalid_layouts() {
    let refused = |layout| Vmd::<u32>::new(layout, PayloadPool::new()).err().unwrap();
    for buses in [0, 16, 33, 512] {
        assert_eq!(refused(Layout { buses, ..LAYOUT }), LayoutError::Buses(buses));
    }
    assert_eq!(refused(Layout { prefetchable_bytes: 3 << 20, ..LAYOUT }), LayoutError::Prefetchable(3 << 20));
    assert_eq!(refused(Layout { memory_bytes: 2 << 30, ..LAYOUT }), LayoutError::Memory(2 << 30));
    assert_eq!(refused(Layout { vectors: 1, ..LAYOUT }), LayoutError::Vectors(1));
}

/// The hierarchy as two byte arrays. Bytes that were never written have a value that depends on their address.
#[derive(Default)]
struct Plain {
    config: BTreeMap<u64, u8>,
    memory: BTreeMap<u64, u8>,
}

const fn blank(at: u64) -> u8 {
    (at ^ at >> 8 ^ at >> 16) as u8
}

impl Plain {
    fn serve(&mut self, request: HostOutput) -> Option<(HostReadId, Vec<u8>)> {
        let ecam = |function: Bdf, dw: u16| (u64::from(function.bits()) << 12) | (u64::from(dw) * 4);
        match request {
            HostOutput::ConfigRead { id, function, register_dw, byte_enables } => {
                let mut bytes = get(&self.config, ecam(function, register_dw), 4);
                // Bytes that are not enabled are undefined.
                let others = (0..).zip(&mut bytes).filter(|(lane, _)| byte_enables >> lane & 1 == 0);
                others.for_each(|(_, byte)| *byte = !*byte);
                Some((id, bytes))
            }
            HostOutput::ConfigWrite { id, function, register_dw, byte_enables, value } => {
                for lane in (0..4).filter(|lane| byte_enables >> lane & 1 != 0) {
                    let at = ecam(function, register_dw) + lane;
                    self.config.insert(at, value.to_le_bytes()[lane as usize]);
                }
                Some((id, Vec::new()))
            }
            HostOutput::MmioRead { id, address, len, .. } => {
                assert!(address % 4096 + u64::from(len) <= 4096);
                Some((id, get(&self.memory, address, len.into())))
            }
            HostOutput::MmioWrite { address, data } => {
                let bytes = data.bytes().unwrap();
                assert!(address % 4096 + bytes.len() as u64 <= 4096);
                self.memory.extend((address..).zip(bytes.iter().copied()));
                None
            }
            other => panic!("{other:?}"),
        }
    }
}

fn get(map: &BTreeMap<u64, u8>, at: u64, len: u64) -> Vec<u8> {
    (at..at + len).map(|at| map.get(&at).copied().unwrap_or(blank(at))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Reads and writes of any length at any offset behave like those of a byte array, and each answer goes to its
    /// access.
    #[test]
    fn windows_behave_like_memory(
        accesses in prop::collection::vec(
            (prop_oneof![Just(CFGBAR), Just(MEMBAR1), Just(MEMBAR2)], 0u64..0x8000, 1usize..6000, any::<Option<u8>>()),
            1..20,
        )
    ) {
        let (mut vmd, mut plain, mut expected) = (vmd(), Plain::default(), Plain::default());
        for (token, (region, offset, len, fill)) in (0..).zip(accesses) {
            let offset = if region == MEMBAR2 { offset + OWN_BYTES } else { offset };
            let (map, at) = match region {
                CFGBAR => (&mut expected.config, offset),
                MEMBAR1 => (&mut expected.memory, BASES[0].1 + offset),
                _ => (&mut expected.memory, BASES[1].1 + offset),
            };
            let (answer, mut ends) = match fill {
                Some(fill) => {
                    let data: Vec<u8> = (0..len).map(|n| fill.wrapping_add(n as u8)).collect();
                    map.extend((at..).zip(data.iter().copied()));
                    (Vec::new(), Vec::from_iter(vmd.write(token, region, offset, &data)))
                }
                None => {
                    let ends = Vec::from_iter(vmd.read(token, region, offset, len as u32));
                    (get(map, at, len as u64), ends)
                }
            };
            while let Some(request) = vmd.poll_request() {
                if let Some((id, answer)) = plain.serve(request) {
                    ends.extend(vmd.handle(id, &bytes(&answer)));
                }
            }
            prop_assert_eq!(ends, Vec::from_iter(ended(token, &answer, true)));
            prop_assert!(vmd.has_room());
        }
    }
}
