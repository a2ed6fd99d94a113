// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The text of a host profile, with figures that can be replaced while comments and order stay.

use super::Parameter;
use crate::BenchError;
use lab::profile::Basis;
use std::path::Path;
use toml_edit::{DocumentMut, Item, TableLike, Value, value};

/// Figures from data sheets: table and key.
const DATA_SHEET: [(&str, &str); 5] = [
    ("llc", "capacity_bytes"),
    ("llc", "ways"),
    ("iommu", "superpages"),
    ("dram.refresh", "interval_ps"),
    ("dram.refresh", "cycle_ps"),
];

/// Latencies that few requests have. Each is a figure, or an array of tables.
const RARE_LATENCIES: [&[&str]; 4] = [
    &["dram", "refresh", "hits_ppb"],
    &["dram", "refresh", "late"],
    &["llc", "snoop_waits"],
    &["iommu", "stalls"],
];

/// Settings that the records of a server show.
const RECORDS: [&str; 2] = ["ecrc_root_ports", "ecrc_devices"];

/// Returns a figure, or the longest latency of an array of tables.
fn longest(item: &Item) -> i64 {
    let value = |of: &dyn TableLike| of.get("value")?.as_integer();
    let latency =
        |row: &Value| row.as_inline_table()?.get("latency_ps")?.as_inline_table()?.get("value")?.as_integer();
    let rows = || item.as_array()?.iter().filter_map(latency).max();
    item.as_table_like().and_then(value).or_else(rows).unwrap_or(0)
}

/// A profile that is being fitted or changed.
#[derive(Clone, Debug)]
pub struct Profile {
    pub(super) document: DocumentMut,
}

impl Profile {
    /// Parses a profile.
    ///
    /// # Errors
    /// The text is not TOML. The error names the fault and its place.
    pub fn parse(text: &str) -> Result<Profile, BenchError> {
        Ok(Profile { document: text.parse::<DocumentMut>().map_err(|e| BenchError::Profile(e.to_string()))? })
    }

    /// Returns the profile as a TOML file.
    pub fn text(&self) -> String {
        self.document.to_string()
    }

    /// Writes the profile to `file`.
    ///
    /// # Errors
    /// The file could not be written.
    pub fn write(&self, file: &Path) -> Result<(), BenchError> {
        std::fs::write(file, self.text()).map_err(|e| BenchError::Profile(format!("{}: {e}", file.display())))
    }

    /// Returns a figure in picoseconds; `None` if the profile lacks it.
    pub fn get(&self, parameter: Parameter) -> Option<u64> {
        u64::try_from(self.at(parameter)?.get("value")?.as_integer()?).ok()
    }

    /// Returns the basis of a figure; `None` if the profile lacks it.
    pub fn basis(&self, parameter: Parameter) -> Option<Basis> {
        Some(Basis::of_source(self.at(parameter)?.get("source")?.as_str()?))
    }

    fn at(&self, parameter: Parameter) -> Option<&dyn TableLike> {
        let (table, key) = parameter.place();
        let table = match table {
            None => self.document.as_table() as &dyn TableLike,
            Some(name) => self.document.get(name)?.as_table_like()?,
        };
        table.get(key)?.as_table_like()
    }

    /// Sets a figure and its source.
    ///
    /// # Errors
    /// The profile lacks the figure.
    pub fn set(&mut self, parameter: Parameter, ps: u64, source: &str) -> Result<(), BenchError> {
        let missing = || BenchError::Profile(format!("the profile has no `{}`", parameter.place().1));
        let figure = self.figure(parameter).and_then(Item::as_table_like_mut).ok_or_else(missing)?;
        figure.insert("value", value(i64::try_from(ps).unwrap_or(i64::MAX)));
        figure.insert("source", value(source));
        Ok(())
    }

    /// Sets or removes the figure at `path`, a list of keys from the outermost table on. A missing figure stays missing.
    pub fn edit(&mut self, path: &[&str], to: Option<i64>) {
        let Some((last, tables)) = path.split_last() else { return };
        let Some(at) = self.table_mut(tables.iter().copied()) else { return };
        match to {
            Some(to) => {
                let figure = at.get_mut(last).and_then(Item::as_table_like_mut);
                figure.and_then(|figure| figure.insert("value", value(to)));
            }
            None => {
                at.remove(last);
            }
        }
    }

    /// Copies `figures` from the profile of text `other`: each a table, with dots between the names of nested ones, and a key.
    /// Both profiles must have the table, and `other` the figure.
    ///
    /// # Errors
    /// `other` is not TOML.
    pub fn adopt(&mut self, other: &str, figures: &[(&str, &str)]) -> Result<(), BenchError> {
        let other = Profile::parse(other)?;
        for &(table, key) in figures {
            let figure = other.table(table.split('.')).and_then(|from| from.get(key));
            if let (Some(figure), Some(to)) = (figure, self.table_mut(table.split('.'))) {
                to.insert(key, figure.clone());
            }
        }
        Ok(())
    }

