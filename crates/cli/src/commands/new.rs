// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser new`: creates a crate for a device of your own. Never changes existing files.
//!
//! The files are those of `templates/my-device`, a crate that the workspace compiles and tests. The links in `crates/cli/templates` add them to
//! the package of this crate. Two have other names there: git reads no link named `.gitignore`, and cargo packages no folder with a `Cargo.toml`.

use crate::failure::Failure;
use crate::output;
use plug::file::Schema;
use plug::{Models, is_model_name};
use serde::Serialize;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const EXAMPLE: &str = "\
Examples:
  riser new my-device
  riser new my-device --path ~/devices/mine --riser ~/src/riser

Creates a crate that compiles. It has a device with registers, a doorbell, DMA and an MSI; its driver; its settings \
with limits, and its report; a lab and a test. Its program is all of `riser` plus this device: `cargo run -- run \
labs/my-device.toml`. docs/tutorial.md explains the crate. \
The first line of each lab names labs/lab.schema.json, with which editors complete and check labs: docs/guides/editors.md. \
The crate also has a Linux driver, a test of it in a guest, and a CI workflow; docs/drivers.md explains these.
riser is not published as crates yet. The crate depends on riser's repository at the commit of this riser, or with --riser on a checkout.
--json prints one object: name, path, files: [...].";

/// Create a crate with a device of your own: device, driver, lab and test
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// Name of the crate and of its model: small letters, digits and hyphens, beginning with a letter
    name: String,

    /// Folder of the crate, which must not exist [default: NAME in the current folder]
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,

    /// Checkout of riser that the crate depends on [default: riser's repository]
    #[arg(long, value_name = "DIR")]
    riser: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A file of the template: its path and its text, from the link of the same name or of another.
macro_rules! file {
    ($path:literal) => {
        file!($path, $path)
    };
    ($path:literal, $link:literal) => {
        ($path, include_str!(concat!("../../templates/", $link)))
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
const SETTINGS: &str = include_str!("../../templates/settings.schema.json");

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

#[derive(Serialize)]
struct Written<'a> {
    name: &'a str,
    path: String,
    files: Vec<String>,
}

pub(crate) fn run(args: Args, models: &Models) -> Result<(), Failure> {
    check(&args.name, models).map_err(Failure::usage)?;
    let riser = args.riser.as_deref().map(checkout).transpose().map_err(Failure::usage)?;
    let folder = args.path.clone().unwrap_or_else(|| PathBuf::from(&args.name));
    let mut files = vec![(MANIFEST.0.to_owned(), manifest(&args.name, riser.as_deref()))];
    files.extend(FILES.map(|(path, text)| (named(path, &args.name), file_text(path, text, &args.name))));
    files.push((SCHEMA.to_owned(), lab_schema(&args.name, models)?));
    write(&folder, &files)?;
    let path = folder.display().to_string();
    if args.json {
        let files = files.into_iter().map(|(path, _)| path).collect();
        return output::json(&Written { name: &args.name, path, files });
    }
    output::text(&format!(
        "{path}: a device of your own. Next:\n  cd {path}\n  cargo test\n  cargo run -- run labs/{}.toml",
        args.name
    ))
}

/// Fails for a name that a crate or a model cannot have.
fn check(name: &str, models: &Models) -> Result<(), String> {
    let legal = "expected at most 64 small letters, digits and single hyphens, beginning with a letter";
    if !is_model_name(name) || name.contains("--") || name.ends_with('-') || name.len() > MAX_NAME_BYTES {
        return Err(format!("name `{name}`: {legal}, and not a key of a slot"));
    }
    if TAKEN.split(' ').any(|taken| taken == name) || name.starts_with("riser-") {
        return Err(format!("name `{name}`: reserved by Rust, C, cargo or riser, {legal}"));
    }
    match models.contains(name) {
        true => {
            let names: Vec<&str> = models.names().collect();
            Err(format!("name `{name}`: riser has a model with this name: there are {}", names.join(", ")))
        }
        false => Ok(()),
    }
}

/// Returns the absolute path of a checkout.
fn checkout(folder: &Path) -> Result<PathBuf, String> {
    let why = |e: io::Error| format!("--riser {}: {e}", folder.display());
    let whole = fs::canonicalize(folder).map_err(why)?;
    match whole.join("crates/plug/Cargo.toml").is_file() {
        true => Ok(whole),
        false => Err(format!("--riser {}: not a checkout of riser: it has no crates/plug", folder.display())),
    }
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
fn lab_schema(name: &str, models: &Models) -> Result<String, Failure> {
    let settings = Schema::from_text(&named(SETTINGS, name)).map_err(io::Error::from)?;
    let schema = lab::json_schema(models, [(name, settings)]);
    Ok(format!("{schema:#}\n"))
}

/// Text of a file without riser's licence line.
fn body(text: &str) -> &str {
    match text.split_once('\n') {
        Some((first, rest)) if first.contains("SPDX-License-Identifier") => rest,
        _ => text,
    }
}

/// Returns the manifest. riser is at `checkout`, or in its repository at the commit from which this command was built.
fn manifest(name: &str, checkout: Option<&Path>) -> String {
    let text = MANIFEST.1.split_once("[package]").map_or(MANIFEST.1, |(_, package)| package);
    let text = match checkout {
        Some(checkout) => {
            // A TOML string escapes quotes and backslashes of the path.
            let path = toml::Value::from(format!("{}/crates/", checkout.display())).to_string();
            text.replace(CRATES, &format!("path = {}", path.trim_end_matches('"')))
        }
        None => {
            let rev = match env!("RISER_COMMIT") {
                "" => String::new(),
                commit => format!(", rev = \"{commit}\""),
            };
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

/// Creates the folder and its files. On failure, removes the folder.
fn write(folder: &Path, files: &[(String, String)]) -> Result<(), Failure> {
    match fs::create_dir(folder) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            let says = format!("{} exists, expected a new folder; --path names another", folder.display());
            return Err(Failure::usage(says));
        }
        Err(e) => return Err(files::failed(folder, &e).into()),
        Ok(()) => {}
    }
    let write = |(path, text): &(String, String)| {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(path, text)
    };
    files.iter().try_for_each(write).map_err(|e| {
        // This call created the folder, so it contains no files of others.
        let _ = fs::remove_dir_all(folder);
        files::failed(folder, &e).into()
    })
}
