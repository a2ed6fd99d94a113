// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Slots whose devices are removed and inserted while programs use them.

use crate::guest::rig::{Guest, times};

/// The link of a DMA engine breaks during its writes to memory. pciehp removes the device, and finds it again in its power-on state; it works
/// as before.
#[test]
#[ignore = "of .ci/long guest"]
fn device_can_be_removed_during_dma() {
    let lab = "version = 1\n[[slot]]\nname = 'engine'\ndevice = 'dma-engine'\nhot_plug = true\nhot_plug_controls = false\n";
    let script = r#"engine=10000:01:00.0
        ready() { echo 1 >$d/$engine/enable; setpci -s $engine COMMAND=6:6; rings $engine; }
        done_so_far() { memory $engine 0x1098; }
        ready
        begin cut; lab fault "slot = 'engine', direction = 'upstream', frames = 'posted', nth = 1000, action = 'cut', restore_after_us = 2000"
        dma_writes $engine $((free + 0x10000)) 262144; end 'Card present'
        tries=0; until [ -e $d/$engine/enable ] || [ $tries = 50 ]; do tries=$((tries + 1)); usleep 100000; done
        echo == again; usleep 300000; setpci -s $engine COMMAND BASE_ADDRESS_0; ready; done_so_far
        dma_writes $engine $((free + 0x10000)) 262144; usleep 100000; done_so_far; devmem $((free + 0x10000 + 262136)) 64
        echo == end"#;
    let guest = Guest::run(lab, script, &["--append", "memmap=1M$0x10000000"]);
    guest.has("cut", "pciehp: Slot(1): Link Down");
    // Whether the link is already up when the kernel checks, and is reported as up, varies.
    guest.has("cut", "pciehp: Slot(1): Card present");
    // The last word of a stream that counts from 0.
    assert_eq!(guest.said("again"), "0000\nc0100004\n0x00000000\n0x00000001\n0x0000000000007FFF\n");
}

/// Two devices of a switch are pulled out and put back during traffic, `RISER_ROUNDS` times (default: three). The device in a third slot is not affected.
#[test]
#[ignore = "of .ci/long guest"]
fn devices_can_be_replaced_during_traffic() {
    let slot =
        |name: &str, hot: &str| format!("[[slot]]\nname = '{name}'\ndevice = 'memory'\nparent = 's'\n{hot}");
    let hot = "hot_plug = true\nhot_plug_controls = false\n";
    let lab = format!(
        "version = 1\n[[switch]]\nname = 's'\n{}{}{}",
        slot("one", hot),
        slot("two", hot),
        slot("stays", "")
    );
    let script = r#"one=10000:03:00.0 two=10000:04:00.0 stays=10000:05:00.0
        # absent FUNCTION, present FUNCTION: waits for that.
        wait_until() { tries=0; until "$@" || [ $tries = 60 ]; do tries=$((tries + 1)); usleep 100000; done; }
        gone() { ! [ -e $d/$1 ]; }
        ready() { [ -e $d/$1/enable ] && echo 1 >$d/$1/enable; }
        for f in $one $two $stays; do ready $f; /share/traffic $f 4096 >/tmp/$f & done
        for i in $(seq ROUNDS); do
            usleep 300000; begin "out $i"; lab remove one; lab remove two; wait_until gone $one; wait_until gone $two; end 'Card not present'
            begin "in $i"; lab insert one; lab insert two; wait_until ready $one; wait_until ready $two; end 'BAR 0'
        done
        usleep 500000; touch /tmp/stop; wait
        for f in $one $two $stays; do echo "== $f"; cat /tmp/$f; done
        echo == end"#;
    let rounds = times("RISER_ROUNDS", 3);
    let script = script.replace("ROUNDS", &rounds.to_string());
    let guest = Guest::with_programs(&lab, &script, &[], &["traffic"]);
    for round in 1..=rounds {
        // Slot 1 is the slot of the root port.
        for slot in [2, 3] {
            guest.has(&format!("out {round}"), &format!("pciehp: Slot({slot}): Card not present"));
            guest.has(&format!("in {round}"), &format!("pciehp: Slot({slot}): Card present"));
        }
    }
    for (function, mapped) in
        [("10000:03:00.0", rounds + 1), ("10000:04:00.0", rounds + 1), ("10000:05:00.0", 1)]
    {
        let said = guest.said(function);
        let numbers: Vec<u64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [good, ones, wrong, maps] = numbers[..] else { panic!("{function}: {said}") };
        assert!(good > 100, "{function}: {said}");
        // A device may be replaced between a write and the read after it, which then returns the new device's value.
        assert!(wrong <= u64::from(rounds) && maps == u64::from(mapped), "{function}: {said}");
        if mapped == 1 {
            assert_eq!((ones, wrong), (0, 0), "{function}: {said}");
        }
    }
}
