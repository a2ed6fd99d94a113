// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The simple NIC and its driver, transaction by transaction.

use crate::common::{Event, Loopback, found};
use config::PcieLayout;
use device::DmaError;
use host::cpu::Cpu;
use host::{AsyncProgram, DriverError};
use plug::Shared;
use riser_devices::ethernet::*;
use riser_devices::simple_nic::*;
use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::rc::Rc;
use tlp::{Duration, PayloadPool};

const HOST: Station = Station { mac: [0x00, 0x11, 0x22, 0x33, 0x44, 0x55], ip: Ipv4Addr::new(10, 0, 0, 1) };
const PEER: Station = Station { mac: [0x5e, 0x60, 0xb2, 0x6a, 0x4a, 0xf9], ip: Ipv4Addr::new(10, 0, 0, 2) };
const LATENCY: Duration = Duration::from_us(10);
const BAR: u8 = 4;

struct Lab {
    host: Loopback,
    counters: Shared<Counters>,
    report: PingReport,
}

impl Lab {
    fn new(wire: impl EthernetPort + 'static) -> Lab {
        let counters = Shared::default();
        let nic = function(BAR.into(), PcieLayout::default(), &PayloadPool::new(), wire, &counters).unwrap();
        Lab { host: Loopback::new(nic), counters, report: PingReport::default() }
    }

    fn ping(&mut self, count: u32, bytes: u16) -> Result<(), String> {
        let timeout = Duration::from_ms(1);
        let settings = PingSettings { bar: BAR.into(), local: HOST, peer: PEER.ip, count, bytes, timeout };
        let report = self.report.clone();
        self.run(|cpu| driver(cpu, found(BAR, BAR_BYTES), settings, report))
    }

    fn run<F: Future<Output = Result<(), DriverError>> + 'static>(
        &mut self,
        program: impl FnOnce(Cpu) -> F,
    ) -> Result<(), String> {
        let mut program = AsyncProgram::new(self.host.memory.clone(), program);
        self.host.run(&mut program)
    }
}

/// Rings of the tests' drivers, and address of their one frame.
const TX: u64 = 0x1000;
const RX: u64 = 0x2000;
const FRAME: u64 = 0x3000;

/// The device's registers by offset.
struct Registers {
    cpu: Cpu,
    base: u64,
}

impl Registers {
    fn new(cpu: Cpu) -> Result<Registers, String> {
        Ok(Registers { cpu, base: found(BAR, BAR_BYTES).address(BAR, 0)? })
    }

    async fn write(&self, offset: u64, value: u32) -> Result<(), String> {
        self.cpu.write_u32(self.base + offset, value).await.map_err(|e| e.to_string())
    }

