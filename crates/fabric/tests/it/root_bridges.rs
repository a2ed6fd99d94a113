// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Effects of the registers of bridges at root ports, observed by the host program and the device below. For switch
//! ports see `switch_registers.rs`; `register_witnesses.rs` lists the test of each register. Never looks inside.

use crate::root_rig::*;
use config::ext::{aer, dpc};
use host::{Cpu, HostError};
use riser_fabric::{
    Alteration, Direction, Fabric, FaultAction, FaultRule, FrameKind, InternalError, LinkChange, LinkConfig,
    LinkEvent, LinkId,
};
use tlp::*;

const COMMAND: u16 = 1;
const SECONDARY_STATUS: u16 = 7;
const BRIDGE_CONTROL: u16 = 15;
const SERR: u32 = 1 << 17;
const REPORTING: u32 = 0xf;

async fn aer(cpu: &Cpu, n: u8, dw: u16) -> u32 {
    read(cpu, n, extended(n, aer::ID, dw)).await
}

async fn set_aer(cpu: &Cpu, n: u8, dw: u16, value: u32) {
    write(cpu, n, extended(n, aer::ID, dw), 0xf, value).await;
}

/// A request of the host.
#[derive(Clone, Copy, Debug)]
enum Asks {
    Memory(u64),
    Io(u32),
    Bus(u8),
}

async fn ask(cpu: &Cpu, what: Asks) {
    let _ = match what {
        Asks::Memory(address) => cpu.read_u32(address).await,
        Asks::Io(address) => cpu.io_read(address, 4).await,
        Asks::Bus(bus) => cpu.config_read(bdf(bus, 0, 0), 0).await,
    };
}

/// Returns whether `what` reaches the device below root port 0, after the writes of `setting` to its registers.
fn reaches(setting: &[(u16, u8, u32)], what: Asks) -> bool {
    let rig = Rig::new();
    (0..2).for_each(|n| rig.ends[usize::from(n)].serve(below(n)));
    let setting = setting.to_vec();
    rig.run(move |cpu| async move {
        for (dw, enables, value) in setting {
            write(&cpu, 0, dw, enables, value).await;
        }
        ask(&cpu, what).await;
        Ok(())
    });
    !rig.ends[0].lines().is_empty()
}

/// `PCIe 5.0 §7.5.1.3`: each register of bus numbers and windows moves one end of the range that the root port claims.
/// Rows: the register, the value written to it; a request at that end, and whether the port claims it before and after
/// the write.
#[test]
fn each_register_sets_one_end_of_a_window() {
    // The prefetchable window: 10_0000_0000 to 10_0fff_ffff.
    const PREFETCHABLE: [(u16, u8, u32); 3] = [(9, 0xf, 0x0ff0_0000), (10, 0xf, 0x10), (11, 0xf, 0x10)];
    use Asks::{Bus, Io, Memory};
    let rows: [(&str, u16, u8, u32, Asks, bool, bool); 14] = [
        ("Secondary Bus Number", 6, 0b0010, 0x1100, Bus(0x10), true, false),
        ("Subordinate Bus Number", 6, 0b0100, 0x001e_0000, Bus(0x1f), true, false),
        ("I/O Base, down", 7, 0b0001, 0x00, Io(0x0ffc), false, true),
        ("I/O Base, up", 7, 0b0001, 0x20, Io(0x1ffc), true, false),
        ("I/O Limit, up", 7, 0b0010, 0x4000, Io(0x4ffc), false, true),
        ("I/O Base Upper", 12, 0b0011, 0x0001, Io(0x1000), true, false),
        ("I/O Limit Upper", 12, 0b1100, 0x0001_0000, Io(0x1_1ffc), false, true),
        ("Memory Base, up", 8, 0b0011, 0x9010, Memory(0x900f_fffc), true, false),
        ("Memory Base, from there", 8, 0b0011, 0x9010, Memory(0x9010_0000), true, true),
        ("Memory Limit, down", 8, 0b1100, 0x9fe0_0000, Memory(0x9ff0_0000), true, false),
        ("Prefetchable Base", 9, 0b0011, 0x0010, Memory(0x10_0000_0000), true, false),
        ("Prefetchable Limit", 9, 0b1100, 0x1000_0000, Memory(0x10_1000_0000), false, true),
        ("Prefetchable Base Upper", 10, 0xf, 0x0f, Memory(0xf_0000_0000), false, true),
        ("Prefetchable Limit Upper", 11, 0xf, 0x11, Memory(0x11_0fff_fffc), false, true),
    ];
    for (what, dw, enables, value, asks, before, after) in rows {
        assert_eq!(reaches(&PREFETCHABLE, asks), before, "{what}: before");
        let written = [&PREFETCHABLE[..], &[(dw, enables, value)]].concat();
        assert_eq!(reaches(&written, asks), after, "{what}: after");
    }
}

