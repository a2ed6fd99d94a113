// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Functions that a machine has one by one: what of them is its own and what the function's, and whose interrupt is whose.

use host::{HostInterrupt, HostOutput, HostReadId, Wire};
use riser_guest::direct::{BarFacts, Direct, Facts, Outcome};
use riser_guest::vfio_user::{Irq, IrqChange, IrqEvent, region};
use tlp::{Bdf, Data, PayloadPool};

const CONFIG: usize = region::CONFIG;
const PCIE: u16 = 0x40 / 4;
const MSI: u16 = 0x70 / 4;
const MSIX: u16 = 0x80 / 4;
const TABLE: u64 = 0x8000_1000;

fn bdf(bus: u8) -> Bdf {
    Bdf::new(bus, 0, 0).unwrap()
}

/// A 64-bit BAR 0 of 8 KiB, a 32-bit BAR 2 of 128 bytes, an I/O BAR 3 of 16.
fn facts(bus: u8) -> Facts {
    let bar = |address, size, kind| Some(BarFacts { address, size, kind });
    Facts {
        function: bdf(bus),
        virtual_id: None,
        bars: [bar(0x8000_0000, 0x2000, 4), None, bar(0x9000_0000, 0x80, 0), bar(0x1000, 16, 1), None, None],
        wire: Some((bdf(0), Wire::B)),
        pcie: Some((PCIE, 0x20)),
        msi: Some((MSI, 4)),
        msix: Some((MSIX, 2, TABLE)),
        restore: Vec::new(),
    }
}

fn direct() -> Direct<u32> {
    Direct::new(vec![facts(1), facts(2)], PayloadPool::new())
}

fn data(bytes: &[u8]) -> Data {
    Data::Carried(PayloadPool::new().copy(bytes))
}

fn answered(direct: &mut Direct<u32>) -> Vec<u8> {
    let Some(Outcome::Answer { bytes, .. }) = direct.poll() else { panic!("an answer") };
    bytes.to_vec()
}

/// Reads configuration space of function 0, of which the function itself says `has`.
fn read(direct: &mut Direct<u32>, offset: u64, has: &[u8; 4], len: u32) -> Vec<u8> {
    direct.read(0, 1, CONFIG, offset, len);
    let Some(HostOutput::ConfigRead { id, function, register_dw, byte_enables }) = direct.poll_request()
    else {
        panic!("a configuration read")
    };
    let (lane, register) = (offset % 4, offset / 4);
    assert_eq!((function, u64::from(register_dw)), (bdf(1), register));
    assert_eq!(u32::from(byte_enables), ((1 << len) - 1) << lane);
    direct.handle(id, &Ok(data(has)));
    answered(direct)
}

/// Writes configuration space of function 0: what the function gets of it.
fn write(direct: &mut Direct<u32>, offset: u64, bytes: &[u8]) -> Option<(u16, u8, u32)> {
    assert_eq!(direct.write(0, 1, CONFIG, offset, bytes), None, "no reset");
    let request = direct.poll_request();
    let got = request.map(|request| match request {
        HostOutput::ConfigWrite { id, register_dw, byte_enables, value, .. } => {
            direct.handle(id, &Ok(Data::NONE));
            (register_dw, byte_enables, value)
        }
        other => panic!("{other:?}"),
    });
    assert!(answered(direct).is_empty());
    got
}

#[test]
fn bars_are_the_machines_own() {
    let mut direct = direct();
    // Sizing, and an address: nothing of it reaches the function.
    for (offset, value, reads) in [
        (0x10, u32::MAX, 0xffff_e004),
        (0x14, u32::MAX, 0xffff_ffff),
        (0x18, u32::MAX, 0xffff_ff80),
        (0x1c, u32::MAX, 0xffff_fff1),
        (0x20, u32::MAX, 0),
        (0x30, u32::MAX, 0),
        (0x10, 0xfe80_0000, 0xfe80_0004),
        (0x14, 0x12, 0x12),
    ] {
        assert_eq!(write(&mut direct, offset, &value.to_le_bytes()), None);
        let seen = read(&mut direct, offset, &[0x77; 4], 4);
        assert_eq!(seen, u32::to_le_bytes(reads), "{offset:#x}");
    }
    assert_eq!(read(&mut direct, 0x12, &[0; 4], 2), [0x80, 0xfe]);
    // Where nobody answers, there is no BAR either.
    direct.read(0, 1, CONFIG, 0x10, 4);
    let Some(HostOutput::ConfigRead { id, .. }) = direct.poll_request() else { panic!("a read") };
    direct.handle(id, &Err(host::HostError::NoDevice));
    assert_eq!(answered(&mut direct), [0xff; 4]);
    // Accesses go where the BAR really is.
    direct.read(0, 1, 0, 0x10, 4);
    assert!(matches!(direct.poll_request(), Some(HostOutput::MmioRead { address: 0x8000_0010, len: 4, .. })));
    direct.write(0, 2, 2, 4, &[1, 2]);
    assert!(matches!(direct.poll_request(), Some(HostOutput::MmioWrite { address: 0x9000_0004, .. })));
    direct.read(1, 3, 3, 6, 4);
    assert!(matches!(direct.poll_request(), Some(HostOutput::IoRead { address: 0x1006, len: 2, .. })));
    assert!(matches!(direct.poll_request(), Some(HostOutput::IoRead { address: 0x1008, len: 2, .. })));
}

