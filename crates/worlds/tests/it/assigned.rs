// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Virtual functions of clients below another client with the hierarchy, driven by vfio-user messages without a kernel.

use crate::client::{BASE, COMMAND, CONFIG, Client, D2H, ECAM, H2D, RAM};
use crate::served::Served;
use config::cap::pcie;
use config::ext::sriov;
use config::header::type1;
use devices::dma_engine::{Stream, registers};

/// The register of the VMD's 32-bit window.
const VMD_BAR4: u64 = 0x20;
const WINDOW: u32 = 0x8000_0000;
const PORT: u64 = 1 << 15;
const PF: u64 = 1 << 20;
const NOTHING: u32 = u32::MAX;

const BUS_NUMBERS: u64 = PORT + type1::BUS_NUMBERS as u64 * 4;

/// Sets up the hierarchy as a kernel does: bus numbers, windows, BARs, and `vfs` virtual functions.
fn enumerate(client: &mut Client, vfs: u32) {
    let express = client.capability(PORT, pcie::ID).unwrap();
    let mut write = |at: u64, value: u32| client.write(ECAM, at, &value.to_le_bytes());
    // Payloads of 128 B, like those of the functions after a reset.
    write(express + u64::from(pcie::DEVICE_CONTROL) * 4, 0);
    write(BUS_NUMBERS, 0x02_0100);
    write(PORT + 0x20, (WINDOW + 0xf0_0000) | WINDOW >> 16 | 0x10);
    write(PORT + COMMAND, 6);
    write(PF + 0x10, WINDOW + 0x10_0000);
    write(PF + COMMAND, 6);
    client.write(CONFIG, VMD_BAR4, &WINDOW.to_le_bytes());
    let mut at = 0x100;
    loop {
        let head = client.read(ECAM, PF + at);
        if head & 0xffff == u32::from(sriov::ID) {
            break;
        }
        at = u64::from(head >> 20);
        assert_ne!(at, 0, "no SR-IOV");
    }
    let mut write =
        |dw: u16, value: u32| client.write(ECAM, PF + at + u64::from(dw) * 4, &value.to_le_bytes());
    write(sriov::CONTROL, 0);
    write(sriov::VF_BAR0, WINDOW + 0x20_0000);
    write(sriov::NUM_VFS, vfs);
    write(sriov::CONTROL, sriov::control::VF_ENABLE | sriov::control::VF_MEMORY_ENABLE);
}

fn is_the_engine(client: &mut Client) -> bool {
    (client.read(CONFIG, 0), client.read(0, registers::ID)) == (0x0008_7269, registers::ID_VALUE)
}

fn stream(seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; 0x2000];
    Stream::new(seed).fill(&mut bytes);
    bytes
}

