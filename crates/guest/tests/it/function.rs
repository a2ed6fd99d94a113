// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A function passed through to a machine: which registers belong to the machine, which to the function, and which
//! interrupts belong to the function.

use host::{HostInterrupt, HostOutput, HostReadId, Wire};
use riser_guest::accesses::Answer;
use riser_guest::function::{BarFacts, Facts, Function};
use riser_guest::vfio_device::{Outcome, VfioDevice};
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

fn function() -> Function<u32> {
    Function::new(facts(1), PayloadPool::new())
}

fn data(bytes: &[u8]) -> Data {
    Data::Carried(PayloadPool::new().copy(bytes))
}

fn answered(outcome: Option<Outcome<u32>>) -> Vec<u8> {
    let Some(Outcome::Answer(Answer { bytes, .. })) = outcome else { panic!("an answer") };
    bytes.to_vec()
}

/// Reads configuration space. `has` is the value in the function.
fn read(function: &mut Function<u32>, offset: u64, has: &[u8; 4], len: u32) -> Vec<u8> {
    assert_eq!(function.read(1, CONFIG, offset, len), None);
    let Some(HostOutput::ConfigRead { id, function: at, register_dw, byte_enables }) =
        function.poll_request()
    else {
        panic!("a configuration read")
    };
    let (lane, register) = (offset % 4, offset / 4);
    assert_eq!((at, u64::from(register_dw)), (bdf(1), register));
    assert_eq!(u32::from(byte_enables), ((1 << len) - 1) << lane);
    answered(function.handle(id, &Ok(data(has))))
}

/// Writes configuration space; returns the write that reaches the function.
fn write(function: &mut Function<u32>, offset: u64, bytes: &[u8]) -> Option<(u16, u8, u32)> {
    let mut outcome = function.write(1, CONFIG, offset, bytes);
    let request = function.poll_request();
    let got = request.map(|request| match request {
        HostOutput::ConfigWrite { id, register_dw, byte_enables, value, .. } => {
            assert_eq!(outcome, None, "ends before the function is written");
            outcome = function.handle(id, &Ok(Data::NONE));
            (register_dw, byte_enables, value)
        }
        other => panic!("{other:?}"),
    });
    assert!(answered(outcome).is_empty());
    got
}

#[test]
fn bar_writes_stay_in_the_machine() {
    let mut function = function();
    // Neither sizing nor an address reaches the function.
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
        assert_eq!(write(&mut function, offset, &value.to_le_bytes()), None);
        let seen = read(&mut function, offset, &[0x77; 4], 4);
        assert_eq!(seen, u32::to_le_bytes(reads), "{offset:#x}");
    }
    assert_eq!(read(&mut function, 0x12, &[0; 4], 2), [0x80, 0xfe]);
    // If the function does not answer, its BAR also reads as ones.
    function.read(1, CONFIG, 0x10, 4);
    let Some(HostOutput::ConfigRead { id, .. }) = function.poll_request() else { panic!("a read") };
    assert_eq!(answered(function.handle(id, &Err(host::HostError::NoDevice))), [0xff; 4]);
    // Accesses go to the address of the BAR in the lab.
    function.read(1, 0, 0x10, 4);
    assert!(matches!(
        function.poll_request(),
        Some(HostOutput::MmioRead { address: 0x8000_0010, len: 4, .. })
    ));
    function.write(2, 2, 4, &[1, 2]);
    assert!(matches!(function.poll_request(), Some(HostOutput::MmioWrite { address: 0x9000_0004, .. })));
    function.read(3, 3, 6, 4);
    assert!(matches!(function.poll_request(), Some(HostOutput::IoRead { address: 0x1006, len: 2, .. })));
    assert!(matches!(function.poll_request(), Some(HostOutput::IoRead { address: 0x1008, len: 2, .. })));
}