/// `PCIe 5.0 §7.5.1.3.13`: ISA Enable (bit 18 of the DW) leaves the upper 768 bytes of each KiB out of the I/O window;
/// VGA Enable (bit 19) claims A0000h to BFFFFh and the ports of VGA, with all their aliases of 10 address bits; with
/// VGA 16-bit Decode (bit 20) it does not claim the aliases.
#[test]
fn isa_and_vga_enable_select_claimed_addresses() {
    let (isa, vga, vga_16) = (1 << 18, 1 << 19, 1 << 19 | 1 << 20);
    let rows = [
        (0, Asks::Io(0x1100), true),
        (isa, Asks::Io(0x1100), false),
        (isa, Asks::Io(0x10fc), true),
        (0, Asks::Memory(0xa_0000), false),
        (vga, Asks::Memory(0xa_0000), true),
        (vga, Asks::Memory(0xc_0000), false),
        (0, Asks::Io(0x3c0), false),
        (vga, Asks::Io(0x3c0), true),
        (vga, Asks::Io(0x7c0), true),
        (vga_16, Asks::Io(0x7c0), false),
    ];
    for (control, asks, claimed) in rows {
        assert_eq!(
            reaches(&[(BRIDGE_CONTROL, 0x4, SERR | control)], asks),
            claimed,
            "{control:#x}, {asks:?}"
        );
    }
}

/// PowerState (`PCIe 5.0 §5.3.1.4.1`): in D3hot a root port claims no memory and no I/O, and configuration requests pass.
#[test]
fn a_port_in_d3hot_claims_no_memory_requests() {
    let pm = space(0).capability(1).unwrap() + 1;
    for (asks, passes) in
        [(Asks::Memory(window(0)), false), (Asks::Io(0x1000), false), (Asks::Bus(0x10), true)]
    {
        assert_eq!(reaches(&[(pm, 0x1, 0b11)], asks), passes, "{asks:?}");
        assert!(reaches(&[(pm, 0x1, 0b11), (pm, 0x1, 0b00)], asks), "{asks:?}: in D0 again");
    }
}

/// A write to an unclaimed address. The port itself reports it as non-fatal.
fn unclaimed() -> Tlp {
    mwr(below(0), 0xf000_0000, 4)
}

/// Runs `program` after `tlp` has come in at root port 0 with these values of Device Control and Command.
fn after(tlp: Tlp, control: u32, command: u32, program: impl AsyncFnOnce(Cpu) + 'static) -> Fabric {
    let rig = Rig::new();
    rig.ends[0].send(50_000, tlp);
    rig.run(move |cpu| async move {
        write(&cpu, 0, pcie(0, 2), 0x1, control).await;
        write(&cpu, 0, COMMAND, 0x3, command).await;
        cpu.sleep_until(Time::ZERO + Duration::from_us(60)).await;
        program(cpu).await;
        Ok(())
    })
}