/// A virtual function is where the kernel has placed it, reaches only the memory of its client, and is lost with the hierarchy.
#[test]
fn virtual_function_belongs_to_one_client() {
    let served = Served::start_assigned("assigned");
    let path = |name: &str| served.folder.join(name);
    let mut owner = Client::join(&path("vmd"));
    assert!(!Client::is_served(&path("card.virtfn1")), "no virtual functions yet");
    enumerate(&mut owner, 1);
    assert!(!Client::is_served(&path("card.virtfn1")), "only one virtual function");
    enumerate(&mut owner, 2);
    for turn in 0..2 {
        let mut a = Client::join(&path("card.virtfn0"));
        let mut b = Client::join(&path("card.virtfn1"));
        for (client, seed) in [(&mut a, 5), (&mut b, 6)] {
            assert!(is_the_engine(client), "turn {turn}");
            assert_eq!(client.read(CONFIG, COMMAND) & 7, 0, "Command has its reset value");
            client.write(CONFIG, COMMAND, &[6, 0]);
            assert_eq!(client.read(CONFIG, COMMAND) & 7, 6);
            assert_eq!(client.transfer(D2H, 0x100, 0x1_0000, 0x2000, seed), [1, 0]);
            assert!(client.ram[0x1_0000..0x1_2000] == stream(seed), "memory differs from the written data");
            assert_eq!(client.transfer(H2D, 0, 0x1_0000, 0x2000, seed), [1, 0]);
            // Outside its memory it can reach neither the window of the hierarchy nor the memory of others.
            for beyond in [RAM, u64::from(WINDOW) - BASE + 0x10_0000, u64::from(WINDOW) - BASE + 0x20_0000] {
                assert_eq!(client.transfer(H2D, 0, beyond, 0x2000, seed), [1, 1]);
                assert_eq!(client.transfer(D2H, 0x100, beyond, 0x2000, seed), [1, 0]);
            }
        }
        assert!(owner.ram.iter().all(|byte| *byte == 0), "the owner's memory is its own");
        assert_eq!(owner.read(ECAM, PF) & 0xffff, 0x7269);
        // One client disconnects during a transfer.
        b.post(D2H, 0x100, 0, 3 << 20, 7);
        drop(b);
        assert!(is_the_engine(&mut a), "turn {turn}");
    }
    let mut b = Client::join(&path("card.virtfn1"));
    assert!(is_the_engine(&mut b));
    // The same number as before, after zero for a moment.
    enumerate(&mut owner, 2);
    assert_eq!(b.read(CONFIG, 0), NOTHING, "it was removed and created again");
    drop(b);
    let mut b = Client::join(&path("card.virtfn1"));
    assert!(is_the_engine(&mut b));
    drop(owner);
    let mut owner = Client::join(&path("vmd"));
    assert_eq!(
        (b.read(CONFIG, 0), b.read(0, registers::ID)),
        (NOTHING, NOTHING),
        "it has gone with the hierarchy"
    );
    b.write(CONFIG, COMMAND, &[6, 0]);
    b.unmap();
    enumerate(&mut owner, 2);
    assert_eq!(b.read(CONFIG, 0), NOTHING, "its place is lost until a client connects");
    drop(b);
    assert!(is_the_engine(&mut Client::join(&path("card.virtfn1"))));
    served.end();
}

/// The client with the hierarchy moves a function whose DMA is in progress, alone or together with other functions in
/// one write. The function is lost, and none of its data goes to a wrong place.
#[test]
fn moved_virtual_function_is_lost() {
    let served = Served::start_assigned("moved");
    let path = |name: &str| served.folder.join(name);
    let mut owner = Client::join(&path("vmd"));
    let wide = [0u32, 0x03_0200].map(u32::to_le_bytes).concat();
    let moves: [(u64, &[u8]); 4] = [
        (BUS_NUMBERS, &0x03_0200u32.to_le_bytes()),
        (BUS_NUMBERS - 4, &wide),
        (BUS_NUMBERS + 1, &[2]),
        (BUS_NUMBERS, &0u32.to_le_bytes()),
    ];
    for (n, (at, bytes)) in moves.into_iter().enumerate() {
        enumerate(&mut owner, 2);
        let mut a = Client::join(&path("card.virtfn0"));
        a.write(CONFIG, COMMAND, &[6, 0]);
        a.post(D2H, 0x100, 0, 3 << 20, 7);
        // A write of the present value does not move the function.
        owner.write(ECAM, BUS_NUMBERS, &0x02_0100u32.to_le_bytes());
        assert!(is_the_engine(&mut a), "{n}");
        owner.write(ECAM, at, bytes);
        // Without the reset, the function would continue to write in its place.
        for bus in 1..=2 {
            owner.write(ECAM, (bus << 20) + COMMAND, &[6, 0]);
        }
        assert_eq!((a.read(CONFIG, 0), a.read(0, registers::ID)), (NOTHING, NOTHING), "{n}");
        assert!(owner.ram.iter().all(|byte| *byte == 0), "{n}: the owner's memory is its own");
    }
    served.end();
}

/// If two cards have the same bus number, their functions have the same requester ID. Only one machine gets the
/// function.
#[test]
fn requester_id_belongs_to_one_machine() {
    let served = Served::start_assigned("same");
    let path = |name: &str| served.folder.join(name);
    let mut owner = Client::join(&path("vmd"));
    enumerate(&mut owner, 2);
    owner.write(ECAM, BUS_NUMBERS + PORT, &0x02_0100u32.to_le_bytes());
    let mut a = Client::join(&path("card.virtfn0"));
    assert!(!Client::is_served(&path("other.virtfn0")));
    assert!(is_the_engine(&mut a));
    drop(a);
    // The function is free only after that client has left.
    let begin = std::time::Instant::now();
    while !Client::is_served(&path("other.virtfn0")) {
        assert!(begin.elapsed().as_secs() < 20, "function is not available");
    }
    served.end();
}
