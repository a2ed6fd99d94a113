// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests reads whose completions match, and reads whose completions do not match. Uses no socket.

#[path = "../../../../fuzz/checks_gather.rs"]
mod checks;

use super::*;
use proptest::prelude::*;
use tlp::{Mps, Rcb, split};

const REQUESTER: Bdf = Bdf::from_bits(0x1b00);

fn read(address: u64, len: u32) -> Read {
    Read { requester: REQUESTER, tag: Tag::from_bits(3), span: Span::covering(address, len).unwrap() }
}

fn completion(read: &Read, offset: u32, len: u32) -> Completion {
    let address = read.span.first_byte() + u64::from(offset);
    Completion {
        byte_count: (read.span.byte_count() - offset) as u16,
        lower_address: (address & 0x7f) as u8,
        length_dw: Some((((address & 3) as u32 + len).div_ceil(4)) as u16),
        ..Completion::new(Bdf::from_bits(0), read.requester, read.tag)
    }
}

/// Returns the byte of memory at an address.
fn memory(address: u64) -> u8 {
    (address as u8).wrapping_mul(31) ^ (address >> 8) as u8
}

fn bytes(completion: Completion, address: u64) -> Vec<u8> {
    let repr = Repr::new(Body::Completion(completion));
    let mut out = vec![0; repr.tlp_len()];
    let header = repr.emit(&mut out);
    for (n, byte) in out[header..].iter_mut().enumerate() {
        *byte = memory((address & !3) + n as u64);
    }
    out
}

/// Returns all completions of a read, split at boundaries of 64 bytes.
fn completions(read: &Read) -> Vec<Vec<u8>> {
    let (mut out, mut offset) = (Vec::new(), 0);
    let total = read.span.byte_count();
    while offset < total {
        let at = read.span.first_byte() + u64::from(offset);
        let len = split::completion_piece(at, total - offset, Mps::new(128).unwrap(), Rcb::new(64).unwrap());
        out.push(bytes(completion(read, offset, len), at));
        offset += len;
    }
    out
}

/// Each row changes one field of the correct completion.
#[test]
fn completion_that_does_not_match_is_a_stray() {
    let read = read(0x1001, 10);
    let right = completion(&read, 0, 10);
    let unexpected = |found| Violation::new(RuleId::UnexpectedCompletion, found);
    let expecting = Violation::expecting;
    let rows = [
        ("tag", Completion { tag: Tag::from_bits(4), ..right }, unexpected(0x1b00_0004)),
        ("tag bit 8", Completion { tag: Tag::from_bits(0x103), ..right }, unexpected(0x1b00_0103)),
        ("requester", Completion { requester: Bdf::from_bits(0x1b01), ..right }, unexpected(0x1b01_0003)),
        ("lower address", Completion { lower_address: 0, ..right }, expecting(RuleId::LowerAddress, 0, 1)),
        ("byte count, larger", Completion { byte_count: 11, ..right }, expecting(RuleId::ByteCount, 11, 10)),
        ("byte count, smaller", Completion { byte_count: 9, ..right }, expecting(RuleId::LowerAddress, 1, 2)),
        (
            "length, larger",
            Completion { length_dw: Some(4), ..right },
            Violation::new(RuleId::CompletionLength, 4),
        ),
        ("locked", Completion { locked: true, ..right }, expecting(RuleId::CompletionLocked, 0x0b, 0x0a)),
    ];
    for (what, wrong, why) in rows {
        let mut out = [0xee; 10];
        let mut gather = Gather::new(read);
        assert_eq!(gather.take(&bytes(wrong, 0x1001), Some(&mut out)), Taken::Stray(Some(why)), "{what}");
        assert_eq!((out, gather.is_whole()), ([0xee; 10], false), "{what}");
        assert_eq!(gather.take(&bytes(right, 0x1001), Some(&mut out)), Taken::Data);
        assert!(gather.is_whole());
        let repeated = Violation::new(RuleId::CompletionRepeated, 10);
        assert_eq!(gather.take(&bytes(right, 0x1001), Some(&mut out)), Taken::Stray(Some(repeated)), "twice");
    }
}

#[test]
fn completion_with_a_wrong_length_is_a_stray() {
    let read = read(0x1000, 8);
    let whole = bytes(completion(&read, 0, 8), 0x1000);
    let mut out = [0; 8];
    for len in 0..whole.len() {
        let taken = Gather::new(read).take(&whole[..len], Some(&mut out));
        assert!(matches!(taken, Taken::Stray(Some(_))), "{len}: {taken:?}");
    }
    let long = [&whole[..], &[0]].concat();
    let length = Violation::new(RuleId::Length, long.len() as u64);
    assert_eq!(Gather::new(read).take(&long, Some(&mut out)), Taken::Stray(Some(length)));
}

