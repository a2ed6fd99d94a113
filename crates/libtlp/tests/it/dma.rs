// SPDX-License-Identifier: Apache-2.0 OR MIT
//! DMA reads and writes of a C program, under the sanitizers, with a peer that answers correctly, incorrectly, late or
//! never. Does not measure time.

use crate::common::{
    Calls, GNU99, Peer, completion, completions, contents, hex, is_read, memory, program, refusal, tlp_of,
};
use riser_tlp::{Completion, MemoryRequest, Status};
use std::net::Ipv4Addr;
use testkit::c::compiler;

const TAG: u8 = 0x13;
const PORT: u16 = 0x3013;

/// Starts a program on 127.14.`net`.1 and a peer on 127.14.`net`.2.
fn pair(net: u8) -> Option<(Calls, Peer)> {
    let (own, other) = (Ipv4Addr::new(127, 14, net, 1), Ipv4Addr::new(127, 14, net, 2));
    let program = program(compiler("cc")?, "tests/c/calls.c", GNU99);
    let peer = Peer::new(other, own, PORT);
    Some((Calls::start(&program, other, own, TAG), peer))
}

/// Answers each read of a call of `total` bytes with `answer`, and returns the addresses and lengths of the reads.
fn serve(peer: &Peer, total: u32, mut answer: impl FnMut(&MemoryRequest)) -> Vec<(u64, u32)> {
    let (mut seen, mut sum) = (Vec::new(), 0);
    while sum < total {
        let (request, _) = peer.request();
        assert!(is_read(&request));
        assert_eq!((request.requester.bits(), request.tag.bits()), (0x1b00, u16::from(TAG)));
        answer(&request);
        seen.push((request.span.first_byte(), request.span.byte_count()));
        sum += request.span.byte_count();
    }
    seen
}

#[test]
fn reads_of_every_alignment_and_length_are_exact() {
    let Some((mut calls, peer)) = pair(1) else { return };
    let lengths = (1..=17).chain([31, 64, 127, 128, 129, 255, 256, 257, 511, 513, 1000, 4093, 4096]);
    for (turn, len) in lengths.enumerate() {
        for lead in 0..4 {
            let address = 0x1_2340 + lead;
            calls.ask(&format!("read {address:x} {len}"));
            serve(&peer, len, |request| {
                // Completions are reordered, and one is duplicated.
                let mut all = completions(request);
                let middle = all.len() / 2;
                all.rotate_left(middle);
                if turn % 2 == 0 {
                    all.insert(1, all[0].clone());
                }
                all.iter().for_each(|tlp| peer.send(tlp));
            });
            assert_eq!(calls.answer(), format!("{len} {}", hex(&contents(address, len))), "{address:#x}");
        }
    }
    calls.end();
}

#[test]
fn reads_are_split_at_4_kib_and_at_mrrs() {
    let Some((mut calls, peer)) = pair(2) else { return };
    type Row<'a> = (&'a str, u64, u32, &'a [(u64, u32)]);
    let rows: [Row<'_>; 6] = [
        ("read fff 3", 0xfff, 3, &[(0xfff, 1), (0x1000, 2)]),
        ("read 1001 4096", 0x1001, 4096, &[(0x1001, 4095), (0x2000, 1)]),
        ("reada 1000 1024 512", 0x1000, 1024, &[(0x1000, 512), (0x1200, 512)]),
        ("reada 1fff 300 128", 0x1fff, 300, &[(0x1fff, 1), (0x2000, 128), (0x2080, 128), (0x2100, 43)]),
        ("reada 1000 6000 99999", 0x1000, 6000, &[(0x1000, 4096), (0x2000, 1904)]),
        ("read ffffffff 2", 0xffff_ffff, 2, &[(0xffff_ffff, 1), (0x1_0000_0000, 1)]),
    ];
    for (line, address, len, pieces) in rows {
        calls.ask(line);
        let seen = serve(&peer, len, |request| completions(request).iter().for_each(|tlp| peer.send(tlp)));
        assert_eq!(seen, pieces, "{line}");
        assert_eq!(calls.answer(), format!("{len} {}", hex(&contents(address, len))), "{line}");
    }
    calls.end();
}

