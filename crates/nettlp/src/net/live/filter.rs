// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kernel filter of a capture, which keeps other protocols out of the socket's buffer. Passes all NetTLP frames, and also all
//! frames with VLAN tags or IPv6 extension headers, because it does not parse these.

use socket2::SockFilter;

// Opcodes of classic BPF (linux/bpf_common.h).
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
const LOAD_HALF_BEHIND_X: u16 = 0x48;
const LOAD_X_IPV4_HEADER_LENGTH: u16 = 0xb1;
const LOAD_X: u16 = 0x01;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const JUMP_IF_SET: u16 = 0x45;
const RETURN: u16 = 0x06;

const ETHERNET_LEN: u32 = 14;
const UDP: u32 = 17;

/// Ranges of NetTLP's UDP destination ports, first and last. A test compares them with `capture::encap::PortUse`.
const PORTS: [(u16, u16); 4] = [(0x2ffd, 0x33ff), (0x4000, 0x400f), (0x5001, 0x5001), (0x5002, 0x5002)];
/// Source ports of adapters whose peers may have any port: sessions, messaging, configuration, registers.
const FROM: [u32; 4] = [0x2ffd, 0x2fff, 0x5001, 0x5002];
/// EtherTypes of VLAN tags, and extension headers of IPv6.
const VLANS: [u32; 2] = [0x8100, 0x88a8];
const EXTENSIONS: [u32; 6] = [0, 43, 44, 51, 60, 135];

/// Target of a jump.
#[derive(Clone, Copy, PartialEq, Eq)]
enum To {
    Next,
    Accept,
    Refuse,
    Ipv4,
    Ipv6,
    Ports,
}

/// An instruction whose jump targets are still symbolic.
struct Step {
    /// Label for jumps to this step.
    label: Option<To>,
    code: u16,
    operand: u32,
    then: To,
    otherwise: To,
}

fn load(code: u16, operand: u32) -> Step {
    Step { label: None, code, operand, then: To::Next, otherwise: To::Next }
}

fn jump(code: u16, operand: u32, then: To, otherwise: To) -> Step {
    Step { label: None, code, operand, then, otherwise }
}

impl Step {
    const fn at(self, label: To) -> Step {
        Step { label: Some(label), ..self }
    }
}

/// Returns the program, for a socket whose frames start with Ethernet headers.
pub(super) fn program() -> Vec<SockFilter> {
    instructions()
        .into_iter()
        .map(|[code, then, otherwise, k]| SockFilter::new(code as u16, then as u8, otherwise as u8, k))
        .collect()
}

/// Returns the instructions: opcode, jump distances if true and if false, operand.
fn instructions() -> Vec<[u32; 4]> {
    let steps = [ethernet(), ipv4(), ipv6(), ports(), ends()].into_iter().flatten().collect::<Vec<_>>();
    let distance = |from: usize, to: To| match to {
        To::Next => 0,
        _ => steps.iter().position(|step| step.label == Some(to)).map_or(0, |at| at - from - 1) as u32,
    };
    let instruction = |(at, step): (usize, &Step)| {
        [step.code.into(), distance(at, step.then), distance(at, step.otherwise), step.operand]
    };
    steps.iter().enumerate().map(instruction).collect()
}

fn ethernet() -> Vec<Step> {
    let mut steps = vec![load(LOAD_HALF, 12)];
    steps.extend(VLANS.map(|tag| jump(JUMP_IF_EQUAL, tag, To::Accept, To::Next)));
    steps.push(jump(JUMP_IF_EQUAL, 0x0800, To::Ipv4, To::Next));
    steps.push(jump(JUMP_IF_EQUAL, 0x86dd, To::Ipv6, To::Refuse));
    steps
}

// Only the first fragment of a datagram has the ports.
fn ipv4() -> Vec<Step> {
    vec![
        load(LOAD_BYTE, ETHERNET_LEN + 9).at(To::Ipv4),
        jump(JUMP_IF_EQUAL, UDP, To::Next, To::Refuse),
        load(LOAD_HALF, ETHERNET_LEN + 6),
        jump(JUMP_IF_SET, 0x1fff, To::Refuse, To::Next),
        load(LOAD_X_IPV4_HEADER_LENGTH, ETHERNET_LEN),
        // Jumps always.
        jump(JUMP_IF_AT_LEAST, 0, To::Ports, To::Ports),
    ]
}

fn ipv6() -> Vec<Step> {
    let mut steps = vec![load(LOAD_BYTE, ETHERNET_LEN + 6).at(To::Ipv6)];
    steps.extend(EXTENSIONS.map(|header| jump(JUMP_IF_EQUAL, header, To::Accept, To::Next)));
    steps.push(jump(JUMP_IF_EQUAL, UDP, To::Next, To::Refuse));
    steps.push(load(LOAD_X, 40));
    steps
}

