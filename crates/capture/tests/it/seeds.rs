// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every seed of the fuzz target holds what the target asks for, and is what its name says.

use crate::checks_capture as checks;
use testkit::seeds;

#[test]
fn seeds_hold() {
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