    /// Copies the figures of data sheets and records from the profile of text `other`. Walks that do not overlap are a property of
    /// IOMMUs without superpages, so an IOMMU with superpages loses them.
    ///
    /// # Errors
    /// `other` is not TOML.
    pub fn adopt_data_sheet(&mut self, other: &str) -> Result<(), BenchError> {
        self.adopt(other, &DATA_SHEET)?;
        let records = Profile::parse(other)?;
        for key in RECORDS {
            match records.document.get(key) {
                Some(figure) => _ = self.document.insert(key, figure.clone()),
                None => _ = self.document.remove(key),
            }
        }
        let iommu = self.document.get_mut("iommu").and_then(Item::as_table_like_mut);
        if let Some(iommu) = iommu
            && iommu.get("superpages").and_then(|figure| figure.get("value")?.as_bool()) == Some(true)
        {
            iommu.remove("serial_walks");
        }
        Ok(())
    }

    /// Replaces the rare latencies by those of `others`, each by the median of these profiles. A profile without one counts as the shortest.
    pub fn adopt_rare_latencies(&mut self, others: &[Profile]) {
        for path in RARE_LATENCIES {
            let mut of_others: Vec<Option<&Item>> = others.iter().map(|other| other.item(path)).collect();
            of_others.sort_by_key(|item| item.map_or(0, longest));
            let median = of_others.get(of_others.len().saturating_sub(1) / 2).copied().flatten().cloned();
            let Some((key, tables)) = path.split_last() else { continue };
            let Some(table) = self.table_mut(tables.iter().copied()) else { continue };
            match median {
                Some(median) => _ = table.insert(key, median),
                None => _ = table.remove(key),
            }
        }
    }

    /// Returns what is at `path`, a list of keys from the outermost table on.
    fn item(&self, path: &[&str]) -> Option<&Item> {
        let (last, tables) = path.split_last()?;
        self.table(tables.iter().copied())?.get(last)
    }

    /// Returns the table at `path`, a list of keys from the outermost table on.
    fn table<'k>(&self, mut path: impl Iterator<Item = &'k str>) -> Option<&dyn TableLike> {
        let outermost: &dyn TableLike = self.document.as_table();
        path.try_fold(outermost, |at, name| at.get(name)?.as_table_like())
    }

    /// Returns the same table, to change it.
    fn table_mut<'k>(&mut self, mut path: impl Iterator<Item = &'k str>) -> Option<&mut dyn TableLike> {
        let outermost: &mut dyn TableLike = self.document.as_table_mut();
        path.try_fold(outermost, |at, name| at.get_mut(name)?.as_table_like_mut())
    }

    /// Copies whole tables that this profile lacks from the profile of text `other`.
    ///
    /// # Errors
    /// `other` is not TOML.
    pub fn complete(&mut self, other: &str) -> Result<(), BenchError> {
        for (name, item) in Profile::parse(other)?.document.iter().filter(|(_, item)| item.is_table()) {
            if !self.document.contains_key(name) {
                self.document.insert(name, item.clone());
            }
        }
        Ok(())
    }

    fn figure(&mut self, parameter: Parameter) -> Option<&mut Item> {
        let (table, key) = parameter.place();
        match table {
            None => self.document.get_mut(key),
            Some(name) => self.document.get_mut(name)?.as_table_like_mut()?.get_mut(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# A host.\nroot_complex_latency_ps = { value = 5, source = \"a guess\" } # each way\n\n[dram]\nlatency_ps = { value = 7, source = \"x\" }\n";

    #[test]
    fn setting_figures_keeps_the_rest() {
        let mut profile = Profile::parse(TEXT).unwrap();
        assert_eq!(profile.get(Parameter::RootComplex), Some(5));
        assert_eq!(profile.get(Parameter::Dram), Some(7));
        assert_eq!(profile.get(Parameter::PageWalk), None);
        profile.set(Parameter::Dram, 80_000, "fit: 3 rows").unwrap();
        let expected = TEXT.replace("value = 7, source = \"x\"", "value = 80000, source = \"fit: 3 rows\"");
        assert_eq!(profile.text(), expected);
        assert!(profile.set(Parameter::PageWalk, 1, "fit").is_err());
        profile.edit(&["dram", "latency_ps"], Some(9));
        assert_eq!(profile.get(Parameter::Dram), Some(9));
        profile.edit(&["iommu", "entries"], Some(9));
        profile.edit(&["dram"], None);
        assert_eq!(profile.get(Parameter::Dram), None);
        assert_eq!(profile.text(), TEXT.split("\n[dram]").next().unwrap());
    }

    /// Three profiles have late reads of 2, 9 and 5 ps, one none: the median of four is the shorter of the middle ones. Hits wait in one profile only.
    #[test]
    fn rare_latencies_are_those_of_the_median_profile() {
        let with = |latency: u32, hits: &str| {
            let late = format!(
                "late = [{{ probability_ppb = {{ value = 1 }}, latency_ps = {{ value = {latency} }} }}]\n"
            );
            Profile::parse(&format!("[dram.refresh]\n{hits}{late}")).unwrap()
        };
        let mut profile = with(9, "hits_ppb = { value = 3 }\n");
        let without = Profile::parse("[dram.refresh]\n").unwrap();
        profile.adopt_rare_latencies(&[
            with(9, "hits_ppb = { value = 3 }\n"),
            without,
            with(5, ""),
            with(2, ""),
        ]);
        assert_eq!(profile.text(), with(2, "").text());
    }
}
