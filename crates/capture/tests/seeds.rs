// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every seed of the fuzz target holds what the target asks for, and is what its name says.

#[path = "../../../fuzz/checks_capture.rs"]
mod checks;

use std::path::Path;

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
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/capture_read");
    for (name, frames, errors) in rows {
        let bytes = std::fs::read(folder.join(name)).unwrap();
        assert_eq!(checks::capture(&bytes), Some((frames, errors)), "{name}");
    }
    for seed in std::fs::read_dir(folder).unwrap() {
        let _ = checks::capture(&std::fs::read(seed.unwrap().path()).unwrap());
    }
}