#[test]
fn device_control_writes_keep_mps_and_resets() {
    let mut function = function();
    // Max_Payload_Size: 256 B in the lab, 128 B for the machine.
    let control = u64::from(PCIE) * 4 + 8;
    assert_eq!(read(&mut function, control, &[0x3f, 0x29, 0, 0], 4), [0x3f, 0x29, 0, 0]);
    assert_eq!(write(&mut function, control, &[0x1f, 0x29]), Some((PCIE + 2, 3, 0x293f)));
    assert_eq!(read(&mut function, control, &[0x3f, 0x29, 0, 0], 2), [0x1f, 0x29]);
    // Initiate Function Level Reset does not reach the function: the caller resets it and restores its place.
    assert_eq!(function.write(9, CONFIG, control, &[0x1f, 0xa9]), Some(Outcome::Reset { token: 9 }));
    assert!(function.poll_request().is_none());
    function.reset();
    assert_eq!(read(&mut function, control, &[0x30, 0x29, 0, 0], 2), [0x30, 0x29]);
    assert_eq!(write(&mut function, 4, &[6, 4]), Some((1, 3, 0x0406)));
    // One write to bytes of both the machine and the function.
    function.write(1, CONFIG, 0x2e, &[1, 2, 3, 4]);
    let Some(HostOutput::ConfigWrite { register_dw: 11, byte_enables: 0xc, value: 0x0201_0000, .. }) =
        function.poll_request()
    else {
        panic!("the half that is not")
    };
}

#[test]
fn messages_select_the_granted_vectors() {
    let mut function = function();
    let message = |bus, data| HostInterrupt::Message { requester: bdf(bus), address: 0xfee0_1000, data };
    assert_eq!(function.interrupt(&message(1, 0x43)), Some((Irq::Msi, 0)), "one vector is granted");
    // MSI is enabled with four vectors.
    write(&mut function, u64::from(MSI) * 4 + 2, &[0x21, 0]);
    assert_eq!(function.interrupt(&message(1, 0x43)), Some((Irq::Msi, 3)));
    assert_eq!(function.interrupt(&message(2, 0x43)), None, "another function's");
}