#[test]
fn what_the_path_needs_stays_and_the_rest_is_the_functions() {
    let mut direct = direct();
    // Max_Payload_Size: 256 B there, 128 B for the machine.
    let control = u64::from(PCIE) * 4 + 8;
    assert_eq!(read(&mut direct, control, &[0x3f, 0x29, 0, 0], 4), [0x3f, 0x29, 0, 0]);
    assert_eq!(write(&mut direct, control, &[0x1f, 0x29]), Some((PCIE + 2, 3, 0x293f)));
    assert_eq!(read(&mut direct, control, &[0x3f, 0x29, 0, 0], 2), [0x1f, 0x29]);
    // Initiate Function Level Reset is whoever's who puts the function back into its place.
    assert_eq!(direct.write(0, 9, CONFIG, control, &[0x1f, 0xa9]), Some(9));
    assert!(direct.poll_request().is_none() && direct.poll().is_none());
    direct.was_reset(0);
    assert_eq!(read(&mut direct, control, &[0x30, 0x29, 0, 0], 2), [0x30, 0x29]);
    assert_eq!(write(&mut direct, 4, &[6, 4]), Some((1, 3, 0x0406)));
    // A write over what is the machine's and what is not.
    direct.write(0, 1, CONFIG, 0x2e, &[1, 2, 3, 4]);
    let Some(HostOutput::ConfigWrite { register_dw: 11, byte_enables: 0xc, value: 0x0201_0000, .. }) =
        direct.poll_request()
    else {
        panic!("the half that is not")
    };
}

#[test]
fn messages_are_the_vectors_that_their_function_was_given() {
    let mut direct = direct();
    let message = |bus, data| HostInterrupt::Message { requester: bdf(bus), address: 0xfee0_1000, data };
    assert_eq!(direct.interrupt(&message(1, 0x43)), Some((0, Irq::Msi, 0)), "one vector is granted");
    // Enabled, four vectors.
    write(&mut direct, u64::from(MSI) * 4 + 2, &[0x21, 0]);
    assert_eq!(direct.interrupt(&message(1, 0x43)), Some((0, Irq::Msi, 3)));
    assert_eq!(direct.interrupt(&message(2, 0x43)), Some((1, Irq::Msi, 0)));
    assert_eq!(direct.interrupt(&message(3, 0x43)), None);
}