/// Each Completion Status (`PCIe 5.0 Table 2-34`) gives the errno that `libtlp.h` specifies.
#[test]
fn statuses_become_errno() {
    let read = read(0x1000, 8);
    let right = Completion { length_dw: None, ..completion(&read, 0, 8) };
    for (status, errno) in [
        (Status::UnsupportedRequest, Errno::EOPNOTSUPP),
        (Status::ConfigRetry, Errno::EAGAIN),
        (Status::CompleterAbort, Errno::ECONNABORTED),
        (Status::Success, Errno::EBADMSG),
    ] {
        let mut gather = Gather::new(read);
        assert_eq!(gather.take(&bytes(Completion { status, ..right }, 0), None), Taken::Failed(errno));
        assert!(gather.is_whole(), "no completion is outstanding");
    }
    let mut poisoned = bytes(completion(&read, 0, 8), 0x1000);
    poisoned[2] |= 0x40;
    assert_eq!(Gather::new(read).take(&poisoned, Some(&mut [0; 8])), Taken::Failed(Errno::EIO));
}

/// The second half of the read is refused. The first half may still arrive.
#[test]
fn refused_completion_does_not_end_wait_for_earlier_ones() {
    let read = read(0x1000, 256);
    let mut gather = Gather::new(read);
    let refusal =
        Completion { length_dw: None, status: Status::CompleterAbort, ..completion(&read, 128, 128) };
    assert_eq!(gather.take(&bytes(refusal, 0), None), Taken::Failed(Errno::ECONNABORTED));
    assert!(!gather.is_whole());
    assert_eq!(gather.take(&completions(&read)[0], None), Taken::Data);
    assert!(gather.is_whole());
}

/// For each seed of the fuzz target: whether its read ends without a failure.
#[test]
fn seeds_end_as_expected() {
    let found: Vec<_> = testkit::seeds("libtlp_gather")
        .into_iter()
        .map(|(name, script)| (name, checks::gather(&script)))
        .collect();
    let expected = [
        ("aborted", false),
        ("doubled", true),
        // The last completion is successful, but has no data.
        ("foreign", false),
        ("missing", false),
        ("mps_512", true),
        ("one_byte", true),
        ("overtaken", true),
        ("refused", false),
        // One of the altered completions is a refusal.
        ("spoiled", false),
        ("unaligned", true),
        ("whole", true),
    ];
    assert_eq!(found, expected.map(|(name, is_whole): (&str, bool)| (name.to_owned(), is_whole)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Completions may arrive in any order and several times. The read bytes equal those of memory.
    #[test]
    fn reads_are_exact_if_completions_are_reordered_or_duplicated(
        address in 0x1000_u64..0x2000, len in 1_u32..=4096, order in proptest::collection::vec(any::<u16>(), 0..300),
    ) {
        let len = len.min(4096 - (address & 0xfff) as u32);
        let read = read(address, len);
        let all = completions(&read);
        let mut out = vec![0; len as usize];
        let mut gather = Gather::new(read);
        let shuffled = order.iter().map(|n| usize::from(*n) % all.len()).chain(0..all.len());
        for index in shuffled {
            gather.take(&all[index], Some(&mut out));
        }
        prop_assert!(gather.is_whole());
        let expected: Vec<u8> = (0..u64::from(len)).map(|n| memory(address + n)).collect();
        prop_assert_eq!(out, expected);
    }

    /// Arbitrary bytes, also after a matching header, cause no panic, and do not complete a read that they do not
    /// answer.
    #[test]
    fn arbitrary_bytes_have_no_effect(
        address in 0x1000_u64..0x1100, len in 1_u32..=512, flips in proptest::collection::vec((0_usize..16, any::<u8>()), 0..4),
        noise in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
        let read = read(address, len);
        let mut out = vec![0; len as usize];
        let mut gather = Gather::new(read);
        gather.take(&noise, Some(&mut out));
        let mut first = completions(&read).remove(0);
        for (at, by) in flips {
            if let Some(byte) = first.get_mut(at) {
                *byte ^= by;
            }
        }
        gather.take(&first, Some(&mut out));
    }

    /// Checks the fuzz target's properties for any script.
    #[test]
    fn random_scripts_pass_fuzz_checks(
        read in any::<[u8; 5]>(), steps in proptest::collection::vec((any::<u8>(), 0_u8..70, any::<u8>()), 0..80),
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let steps: Vec<u8> = steps.iter().flat_map(|(step, at, by)| [step | 1, *at, *by]).collect();
        checks::gather(&[&read[..], &steps].concat());
        checks::gather(&[&read[..], &bytes].concat());
    }
}