/// `PCIe 5.0 §2.2.7`: four DW of header at 4 GiB and above.
#[test]
fn header_length_follows_the_address() {
    let Some((mut calls, peer)) = pair(3) else { return };
    for (address, header) in
        [("fffffffc", "00000001 1b00130f fffffffc"), ("ff00000000", "20000001 1b00130f 000000ff 00000000")]
    {
        calls.ask(&format!("read {address} 4"));
        let tlp = peer.tlp();
        assert_eq!(hex(&tlp), header.replace(' ', ""));
        let riser_tlp::Body::Memory(request) = riser_tlp::Repr::parse(&tlp).unwrap().repr.body else {
            panic!()
        };
        peer.send(&completions(&request)[0]);
        assert_eq!(calls.answer(), format!("4 {}", hex(&contents(request.span.address(), 4))));
    }
    calls.end();
}

#[test]
fn completion_that_does_not_match_is_dropped_and_counted() {
    let Some((mut calls, peer)) = pair(4) else { return };
    calls.ask("read 1001 10");
    serve(&peer, 10, |request| {
        let right = completion(request, 0, 10);
        let wrong = [
            Completion { tag: riser_tlp::Tag::from_bits(0x14), ..right },
            Completion { requester: riser_tlp::Bdf::from_bits(0x1b08), ..right },
            Completion { lower_address: 2, ..right },
            Completion { byte_count: 12, ..right },
            Completion { byte_count: 9, ..right },
        ];
        wrong.iter().for_each(|w| peer.send(&tlp_of(*w, 0x1001, |_| 0xee)));
        peer.send(&[0x4a]);
        peer.send(&tlp_of(right, 0x1001, memory)[..18]);
        peer.send(&vec![0x4a; 4400]);
        completions(request).iter().for_each(|tlp| peer.send(tlp));
    });
    assert_eq!(calls.answer(), format!("10 {}", hex(&contents(0x1001, 10))));
    assert_eq!(calls.strays(), 8);
    calls.end();
}

#[test]
fn stray_reason_names_rule_value_and_tlp() {
    let Some((mut calls, peer)) = pair(14) else { return };
    calls.ask("reason");
    assert_eq!(calls.answer(), "");
    calls.ask("read 1001 10");
    serve(&peer, 10, |request| {
        let wrong = Completion { lower_address: 2, ..completion(request, 0, 10) };
        peer.send(&tlp_of(wrong, 0x1001, |_| 0xee));
        completions(request).iter().for_each(|tlp| peer.send(tlp));
    });
    assert_eq!(calls.answer(), format!("10 {}", hex(&contents(0x1001, 10))));
    calls.ask("reason");
    let reason = calls.answer();
    let why = "Lower Address 0x2, expected 0x1 (PCIe 6.0 §2.2.9.1, rule lower-address): CplD, len 3, ";
    assert!(reason.starts_with(why), "{reason}");
    assert_eq!(calls.strays(), 1);
    calls.end();
}

/// In upstream's LibTLP, the completion of a read that timed out is taken for the answer to the next read, and all
/// later data is wrong.
#[test]
fn late_completion_never_answers_the_next_read() {
    let Some((mut calls, peer)) = pair(5) else { return };
    let stale = |_: u64| 0xdd;
    for round in 0..2 {
        calls.ask("read 2000 128");
        let (late, _) = peer.request();
        assert_eq!(calls.answer(), "-1 ETIME");
        calls.ask("read 2000 128");
        // The tag rests until these completions have arrived. They are two halves, and the second half arrives first.
        peer.send(&tlp_of(completion(&late, 64, 64), 0x2040, stale));
        let first = Completion { length_dw: Some(16), ..completion(&late, 0, 64) };
        peer.send(&tlp_of(first, 0x2000, stale));
        serve(&peer, 128, |request| completions(request).iter().for_each(|tlp| peer.send(tlp)));
        assert_eq!(calls.answer(), format!("128 {}", hex(&contents(0x2000, 128))));
        assert_eq!(calls.strays(), (round + 1) * 2);
    }
    calls.end();
}

