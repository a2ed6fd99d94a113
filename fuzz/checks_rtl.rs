// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks of the instance search for any text as Verilog source.

/// Returns the number of instances of the block. They lie within the text, in its order.
pub(crate) fn source(bytes: &[u8]) -> usize {
    let text = String::from_utf8_lossy(bytes);
    let lines = text.lines().count().max(1);
    match rtl::instances(&text, "pcie_7x") {
        Ok(found) => {
            for instance in &found {
                let all = instance.connections.iter().chain(&instance.parameters);
                assert!(all.clone().all(|c| (instance.line..=lines).contains(&c.line)));
                assert!(all.clone().all(|c| text.contains(&c.port)));
                assert!(text.contains(&instance.name));
            }
            assert!(found.is_sorted_by_key(|instance| instance.line));
            found.len()
        }
        Err(error) => {
            assert!((1..=lines).contains(&error.line) && !error.why.is_empty());
            0
        }
    }
}
