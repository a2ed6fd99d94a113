// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser profiles`: lists and prints the shipped profiles, from `riser-lab`.

use crate::{Failure, output};
use clap::Subcommand;
use devices::pcie_bench::CARDS;
use lab::profile::{HOSTS, Shelf, Shipped};
use serde::Serialize;

const EXAMPLE: &str = "\
Examples:
  riser profiles
  riser profiles show ideal --kind host

A profile is a TOML file in which each figure has a unit and a source. `show` prints the file, which you can copy, change, and name by \
its path in a lab.
--json prints one object, profiles: [{name, kind (host, device)}]. The list adds description; `show` adds profile, the contents of \
the file, in which figures are {value, source}.";

/// List the shipped host and device profiles, or print one with its sources
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    /// Print one JSON object
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    Show(Show),
}

/// Print a profile with its sources
#[derive(clap::Args)]
#[command(after_help = "Example:\n  riser profiles show ideal --kind host")]
struct Show {
    /// Name of the profile
    name: String,

    /// Print only the profile of this kind; a host and a device may have the same name
    #[arg(long, value_parser = [HOSTS.kind, CARDS.kind])]
    kind: Option<String>,
}

/// A complete profile.
#[derive(Serialize)]
struct Shown {
    name: &'static str,
    kind: &'static str,
    profile: toml::Table,
}

impl Shown {
    fn of((kind, shipped): &(&'static str, &'static Shipped)) -> Result<Shown, Failure> {
        let profile = shipped.text.parse().map_err(|e| Failure::Run(format!("{}: {e}", shipped.name)))?;
        Ok(Shown { name: shipped.name, kind, profile })
    }
}

#[derive(Serialize)]
struct Entry {
    name: &'static str,
    kind: &'static str,
    description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_predicted: Option<String>,
}

/// Returns all shipped profiles, each with its kind.
fn all() -> impl Iterator<Item = (&'static str, &'static Shipped)> {
    let of = |shelf: &'static Shelf| shelf.all.iter().map(|shipped| (shelf.kind, shipped));
    of(&HOSTS).chain(of(&CARDS))
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    match args.command {
        Some(Command::Show(show)) => print(&show, args.json),
        None => list(args.json),
    }
}

fn print(Show { name, kind: wanted }: &Show, json: bool) -> Result<(), Failure> {
    let is_wanted = |kind: &str| wanted.as_ref().is_none_or(|wanted| wanted == kind);
    let found: Vec<_> = all().filter(|(kind, s)| s.name == *name && is_wanted(kind)).collect();
    if found.is_empty() {
        let names: Vec<&str> = all().map(|(_, s)| s.name).collect();
        return Err(Failure::usage(format!("no profile `{name}`: expected {}", names.join(", "))));
    }
    if json {
        let profiles = found.iter().map(Shown::of).collect::<Result<Vec<_>, _>>()?;
        return output::json_of("profiles", &profiles);
    }
    if found.len() > 1 {
        output::note(format_args!("{} profiles are called `{name}`; --kind selects one", found.len()));
    }
    found.iter().try_for_each(|(_, s)| output::text(s.text.trim_end()))
}

fn list(json: bool) -> Result<(), Failure> {
    let entry = |(kind, s): (&'static str, &Shipped)| Entry {
        name: s.name,
        kind,
        description: s.description(),
        not_predicted: s.not_predicted(),
    };
    let profiles: Vec<Entry> = all().map(entry).collect();
    if json {
        return output::json_of("profiles", &profiles);
    }
    let width = profiles.iter().map(|p| p.name.len()).max().unwrap_or(0);
    for p in &profiles {
        output::text(&format!("{:6}  {:width$}  {}", p.kind, p.name, p.description))?;
        if let Some(what) = &p.not_predicted {
            output::text(&format!("{:6}  {:width$}  not predicted: {what}", "", ""))?;
        }
    }
    Ok(())
}
