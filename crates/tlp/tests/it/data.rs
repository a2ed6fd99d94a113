// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The position of a TLP's data on its byte lanes, and the sizes of the types.

use riser_tlp::{
    Access, Bdf, Body, Completion, ConfigRequest, Data, MemoryOp, MemoryRequest, PayloadPool, Repr, Span,
    Tag, Tlp, crc,
};

const ID: Bdf = Bdf::from_bits(0x0100);

fn write(span: Span) -> Repr {
    Repr::new(Body::Memory(MemoryRequest { op: MemoryOp::Write, requester: ID, tag: Tag::default(), span }))
}

fn completion(byte_count: u16, lower_address: u8, length_dw: u16) -> Repr {
    Repr::new(Body::Completion(Completion {
        byte_count,
        lower_address,
        length_dw: Some(length_dw),
        ..Completion::new(ID, ID, Tag::default())
    }))
}

fn config_write(first_be: u8) -> Repr {
    Repr::new(Body::Config(ConfigRequest {
        first_be,
        ..ConfigRequest::new(Access::Write, ID, Tag::default(), ID, 1)
    }))
}

/// Rows: the bytes after the header on the wire, and those that a TLP keeps. `PCIe 5.0 §2.2.5` (writes), §2.3.1.1
/// (completions: Byte Count and Lower Address).
#[test]
fn data_has_correct_byte_lanes() {
    let rows: &[(&str, Repr, &[u8], &[u8])] = &[
        ("whole DW", write(Span::covering(0x100, 4).unwrap()), b"abcd", b"abcd"),
        ("one byte on lane 3", write(Span::covering(0x103, 1).unwrap()), b"\0\0\0a", b"a"),
        ("three bytes over two DW", write(Span::covering(0x102, 3).unwrap()), b"\0\0abc\0\0\0", b"abc"),
        ("holes stay", write(Span::from_fields(0x100, 1, 0b1010, 0).unwrap()), b"\0abc", b"abc"),
        ("zero length keeps one byte", write(Span::zero_length(0x100)), b"a\0\0\0", b"a"),
        ("completion from lane 0", completion(8, 0x40, 2), b"abcdefgh", b"abcdefgh"),
        ("completion from lane 3", completion(5, 0x43, 2), b"\0\0\0abcde", b"abcde"),
        ("first piece of a read", completion(512, 0x02, 2), b"\0\0abcdef", b"abcdef"),
        ("last piece ends within its DW", completion(3, 0x00, 1), b"abc\0", b"abc"),
        ("configuration write of two bytes", config_write(0b1100), b"\0\0ab", b"ab"),
    ];
    let pool = PayloadPool::new();
    for (what, repr, lanes, kept) in rows {
        let tlp = Tlp::new(*repr, Data::Carried(pool.copy(kept))).with_carry(true);
        let mut wire = vec![0xee; tlp.wire_len()];
        tlp.emit(&mut wire);
        assert_eq!(&wire[repr.header_len()..], *lanes, "{what}");
        assert_eq!(Tlp::parse(&wire, &pool).as_ref(), Ok(&tlp), "{what}");
    }
}

#[test]
fn writes_zeros_for_missing_data_and_cuts_excess() {
    let pool = PayloadPool::new();
    let repr = write(Span::covering(0x101, 2).unwrap());
    let rows = [
        (Data::Counted(2), *b"\0\0\0\0"),
        (Data::NONE, *b"\0\0\0\0"),
        (Data::Carried(pool.copy(b"a")), *b"\0a\0\0"),
        (Data::Carried(pool.copy(b"abcdefg")), *b"\0ab\0"),
        (Data::Carried(pool.copy(b"xaby")), *b"xaby"),
    ];
    for (data, lanes) in rows {
        let mut wire = [0xee; 16];
        Tlp::new(repr, data).with_carry(true).emit(&mut wire);
        assert_eq!(wire[12..], lanes);
    }
}

/// LibTLP sends writes of one or two bytes with three bytes of data. riser takes the bytes on the enabled lanes.
#[test]
fn accepts_unusual_byte_lanes() {
    let pool = PayloadPool::new();
    let repr = write(Span::covering(0x102, 2).unwrap());
    let rows: [(&[u8], &[u8]); 4] = [(b"abcd", b"cd"), (b"abc", b"c\0"), (b"a", b"\0\0"), (b"abcdef", b"cd")];
    for (lanes, kept) in rows {
        assert_eq!(Tlp::from_lanes(repr, lanes, &pool).data.bytes(), Some(kept));
    }
}

#[test]
fn digest_is_ecrc() {
    let repr = Repr { td: true, ..write(Span::covering(0x100, 4).unwrap()) };
    let pool = PayloadPool::new();
    let tlp = Tlp::new(repr, Data::Carried(pool.copy(b"abcd"))).with_carry(true);
    let mut wire = [0xee; 24];
    assert_eq!(tlp.emit(&mut wire), 20);
    assert_eq!(wire[16..20], crc::ecrc(&wire[..16]).to_be_bytes());
    assert_eq!(wire[20..], [0xee; 4]);
    assert_eq!(Tlp::parse(&wire[..20], &pool), Ok(tlp));
}

#[test]
fn parse_reuses_buffer_of_pool() {
    let pool = PayloadPool::new();
    let wire = [0x40, 0, 0, 1, 1, 0, 7, 0x0f, 0, 0, 0x10, 0, 1, 2, 3, 4];
    for _ in 0..10 {
        drop(Tlp::parse(&wire, &pool));
    }
    assert_eq!(pool.buffers_made(), 1);
}

/// The queues of the fabric copy these values.
#[test]
fn tlp_types_do_not_exceed_size_limits() {
    let (repr, data, tlp) = (size_of::<Repr>(), size_of::<Data>(), size_of::<Tlp>());
    println!("Repr {repr} B, Data {data} B, Tlp {tlp} B");
    assert!(repr <= 32 && data <= 16 && tlp <= 64);
}
