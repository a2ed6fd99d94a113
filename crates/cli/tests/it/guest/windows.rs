// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Addresses that Linux assigns: 64-bit BARs above 4 GiB, resized BARs, and windows that grow after a rescan.

use crate::guest::rig::Guest;

/// Parses the first line of a function's `resource`: first and last address of BAR 0.
fn bar(line: &str) -> (u64, u64) {
    let mut words =
        line.split(' ').map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap());
    (words.next().unwrap(), words.next().unwrap())
}

#[test]
#[ignore = "of .ci/long guest"]
fn windows_follow_moved_and_resized_bars() {
    let lab = "version = 1\n[[slot]]\nname = 'large'\ndevice = 'memory'\n[slot.memory]\nlargest_bytes = 8589934592\n\
        [[switch]]\nname = 's'\n[[slot]]\nname = 'deep'\ndevice = 'memory'\nparent = 's'\n\
        [slot.memory]\nlargest_bytes = 1073741824\n[[slot]]\nname = 'plain'\ndevice = 'memory'\nparent = 's'\n\
        [slot.memory]\nsize_bytes = 16777216\n";
    let script = r#"large=10000:01:00.0 deep=10000:04:00.0 plain=10000:05:00.0
        bar() { head -1 $d/$1/resource; }
        work() { echo 1 >$d/$1/enable; memory $1 $2 32 0x5eed; memory $1 $2; }
        echo == first; for f in $large $deep $plain; do bar $f; done
        echo == sizes; cat $d/$large/resource0_resize $d/$deep/resource0_resize
        echo == resized; echo 13 >$d/$large/resource0_resize; bar $large; work $large 0x1ffff0000
        echo == window; lspci -s 10000:00:01.0 -v | grep -o 'Prefetchable.*size=[^]]*'
        # Larger when it is found again; all windows above it are to grow.
        setpci -s $deep ECAP15+9.b=a; echo 1 >$d/10000:00:02.0/remove; echo 1 >/sys/bus/pci/rescan
        echo == anew; bar $deep; work $deep 0x3fff0000; bar $plain; work $plain 0xff0000
        echo == end"#;
    let guest = Guest::run(lab, script, &["--kernel", "6.12"]);
    let first: Vec<_> = guest.said("first").lines().map(bar).collect();
    let [large, deep, plain] = first[..] else { panic!("{first:x?}") };
    assert!(large.0 >= 1 << 32 && large.1 - large.0 == 0xf_ffff, "{large:x?}");
    assert!(deep.0 >= 1 << 32 && deep.1 - deep.0 == 0xf_ffff, "{deep:x?}");
    assert!(plain.1 < 1 << 32 && plain.1 - plain.0 == 0xff_ffff, "{plain:x?}");
    // Bits for sizes from 1 MiB: up to 8 GiB, and up to 1 GiB.
    assert_eq!(guest.said("sizes"), "0000000000003fff\n00000000000007ff\n");
    let works = |heading: &str, bytes: u64| {
        let said: Vec<_> = guest.said(heading).lines().collect();
        let (first, last) = bar(said[0]);
        assert!(first >= 1 << 32 && last - first == bytes - 1, "{heading}: {}", said[0]);
        assert_eq!(said[1], "0x00005EED", "{heading}");
        said.len()
    };
    works("resized", 8 << 30);
    guest.has("window", "size=8");
    assert_eq!(works("anew", 1 << 30), 4);
    guest.has("anew", "\n0x00000000c");
}
