// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lab of `labs/papers` with varied settings. Settings are changed in the parsed TOML, so that every run is a valid lab file
//! that could have been written by hand, and is checked as one.

use super::PaperError;
use crate::BenchError;
use crate::row::bench_of;
use crate::{Plan, Row};
use fabric::{HostProfile, Stop};
use lab::{BuildOptions, Folder, LabFile};
use plug::Report as DeviceFigures;
use session::Session;
use session::report::LinkReport;
use std::fmt;
use std::path::Path;
use toml::{Table, Value};

/// A change to a host's profile.
type HostChange = Box<dyn Fn(&mut HostProfile)>;

/// A lab with some keys changed.
pub(super) struct Setup {
    path: &'static str,
    table: Result<Table, BenchError>,
    host: Vec<HostChange>,
}

impl Setup {
    /// Returns the lab `text`, whose path in the project is `path`.
    pub(super) fn new(path: &'static str, text: &'static str) -> Setup {
        Setup {
            path,
            table: toml::from_str(text).map_err(|e| BenchError::Run(e.to_string())),
            host: Vec::new(),
        }
    }

    /// Sets a key, which may be new. A path is `link.lanes`, or `slot.0.disk.sectors` for a list of tables.
    pub(super) fn set(mut self, path: &str, value: impl Into<Value>) -> Setup {
        let value = value.into();
        self.table = self.table.and_then(|mut table| {
            put(&mut table, path, Some(value))
                .map(|()| table)
                .ok_or_else(|| format!("no table for key {path}").into())
        });
        self
    }

    /// Removes a key.
    pub(super) fn without(mut self, path: &str) -> Setup {
        self.table = self.table.map(|mut table| {
            // A missing key needs no removal.
            let _ = put(&mut table, path, None);
            table
        });
        self
    }

    /// Changes the host's profile, which is a separate file.
    pub(super) fn host(mut self, change: impl Fn(&mut HostProfile) + 'static) -> Setup {
        self.host.push(Box::new(change));
        self
    }

    fn failed(&self, why: impl fmt::Display) -> PaperError {
        PaperError::Lab(format!("{}: {why}", self.path))
    }

    /// Returns the lab file with all changes.
    pub(super) fn file(&self) -> Result<LabFile, PaperError> {
        let table = self.table.as_ref().map_err(|e| self.failed(e))?;
        let text = toml::to_string(table).map_err(|e| self.failed(e))?;
        let path = Path::new(self.path);
        lab::parse_in(&worlds::models(), path, &text, Folder::of(path))
            .map_err(|e| PaperError::Lab(e.to_string()))
    }

    /// Returns the lab, ready to run.
    pub(super) fn build(&self) -> Result<Session, PaperError> {
        let file = self.file()?;
        let profile = lab::profile::host(file.lab.host.profile.get_ref(), file.base.path());
        let mut host = profile.map_err(|e| self.failed(e))?;
        self.host.iter().for_each(|change| change(&mut host));
        session::Session::with(&file, BuildOptions { host: Some(host), ..BuildOptions::default() })
            .map_err(|e| self.failed(e))
    }

    /// Measures with the settings of the lab's benchmark device. Its host is the profile that the lab names.
    pub(super) fn measure(&self) -> Result<Row, PaperError> {
        let file = self.file()?;
        let bench = bench_of(&file);
        let bench = bench.ok_or_else(|| self.failed("its first slot has no benchmark settings"))?;
        let plan = Plan {
            host: file.lab.host.profile.get_ref().clone(),
            link: file.lab.link.clone(),
            memory: Some(bench.memory),
            host_offset_bytes: Some(bench.host_offset_bytes),
            ..Plan::default()
        };
        let (test, size) = (bench.test, bench.size_bytes);
        let row = plan.measure_lab(&file, test, size);
        row.map_err(|e| PaperError::Run(format!("{}: {e}", self.path)))
    }

    /// Builds the lab and runs it to its end. Returns the report of type `R` of its device, the session and the session's
    /// report.
    pub(super) fn device<R: DeviceFigures + Clone>(
        &self,
    ) -> Result<(R, Session, session::SessionReport), PaperError> {
        let (session, report) = self.run()?;
        let device = session.report_of::<R>().ok_or_else(|| self.failed("no device with such a report"))?;
        let figures = device.get().clone();
        Ok((figures, session, report))
    }

    /// Builds the lab and runs it to its end. Returns the reports of its links.
    pub(super) fn links(&self) -> Result<Vec<LinkReport>, PaperError> {
        self.run().map(|(_, report)| report.links)
    }

    /// Builds the lab and runs it to its end.
    fn run(&self) -> Result<(Session, session::SessionReport), PaperError> {
        let mut session = self.build()?;
        let stop = session.run_to_end();
        match stop {
            Stop::Finished => {
                let report = session.report(self.path, &stop, 0.0);
                Ok((session, report))
            }
            stop => Err(PaperError::Run(format!("{}: {stop}", self.path))),
        }
    }
}

/// Sets `value` at `path`, or removes the value there. Returns `None` if the tables on the way do not exist.
fn put(table: &mut Table, path: &str, value: Option<Value>) -> Option<()> {
    let Some((head, rest)) = path.split_once('.') else {
        match value {
            Some(value) => table.insert(path.to_owned(), value),
            None => table.remove(path),
        };
        return Some(());
    };
    let below = table.entry(head).or_insert_with(|| Value::Table(Table::new()));
    match below {
        Value::Table(table) => put(table, rest, value),
        Value::Array(list) => {
            let (index, rest) = rest.split_once('.')?;
            put(list.get_mut(index.parse::<usize>().ok()?)?.as_table_mut()?, rest, value)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_keys_at_their_paths() {
        let mut table: Table = toml::from_str("[link]\nlanes = 1\n[[slot]]\nname = \"a\"\n").unwrap();
        let rows = [("link.lanes", 4), ("slot.0.disk.sectors", 7), ("link.new.deep", 1)];
        for (path, value) in rows {
            assert!(put(&mut table, path, Some(value.into())).is_some(), "{path}");
        }
        assert_eq!(table["link"]["lanes"].as_integer(), Some(4));
        assert_eq!(table["slot"][0]["disk"]["sectors"].as_integer(), Some(7));
        assert_eq!(table["link"]["new"]["deep"].as_integer(), Some(1));
        assert!(put(&mut table, "slot.1.name", Some(1.into())).is_none(), "there is one slot");
        assert!(put(&mut table, "link.lanes.x", Some(1.into())).is_none(), "a number holds no keys");
        assert!(put(&mut table, "link.lanes", None).is_some());
        assert!(table["link"].get("lanes").is_none());
    }
}
