// SPDX-License-Identifier: Apache-2.0 OR MIT
//! DLLPs as bytes. Compares the CRCs with a bit-serial model of the specification's text.

use crate::common::cases;
use proptest::prelude::*;
use riser_tlp::{
    Class, DataLinkFeature, Dllp, DllpError, FlowControl, FlowControlKind, PmDllp, Scale, Vc, crc,
};

/// The CRC of `PCIe 5.0 §2.7.1`, §3.5.1, §3.6.2.1, bit by bit. A shift register of `width` bits starts with all
/// ones, and takes the bits of each byte from 0 to 7. The remainder is complemented. Bit i of the result goes to
/// bit 7 - i % 8 of byte i / 8 of the field, where byte 0 holds the field's lowest bits.
fn bit_serial(width: u32, polynomial: u64, bytes: &[u8]) -> u64 {
    let mask = (1u64 << width) - 1;
    let mut register = mask;
    for byte in bytes {
        for bit in 0..8 {
            let feedback = (register >> (width - 1) ^ u64::from(*byte) >> bit) & 1;
            register = ((register << 1) & mask) ^ (polynomial * feedback);
        }
    }
    let result = !register & mask;
    (0..width).fold(0, |field, i| field | (result >> i & 1) << (i / 8 * 8 + 7 - i % 8))
}

fn lcrc_bit_serial(sequence: u16, tlp: &[u8]) -> u32 {
    let mut covered = sequence.to_be_bytes().to_vec();
    covered.extend_from_slice(tlp);
    bit_serial(32, 0x04C1_1DB7, &covered) as u32
}

const fn fc(kind: FlowControlKind, class: Class, vc: u8, header: u8, data: u16) -> Dllp {
    Dllp::FlowControl(FlowControl::new(kind, class, Vc::from_bits(vc), header, data))
}

const fn scaled(
    kind: FlowControlKind,
    class: Class,
    (header_scale, header): (Scale, u8),
    (data_scale, data): (Scale, u16),
) -> Dllp {
    let fc = FlowControl::new(kind, class, Vc::VC0, header, data);
    Dllp::FlowControl(FlowControl { header_scale, data_scale, ..fc })
}

/// First four bytes, from the layouts and type encodings in `PCIe 5.0 §3.5.1`.
const ROWS: &[(Dllp, [u8; 4], &str)] = {
    use Class::{Completion, NonPosted, Posted};
    use FlowControlKind::{InitFc1, InitFc2, UpdateFc};
    &[
        (Dllp::Ack { sequence: 0 }, [0x00, 0, 0x00, 0x00], "Ack, seq 0"),
        (Dllp::Ack { sequence: 0xabc }, [0x00, 0, 0x0a, 0xbc], "Ack, seq 2748"),
        (Dllp::Nak { sequence: 0xfff }, [0x10, 0, 0x0f, 0xff], "Nak, seq 4095"),
        (fc(InitFc1, Posted, 0, 0x20, 0x080), [0x40, 0x08, 0x00, 0x80], "InitFC1-P, vc 0, hdr 32, data 128"),
        (fc(InitFc1, NonPosted, 1, 1, 1), [0x51, 0x00, 0x40, 0x01], "InitFC1-NP, vc 1, hdr 1, data 1"),
        (fc(InitFc1, Completion, 0, 0, 0), [0x60, 0, 0, 0], "InitFC1-Cpl, vc 0, hdr 0, data 0"),
        (
            fc(InitFc2, Posted, 7, 0xff, 0xfff),
            [0xc7, 0x3f, 0xcf, 0xff],
            "InitFC2-P, vc 7, hdr 255, data 4095",
        ),
        (fc(InitFc2, NonPosted, 0, 2, 3), [0xd0, 0x00, 0x80, 0x03], "InitFC2-NP, vc 0, hdr 2, data 3"),
        (fc(InitFc2, Completion, 2, 4, 5), [0xe2, 0x01, 0x00, 0x05], "InitFC2-Cpl, vc 2, hdr 4, data 5"),
        (
            fc(UpdateFc, Posted, 0, 0x81, 0x123),
            [0x80, 0x20, 0x41, 0x23],
            "UpdateFC-P, vc 0, hdr 129, data 291",
        ),
        (fc(UpdateFc, NonPosted, 0, 8, 0), [0x90, 0x02, 0x00, 0x00], "UpdateFC-NP, vc 0, hdr 8, data 0"),
        (
            fc(UpdateFc, Completion, 0, 0, 0x800),
            [0xa0, 0x00, 0x08, 0x00],
            "UpdateFC-Cpl, vc 0, hdr 0, data 2048",
        ),
        // HdrScale in bits 23:22, DataScale in 13:12 (`PCIe 5.0 §3.5.1`, Figures 3-9 to 3-11).
        (
            scaled(InitFc1, Posted, (Scale::X1, 127), (Scale::X16, 0x7ff)),
            [0x40, 0x5f, 0xf7, 0xff],
            "InitFC1-P, vc 0, hdr 127 x1, data 2047 x16",
        ),
        (
            scaled(InitFc2, NonPosted, (Scale::X4, 0x81), (Scale::X1, 1)),
            [0xd0, 0xa0, 0x50, 0x01],
            "InitFC2-NP, vc 0, hdr 129 x4, data 1 x1",
        ),
        (
            scaled(UpdateFc, Completion, (Scale::X16, 0xff), (Scale::X4, 0xabc)),
            [0xa0, 0xff, 0xea, 0xbc],
            "UpdateFC-Cpl, vc 0, hdr 255 x16, data 2748 x4",
        ),
        // `PCIe 5.0 §3.3`, Figure 3-13: Feature Ack in bit 23, Local Scaled Flow Control Supported in bit 0.
        (
            Dllp::Feature(DataLinkFeature { ack: false, supported: 1 }),
            [0x02, 0x00, 0x00, 0x01],
            "Feature, scaled FC",
        ),
        (
            Dllp::Feature(DataLinkFeature { ack: true, supported: 0x40_0002 }),
            [0x02, 0xc0, 0x00, 0x02],
            "Feature, reserved bits 0x400002, ack",
        ),
        // `PCIe 5.0 Table 3-1`: 0010 0000b, 0001b, 0011b, 0100b; 0011 0000b; 0011 0001b.
        (Dllp::Pm(PmDllp::EnterL1), [0x20, 0, 0, 0], "PM_Enter_L1"),
        (Dllp::Pm(PmDllp::EnterL23), [0x21, 0, 0, 0], "PM_Enter_L23"),
        (Dllp::Pm(PmDllp::ActiveStateRequestL1), [0x23, 0, 0, 0], "PM_Active_State_Request_L1"),
        (Dllp::Pm(PmDllp::RequestAck), [0x24, 0, 0, 0], "PM_Request_Ack"),
        (Dllp::Vendor { bits: 0x12_3456 }, [0x30, 0x12, 0x34, 0x56], "Vendor, 0x123456"),
        (Dllp::Nop, [0x31, 0, 0, 0], "NOP"),
    ]
};