    /// Sets the ring addresses.
    async fn rings(&self) -> Result<(), String> {
        for (offset, ring) in [(0, TX), (8, RX)] {
            self.cpu.write_u64(self.base + offset, ring).await.map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    /// Writes a descriptor of `len` bytes at `address`.
    fn describe(&self, descriptor: u64, address: u64, len: u64) {
        self.cpu.memory().write_u64(descriptor, address).unwrap();
        self.cpu.memory().write_u64(descriptor + 8, len).unwrap();
    }

    /// Stores a frame in memory, and returns its length.
    fn frame(&self) -> u64 {
        let frame = Arp { kind: Kind::Request, from: HOST, to: PEER }.emit();
        self.cpu.memory().write(FRAME, &frame).unwrap();
        frame.len() as u64
    }
}

fn peer() -> Peer {
    Peer { station: PEER, latency: LATENCY }
}

/// Frames 1 to 12 of NetTLP's capture of a ping (Figure 15 of the paper): the same transfers in the same order, with the same lengths.
#[test]
fn ping_causes_the_transfers_of_the_capture() {
    let mut lab = Lab::new(peer());
    lab.ping(1, 56).unwrap();
    let log = &lab.host.log;
    let ping = log.iter().rposition(|e| matches!(e, Event::MmioWrite(BAR, 16, _))).unwrap();
    let lines: Vec<String> = log[ping..].iter().map(line).collect();
    assert_eq!(
        lines,
        [
            "MWr +16 4", // TX index
            "MRd 16",    // TX descriptor
            "MRd 98",    // frame
            "MSI 0",
            "MWr 98", // frame
            "MWr 16", // RX descriptor
            "MSI 1",
            "MWr +20 4", // RX index
            "MRd 16",    // RX descriptor
        ]
    );
    assert_eq!(log[ping], Event::MmioWrite(BAR, 16, vec![2, 0, 0, 0]), "ARP was descriptor 0, the ping is 1");
    let Event::DmaWrite(_, descriptor) = &log[ping + 5] else { unreachable!() };
    assert_eq!(descriptor[8..], 98u64.to_le_bytes());
}

fn line(event: &Event) -> String {
    match event {
        Event::MmioWrite(_, offset, bytes) => format!("MWr +{offset} {}", bytes.len()),
        Event::MmioRead(_, offset, len) => format!("MRd +{offset} {len}"),
        Event::DmaWrite(_, bytes) => format!("MWr {}", bytes.len()),
        Event::DmaRead(_, len) => format!("MRd {len}"),
        Event::Interrupt(vector) => format!("MSI {vector}"),
    }
}

#[test]
fn pings_of_all_sizes_come_back_and_are_timed() {
    for bytes in [0, 1, 56, 1472] {
        let mut lab = Lab::new(peer());
        lab.ping(300, bytes).unwrap();
        let pings = lab.report.get();
        assert_eq!(pings.peer_mac, Some(PEER.mac));
        // Descriptor and frame, 500 ns each, and the peer.
        assert_eq!(
            pings.round_trips,
            vec![LATENCY + Duration::from_us(1); 300],
            "more than once around the ring"
        );
        let counted = *lab.counters.get();
        assert_eq!(counted, Counters { tx_frames: 301, rx_frames: 301, ..Counters::default() });
    }
}

type Harm = fn(&mut Vec<u8>);

/// A peer that damages its answers.
struct Odd(Harm);

impl EthernetPort for Odd {
    fn transmit(&mut self, frame: &[u8]) -> Option<Arrival> {
        let mut arrival = peer().transmit(frame)?;
        let echo = frame[12..14] == [0x08, 0x00];
        if echo {
            self.0(&mut arrival.frame);
        }
        (!arrival.frame.is_empty()).then_some(arrival)
    }
}

/// Errors of the peer, and messages of the driver. Offsets: Ethernet 14, IPv4 20, ICMP 8 bytes.
#[test]
fn the_driver_reports_errors_of_the_peer() {
    let rows: [(Harm, &str); 5] = [
        (|frame| frame.clear(), "ping 0: no RX interrupt within 1000000.000 ns"),
        (|frame| frame[50] ^= 1, "ping 0: bad reply: its ICMP packet is malformed or its checksum is wrong"),
        (|frame| frame[30] ^= 1, "ping 0: bad reply: its IPv4 header is malformed or its checksum is wrong"),
        (
            |frame| frame.truncate(10),
            "ping 0: bad reply: its Ethernet header is malformed or its checksum is wrong",
        ),
        // Errors in data and checksum (ICMP's is at 36) that cancel each other.
        (|frame| (frame[42], frame[44]) = (frame[42] ^ 1, frame[44] ^ 1), "ping 0: bad reply: its ICMP"),
    ];
    for (harm, message) in rows {
        let error = Lab::new(Odd(harm)).ping(1, 56).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
    // Data 00 01 02 03 with the first words swapped, so that the checksum still matches.
    let error = Lab::new(Odd(|frame| frame[42..46].rotate_left(2))).ping(1, 56).unwrap_err();
    assert!(error.starts_with("function 01:00.0 [7269:0000]: ping 0: not its reply: Echo"), "{error}");
    // Longer than any frame: dropped by the NIC.
    let mut lab = Lab::new(Odd(|frame| frame.resize(3000, 0)));
    assert!(lab.ping(1, 56).unwrap_err().contains("no RX interrupt"));
    assert_eq!(lab.counters.get().lost, 1);
}

/// A faulty driver. Each row has a write and the counter that it changes.
#[test]
fn faulty_descriptors_are_refused_and_counted() {
    let mut lab = Lab::new(peer());
    lab.run(async |cpu| {
        let nic = Registers::new(cpu.clone())?;
        nic.rings().await?;
        nic.write(16, 1).await?; // not enabled
        nic.write(24, 1).await?;
        nic.write(16, 256).await?; // beyond the ring
        nic.write(20, u32::MAX).await?;
        for (index, length) in [(0u64, 0u64), (1, 13), (2, 1519), (3, u64::MAX), (4, 14)] {
            nic.describe(TX + 16 * index, FRAME, length);
        }
        nic.write(16, 5).await?;
        for _ in 0..5 {
            cpu.interrupt(32).await;
        }
        nic.write(20, 7).await?; // a buffer at address zero
        cpu.memory().write_u64(0x1000 + 16 * 5, 1 << 60).unwrap();
        cpu.memory().write_u64(0x1008 + 16 * 5, 64).unwrap();
        nic.write(16, 6).await?; // a frame where there is no memory
        cpu.sleep(Duration::from_us(10)).await;
        Ok(())
    })
    .unwrap();
    let expected = Counters {
        tx_frames: 1,
        refused_doorbells: 3,
        refused_descriptors: 5,
        dma_errors: 1,
        ..Counters::default()
    };
    assert_eq!(*lab.counters.get(), expected);
}

/// The peer's answer arrives without a buffer, waits, and goes into the first new buffer.
#[test]
fn a_frame_waits_for_a_buffer() {
    let mut lab = Lab::new(peer());
    lab.run(async |cpu| {
        let nic = Registers::new(cpu.clone())?;
        let len = nic.frame();
        nic.describe(TX, FRAME, len);
        nic.describe(RX, 0x4000, 0);
        nic.rings().await?;
        nic.write(24, 1).await?;
        nic.write(16, 1).await?;
        cpu.sleep(LATENCY * 2).await;
        let index = cpu.read_u32(nic.base + 16).await.map_err(|e| e.to_string())?;
        assert_eq!(index, 1, "registers read back");
        assert_eq!(cpu.memory().read_u64(0x2008).unwrap(), 0, "no buffer yet");
        nic.write(20, 0).await?;
        cpu.sleep(LATENCY).await;
        assert_eq!(cpu.memory().read_u64(0x2008).unwrap(), len);
        Ok(())
    })
    .unwrap();
    assert_eq!(*lab.counters.get(), Counters { tx_frames: 1, rx_frames: 1, ..Counters::default() });
}

/// At most [`MAX_FRAMES_ON_WIRE`] frames wait. A further frame is lost. Disabling drops all of them, and no frame is
/// accepted while the device is disabled.
#[test]
fn frames_wait_up_to_a_limit_and_only_for_an_enabled_device() {
    let mut lab = Lab::new(peer());
    lab.run(async |cpu| {
        let nic = Registers::new(cpu.clone())?;
        let len = nic.frame();
        (TX..RX).step_by(16).for_each(|descriptor| nic.describe(descriptor, FRAME, len));
        nic.rings().await?;
        nic.write(24, 1).await?;
        for index in 1..=MAX_FRAMES_ON_WIRE as u32 + 1 {
            nic.write(16, index).await?;
            cpu.sleep(LATENCY * 2).await;
        }
        nic.write(16, MAX_FRAMES_ON_WIRE as u32 + 2).await?;
        cpu.sleep(Duration::from_us(5)).await;
        nic.write(24, 0).await?;
        cpu.sleep(LATENCY * 2).await;
        Ok(())
    })
    .unwrap();
    let frames = MAX_FRAMES_ON_WIRE as u64;
    // One was on the wire.
    let expected = Counters { tx_frames: frames + 2, no_buffer: frames + 1, lost: 1, ..Counters::default() };
    assert_eq!(*lab.counters.get(), expected);
}

/// A driver that reconfigures the rings writes 0 to `enabled` first.
#[test]
fn a_disabled_device_drops_rings_and_buffers() {
    let mut lab = Lab::new(peer());
    lab.run(async |cpu| {
        let nic = Registers::new(cpu.clone())?;
        let len = nic.frame();
        nic.describe(TX, FRAME, len);
        nic.describe(RX, 0x4000, len);
        nic.rings().await?;
        nic.write(24, 1).await?;
        nic.write(20, 0).await?; // a buffer, whose frame comes too late
        for _ in 0..2 {
            nic.write(16, 1).await?; // each time the first descriptor
            cpu.interrupt(32).await;
            nic.write(24, 0).await?;
            nic.write(24, 1).await?;
        }
        cpu.sleep(LATENCY * 2).await;
        nic.write(24, 0).await?;
        Ok(())
    })
    .unwrap();
    assert_eq!(*lab.counters.get(), Counters { tx_frames: 2, no_buffer: 2, ..Counters::default() });
}

/// A read without a completion is retried up to 20 times, because the host expects its buffer back. A refused read is not retried.
#[test]
fn a_read_without_a_completion_is_retried() {
    for (error, attempts) in [(DmaError::CompletionTimeout, 20), (DmaError::UnsupportedRequest, 1)] {
        let mut lab = Lab::new(peer());
        lab.host.fail_reads = Some(error);
        lab.run(async |cpu| {
            let nic = Registers::new(cpu.clone())?;
            nic.rings().await?;
            nic.write(24, 1).await?;
            nic.write(20, 0).await?;
            cpu.sleep(LATENCY * 100).await;
            Ok(())
        })
        .unwrap();
        let reads = lab.host.log.iter().filter(|event| **event == Event::DmaRead(0x2000, 16)).count();
        assert_eq!((reads, lab.counters.get().dma_errors), (attempts, attempts as u64), "{error}");
    }
}

/// An echo request from NetTLP's capture of a ping, frame 5; and its reply, frame 7, except for fields that the peer may choose (IPv4
/// identification, flags and checksum).
#[test]
fn the_peer_answers_the_ping_of_the_capture() {
    let header = [
        0x5e, 0x60, 0xb2, 0x6a, 0x4a, 0xf9, 0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x08, 0x00, // Ethernet
        0x45, 0x00, 0x00, 0x1c, 0xef, 0xa3, 0x40, 0x00, 0x40, 0x01, 0x37, 0x3b, // IPv4, 28 B long here
        0x0a, 0x00, 0x00, 0x01, 0x0a, 0x00, 0x00, 0x02, //
        0x08, 0x00, 0xd3, 0x6a, 0x24, 0x94, 0x00,
        0x01, // ICMP: checksum of the header alone, ident, sequence
    ];
    let Ok(Frame::Echo(echo)) = Frame::parse(&header) else { panic!("{:?}", Frame::parse(&header)) };
    let request =
        Echo { kind: Kind::Request, from: HOST, to: PEER, ident: 0x2494, sequence: 1, data: Vec::new() };
    assert_eq!(echo, request);
    let answer = peer().transmit(&header).unwrap();
    assert_eq!(answer.after, LATENCY);
    let reply = Echo { kind: Kind::Reply, from: PEER, to: HOST, ..request };
    assert_eq!(Frame::parse(&answer.frame), Ok(Frame::Echo(reply)));
    assert_eq!(answer.frame[..14], [&header[6..12], &header[..6], &header[12..14]].concat());
}

/// The same on NetTLP's capture, if it is available: request in record 5, reply in record 7.
#[test]
fn peer_answers_like_the_captured_peer() {
    let Some(folder) = testkit::shared_data("nettlp-captures/simple-nic") else { return };
    let file = std::fs::read(folder.join("simple-nic-ping.pcap")).unwrap();
    let records = records(&file);
    // Before the TLP: Ethernet 14, IPv4 20, UDP 8, NetTLP 6 bytes. Then a header of 12 bytes.
    let frame = |record: usize| &records[record - 1][48 + 12..][..98];
    let (request, reply) = (frame(5), frame(7));
    let Ok(Frame::Echo(echo)) = Frame::parse(request) else { panic!("{:?}", Frame::parse(request)) };
    assert_eq!((echo.kind, echo.from, echo.to, echo.data.len()), (Kind::Request, HOST, PEER, 56));
    let answer = peer().transmit(request).unwrap().frame;
    assert_eq!(answer.len(), 98);
    // IPv4 identification, flags and their checksum (18 to 26) may differ.
    assert_eq!((&answer[..18], &answer[26..]), (&reply[..18], &reply[26..]));
}

/// The packets of a little-endian pcap file.
fn records(file: &[u8]) -> Vec<&[u8]> {
    let (mut rest, mut records) = (&file[24..], Vec::new());
    while let Some((header, packets)) = rest.split_at_checked(16) {
        let len = u32::from_le_bytes(header[8..12].try_into().unwrap()) as usize;
        records.push(&packets[..len]);
        rest = &packets[len..];
    }
    records
}

#[test]
fn the_peer_ignores_frames_for_others() {
    let other = Station { ip: Ipv4Addr::new(10, 0, 0, 3), ..PEER };
    let echo = |kind, to| Echo { kind, from: HOST, to, ident: 1, sequence: 1, data: vec![1, 2, 3] }.emit();
    let frames = [
        Arp { kind: Kind::Request, from: HOST, to: other }.emit(),
        Arp { kind: Kind::Reply, from: HOST, to: PEER }.emit(),
        echo(Kind::Request, other),
        echo(Kind::Reply, PEER),
        vec![],
        vec![0; 14],
    ];
    for frame in frames {
        assert_eq!(peer().transmit(&frame), None, "{frame:02x?}");
    }
    assert!(peer().transmit(&echo(Kind::Request, PEER)).is_some());
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(300))]
    #[test]
    fn arbitrary_bytes_never_panic(mut bytes in proptest::collection::vec(0u8.., 0..80), as_ip: bool) {
        if bytes.len() > 20 && as_ip {
            bytes[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0x00]);
        }
        let _ = Frame::parse(&bytes);
        let _ = peer().transmit(&bytes);
    }