// X is the length of the IP header.
fn ports() -> Vec<Step> {
    let mut steps = vec![load(LOAD_HALF_BEHIND_X, ETHERNET_LEN).at(To::Ports)];
    steps.extend(FROM.map(|port| jump(JUMP_IF_EQUAL, port, To::Accept, To::Next)));
    steps.push(load(LOAD_HALF_BEHIND_X, ETHERNET_LEN + 2));
    for (first, last) in PORTS {
        // The ranges ascend: a port below the first of a range is in no later range.
        steps.push(jump(JUMP_IF_AT_LEAST, first.into(), To::Next, To::Refuse));
        steps.push(jump(JUMP_IF_AT_LEAST, u32::from(last) + 1, To::Next, To::Accept));
    }
    steps
}

fn ends() -> Vec<Step> {
    vec![load(RETURN, 0).at(To::Refuse), load(RETURN, u32::MAX).at(To::Accept)]
}

#[cfg(test)]
mod tests {
    use super::super::{Of, of};
    use super::*;
    use capture::encap::PortUse;
    use proptest::prelude::*;

    /// Runs the program as the kernel does. Returns the number of bytes of the frame to keep: 0 after a load beyond its end.
    fn execute(frame: &[u8]) -> u32 {
        let half = |at: u32| {
            let bytes = frame.get(at as usize..at as usize + 2)?;
            Some(u32::from(u16::from_be_bytes([bytes[0], bytes[1]])))
        };
        let (program, mut at, mut a, mut x) = (instructions(), 0, 0, 0);
        loop {
            let [code, then, otherwise, k] = program[at];
            at += 1;
            let loaded = match code as u16 {
                LOAD_HALF => half(k),
                LOAD_HALF_BEHIND_X => half(x + k),
                LOAD_BYTE => frame.get(k as usize).map(|&byte| byte.into()),
                LOAD_X_IPV4_HEADER_LENGTH => {
                    let Some(byte) = frame.get(k as usize) else { return 0 };
                    x = u32::from(byte & 0xf) * 4;
                    continue;
                }
                LOAD_X => {
                    x = k;
                    continue;
                }
                RETURN => return k,
                jump => {
                    let holds = match jump {
                        JUMP_IF_EQUAL => a == k,
                        JUMP_IF_AT_LEAST => a >= k,
                        JUMP_IF_SET => a & k != 0,
                        other => panic!("opcode {other:#x}"),
                    };
                    at += if holds { then } else { otherwise } as usize;
                    continue;
                }
            };
            let Some(loaded) = loaded else { return 0 };
            a = loaded;
        }
    }

    /// Returns UDP frames between these ports with six bytes of data, over IPv4 with options and over IPv6.
    fn frames(source: u16, destination: u16) -> [Vec<u8>; 2] {
        let ports = [source.to_be_bytes(), destination.to_be_bytes()].concat();
        let udp = [&ports[..], &[0, 14, 0, 0], &[0; 6]].concat();
        let ipv4 = [&[0x46, 0, 0, 38, 0, 0, 0, 0, 64, 17, 0, 0][..], &[0; 12], &udp].concat();
        let ipv6 = [&[0x60, 0, 0, 0, 0, 14, 17, 64][..], &[0; 32], &udp].concat();
        [[&[0; 12], &[8, 0][..], &ipv4].concat(), [&[0; 12], &[0x86, 0xdd][..], &ipv6].concat()]
    }

    #[test]
    fn filter_passes_exactly_nettlp_ports() {
        let of_port = |port: u16| PortUse::of(port) != PortUse::Foreign;
        for port in 0..=u16::MAX {
            for frame in frames(9, port) {
                assert_eq!(
                    (execute(&frame) != 0, of(&frame) == Of::Nettlp),
                    (of_port(port), of_port(port)),
                    "{port:#x}"
                );
            }
        }
        // Rows: the adapter's ports; TCP and ICMPv6; ARP; the first and the second of several fragments.
        let change = |version: usize, at: usize, byte: u8| {
            let mut frame = frames(9, 0x3000)[version].clone();
            frame[at] = byte;
            execute(&frame) != 0
        };
        for port in 0..=u16::MAX {
            for frame in frames(port, 9) {
                assert_eq!(
                    (execute(&frame) != 0, of(&frame) == Of::Nettlp),
                    (FROM.contains(&port.into()), FROM.contains(&port.into())),
                    "{port:#x}"
                );
            }
        }
        let passes = [(0, 23, 6), (1, 20, 58), (0, 13, 6), (0, 20, 0x20), (0, 21, 1)]
            .map(|(v, at, byte)| change(v, at, byte));
        assert_eq!(passes, [false, false, false, true, false]);
    }

    proptest! {
        /// Changes bytes of a frame, or inserts some.
        #[test]
        fn filter_passes_all_changed_nettlp_frames(
            version in 0_usize..2, at in 12_usize..80, bytes in proptest::collection::vec(any::<u8>(), 0..9),
            insert in any::<bool>(),
        ) {
            let mut frame = frames(0x3000, 0x3000)[version].clone();
            let at = at.min(frame.len());
            let end = if insert { at } else { (at + bytes.len()).min(frame.len()) };
            frame.splice(at..end, bytes);
            prop_assert!(of(&frame) == Of::Others || execute(&frame) != 0);
        }
    }
}
