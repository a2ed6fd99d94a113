// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser schema`: prints the JSON Schema of a kind of file. The types that read the files generate it.

use super::words::{Word, one_of};
use crate::{Failure, output};
use devices::pcie_bench::DeviceFile;
use lab::profile::HostFile;
use plug::Models;
use plug::file::Schema;
use rtl::Design;
use serde_json::Value;

const EXAMPLE: &str = "\
Examples:
  riser schema lab > lab.schema.json
  riser schema profile | jq .definitions.host.required

Prints JSON Schema, draft 7. An editor with it completes keys and values, shows their descriptions, and marks errors. The first line \
of a file names its schema, relative to the file:
  #:schema lab.schema.json
docs/guides/editors.md shows how to set up VS Code, Neovim and Helix. The schema has all errors that concern one key. \
`riser check` also reports conflicts between keys and between files.";

/// Print the JSON Schema of labs, profiles, designs or sweeps, for editors
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// Kind of file
    #[arg(value_parser = one_of(&KINDS))]
    kind: MakeSchema,
}

/// Makes the schema of a kind of file.
type MakeSchema = fn(&Models) -> Value;

const KINDS: [Word<MakeSchema>; 4] = [
    ("lab", "A lab, with the settings of all models", |models| lab::json_schema(models, [])),
    ("profile", "The profile of a host or a device", |_| {
        let kinds = [("host", Schema::of::<HostFile>()), ("device", Schema::of::<DeviceFile>())];
        Schema::json_of_kinds("riser profile", "kind", kinds)
    }),
    ("design", "A design in Verilog, for riser rtl build", |_| Schema::of::<Design>().json("riser design")),
    ("sweep", "A sweep, for riser sweep", |_| sweep::schema::json_schema()),
];

pub(crate) fn run(args: &Args, models: &Models) -> Result<(), Failure> {
    output::json(&(args.kind)(models))
}
