// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arguments for a lab that a program outside of riser joins: its settings, capture and record.

use super::labs::{self, LabOptions};
use super::sizes::whole;
use crate::{Failure, output};
use plug::Models;
use std::path::{Path, PathBuf};
use worlds::opening::UnopenedLab;

/// Arguments for opening a lab. Commands that accept other inputs, too, permit these options only with a lab.
#[derive(clap::Args)]
#[group(requires = "lab")]
pub(super) struct Opening {
    /// Write all TLPs to this pcapng file
    #[arg(long, value_name = "OUT.pcapng")]
    capture: Option<PathBuf>,

    /// Record all input from outside to this file, which `replay` runs again
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,

    /// Maximum size of the --record file in MiB [default: 4096]; when it is reached, the record ends and the run continues
    #[arg(long, value_name = "MIB", requires = "record", value_parser = whole::<u64>(1..=1 << 24))]
    record_limit_mib: Option<u64>,

    /// Overwrite existing files
    #[arg(long)]
    force: bool,

    /// Seed of random numbers [default: the lab's]
    #[arg(long, allow_negative_numbers = true, value_parser = whole(0..=u64::MAX))]
    seed: Option<u64>,

    #[command(flatten)]
    options: LabOptions,
}

impl Opening {
    /// Returns the names of its arguments, and whether each is given.
    pub(super) fn given(&self) -> [(&'static str, bool); 5] {
        [
            ("--set", !self.options.set.overrides().given().is_empty()),
            ("--capture", self.capture.is_some()),
            ("--record", self.record.is_some()),
            ("--force", self.force),
            ("--seed", self.seed.is_some()),
        ]
    }

    /// Reads the lab at `path`.
    pub(super) fn read(&self, path: &Path, models: &Models) -> Result<UnopenedLab, Failure> {
        let text = labs::text(path)?;
        let folder = if self.record.is_some() { text.folder.clone().keeping() } else { text.folder.clone() };
        let mut file = text.parse(models, folder, &self.options.set.overrides())?;
        if let Some(seed) = self.seed {
            file.lab.seed = seed;
        }
        let mut outputs = output::files(self.force);
        outputs.reads(path);
        file.base.named().iter().for_each(|path| outputs.reads(path));
        Ok(UnopenedLab {
            name: text.name.display().to_string(),
            text: text.text,
            file,
            outputs,
            capture: self.capture.clone(),
            record: self.record.clone(),
            record_limit_mib: self.record_limit_mib,
            native: self.options.native.leave(),
        })
    }
}
