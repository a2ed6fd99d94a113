// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings given as text.

use riser_capture::check::FunctionOverrides;

#[test]
fn rejects_invalid_settings_with_valid_values() {
    let rows = [
        ("rcb", "65", "Read Completion Boundary of 65 bytes: expected 64, 128"),
        ("mps", "100", "Max_Payload_Size of 100 bytes: expected 128, 256, 512, 1024, 2048, 4096"),
        ("mrrs", "8192", "Max_Read_Request_Size of 8192 bytes: expected 128, 256, 512, 1024, 2048, 4096"),
        ("tags", "33", "tags 33: expected 32, 256 or 1024"),
        ("tags", "many", "tags \"many\": expected a decimal number"),
        ("speed", "5", "unknown setting \"speed\"; known settings: rcb, mps, mrrs, tags"),
    ];
    for (name, value, error) in rows {
        assert_eq!(FunctionOverrides::default().set(name, value).unwrap_err().to_string(), error);
    }
}
