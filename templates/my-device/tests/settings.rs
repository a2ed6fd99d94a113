// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `settings.schema.json`, from which `riser new` takes the settings of this model, matches their type.

use my_device::Settings;
use plug::file::Schema;
use std::path::Path;

#[test]
fn schema_of_settings_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("settings.schema.json");
    let text = Schema::of::<Settings>().text();
    if std::env::var_os("RISER_UPDATE_DOCS").is_some() {
        std::fs::write(&path, &text).unwrap_or_else(|e| panic!("{e}"));
    }
    let file = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(file == text, "settings.schema.json is out of date: run this test with RISER_UPDATE_DOCS=1");
}
