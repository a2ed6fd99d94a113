// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every seed of the fuzz target passes its checks, and has the content that its name announces.

use crate::{checks_capture as checks, checks_foreign};
use testkit::seeds;

#[test]
fn seeds_pass_checks() {
    let rows = [
        ("bad_block.pcapng", 1, 1),
        ("bad_length.pcap", 2, 1),
        ("bad_trailer.pcapng", 1, 1),
        ("garbage.pcap", 2, 1),
        ("late_other.pcap", 2, 1),
        ("linux_cooked.pcap", 1, 1),
        ("ns_be.pcap", 2, 0),
        ("riser.pcapng", 5, 0),
        ("riser_cut.pcapng", 4, 1),
        ("sections.pcapng", 3, 1),
        ("snaplen.pcap", 1, 1),
        ("us_le.pcap", 2, 0),
        ("vlan.pcap", 2, 0),
    ];
    let seeds = seeds("capture_read");
    for (name, frames, errors) in rows {
        let (_, bytes) = seeds.iter().find(|seed| seed.0 == name).expect(name);
        assert_eq!(checks::capture(bytes), Some((frames, errors)), "{name}");
    }
    seeds.iter().for_each(|(_, bytes)| _ = checks::capture(bytes));
}

#[test]
fn text_seeds_pass_checks() {
    let rows = [
        ("csv", 2, 0),
        ("csv_stream", 2, 0),
        ("detected", 8, 0),
        ("hex_completions", 14, 0),
        ("hex_flit", 0, 0),
        ("detected_settings", 1, 1),
        ("hex_headers", 8, 0),
        ("hex_reversed", 2, 0),
        ("log_lspci", 1, 0),
        ("log_new", 1, 0),
        ("log_old", 1, 0),
        ("log_rasdaemon", 3, 0),
        ("mmiotrace", 5, 1),
        ("pcileech", 3, 0),
    ];
    let seeds = seeds("foreign_read");
    for (name, tlps, faults) in rows {
        let (_, bytes) = seeds.iter().find(|seed| seed.0 == name).expect(name);
        assert_eq!(checks_foreign::foreign(bytes), Some((tlps, faults)), "{name}");
    }
    for (_, bytes) in &seeds {
        let _ = checks_foreign::foreign(bytes);
        // Every view of a capture must also accept text.
        let _ = checks::capture(&bytes[1..]);
    }
}

/// Every sample of text, cut after each byte, and with each byte changed.
#[test]
fn cut_and_damaged_text_passes_checks() {
    for (_, bytes) in seeds("foreign_read") {
        let step = bytes.len() / 60 + 1;
        for at in (1..bytes.len()).step_by(step) {
            let _ = checks_foreign::foreign(&bytes[..at]);
            for byte in [0, b'\n', b'f'] {
                let mut damaged = bytes.clone();
                damaged[at] = byte;
                let _ = checks_foreign::foreign(&damaged);
            }
        }
    }
}