fn with_crc(bytes: [u8; 4]) -> [u8; 6] {
    let [e, f] = (bit_serial(16, 0x100B, &bytes) as u16).to_be_bytes();
    [bytes[0], bytes[1], bytes[2], bytes[3], e, f]
}

#[test]
fn parses_prints_and_emits_dllps() {
    for (dllp, bytes, line) in ROWS {
        assert_eq!(dllp.emit(), with_crc(*bytes), "{line}");
        assert_eq!(Dllp::parse(&with_crc(*bytes)), Ok(*dllp), "{line}");
        assert_eq!(dllp.to_string(), *line);
    }
}

#[test]
fn reports_invalid_dllps() {
    let ack = Dllp::Ack { sequence: 5 }.emit();
    assert_eq!(Dllp::parse(&ack[..5]), Err(DllpError::Length(5)));
    assert_eq!(Dllp::parse(&[0; 7]), Err(DllpError::Length(7)));
    for bit in 0..48 {
        let mut hurt = ack;
        hurt[bit / 8] ^= 1 << (bit % 8);
        assert!(matches!(Dllp::parse(&hurt), Err(DllpError::Crc { .. })), "bit {bit}");
    }
}

/// Every type byte of `PCIe 5.0 Table 3-1` that riser knows parses. All others are errors, also those of MR-IOV.
#[test]
fn parses_or_reports_every_type_byte() {
    let is_flow_control = |ty: u8| ty & 0xc0 != 0 && ty & 0x30 != 0x30 && ty & 0x08 == 0;
    let others = [0x00, 0x02, 0x10, 0x20, 0x21, 0x23, 0x24, 0x30, 0x31];
    for ty in 0..=255u8 {
        let read = Dllp::parse(&with_crc([ty, 0, 0, 0]));
        if is_flow_control(ty) || others.contains(&ty) {
            assert!(read.is_ok(), "{ty:#04x}");
        } else {
            assert_eq!(read, Err(DllpError::UnknownType(ty)));
        }
    }
    assert_eq!(
        DllpError::UnknownType(0x48).to_string(),
        "unknown DLLP type 0x48; known types: Ack, Nak, InitFC1, InitFC2, UpdateFC, feature exchange, power management, \
         vendor-specific and NOP"
    );
}

