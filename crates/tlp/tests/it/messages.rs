// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares the table of messages with a copy that was typed from `PCIe 5.0 Appendix F` and §2.2.8, and checks each
//! row as bytes.

use riser_tlp::message::{MESSAGES, MessageData, MessageType, name_of};
use riser_tlp::rules::{RULES, tolerated};
use riser_tlp::{Body, Header, MessageRouting, Repr, RuleId};

/// Columns: code, subtype (`-`: none), routings as digits, DWs of data (`*`: any), whether TC 0 is checked, name.
/// Table F-1 has the routings in binary: 000 to root complex, 010 by ID, 011 broadcast, 100 local, 101 gathered.
const TABLE: &str = "\
00 - 3 0 tc0 Unlock
01 - 2 2 any Invalidate_Request
02 - 2 0 any Invalidate_Completion
04 - 0 0 any Page_Request
05 - 2 0 any PRG_Response
10 - 4 0 tc0 LTR
12 - 4 0 tc0 OBFF
14 - 4 0 tc0 PM_Active_State_Nak
18 - 0 0 tc0 PM_PME
19 - 3 0 tc0 PME_Turn_Off
1b - 5 0 tc0 PME_TO_Ack
20 - 4 0 tc0 Assert_INTA
21 - 4 0 tc0 Assert_INTB
22 - 4 0 tc0 Assert_INTC
23 - 4 0 tc0 Assert_INTD
24 - 4 0 tc0 Deassert_INTA
25 - 4 0 tc0 Deassert_INTB
26 - 4 0 tc0 Deassert_INTC
27 - 4 0 tc0 Deassert_INTD
30 - 0 0 tc0 ERR_COR
31 - 0 0 tc0 ERR_NONFATAL
33 - 0 0 tc0 ERR_FATAL
40 - 4 0 any Attention_Indicator_Off
41 - 4 0 any Attention_Indicator_On
43 - 4 0 any Attention_Indicator_Blink
44 - 4 0 any Power_Indicator_Off
45 - 4 0 any Power_Indicator_On
47 - 4 0 any Power_Indicator_Blink
48 - 4 0 any Attention_Button_Pressed
50 - 4 1 tc0 Set_Slot_Power_Limit
52 - 4 0 tc0 PTM_Request
53 - 4 0 tc0 PTM_Response
53 - 4 1 tc0 PTM_ResponseD
7e - 0234 * any Vendor_Defined_Type_0
7f 00 23 2 tc0 LN
7f 01 3 4 tc0 Hierarchy_ID
7f 08 4 0 tc0 DRS
7f 09 0 0 tc0 FRS
7f - 0234 * any Vendor_Defined_Type_1
";

fn line(row: &MessageType) -> String {
    let subtype = row.subtype.map_or("-".to_owned(), |subtype| format!("{subtype:02x}"));
    let routings: String =
        (0..8).filter(|&n| row.may_be_routed(MessageRouting::from_bits(n))).map(|n| n.to_string()).collect();
    let data = match row.data {
        MessageData::Never => "0".to_owned(),
        MessageData::Dw(n) => n.to_string(),
        MessageData::Free => "*".to_owned(),
    };
    let tc = if row.tc0.is_some() { "tc0" } else { "any" };
    format!("{:02x} {subtype} {routings} {data} {tc} {}\n", row.code, row.name)
}

#[test]
fn message_table_matches_specification() {
    assert_eq!(MESSAGES.iter().map(line).collect::<String>(), TABLE);
    for row in &MESSAGES {
        assert!(row.section.starts_with('§'), "{row:?}");
        // The rule about TC is in the section of the message, or in the section that contains it.
        let rule = row.tc0.map(|id| RULES[id as usize].section);
        assert!(rule.is_none_or(|rule| row.section.starts_with(&rule[..rule.len().min(9)])), "{row:?}");
    }
}

/// The bytes of a message of this row, with the given routing, TC and DWs of data.
fn bytes(row: &MessageType, routing: u8, tc: u8, dw: u16) -> Vec<u8> {
    let fmt = if dw > 0 { 0x70 } else { 0x30 };
    let mut tlp = vec![fmt | routing, tc << 4, 0, dw as u8, 1, 0, 0, row.code, 0, 0, 0, 0, 0, 0, 0, 0];
    if let Some(subtype) = row.subtype {
        (tlp[11], tlp[12]) = (1, subtype);
    }
    tlp.resize(16 + usize::from(dw) * 4, 0);
    tlp
}

/// Checks the name and the broken rules of each row, for every routing, with two TCs and four lengths of data.
#[test]
fn checks_every_message_against_its_row() {
    let mut broken = [0; 3];
    for row in &MESSAGES {
        let right = match row.data {
            MessageData::Dw(n) => n,
            _ => 0,
        };
        for (routing, tc, dw) in (0..6)
            .flat_map(|r| [0, 5].map(|tc| (r, tc)))
            .flat_map(|(r, tc)| [0, 1, 2, 4].map(|dw| (r, tc, dw)))
        {
            let bytes = bytes(row, routing, tc, dw);
            let parsed = Repr::parse(&bytes);
            if let (1.., Some(rule)) = (tc, row.tc0) {
                assert_eq!(parsed.unwrap_err().on_a_link().rule, rule, "{row:?}");
                broken[0] += 1;
                continue;
            }
            let needs_length = row.code == 0x50 && dw != 1;
            assert_eq!(parsed.is_err(), needs_length, "{row:?}");
            let Ok(parsed) = parsed else { continue };
            let Body::Message(message) = parsed.repr.body else { panic!() };
            // Only the data distinguishes PTM_Response from PTM_ResponseD.
            let name = if row.code == 0x53 {
                ["PTM_Response", "PTM_ResponseD"][usize::from(dw > 0)]
            } else {
                row.name
            };
            assert_eq!(name_of(&message), Some(name));
            let rules: Vec<RuleId> = tolerated(&Header::new(&bytes).unwrap()).map(|m| m.rule).collect();
            let (misrouted, odd) =
                (!row.may_be_routed(message.routing), dw != right && row.data != MessageData::Free);
            assert_eq!(rules.contains(&RuleId::MessageRouting), misrouted, "{row:?} {routing}");
            if row.code != 0x53 {
                assert_eq!(rules.contains(&RuleId::MessageData), odd, "{row:?} {dw}");
            }
            broken[1] += usize::from(misrouted);
            broken[2] += usize::from(odd);
        }
    }
    assert!(broken.iter().all(|&n| n > 100), "{broken:?}");
}

/// Codes that are not in Table F-1 have no name. A receiver treats them as Unsupported Requests (§2.3.1).
#[test]
fn undefined_codes_have_no_name() {
    let defined: Vec<u8> = MESSAGES.iter().map(|row| row.code).collect();
    for code in (0..=255).filter(|code| !defined.contains(code)) {
        let tlp = [0x34, 0, 0, 0, 1, 0, 0, code, 0, 0, 0, 0, 0, 0, 0, 0];
        let Body::Message(message) = Repr::parse(&tlp).unwrap().repr.body else { panic!() };
        assert_eq!((name_of(&message), message.vendor()), (None, None));
        let rules: Vec<RuleId> = tolerated(&Header::new(&tlp).unwrap()).map(|m| m.rule).collect();
        assert_eq!(rules, [RuleId::MessageCode]);
    }
}
