// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files of a new crate with a model of the user's own, its driver, its labs and its tests. Writes no file.
//!
//! The files are those of `templates/my-device`, a crate that the workspace compiles and tests. The links in `crates/lab/templates` add them to
//! the package of this crate. Two have other names there: git reads no link named `.gitignore`, and cargo packages no folder with a `Cargo.toml`.

use crate::json_schema;
use plug::file::Schema;
use plug::{Models, is_model_name};
use std::path::Path;
use thiserror::Error;

/// A file of the template: its path and its text, from the link of the same name or of another.
macro_rules! file {
    ($path:literal) => {
        file!($path, $path)
    };
    ($path:literal, $link:literal) => {
        ($path, include_str!(concat!("../templates/", $link)))
    };
}

/// Files of the crate, without its manifest.
const FILES: [(&str, &str); 15] = [
    file!("README.md"),
    file!(".gitignore", "gitignore"),
    file!("labs/my-device.toml"),
    file!("src/main.rs"),
    file!("src/lib.rs"),
    file!("src/device.rs"),
    file!("src/driver.rs"),
    file!("src/model.rs"),
    file!("tests/lab.rs"),
    file!("labs/linux.toml"),
    file!("linux/Kbuild"),
    file!("linux/my_device.c"),
    file!("linux/job.sh"),
    file!("linux/test.sh"),
    file!(".github/workflows/linux.yml"),
];

const MANIFEST: (&str, &str) = file!("Cargo.toml", "manifest.toml");

/// Schema of the settings of the crate's model; a test of the template compares it with the type.
const SETTINGS: &str = include_str!("../templates/settings.schema.json");

/// Schema of the crate's labs, and the line by which each lab names it.
const SCHEMA: &str = "labs/lab.schema.json";
const SCHEMA_LINE: &str = "#:schema lab.schema.json\n";

/// Start of a dependency on a crate of riser in the template's manifest.
const CRATES: &str = "path = \"../../crates/";

/// End of the manifest. A member of a workspace does not have this table.
const MANIFEST_END: &str = "
# This crate is not part of another workspace.
[workspace]

# Simulations in tests need some optimization. Backtraces need only lines.
[profile.dev]
opt-level = 1
debug = \"line-tables-only\"

# As in riser: a simulation calls across crates constantly, and nothing catches a panic.
[profile.release]
panic = \"abort\"
lto = \"thin\"
codegen-units = 1
";

/// Maximum length of a name in bytes.
const MAX_NAME_BYTES: usize = 64;

/// Names that a crate of the template cannot have: keywords of Rust and C, names reserved by cargo, and names that the crate uses.
const TAKEN: &str = "abstract alloc as async await become box break build config const continue core crate deps \
    device do dyn endpoint host else enum examples extern fabric false final fn for gen if impl in \
    incremental let loop macro match mod move mut override plug priv proc-macro pub ref return \
    schemars self serde static std struct super test tlp trait true try type typeof unsafe unsized \
    use virtual where while yield riser main driver model lib auto case char default double float goto int long register \
    short signed sizeof switch typedef union unsigned void volatile";

/// Why a crate cannot have a name.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum NameError {
    /// Its form.
    #[error("name `{0}`: {LEGAL}, and not a key of a slot")]
    Form(String),
    /// The name is reserved.
    #[error("name `{0}`: reserved by Rust, C, cargo or riser, {LEGAL}")]
    Reserved(String),
    /// A model has the name.
    #[error("name `{0}`: riser has a model with this name: there are {1}")]
    Model(String, String),
}

const LEGAL: &str = "expected at most 64 small letters, digits and single hyphens, beginning with a letter";

/// The riser that a new crate depends on.
#[derive(Clone, Copy, Debug)]
pub enum Riser<'a> {
    /// A checkout at this absolute path.
    Checkout(&'a Path),
    /// riser's repository at this commit; if it is empty, at the newest one.
    Commit(&'a str),
}

/// Checks the name of a new crate and its model.
///
/// # Errors
/// A name that a crate or a model cannot have.
pub fn check(name: &str, models: &Models) -> Result<(), NameError> {
    let has_form = is_model_name(name) && !name.contains("--") && !name.ends_with('-');
    if !has_form || name.len() > MAX_NAME_BYTES {
        return Err(NameError::Form(name.to_owned()));
    }
    if TAKEN.split(' ').any(|taken| taken == name) || name.starts_with("riser-") {
        return Err(NameError::Reserved(name.to_owned()));
    }
    match models.contains(name) {
        true => Err(NameError::Model(name.to_owned(), models.names().collect::<Vec<_>>().join(", "))),
        false => Ok(()),
    }
}

/// Returns the files of the crate `name`, each with its path. The schema of its labs has `models` and the crate's own model.
///
/// # Errors
/// The schema of the template's settings is invalid.
pub fn files(name: &str, models: &Models, riser: &Riser<'_>) -> serde_json::Result<Vec<(String, String)>> {
    let mut files = vec![(MANIFEST.0.to_owned(), manifest(name, riser))];
    files.extend(FILES.map(|(path, text)| (named(path, name), file_text(path, text, name))));
    files.push((SCHEMA.to_owned(), lab_schema(name, models)?));
    Ok(files)
}

fn named(text: &str, name: &str) -> String {
    text.replace("my-device", name).replace("my_device", &name.replace('-', "_"))
}

/// Returns the text of a file of the crate. A lab begins with the line that names its schema.
fn file_text(path: &str, text: &str, name: &str) -> String {
    let is_lab = path.starts_with("labs/");
    let head = if is_lab { SCHEMA_LINE } else { "" };
    format!("{head}{}", named(body(text), name))
}

/// Returns the JSON Schema of labs with riser's models and the crate's own.
fn lab_schema(name: &str, models: &Models) -> serde_json::Result<String> {
    let settings = Schema::from_text(&named(SETTINGS, name))?;
    let schema = json_schema(models, [(name, settings)]);
    Ok(format!("{schema:#}\n"))
}

/// Text of a file without riser's licence line.
fn body(text: &str) -> &str {
    match text.split_once('\n') {
        Some((first, rest)) if first.contains("SPDX-License-Identifier") => rest,
        _ => text,
    }
}

/// Returns the manifest.
fn manifest(name: &str, riser: &Riser<'_>) -> String {
    let text = MANIFEST.1.split_once("[package]").map_or(MANIFEST.1, |(_, package)| package);
    let text = match *riser {
        Riser::Checkout(checkout) => {
            // A TOML string escapes quotes and backslashes of the path.
            let path = toml::Value::from(format!("{}/crates/", checkout.display())).to_string();
            text.replace(CRATES, &format!("path = {}", path.trim_end_matches('"')))
        }
        Riser::Commit(commit) => {
            let rev = if commit.is_empty() { String::new() } else { format!(", rev = \"{commit}\"") };
            let git = format!("git = \"{}\"{rev}", env!("CARGO_PKG_REPOSITORY"));
            let lines = text.lines().map(|line| match line.split_once(CRATES) {
                Some((before, after)) => {
                    format!("{before}{git}{}\n", after.split_once('"').map_or("", |(_, rest)| rest))
                }
                None => format!("{line}\n"),
            });
            lines.collect::<String>().replacen(
                "[dependencies]\n",
                "# riser is not published as crates yet: `riser new --riser DIR` names a checkout in place of its repository.\n[dependencies]\n",
                1,
            )
        }
    };
    named(&format!("[package]{text}{MANIFEST_END}"), name)
}
