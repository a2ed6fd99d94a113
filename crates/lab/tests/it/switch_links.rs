// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Links below a switch, as the registers of its ports set them.

use crate::errors_rig::*;
use tlp::Duration;

/// Target Link Speed of a downstream port (`PCIe 5.0 §7.5.3.19`): the rate of the link below after Recovery. Retrain
/// Link (bit 5 of Link Control) starts Recovery. Each row: Target Link Speed, Current Link Speed.
#[test]
fn a_link_below_a_switch_retrains_at_the_target_link_speed() {
    run(&[], |lab| async move {
        lab.cpu.sleep_until(GO).await;
        let (control, control_2) = (lab.pcie(DOWN_A, 4), lab.pcie(DOWN_A, 12));
        for (target, speed) in [(1, 1), (2, 2), (3, 3), (5, 3)] {
            lab.write(DOWN_A, control_2, 0b0001, target).await;
            lab.write(DOWN_A, control, 0b0001, 1 << 5).await;
            lab.cpu.sleep(Duration::from_us(20)).await;
            assert_eq!(lab.read(DOWN_A, control).await >> 16 & 0xf, speed, "target {target}");
        }
        Ok(())
    });
}