/// `PCIe 5.0 §6.2.5`, `§7.5.3.4`: errors of the port itself reach its root registers if Device Control or SERR# Enable
/// of Command enables their report. SERR# Enable also sets Signaled System Error, bit 30 of the DW. Their bits of
/// Device Status are set in any case. Writing ones clears them.
#[test]
fn own_errors_depend_on_their_enable_bits() {
    let (cor, non_fatal, fatal, unsupported) = (1 << 0, 1 << 1, 1 << 2, 1 << 3);
    let malformed = || mwr(below(0), 0x1000, 512);
    let refused = || mrd(below(0), 0xf000_0000, 64);
    // Name, TLP that arrives, Device Control, SERR#, Root Error Status, Device Status.
    type Row = (&'static str, fn() -> Tlp, u32, bool, u32, u32);
    let rows: [Row; 9] = [
        ("a write, nothing enabled", unclaimed, 0, false, 0, 0b1010),
        ("a write, without Non-Fatal", unclaimed, cor | fatal | unsupported, false, 0, 0b1010),
        ("a write, without UR", unclaimed, cor | non_fatal | fatal, false, 0, 0b1010),
        ("a write, by both", unclaimed, non_fatal | unsupported, false, 0x24, 0b1010),
        ("a write, by SERR#", unclaimed, 0, true, 0x24, 0b1010),
        ("malformed, without Fatal", malformed, cor | non_fatal | unsupported, false, 0, 0b0100),
        ("malformed, by Fatal", malformed, fatal, false, 0x54, 0b0100),
        ("a read, advisory, without Correctable", refused, non_fatal | fatal | unsupported, false, 0, 0b1001),
        ("a read, by Correctable", refused, cor | unsupported, false, 0x01, 0b1001),
    ];
    for (what, tlp, control, serr, root_status, device_status) in rows {
        let command = 0x7 | u32::from(serr) << 8;
        after(tlp(), control, command, async move |cpu| {
            assert_eq!(aer(&cpu, 0, aer::ROOT_STATUS).await & 0x7f, root_status, "{what}");
            let status = async |cpu: &Cpu| read(cpu, 0, pcie(0, 2)).await >> 16 & 0xf;
            assert_eq!(status(&cpu).await, device_status, "{what}");
            write(&cpu, 0, pcie(0, 2), 0x4, device_status << 16).await;
            assert_eq!(status(&cpu).await, 0, "{what}: cleared");
            let system_error = read(&cpu, 0, COMMAND).await >> 30 & 1;
            assert_eq!(system_error, u32::from(serr), "{what}: Signaled System Error");
            write(&cpu, 0, COMMAND, 0xc, 1 << 30).await;
            assert_eq!(read(&cpu, 0, COMMAND).await >> 30 & 1, 0, "{what}: cleared");
        });
    }
}

/// Secondary Status, bits 27, 30 and 31 of the DW (`PCIe 5.0 §7.5.1.3.7`), and Detected Parity Error of Status, bit 31:
/// a TLP from below sets them, and writing ones clears them.
#[test]
fn events_set_primary_and_secondary_status() {
    let rows = [
        ("poisoned", poisoned(mwr(below(0), 0x1000, 4)), 1 << 31),
        ("ERR_NONFATAL", error(below(0), 0x31), 1 << 30),
        ("a read of a foreign function", mrd(bdf(0x30, 0, 0), window(1), 4), 1 << 27),
    ];
    for (what, tlp, bit) in rows {
        let rig = Rig::new();
        rig.ends[0].send(50_000, tlp);
        rig.run(move |cpu| async move {
            set_acs(&cpu, 0, 1 << 0).await;
            cpu.sleep_until(Time::ZERO + Duration::from_us(60)).await;
            let events = async |cpu: &Cpu| read(cpu, 0, SECONDARY_STATUS).await & 0xf900_0000;
            assert_eq!(events(&cpu).await, bit, "{what}");
            write(&cpu, 0, SECONDARY_STATUS, 0xc, 0xf900_0000).await;
            assert_eq!(events(&cpu).await, 0, "{what}: writing ones clears it");
            Ok(())
        });
    }
    // A poisoned request to a link that is down was received by that port from its primary side.
    let rig = Rig::new();
    rig.ends[0].send(50_000, poisoned(mwr(below(0), window(1), 4)));
    rig.run(|cpu| async move {
        write(&cpu, 1, pcie(1, 4), 0x1, 1 << 4).await;
        cpu.sleep_until(Time::ZERO + Duration::from_us(60)).await;
        assert_eq!(read(&cpu, 1, COMMAND).await >> 31, 1);
        write(&cpu, 1, COMMAND, 0xc, 1 << 31).await;
        assert_eq!(read(&cpu, 1, COMMAND).await >> 31, 0);
        Ok(())
    });
}

/// Interrupt Disable, bit 10 of Command (`PCIe 5.0 §7.5.1.1.3`): the wire of the port is deasserted, but Interrupt
/// Status (bit 19 of the DW) still shows the interrupt.
#[test]
fn interrupt_disable_deasserts_the_wire() {
    let rig = Rig::new();
    rig.ends[0].send(50_000, error(below(0), 0x33));
    let fabric = rig.run(|cpu| async move {
        write(&cpu, 0, space(0).msi_capability().unwrap(), 0x4, 0).await;
        set_aer(&cpu, 0, aer::ROOT_COMMAND, 4).await;
        assert_eq!(cpu.next_message().await.code, 0x20);
        write(&cpu, 0, COMMAND, 0x3, 0x0407).await;
        assert_eq!(cpu.next_message().await.code, 0x24);
        assert_eq!(read(&cpu, 0, COMMAND).await >> 19 & 1, 1, "Interrupt Status");
        Ok(())
    });
    assert_eq!(fabric.root().wires(0), 0);
}

/// Sets up the registers and runs `before`. Then applies `change` to the link of root port 0, at 50 us, and runs
/// `program`.
fn with_change(
    change: LinkChange,
    before: impl AsyncFnOnce(Cpu) + 'static,
    program: impl AsyncFnOnce(Cpu) + 'static,
) -> Fabric {
    let rig = Rig::new();
    let mut fabric = rig.fabric(|cpu| async move {
        set_up(&cpu).await;
        before(cpu.clone()).await;
        cpu.sleep_until(Time::ZERO + Duration::from_us(90)).await;
        program(cpu).await;
        Ok(())
    });
    let at = Time::ZERO + Duration::from_us(50);
    fabric.schedule(LinkEvent { at, link: LinkId(0), change });
    finish(&mut fabric);
    fabric
}

/// `PCIe 5.0 §6.7.3.4`: each event of a slot interrupts if its own enable and Hot-Plug Interrupt Enable (bit 5 of Slot
/// Control) are set; a one clears its bit. The event, its enable, its bit of the DW.
#[test]
fn each_slot_event_depends_on_its_enable_bit() {
    const HOT_PLUG_INTERRUPT: u32 = 1 << 5;
    const ALL: u32 = 0x1029;
    let rows = [
        (LinkChange::PressAttention, "the attention button", 1 << 0, 16),
        (LinkChange::Remove, "a card that goes", 1 << 3, 19),
        (LinkChange::Cut, "the link", 1 << 12, 24),
    ];
    for (change, what, enable, bit) in rows {
        for (control, interrupts) in [
            (enable | HOT_PLUG_INTERRUPT, true),
            (enable, false),
            // If a card is removed, its link goes down too.
            (ALL & !enable & if bit == 19 { !(1 << 12) } else { !0 }, false),
        ] {
            let fabric = with_change(
                change,
                async move |cpu| {
                    write(&cpu, 0, pcie(0, 6), 0xc, 0x1ff << 16).await;
                    write(&cpu, 0, pcie(0, 6), 0x3, control).await;
                },
                async move |cpu| {
                    let event = async |cpu: &Cpu| read(cpu, 0, pcie(0, 6)).await >> bit & 1;
                    assert_eq!(event(&cpu).await, 1, "{what}");
                    write(&cpu, 0, pcie(0, 6), 0xc, 1 << bit).await;
                    assert_eq!(event(&cpu).await, 0, "{what}: cleared");
                },
            );
            let count = fabric.root().counters().interrupts;
            assert_eq!(count, u64::from(interrupts), "{what}, Slot Control {control:#x}");
        }
    }
}

/// Each write to Slot Control is a command (`PCIe 5.0 §6.7.3.2`): Command Completed is bit 20, its enable bit 4. Power
/// Controller Control, bit 10, turns the power of the slot off, and thus the link.
#[test]
fn slot_commands_complete_and_switch_power() {
    for (control, interrupts) in [(1 << 4 | 1 << 5, 1), (1 << 5, 0)] {
        let rig = Rig::new();
        let fabric = rig.run(move |cpu| async move {
            write(&cpu, 0, pcie(0, 6), 0xc, 1 << 20).await;
            write(&cpu, 0, pcie(0, 6), 0x3, control).await;
            assert_eq!(read(&cpu, 0, pcie(0, 6)).await >> 20 & 1, 1);
            cpu.sleep(Duration::from_us(1)).await;
            Ok(())
        });
        assert_eq!(fabric.root().counters().interrupts, interrupts, "{control:#x}");
    }
    let rig = Rig::new();
    rig.ends[0].serve(below(0));
    rig.run(|cpu| async move {
        let power = async |cpu: &Cpu, off: bool| {
            write(cpu, 0, pcie(0, 6), 0x3, u32::from(off) << 10).await;
            cpu.sleep(Duration::from_us(50)).await;
        };
        power(&cpu, true).await;
        assert!(cpu.read_u32(window(0)).await.is_err());
        power(&cpu, false).await;
        assert!(cpu.read_u32(window(0)).await.is_ok());
        Ok(())
    });
}

/// Link Bandwidth Management Status (bit 30 of the DW) interrupts if bit 10 of Link Control enables it (`PCIe 5.0
/// §7.5.3.7`, `§7.5.3.8`).
#[test]
fn retrained_link_interrupts_if_enabled() {
    for enabled in [false, true] {
        let rig = Rig::new();
        let fabric = rig.run(move |cpu| async move {
            write(&cpu, 0, pcie(0, 4), 0x3, u32::from(enabled) << 10 | 1 << 5).await;
            cpu.sleep(Duration::from_us(20)).await;
            assert_eq!(read(&cpu, 0, pcie(0, 4)).await >> 30 & 1, 1);
            write(&cpu, 0, pcie(0, 4), 0x8, 1 << 30).await;
            assert_eq!(read(&cpu, 0, pcie(0, 4)).await >> 30 & 1, 0);
            Ok(())
        });
        assert_eq!(fabric.root().counters().interrupts, u64::from(enabled));
    }
}

/// ECRC Check Enable, bit 8 of Advanced Error Capabilities and Control (`PCIe 5.0 §2.7.1`): with it, a write with a
/// wrong ECRC is dropped; without it, the write is accepted.
#[test]
fn ecrc_is_checked_if_enabled() {
    for (control, taken) in [(1 << 8, 0), (0, 1)] {
        let rig = Rig::new();
        let mut tlp = mwr(below(0), 0x1000, 4);
        (tlp.repr.td, tlp.flaw) = (true, Flaw::WrongEcrc);
        rig.ends[0].send(50_000, tlp);
        let fabric = rig.run(move |cpu| async move {
            set_aer(&cpu, 0, aer::CONTROL, control).await;
            cpu.sleep(Duration::from_us(60)).await;
            assert_eq!(aer(&cpu, 0, aer::UNCORRECTABLE_STATUS).await, (1 - taken) << 19);
            Ok(())
        });
        assert_eq!(fabric.root().counters().memory_writes, u64::from(taken));
    }
}

/// An error that a root port finds.
#[derive(Clone)]
struct Found {
    what: &'static str,
    /// Its status register, and its bit in this register.
    status: u16,
    bit: u32,
    faults: Vec<FaultRule>,
    /// A TLP from the device.
    tlp: Option<Tlp>,
    /// Registers of root port 0, and of root port 1.
    registers: Vec<(u8, u16, u8, u32)>,
    /// The root port that finds it.
    at: u8,
    fatal: bool,
}

/// A fault of the `nth` frame of `kind` on the link of root port 0.
fn fault(direction: Direction, kind: FrameKind, nth: u64, action: FaultAction) -> FaultRule {
    FaultRule::new(LinkId(0), direction, kind, nth, action)
}

fn found(what: &'static str, status: u16, bit: u32, faults: impl Into<Vec<FaultRule>>) -> Found {
    let faults = faults.into();
    let fatal = status == aer::UNCORRECTABLE_STATUS;
    Found { what, status, bit, faults, tlp: None, registers: Vec::new(), at: 0, fatal }
}

fn sent(what: &'static str, bit: u32, at: u8, tlp: Tlp, register: (u8, u16, u8, u32)) -> Found {
    let (tlp, registers) = (Some(tlp), vec![register]);
    let status = aer::UNCORRECTABLE_STATUS;
    Found { what, status, bit, faults: Vec::new(), tlp, registers, at, fatal: false }
}

fn all_found() -> Vec<Found> {
    use Direction::{Downstream, Upstream};
    const CORRECTABLE: u16 = aer::CORRECTABLE_STATUS;
    const UNCORRECTABLE: u16 = aer::UNCORRECTABLE_STATUS;
    let to_completion = |action| [fault(Upstream, FrameKind::Class(Class::Completion), 1, action)];
    let credits = |header| FaultAction::Alter(Alteration::Credits { header, data: 0 });
    let internal = FaultAction::InternalError;
    let prefix = Prefixes::new(&[Prefix::pasid(5, false, false)]).unwrap();
    let to_peer = mrd(below(0), window(1), 64);
    // The first message follows Set_Slot_Power_Limit, before registers are set up.
    let second = |kind, action| [fault(Upstream, kind, 2, action)];
    let dropped = |times| {
        let drop = |nth| fault(Downstream, FrameKind::Class(Class::NonPosted), nth, FaultAction::Drop);
        (1..=times).map(drop).collect::<Vec<_>>()
    };
    vec![
        found("Receiver Error", CORRECTABLE, 0, to_completion(FaultAction::BreakFraming)),
        found("Bad TLP", CORRECTABLE, 6, to_completion(FaultAction::Corrupt)),
        found("Bad DLLP", CORRECTABLE, 7, second(FrameKind::Ack, FaultAction::Corrupt)),
        found("Replay Timer Timeout", CORRECTABLE, 12, dropped(1)),
        found("REPLAY_NUM Rollover", CORRECTABLE, 8, dropped(4)),
        found("Corrected Internal", CORRECTABLE, 14, to_completion(internal(InternalError::Corrected))),
        found(
            "Uncorrectable Internal",
            UNCORRECTABLE,
            22,
            to_completion(internal(InternalError::Uncorrectable)),
        ),
        found(
            "Data Link Protocol",
            UNCORRECTABLE,
            4,
            second(FrameKind::Ack, FaultAction::Alter(Alteration::Sequence(100))),
        ),
        found("Flow Control Protocol", UNCORRECTABLE, 13, second(FrameKind::UpdateFc, credits(128))),
        found("Surprise Down", UNCORRECTABLE, 5, to_completion(FaultAction::Cut { restore_after: None })),
        // ACS Source Validation; AtomicOp Egress Blocking; End-End TLP Prefix Blocking; Poisoned TLP Egress Blocking.
        sent(
            "ACS Violation",
            21,
            0,
            mwr(bdf(0x30, 0, 0), window(1), 4),
            (0, extended(0, config::ext::acs::ID, 1), 0xc, 1 << 16),
        ),
        sent("AtomicOp Egress Blocked", 24, 1, fetch_add(below(0), window(1)), (1, pcie(1, 10), 0x1, 1 << 7)),
        sent(
            "TLP Prefix Blocked",
            25,
            1,
            Tlp { prefixes: prefix, ..to_peer },
            (1, pcie(1, 10), 0x2, 1 << 15),
        ),
        sent(
            "Poisoned TLP Egress Blocked",
            26,
            1,
            poisoned(mwr(below(0), window(1), 64)),
            (1, extended(1, dpc::ID, dpc::CONTROL), 0xc, 1 << 5 << 16),
        ),
    ]
}

/// A link whose device has finite credits for requests.
fn finite(mps: u32) -> LinkConfig {
    let mut both = link(mps);
    for class in [Class::Posted, Class::NonPosted] {
        both.device.rx_buffer[class.index()] = link::CreditLimit::finite(16, 64);
    }
    both
}

/// Root Error Status after the error, if `masked` or not, and if `turned` with the other severity. All other errors are masked.
fn root_status(error: Found, masked: bool, turned: bool) -> u32 {
    let Found { what, status, bit, faults, tlp, registers, at, .. } = error;
    let rig = Rig { faults, link: finite, ..Rig::new() };
    (0..2).for_each(|n| rig.ends[usize::from(n)].serve(below(n)));
    if let Some(tlp) = tlp {
        rig.ends[0].send(50_000, tlp);
    }
    let seen = std::rc::Rc::new(std::cell::Cell::new(0));
    let told = seen.clone();
    rig.run(move |cpu| async move {
        write(&cpu, at, pcie(at, 2), 0x1, REPORTING).await;
        let mask = if masked { !0 } else { !(1 << bit) };
        let (correctable, uncorrectable) = match status {
            aer::CORRECTABLE_STATUS => (mask, !0),
            _ => (!ADVISORY, mask),
        };
        set_aer(&cpu, at, aer::CORRECTABLE_MASK, correctable).await;
        set_aer(&cpu, at, aer::UNCORRECTABLE_MASK, uncorrectable).await;
        if turned {
            let severity = aer(&cpu, at, aer::SEVERITY).await;
            set_aer(&cpu, at, aer::SEVERITY, severity ^ 1 << bit).await;
        }
        for (n, register, enables, value) in registers {
            write(&cpu, n, register, enables, value).await;
        }
        cpu.sleep_until(Time::ZERO + Duration::from_us(55)).await;
        let _ = cpu.read_u32(window(0)).await;
        cpu.sleep(Duration::from_us(100)).await;
        assert_eq!(aer(&cpu, at, status).await >> bit & 1, 1, "{what}: status");
        set_aer(&cpu, at, status, 1 << bit).await;
        assert_eq!(aer(&cpu, at, status).await >> bit & 1, 0, "{what}: writing a one clears it");
        told.set(aer(&cpu, at, aer::ROOT_STATUS).await & 0x7f);
        Ok(())
    });
    seen.get()
}

/// Advisory Non-Fatal Error, a correctable error.
const ADVISORY: u32 = 1 << 13;

/// Status, mask and severity of every error of the link below and of egress blocking (`PCIe 5.0 §7.8.4`).
#[test]
fn errors_follow_mask_and_severity() {
    const COR: u32 = 0x01;
    const COR_AGAIN: u32 = 0x03;
    let (non_fatal, fatal) = (0x24, 0x54);
    for error in all_found() {
        let Found { what, fatal: is_fatal, status, .. } = error;
        let root_status = |masked, turned| root_status(error.clone(), masked, turned);
        if status == aer::CORRECTABLE_STATUS {
            let plain = root_status(false, false);
            assert!([COR, COR_AGAIN].contains(&plain), "{what}: {plain:#x}");
            assert_eq!(root_status(true, false), 0, "{what}, masked");
            continue;
        }
        let uncorrectable = |status: u32| status & !COR_AGAIN;
        // An advisory error that is not fatal is correctable.
        let plain = root_status(false, false);
        let expected = if is_fatal { fatal } else { non_fatal };
        assert!(uncorrectable(plain) == expected || !is_fatal && plain == COR, "{what}: {plain:#x}");
        assert_eq!(uncorrectable(root_status(true, false)), 0, "{what}, masked");
        let expected = if is_fatal { non_fatal } else { fatal };
        assert_eq!(uncorrectable(root_status(false, true)), expected, "{what}, the other severity");
    }
}

/// A TLP for which root port 0 has no room: Receiver Overflow, bit 17. The other end believes that it has more credits.
#[test]
fn tlp_beyond_the_credits_overflows() {
    for (masked, turned, expected) in [(false, false, 0x54), (true, false, 0), (false, true, 0x24)] {
        let credits = FaultAction::Alter(Alteration::Credits { header: 8, data: 100 });
        let rule = fault(Direction::Downstream, FrameKind::UpdateFc, 1, credits);
        let mut rig = Rig { faults: vec![FaultRule { every: 1, ..rule }], ..Rig::new() };
        rig.link = |mps| {
            let mut both = link(mps);
            both.root.rx_buffer[Class::Posted.index()] = link::CreditLimit::finite(2, 32);
            both
        };
        rig.host.memory_write_latency = Duration::from_us(20);
        rig.host.write_request_service = Duration::from_us(5);
        for n in 0..20 {
            rig.ends[0].send(50_000 + n, mwr(below(0), 0x1000, 64));
        }
        rig.run(move |cpu| async move {
            write(&cpu, 0, pcie(0, 2), 0x1, REPORTING).await;
            set_aer(&cpu, 0, aer::UNCORRECTABLE_MASK, u32::from(masked) << 17).await;
            if turned {
                let severity = aer(&cpu, 0, aer::SEVERITY).await;
                set_aer(&cpu, 0, aer::SEVERITY, severity ^ 1 << 17).await;
            }
            cpu.sleep(Duration::from_us(300)).await;
            assert_eq!(aer(&cpu, 0, aer::UNCORRECTABLE_STATUS).await >> 17 & 1, 1);
            // The number of overflowing writes does not matter, so bit 3 (more than one error) may be set.
            assert_eq!(aer(&cpu, 0, aer::ROOT_STATUS).await & 0x74, expected & 0x74);
            Ok(())
        });
    }
}

/// Downstream Port Containment of a root port (`PCIe 5.0 §7.9.15.3`): bits 17:16 of the DW select the trigger, and bit
/// 18 the status of completions. Bits 19 and 20 enable an interrupt and ERR_COR. With bit 23, a link that comes up
/// sends ERR_COR.
#[test]
fn containment_follows_its_enable_bits() {
    let refused = |status| Some(HostError::Completion(status));
    let (ur, ca) = (
        refused(device::CompletionError::UnsupportedRequest),
        refused(device::CompletionError::CompleterAbort),
    );
    let (interrupt, correctable) = (1 << 19, 1 << 20);
    // DPC Control, message; whether it triggers, error of a read, interrupts, ERR_COR of the port itself.
    let rows = [
        (0, 0x33, false, None, 0, 0),
        (0b01 << 16, 0x31, false, None, 0, 0),
        (0b10 << 16, 0x31, true, ca, 0, 0),
        (0b01 << 16, 0x33, true, ca, 0, 0),
        (0b01 << 16 | 1 << 18, 0x33, true, ur, 0, 0),
        (0b01 << 16 | interrupt, 0x33, true, ca, 1, 0),
        (0b01 << 16 | correctable, 0x33, true, ca, 0, 1),
    ];
    for (control, code, triggered, answer, interrupts, told) in rows {
        let rig = Rig::new();
        rig.ends[0].serve(below(0));
        rig.ends[0].send(50_000, error(bdf(0x10, 0, 2), code));
        let fabric = rig.run(move |cpu| async move {
            write(&cpu, 0, pcie(0, 2), 0x1, REPORTING).await;
            write(&cpu, 0, extended(0, dpc::ID, dpc::CONTROL), 0xc, control).await;
            cpu.sleep_until(Time::ZERO + Duration::from_us(60)).await;
            let status = read(&cpu, 0, extended(0, dpc::ID, dpc::STATUS)).await;
            assert_eq!(status & 1, u32::from(triggered), "{control:#x}");
            assert_eq!(cpu.read_u32(window(0)).await.err(), answer, "{control:#x}");
            assert_eq!(aer(&cpu, 0, aer::ROOT_STATUS).await & 1, told, "{control:#x}: ERR_COR");
            Ok(())
        });
        assert_eq!(fabric.root().counters().interrupts, interrupts, "{control:#x}");
    }
    for (control, told) in [(1 << 23, 1), (0, 0)] {
        let rig = Rig::new();
        rig.run(move |cpu| async move {
            write(&cpu, 0, extended(0, dpc::ID, dpc::CONTROL), 0xc, control).await;
            for disable in [1 << 4, 0] {
                write(&cpu, 0, pcie(0, 4), 0x1, disable).await;
                cpu.sleep(Duration::from_us(50)).await;
            }
            assert_eq!(aer(&cpu, 0, aer::ROOT_STATUS).await & 1, told, "{control:#x}");
            Ok(())
        });
    }
}

/// Message Address, Message Upper Address and Message Data (`PCIe 5.0 §7.7.1`): the address and data of the port's own
/// interrupt. Addresses below those of interrupts are memory.
#[test]
fn port_msi_follows_its_registers() {
    for (low, high, data) in [(0x2000, 0, 0x41), (0x3004, 0, 0x41), (0x2000, 1, 0x41), (0x2000, 0, 0x1234)] {
        let rig = Rig::new();
        rig.ends[0].send(50_000, error(below(0), 0x33));
        rig.run(move |cpu| async move {
            let msi = space(0).msi_capability().unwrap();
            for (dw, value) in [(1, low), (2, high), (3, data)] {
                write(&cpu, 0, msi + dw, 0xf, value).await;
            }
            set_aer(&cpu, 0, aer::ROOT_COMMAND, 4).await;
            cpu.sleep_until(Time::ZERO + Duration::from_us(60)).await;
            let address = u64::from(high) << 32 | u64::from(low);
            assert_eq!(cpu.memory().read_u32(address), Ok(data), "{address:#x}");
            Ok(())
        });
    }
}

/// Header Log Overflow, bit 15 of Correctable Error Status (`PCIe 5.0 §6.2.4.2`): the log has no room for a second
/// header. Writing a one clears the bit, and the mask bit of the same name suppresses ERR_COR.
#[test]
fn error_without_room_in_the_header_log_is_reported() {
    for (mask, told) in [(0, 1), (1 << 15, 0)] {
        let rig = Rig::new();
        for at in [50_000, 51_000] {
            rig.ends[0].send(at, unclaimed());
        }
        rig.run(move |cpu| async move {
            set_aer(&cpu, 0, aer::CORRECTABLE_MASK, mask).await;
            cpu.sleep_until(Time::ZERO + Duration::from_us(60)).await;
            assert_eq!(aer(&cpu, 0, aer::ROOT_STATUS).await & 1, told, "mask {mask:#x}");
            assert_eq!(aer(&cpu, 0, aer::CORRECTABLE_STATUS).await, 1 << 15);
            set_aer(&cpu, 0, aer::CORRECTABLE_STATUS, 1 << 15).await;
            assert_eq!(aer(&cpu, 0, aer::CORRECTABLE_STATUS).await, 0);
            Ok(())
        });
    }
}
