// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The commands. A new command is a file here, three lines below, and its group in `help.rs`. This file only lists and calls the commands.

mod bench;
mod check;
mod compare;
mod completions;
mod decode;
mod fidelity;
mod fit;
mod guest;
mod labs;
mod lspci;
mod man;
mod model;
mod nettlp;
mod new;
mod outside;
mod paper;
mod profiles;
mod reading;
mod rtl;
mod rules;
mod run;
mod schema;
mod sizes;
mod sweep;
mod tap;
mod trace;
mod words;

use crate::Failure;
use clap::Subcommand;
use plug::Models;
use std::ffi::OsString;

#[derive(Subcommand)]
pub(crate) enum Command {
    Run(run::Args),
    Check(check::Args),
    // `Bench` and `Trace` are by far the largest variants.
    Bench(Box<bench::Args>),
    Compare(compare::Args),
    Completions(completions::Args),
    Decode(decode::Args),
    Fidelity(fidelity::Args),
    Fit(fit::Args),
    Guest(guest::Args),
    Lspci(lspci::Args),
    Man(man::Args),
    Model(model::Args),
    Nettlp(nettlp::Args),
    New(new::Args),
    Paper(paper::Args),
    Profiles(profiles::Args),
    Rtl(rtl::Args),
    Rules(rules::Args),
    Schema(schema::Args),
    Sweep(sweep::Args),
    Trace(Box<trace::Args>),
}

impl Command {
    /// Runs the command. `itself` is the command line by which other processes run riser.
    pub(crate) fn run(self, models: &Models, itself: Vec<OsString>) -> Result<(), Failure> {
        match self {
            Command::Run(args) => run::run(args, models),
            Command::Check(args) => check::run(args, models),
            Command::Bench(args) => bench::run(*args, models),
            Command::Compare(args) => compare::run(args),
            Command::Completions(args) => completions::run(args),
            Command::Decode(args) => decode::run(&args, models),
            Command::Fidelity(args) => fidelity::run(args),
            Command::Fit(args) => fit::run(args),
            Command::Guest(args) => guest::run(args, models),
            Command::Lspci(args) => lspci::run(args, models),
            Command::Man(args) => man::run(args),
            Command::Model(args) => model::run(args),
            Command::Nettlp(args) => nettlp::run(args, models),
            Command::New(args) => new::run(args, models),
            Command::Paper(args) => paper::run(args),
            Command::Profiles(args) => profiles::run(args),
            Command::Rules(args) => rules::run(args),
            Command::Rtl(args) => rtl::run(&args, models),
            Command::Schema(args) => schema::run(&args, models),
            Command::Sweep(args) => sweep::run(args, models, itself),
            Command::Trace(args) => trace::run(*args, models),
        }
    }
}