/// Rows: scale, its encoding, credits per unit (`PCIe 5.0 Table 3-2`). Then the credits that HdrFC 127 and DataFC
/// 2047 stand for, which are the maxima that may be advertised (`PCIe 5.0 §2.6.1`, Table 2-46).
#[test]
fn scales_multiply_credit_fields() {
    let rows = [
        (Scale::Unscaled, 0, 1, 127, 2047),
        (Scale::X1, 1, 1, 127, 2047),
        (Scale::X4, 2, 4, 508, 8188),
        (Scale::X16, 3, 16, 2032, 32_752),
    ];
    for (scale, bits, factor, header, data) in rows {
        assert_eq!((scale.bits(), Scale::from_bits(bits), scale.factor()), (bits, scale, factor));
        let dllp = scaled(FlowControlKind::InitFc1, Class::Posted, (scale, 127), (scale, 2047));
        let Dllp::FlowControl(fc) = dllp else { unreachable!() };
        assert_eq!((fc.header_credits(), fc.data_credits()), (header, data), "{scale:?}");
    }
}

#[test]
fn ignores_reserved_bits() {
    let rows = [
        ([0x00, 0xff, 0xf0, 0x05], Dllp::Ack { sequence: 5 }),
        ([0x21, 0xff, 0xff, 0xff], Dllp::Pm(PmDllp::EnterL23)),
        ([0x31, 0x12, 0x34, 0x56], Dllp::Nop),
    ];
    for (bytes, dllp) in rows {
        assert_eq!(Dllp::parse(&with_crc(bytes)), Ok(dllp));
    }
}

/// The LCRC is Ethernet's CRC-32, whose check value 0xCBF43926 belongs to "123456789". As a TLP, its first two
/// bytes would be a sequence number of more than 12 bits. So this test uses the bit-serial model; a test below
/// compares it with `crc`.
#[test]
fn bit_serial_model_has_check_value_of_crc_32() {
    assert_eq!((bit_serial(32, 0x04C1_1DB7, b"123456789") as u32).swap_bytes(), 0xCBF4_3926);
}

fn any_class() -> impl Strategy<Value = Class> {
    prop_oneof![Just(Class::Posted), Just(Class::NonPosted), Just(Class::Completion)]
}

fn any_kind() -> impl Strategy<Value = FlowControlKind> {
    use FlowControlKind::{InitFc1, InitFc2, UpdateFc};
    prop_oneof![Just(InitFc1), Just(InitFc2), Just(UpdateFc)]
}

fn any_dllp() -> impl Strategy<Value = Dllp> {
    prop_oneof![
        (0..4096u16).prop_map(|sequence| Dllp::Ack { sequence }),
        (0..4096u16).prop_map(|sequence| Dllp::Nak { sequence }),
        (any_kind(), any_class(), 0..8u8, any::<u8>(), 0..4096u16)
            .prop_map(|(kind, class, vc, header, data)| fc(kind, class, vc, header, data)),
        (any_kind(), any_class(), 0..4u8, any::<u8>(), 0..4u8, 0..4096u16).prop_map(
            |(kind, class, hs, h, ds, d)| {
                scaled(kind, class, (Scale::from_bits(hs), h), (Scale::from_bits(ds), d))
            }
        ),
        (any::<bool>(), 0..1u32 << 23)
            .prop_map(|(ack, supported)| Dllp::Feature(DataLinkFeature { ack, supported })),
        (0..1u32 << 24).prop_map(|bits| Dllp::Vendor { bits }),
        prop::sample::select(
            &[
                Dllp::Pm(PmDllp::EnterL1),
                Dllp::Pm(PmDllp::EnterL23),
                Dllp::Pm(PmDllp::ActiveStateRequestL1),
                Dllp::Pm(PmDllp::RequestAck),
                Dllp::Nop,
            ][..]
        ),
    ]
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn parses_every_emitted_dllp(dllp in any_dllp()) {
        prop_assert_eq!(Dllp::parse(&dllp.emit()), Ok(dllp));
    }

    #[test]
    fn parses_or_rejects_any_four_bytes(bytes in any::<[u8; 4]>()) {
        if let Ok(dllp) = Dllp::parse(&with_crc(bytes)) {
            prop_assert_eq!(Dllp::parse(&dllp.emit()), Ok(dllp));
        }
    }

    #[test]
    fn crcs_match_bit_serial_model(
        sequence in 0..4096u16,
        tlp in prop::collection::vec(any::<u8>(), 0..64),
        four in any::<[u8; 4]>(),
    ) {
        prop_assert_eq!(crc::lcrc(sequence, &tlp), lcrc_bit_serial(sequence, &tlp));
        prop_assert_eq!(u64::from(crc::dllp(four)), bit_serial(16, 0x100B, &four));
                // Makes the first DW a header. ECRC covers all bits of a prefix, so a prefix would give another value.
        let mut seen = tlp.clone();
        seen.iter_mut().take(1).for_each(|fmt| *fmt &= 0x7f);
        let header = seen.clone();
                // `crc.rs` tests the ECRC of TLPs with prefixes.
        if let [type_byte @ (0..0x80 | 0xa0..), _, ep_byte, ..] = seen.as_mut_slice() {
            *type_byte |= 0x01;
            *ep_byte |= 0x40;
            prop_assert_eq!(u64::from(crc::ecrc(&header)), bit_serial(32, 0x04C1_1DB7, &seen));
        }
    }
}
