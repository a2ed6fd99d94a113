// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Slots whose devices go and come while programs work with them.

use crate::rig::{Guest, times};

/// Two devices of one switch, pulled out and put back under traffic, `RISER_ROUNDS` times, three unless told; what stands in a third slot never notices.
#[test]
fn devices_go_and_come_under_traffic() {
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
        for slot in [1, 2] {
            guest.has(&format!("out {round}"), &format!("pciehp: Slot({slot}): Card not present"));
            guest.has(&format!("in {round}"), &format!("pciehp: Slot({slot}): Link Up"));
        }
    }
    for (function, mapped) in
        [("10000:03:00.0", rounds + 1), ("10000:04:00.0", rounds + 1), ("10000:05:00.0", 1)]
    {
        let said = guest.said(function);
        let numbers: Vec<u64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [good, ones, wrong, maps] = numbers[..] else { panic!("{function}: {said}") };
        assert!(good > 100, "{function}: {said}");
        // A device may go between a write and the read behind it; what comes then is new.
        assert!(wrong <= u64::from(rounds) && maps == u64::from(mapped), "{function}: {said}");
        if mapped == 1 {
            assert_eq!((ones, wrong), (0, 0), "{function}: {said}");
        }
    }
}