/// A write of an MSI-X entry: its place in the table, its data and whether it is masked.
fn entry(direct: &mut Direct<u32>) -> Option<(u64, u32, bool)> {
    match direct.poll_request()? {
        HostOutput::MmioWrite { address, data } => {
            let words: Vec<u32> =
                data.bytes().unwrap().chunks(4).map(|w| u32::from_le_bytes(w.try_into().unwrap())).collect();
            assert_eq!((words.len(), words[0], words[1]), (4, 0xfee0_0000, 0));
            Some(((address - TABLE) / 16, words[2], words[3] & 1 != 0))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_msix_table_follows_what_the_client_assigns_and_masks() {
    let mut direct = direct();
    let change = |direct: &mut Direct<u32>, first, count, change| {
        direct.irqs(0, IrqEvent { irq: Irq::Msix, first, count, change });
    };
    change(&mut direct, 0, 2, IrqChange::Unassigned);
    assert_eq!(entry(&mut direct), None, "it is masked as it is");
    change(&mut direct, 1, 1, IrqChange::Assigned);
    assert_eq!(entry(&mut direct), Some((1, 1, false)));
    change(&mut direct, 1, 1, IrqChange::Assigned);
    change(&mut direct, 1, 1, IrqChange::Masked);
    assert_eq!(entry(&mut direct), Some((1, 1, true)));
    change(&mut direct, 1, 1, IrqChange::Unmasked);
    assert_eq!(entry(&mut direct), Some((1, 1, false)));
    // Enabled: what was set up is written again, since a reset may have come between.
    while direct.poll().is_some() {}
    assert!(write(&mut direct, u64::from(MSIX) * 4 + 2, &[0, 0x80]).is_some());
    assert_eq!((entry(&mut direct), entry(&mut direct)), (Some((1, 1, false)), None));
    let message = HostInterrupt::Message { requester: bdf(1), address: 0xfee0_0000, data: 1 };
    assert_eq!(direct.interrupt(&message), Some((0, Irq::Msix, 1)));
}

/// Two functions share a wire: who asserts it, its Interrupt Status says.
#[test]
fn a_wire_is_whose_interrupt_status_says_so() {
    let mut direct = direct();
    let wire =
        |asserted| HostInterrupt::Wire { root_port: bdf(0), requester: bdf(0), wire: Wire::B, asserted };
    let other = HostInterrupt::Wire { root_port: bdf(0), requester: bdf(0), wire: Wire::A, asserted: true };
    let asked = |direct: &mut Direct<u32>| -> Vec<(HostReadId, Bdf)> {
        std::iter::from_fn(|| direct.poll_request())
            .map(|request| match request {
                HostOutput::ConfigRead { id, function, register_dw: 1, byte_enables: 0xf } => (id, function),
                other => panic!("{other:?}"),
            })
            .collect()
    };
    assert_eq!(direct.interrupt(&other), None);
    assert_eq!(asked(&mut direct), []);
    assert_eq!(direct.interrupt(&wire(true)), None);
    let both = asked(&mut direct);
    assert_eq!(both.iter().map(|(_, function)| *function).collect::<Vec<_>>(), [bdf(1), bdf(2)]);
    direct.handle(both[0].0, &Ok(data(&[6, 0, 0x10, 0])));
    direct.handle(both[1].0, &Ok(data(&[6, 0, 0x18, 0])));
    assert_eq!(direct.poll(), Some(Outcome::Signal { function: 1, irq: Irq::Intx, n: 0 }));
    assert_eq!(direct.poll(), None);
    // Unmasked while the wire is asserted: asked again; disabled, it is nobody's.
    let unmasked = IrqEvent { irq: Irq::Intx, first: 0, count: 1, change: IrqChange::Unmasked };
    direct.irqs(1, unmasked);
    let [(id, _)] = asked(&mut direct)[..] else { panic!("one asked") };
    direct.handle(id, &Ok(data(&[6, 4, 0x18, 0])));
    assert_eq!(direct.poll(), None);
    direct.interrupt(&wire(false));
    direct.irqs(1, unmasked);
    assert_eq!(asked(&mut direct), []);
}

/// A virtual function has neither IDs nor Memory Space Enable: the machine finds what its driver looks for.
#[test]
fn a_virtual_function_has_what_it_lacks() {
    let mut direct =
        Direct::new(vec![Facts { virtual_id: Some(0x0008_7269), ..facts(1) }], PayloadPool::new());
    assert_eq!(read(&mut direct, 0, &[0xff; 4], 4), [0x69, 0x72, 8, 0]);
    assert_eq!(read(&mut direct, 2, &[0xff; 4], 2), [8, 0]);
    assert_eq!(write(&mut direct, 4, &[6, 4]), Some((1, 0b0011, 0x0406)));
    assert_eq!(read(&mut direct, 4, &[4, 0, 0x10, 0], 4), [6, 0, 0x10, 0], "what it has, and what it lacks");
    assert_eq!(write(&mut direct, 4, &[4]), Some((1, 0b0001, 4)));
    assert_eq!(read(&mut direct, 4, &[4, 0, 0x10, 0], 1), [4]);
    assert_eq!(write(&mut direct, 4, &[6]), Some((1, 0b0001, 6)));
    direct.was_reset(0);
    assert_eq!(read(&mut direct, 4, &[0; 4], 1), [0], "as a reset leaves it");
}

/// Nothing travels to where a function was; its interrupts are nobody's.
#[test]
fn a_function_that_is_nowhere_reads_as_ones() {
    let mut direct = direct();
    direct.lost(0);
    let message = HostInterrupt::Message { requester: bdf(1), address: 0xfee0_0000, data: 0 };
    assert_eq!((direct.is_there(0), direct.interrupt(&message)), (false, None));
    for (region, offset) in [(CONFIG, 0), (CONFIG, 0x10), (0, 0x40), (3, 4)] {
        direct.read(0, 1, region, offset, 4);
        assert_eq!(answered(&mut direct), [0xff; 4]);
        assert_eq!(direct.write(0, 1, region, offset, &[0; 4]), None);
        assert!(answered(&mut direct).is_empty());
    }
    let event = IrqEvent { irq: Irq::Msix, first: 0, count: 2, change: IrqChange::Assigned };
    direct.irqs(0, event);
    assert!(direct.poll_request().is_none());
    direct.moved(0, Facts { msix: Some((MSIX, 2, TABLE + 0x1_0000)), ..facts(3) });
    direct.read(0, 1, CONFIG, 0, 4);
    let Some(HostOutput::ConfigRead { id, function, .. }) = direct.poll_request() else { panic!("a read") };
    assert_eq!(function, bdf(3));
    direct.handle(id, &Ok(data(&[1, 2, 3, 4])));
    assert_eq!(answered(&mut direct), [1, 2, 3, 4]);
    // Its entries are where it is now, when they are turned on.
    direct.write(0, 1, CONFIG, u64::from(MSIX) * 4 + 2, &[0, 0x80]);
    let mut tables = Vec::new();
    while let Some(request) = direct.poll_request() {
        match request {
            HostOutput::ConfigWrite { id, .. } => direct.handle(id, &Ok(Data::NONE)),
            HostOutput::MmioWrite { address, .. } => tables.push(address - TABLE),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(tables, [0x1_0000, 0x1_0010]);
}