/// When the next read begins, a duplicated answer already waits on the socket.
#[test]
fn duplicated_completion_never_answers_the_next_read() {
    let Some((mut calls, peer)) = pair(6) else { return };
    for round in 0..20_u8 {
        calls.ask("read 3000 64");
        serve(&peer, 64, |request| {
            let tlp = tlp_of(completion(request, 0, 64), 0x3000, |_| round);
            peer.send(&tlp);
            peer.send(&tlp);
        });
        assert_eq!(calls.answer(), format!("64 {}", hex(&[round; 64])));
    }
    calls.end();
}

#[test]
fn statuses_become_errno_and_end_the_read() {
    let Some((mut calls, peer)) = pair(7) else { return };
    for (status, errno) in [
        (Status::UnsupportedRequest, "EOPNOTSUPP"),
        (Status::ConfigRetry, "EAGAIN"),
        (Status::CompleterAbort, "ECONNABORTED"),
    ] {
        calls.ask("reada 4000 2048 512");
        let (request, _) = peer.request();
        peer.send(&refusal(&request, status));
        assert_eq!(calls.answer(), format!("-1 {errno}"));
    }
    calls.ask("read 4000 8");
    serve(&peer, 8, |request| {
        let mut poisoned = tlp_of(completion(request, 0, 8), 0x4000, memory);
        poisoned[2] |= 0x40;
        peer.send(&poisoned);
    });
    assert_eq!(calls.answer(), "-1 EIO");
    calls.end();
}

#[test]
fn absent_peer_gives_connection_refused() {
    let Some((mut calls, peer)) = pair(8) else { return };
    drop(peer);
    for _ in 0..3 {
        calls.ask("read 1000 4");
        assert_eq!(calls.answer(), "-1 ECONNREFUSED");
    }
    // The error of a posted write is reported by the next call.
    calls.ask("write 1000 00");
    assert_eq!(calls.answer(), "1");
    calls.ask("write 1000 00");
    assert_eq!(calls.answer(), "-1 ECONNREFUSED");
    // The peer may start later.
    let peer = Peer::new(Ipv4Addr::new(127, 14, 8, 2), Ipv4Addr::new(127, 14, 8, 1), PORT);
    calls.ask("read 1000 4");
    serve(&peer, 4, |request| completions(request).iter().for_each(|tlp| peer.send(tlp)));
    assert_eq!(calls.answer(), format!("4 {}", hex(&contents(0x1000, 4))));
    calls.end();
}

/// Writes arrive at their addresses in whole DWs, and no other bytes change.
#[test]
fn writes_of_every_alignment_and_length_are_exact() {
    let Some((mut calls, peer)) = pair(9) else { return };
    for len in [1, 2, 3, 4, 5, 7, 8, 9, 64, 255, 256, 1000, 4096] {
        for lead in 0..4_u64 {
            let address = 0x1_0ff0 + lead;
            let data = contents(address, len);
            for (line, limit) in [
                (format!("write {address:x} {}", hex(&data)), 4096),
                (format!("writea {address:x} 256 {}", hex(&data)), 256),
            ] {
                calls.ask(&line);
                let mut landed: Vec<u8> = Vec::new();
                while landed.len() < data.len() {
                    let (request, dws) = peer.request();
                    assert!(!is_read(&request) && request.span.is_contiguous());
                    assert!(request.span.length_dw() * 4 <= limit);
                    assert_eq!(request.span.first_byte(), address + landed.len() as u64);
                    let from = request.span.lead() as usize;
                    landed.extend(&dws[from..from + request.span.byte_count() as usize]);
                }
                assert_eq!(landed, data, "{len} bytes at {address:#x}");
                assert_eq!(calls.answer(), len.to_string());
            }
        }
    }
    calls.end();
}

#[test]
fn invalid_arguments_give_their_errno() {
    let Some((mut calls, _peer)) = pair(10) else { return };
    calls.ask("wrong");
    for expected in [
        "-1 EFAULT",
        "-1 EFAULT",
        "-1 EFAULT",
        "-1 EINVAL",
        "-1 EINVAL",
        "0",
        "-1 EFAULT",
        "-1 EINVAL",
        "-1 EFAULT",
        "-1 EINVAL",
    ] {
        assert_eq!(calls.answer(), expected);
    }
    calls.end();
}