/// Returns a write of an MSI-X entry: its offset in the table, its data and whether it is masked.
fn entry(function: &mut Function<u32>) -> Option<(u64, u32, bool)> {
    match function.poll_request()? {
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
fn msix_table_follows_assigned_and_masked_vectors() {
    let mut function = function();
    let change = |function: &mut Function<u32>, first, count, change| {
        function.irqs(IrqEvent { irq: Irq::Msix, first, count, change });
    };
    change(&mut function, 0, 2, IrqChange::Unassigned);
    assert_eq!(entry(&mut function), None, "an unused entry is masked already");
    change(&mut function, 1, 1, IrqChange::Assigned);
    assert_eq!(entry(&mut function), Some((1, 1, false)));
    change(&mut function, 1, 1, IrqChange::Assigned);
    change(&mut function, 1, 1, IrqChange::Masked);
    assert_eq!(entry(&mut function), Some((1, 1, true)));
    change(&mut function, 1, 1, IrqChange::Unmasked);
    assert_eq!(entry(&mut function), Some((1, 1, false)));
    // When MSI-X is enabled, the entries are written again, because a reset may have happened.
    assert!(write(&mut function, u64::from(MSIX) * 4 + 2, &[0, 0x80]).is_some());
    assert_eq!((entry(&mut function), entry(&mut function)), (Some((1, 1, false)), None));
    let message = HostInterrupt::Message { requester: bdf(1), address: 0xfee0_0000, data: 1 };
    assert_eq!(function.interrupt(&message), Some((Irq::Msix, 1)));
}

/// Two functions share a wire: Interrupt Status shows which one asserts it.
#[test]
fn interrupt_status_selects_the_function_on_a_shared_wire() {
    let mut both = [1, 2].map(|bus| Function::<u32>::new(facts(bus), PayloadPool::new()));
    let wire =
        |asserted| HostInterrupt::Wire { root_port: bdf(0), requester: bdf(0), wire: Wire::B, asserted };
    let other = HostInterrupt::Wire { root_port: bdf(0), requester: bdf(0), wire: Wire::A, asserted: true };
    let asked = |function: &mut Function<u32>| -> Option<(HostReadId, Bdf)> {
        function.poll_request().map(|request| match request {
            HostOutput::ConfigRead { id, function, register_dw: 1, byte_enables: 0xf } => (id, function),
            other => panic!("{other:?}"),
        })
    };
    for ((function, bus), (status, outcome)) in
        both.iter_mut().zip([1, 2]).zip([(0x10, None), (0x18, Some(Outcome::Intx))])
    {
        assert_eq!(function.interrupt(&other), None);
        assert_eq!(asked(function), None);
        assert_eq!(function.interrupt(&wire(true)), None);
        let (id, at) = asked(function).unwrap();
        assert_eq!(at, bdf(bus));
        assert_eq!(function.handle(id, &Ok(data(&[6, 0, status, 0]))), outcome);
        assert_eq!(asked(function), None);
    }
    // If unmasked while the wire is asserted, the status is read again. A function whose INTx is disabled does not
    // assert the wire.
    let unmasked = IrqEvent { irq: Irq::Intx, first: 0, count: 1, change: IrqChange::Unmasked };
    let [_, function] = &mut both;
    function.irqs(unmasked);
    let (id, _) = asked(function).unwrap();
    assert_eq!(function.handle(id, &Ok(data(&[6, 4, 0x18, 0]))), None);
    function.interrupt(&wire(false));
    function.irqs(unmasked);
    assert_eq!(asked(function), None);
}

/// A virtual function has no IDs and no Memory Space Enable, but the machine sees both.
#[test]
fn virtual_function_shows_ids_and_memory_space_enable() {
    let mut function = Function::new(Facts { virtual_id: Some(0x0008_7269), ..facts(1) }, PayloadPool::new());
    assert_eq!(read(&mut function, 0, &[0xff; 4], 4), [0x69, 0x72, 8, 0]);
    assert_eq!(read(&mut function, 2, &[0xff; 4], 2), [8, 0]);
    assert_eq!(write(&mut function, 4, &[6, 4]), Some((1, 0b0011, 0x0406)));
    assert_eq!(
        read(&mut function, 4, &[4, 0, 0x10, 0], 4),
        [6, 0, 0x10, 0],
        "bits of the function and of the machine"
    );
    assert_eq!(write(&mut function, 4, &[4]), Some((1, 0b0001, 4)));
    assert_eq!(read(&mut function, 4, &[4, 0, 0x10, 0], 1), [4]);
    assert_eq!(write(&mut function, 4, &[6]), Some((1, 0b0001, 6)));
    function.reset();
    assert_eq!(read(&mut function, 4, &[0; 4], 1), [0], "reset value");
}

/// No request goes to a lost function, and its messages raise no interrupt.
#[test]
fn lost_function_reads_as_ones() {
    let mut function = function();
    function.lost();
    let message = HostInterrupt::Message { requester: bdf(1), address: 0xfee0_0000, data: 0 };
    assert_eq!((function.is_there(), function.interrupt(&message)), (false, None));
    for (region, offset) in [(CONFIG, 0), (CONFIG, 0x10), (0, 0x40), (3, 4)] {
        assert_eq!(answered(function.read(1, region, offset, 4)), [0xff; 4]);
        assert!(answered(function.write(1, region, offset, &[0; 4])).is_empty());
    }
    let event = IrqEvent { irq: Irq::Msix, first: 0, count: 2, change: IrqChange::Assigned };
    function.irqs(event);
    assert!(function.poll_request().is_none());
    function.moved(Facts { msix: Some((MSIX, 2, TABLE + 0x1_0000)), ..facts(3) });
    function.read(1, CONFIG, 0, 4);
    let Some(HostOutput::ConfigRead { id, function: at, .. }) = function.poll_request() else {
        panic!("a read")
    };
    assert_eq!(at, bdf(3));
    assert_eq!(answered(function.handle(id, &Ok(data(&[1, 2, 3, 4])))), [1, 2, 3, 4]);
    // After it is found again, its entries are written at the new address when MSI-X is enabled.
    function.write(1, CONFIG, u64::from(MSIX) * 4 + 2, &[0, 0x80]);
    let mut tables = Vec::new();
    while let Some(request) = function.poll_request() {
        match request {
            HostOutput::ConfigWrite { id, .. } => {
                assert!(answered(function.handle(id, &Ok(Data::NONE))).is_empty());
            }
            HostOutput::MmioWrite { address, .. } => tables.push(address - TABLE),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(tables, [0x1_0000, 0x1_0010]);
}