    #[test]
    fn frames_are_unchanged_by_the_wire(
        ident: u16, sequence: u16, request: bool, data in proptest::collection::vec(0u8.., 0..1472),
    ) {
        let kind = if request { Kind::Request } else { Kind::Reply };
        let echo = Echo { kind, from: HOST, to: PEER, ident, sequence, data };
        proptest::prop_assert_eq!(Frame::parse(&echo.emit()), Ok(Frame::Echo(echo)));
        let arp = Arp { kind, from: HOST, to: PEER };
        proptest::prop_assert_eq!(Frame::parse(&arp.emit()), Ok(Frame::Arp(arp)));
    }
}

/// Sent frames.
#[derive(Clone, Default)]
struct Cable(Rc<RefCell<Vec<Vec<u8>>>>);

impl EthernetPort for Cable {
    fn transmit(&mut self, frame: &[u8]) -> Option<Arrival> {
        self.0.borrow_mut().push(frame.to_vec());
        None
    }
}

/// NetTLP's driver has a ring of one descriptor and always rings index 0, so the write itself is the event.
#[test]
fn each_doorbell_write_sends_its_descriptor() {
    for (doorbell, indices, sent) in [
        (TxDoorbell::Names, [0, 0, 0], &[0, 1, 2][..]),
        (TxDoorbell::Names, [7, 255, 7], &[0, 1, 2]),
        // The index after the last descriptor to send: index 0 sends no descriptor.
        (TxDoorbell::Behind, [0, 0, 0], &[]),
    ] {
        let (cable, counters) = (Cable::default(), Shared::<Counters>::default());
        let (pool, pcie) = (PayloadPool::new(), PcieLayout::default());
        let nic = function_with_inbox(BAR.into(), pcie, &pool, cable.clone(), inbox(), doorbell, &counters)
            .unwrap();
        let mut host = Loopback::new(nic);
        let mut program = AsyncProgram::new(host.memory.clone(), async move |cpu: Cpu| {
            let nic = Registers::new(cpu.clone())?;
            nic.rings().await?;
            nic.write(24, 1).await?;
            for (n, index) in indices.into_iter().enumerate() {
                cpu.memory().write(FRAME, &[n as u8; 60]).unwrap();
                nic.describe(TX + 16 * u64::from(index), FRAME, 60);
                nic.write(16, index).await?;
                cpu.sleep(Duration::from_us(10)).await;
            }
            Ok::<(), String>(())
        });
        host.run(&mut program).unwrap();
        let frames: Vec<u8> = cable.0.borrow().iter().map(|frame| frame[0]).collect();
        assert_eq!(frames, sent, "{doorbell:?} {indices:?}");
        let expected = Counters { tx_frames: sent.len() as u64, ..Counters::default() };
        assert_eq!(*counters.get(), expected, "{doorbell:?} {indices:?}");
    }
}
