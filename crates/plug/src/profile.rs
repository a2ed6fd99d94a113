// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Profiles: latencies and rates of hosts and devices, as TOML files in which every figure has a unit and a source.

use crate::file::{FileError, FileErrors, Folder, Overrides, Source, Tree, place_of};
use crate::values::Gen;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::any::{Any, TypeId};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use thiserror::Error;
use tlp::Rate;
use toml::de::DeTable;

/// Maximum size of a profile in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// A figure with its source.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Figure<T> {
    /// The figure, in the unit of its key.
    pub value: T,
    /// Paper section, data file, data sheet or specification. Its first words are the [`Basis`].
    pub source: String,
}

/// How reliably a figure is known, the most reliable first. A result has the basis of the weakest figure that it depends
/// on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// Measured, or looked up in a data sheet, a specification or a record.
    Measured,
    /// Fitted to measurements.
    Fitted,
    /// Assumed: a guess, a figure of another machine, or a definition.
    Assumed,
}

/// First words of the sources of figures that are not measured.
const BEGINNINGS: [(&str, Basis); 9] = [
    ("fit", Basis::Fitted),
    // Too small to appear in the measurements.
    ("not seen", Basis::Fitted),
    ("not told apart", Basis::Fitted),
    ("not ", Basis::Assumed),
    ("assumed", Basis::Assumed),
    ("guess", Basis::Assumed),
    ("as ", Basis::Assumed),
    ("median of", Basis::Assumed),
    ("by definition", Basis::Assumed),
];

impl Basis {
    /// Returns the basis of a figure with this source, from its first words.
    #[must_use]
    pub fn of_source(source: &str) -> Basis {
        let found = BEGINNINGS.iter().find(|(beginning, _)| source.starts_with(beginning));
        found.map_or(Basis::Measured, |(_, basis)| *basis)
    }

    /// Returns the name in output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Basis::Measured => "measured",
            Basis::Fitted => "fitted",
            Basis::Assumed => "assumed",
        }
    }

    /// Names the bases of several figures: one name if all have the same basis, otherwise each basis with its figures.
    #[must_use]
    pub fn in_words(bases: &[(&str, Basis)]) -> String {
        let mut names: BTreeMap<Basis, Vec<&str>> = BTreeMap::new();
        for (name, basis) in bases {
            let of = names.entry(*basis).or_default();
            if !of.contains(name) {
                of.push(name);
            }
        }
        match names.len() {
            1 => names.into_keys().map(|basis| basis.name().to_owned()).collect(),
            _ => {
                let each = |(basis, of): (Basis, Vec<&str>)| format!("{} ({})", basis.name(), of.join(", "));
                names.into_iter().map(each).collect::<Vec<_>>().join(", ")
            }
        }
    }
}

/// A shipped profile: its name and its text.
pub struct Shipped {
    /// Name in labs.
    pub name: &'static str,
    /// Text of the file.
    pub text: &'static str,
}

/// Reason why a profile cannot be used.
#[derive(Debug, Error)]
pub enum ProfileError {
    /// There is no shipped profile of this name, and no readable file.
    #[error("no {kind} profile `{name}`: expected {shipped}, or a file; {}: {error}", path.display())]
    Unknown {
        /// `host` or `device`.
        kind: &'static str,
        /// Name of the profile.
        name: String,
        /// Names of the shipped profiles.
        shipped: String,
        /// The absolute path of the missing file.
        path: PathBuf,
        /// Error of reading the file.
        error: io::Error,
    },
    /// The file has errors, each with its line and column.
    #[error(transparent)]
    File(#[from] FileErrors),
    /// The text is not TOML.
    #[error(transparent)]
    Toml(#[from] toml::de::Error),
    /// A value is illegal.
    #[error("{}: {message}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The key: `TABLE.KEY`, or the key alone. Empty for the file as a whole.
        key: String,
        /// The illegal value, and the legal values.
        message: String,
    },
}

impl ProfileError {
    /// Returns the error of an illegal value of `key` in the file at `path`.
    pub fn of_key(path: &Path, key: &str, message: String) -> ProfileError {
        ProfileError::Wrong { path: path.to_owned(), key: key.to_owned(), message }
    }

    /// Returns the error with its place in `text`, the text of the file.
    fn placed(self, text: &str) -> ProfileError {
        let ProfileError::Wrong { path, key, message } = self else { return self };
        let (root, _) = DeTable::parse_recoverable(text);
        let found = value_at(&root, &key).map(|span| FileError::at(&path, text, span, &message));
        FileErrors::from(found.unwrap_or_else(|| FileError::whole(&path, message))).into()
    }
}

impl From<ProfileError> for String {
    fn from(error: ProfileError) -> String {
        error.to_string()
    }
}

/// Shipped profiles of one kind.
pub struct Shelf {
    /// `host` or `device`.
    pub kind: &'static str,
    /// The figures that depend on the generation of the links.
    pub extrapolated: &'static str,
    /// The profiles of this kind.
    pub all: &'static [Shipped],
    /// Keys of earlier versions: `TABLE.KEY`, and the key that replaces it with its legal values.
    pub replaced: &'static [(&'static str, &'static str)],
}

/// The descriptive part of a profile.
#[derive(Clone, Deserialize)]
struct Head {
    description: String,
    not_predicted: Option<String>,
    #[serde(rename = "gen")]
    generation: Option<Figure<Gen>>,
    kept_gen: Option<Figure<Gen>>,
}

impl Shipped {
    /// Returns the profile's description, one line.
    pub fn description(&self) -> String {
        self.head().map_or_else(|e| e.to_string(), |head| head.description)
    }

    /// Returns the profile's line on effects that the profile does not predict, as far as known.
    pub fn not_predicted(&self) -> Option<String> {
        self.head().ok()?.not_predicted
    }

    fn head(&self) -> Result<Head, ProfileError> {
        self.once(head)
    }

    /// Returns the result of `make` for the text. The profile is cached for all labs.
    fn once<T: Clone + Send + 'static>(
        &self,
        make: impl FnOnce(&str) -> Result<T, ProfileError>,
    ) -> Result<T, ProfileError> {
        type Made = BTreeMap<(TypeId, &'static str), Box<dyn Any + Send>>;
        static MADE: Mutex<Made> = Mutex::new(Made::new());
        let key = (TypeId::of::<T>(), self.text);
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = made.get(&key).and_then(|made| made.downcast_ref::<T>()) {
            return Ok(made.clone());
        }
        let new = make(self.text)?;
        made.insert(key, Box::new(new.clone()));
        Ok(new)
    }
}

impl Shelf {
    /// Returns the shipped profile `name`.
    pub fn get(&self, name: &str) -> Option<&'static Shipped> {
        self.all.iter().find(|s| s.name == name)
    }

    /// Returns the names of the profiles, as a list for errors.
    pub fn names(&self) -> String {
        self.all.iter().map(|s| s.name).collect::<Vec<_>>().join(", ")
    }

    /// Returns the text of the profile `name`: a shipped one, otherwise a file in `folder`.
    ///
    /// # Errors
    /// If no such profile ships and no file can be read.
    pub fn text(&self, name: &str, folder: &Folder) -> Result<String, ProfileError> {
        self.find(name, folder).map(|(_, text)| text)
    }

    /// Reads the profile `name` as its type, and checks it by `check`.
    ///
    /// # Errors
    /// If no such profile ships and no file can be read, or if it is invalid.
    pub fn read<T>(
        &self,
        name: &str,
        folder: &Folder,
        check: impl FnOnce(&T, &Path) -> Result<(), ProfileError>,
    ) -> Result<T, ProfileError>
    where
        T: DeserializeOwned + JsonSchema + Clone + Send + 'static,
    {
        let make = |path: &Path, text: &str| {
            let file = self.parse(path, text)?;
            check(&file, path).map_err(|error| error.placed(text))?;
            Ok(file)
        };
        self.made(name, folder, make).map(|(_, file)| file)
    }

    fn parse<T: DeserializeOwned + JsonSchema + 'static>(
        &self,
        path: &Path,
        text: &str,
    ) -> Result<T, FileErrors> {
        let overrides = Overrides::default();
        let source = Source { path, text, overrides: &overrides };
        let tree = source.tree()?;
        let replaced = |(old, new): &(&str, &str)| {
            let span = value_at(&tree, old)?;
            let value = text.get(span.clone()).unwrap_or_default();
            let value = if value.starts_with(['[', '{']) { "" } else { value };
            let of = if value.is_empty() { String::new() } else { format!(" of {value}") };
            Some(FileError::at(path, text, span, format!("{old}{of}: replaced by {new}")))
        };
        let replaced: Vec<FileError> = self.replaced.iter().filter_map(replaced).collect();
        if !replaced.is_empty() {
            return Err(replaced.into_iter().collect());
        }
        source.read_within(tree).map_err(|errors| errors.into_iter().collect())
    }

    /// Returns the path of the profile `name`, and the result of `make` for its path and text.
    fn made<T: Clone + Send + 'static>(
        &self,
        name: &str,
        folder: &Folder,
        make: impl FnOnce(&Path, &str) -> Result<T, ProfileError>,
    ) -> Result<(PathBuf, T), ProfileError> {
        if let Some(shipped) = self.get(name) {
            let path = PathBuf::from(shipped.name);
            return shipped.once(|text| make(&path, text)).map(|made| (path, made));
        }
        let (path, text) = self.find(name, folder)?;
        let made = make(&path, &text)?;
        Ok((path, made))
    }

    fn find(&self, name: &str, folder: &Folder) -> Result<(PathBuf, String), ProfileError> {
        if let Some(found) = self.get(name) {
            return Ok((found.name.into(), found.text.into()));
        }
        let path = folder.path().join(name);
        match read_text(folder, name) {
            Ok(text) => Ok((path, text)),
            Err(error) => Err(ProfileError::Unknown {
                kind: self.kind,
                name: name.to_owned(),
                shipped: self.names(),
                path: std::path::absolute(&path).unwrap_or(path),
                error,
            }),
        }
    }

    /// Describes the figures of the profile `name` that are extrapolated on links of these rates, in one line. `None`
    /// if no figure is extrapolated, or there is no such profile.
    pub fn extrapolated(
        &self,
        name: &str,
        folder: &Folder,
        rates: impl IntoIterator<Item = Rate>,
    ) -> Option<String> {
        let (_, head) = self.made(name, folder, |_, text| head(text)).ok()?;
        let rates: BTreeSet<u8> = rates.into_iter().map(Rate::generation).collect();
        let line = |figures: &str, of: Option<Figure<Gen>>| {
            let Gen(measured) = of?.value;
            let measured = measured.generation();
            let others = rates.iter().filter(|rate| **rate != measured);
            let others = others.map(|rate| format!("Gen{rate}")).collect::<Vec<_>>().join(", ");
            let (kind, what) = (self.kind, self.extrapolated);
            (!others.is_empty()).then(|| {
                format!(
                    "{kind} profile `{name}` has {figures} of Gen{measured} links: on {others} they are extrapolated: {what}"
                )
            })
        };
        let kept = "figures that a fit has kept from another profile,";
        let lines = [line("figures", head.generation), line(kept, head.kept_gen)];
        lines.into_iter().flatten().reduce(|own, kept| format!("{own}; {kept}"))
    }

    /// Returns the bases of the figures of the profile `name`; `None` if there is no such profile.
    pub fn bases(&self, name: &str, folder: &Folder) -> Option<Bases> {
        self.made(name, folder, |_, text| Bases::of(text)).ok().map(|(_, bases)| bases)
    }
}

/// The basis of each figure of a profile. Clones share the profile.
#[derive(Clone)]
pub struct Bases(Arc<BTreeMap<(String, String), Basis>>);

impl Bases {
    fn of(text: &str) -> Result<Bases, ProfileError> {
        let profile: toml::Table = text.parse()?;
        let mut all = BTreeMap::new();
        let mut add = |table: &str, of: &toml::Table| {
            for (key, figure) in of {
                if let Some(source) = figure.get("source").and_then(toml::Value::as_str) {
                    all.insert((table.to_owned(), key.clone()), Basis::of_source(source));
                }
            }
        };
        add("", &profile);
        profile.iter().for_each(|(name, of)| of.as_table().into_iter().for_each(|of| add(name, of)));
        Ok(Bases(Arc::new(all)))
    }

    /// Returns the weakest basis of the figures at `places`, each a table (or "") and a key. `None` if the profile has none of
    /// these figures.
    pub fn weakest(&self, places: &[(&str, &str)]) -> Option<Basis> {
        let of = |&(table, key): &(&str, &str)| self.0.get(&(table.to_owned(), key.to_owned())).copied();
        places.iter().filter_map(of).max()
    }
}

fn read_text(folder: &Folder, name: &str) -> io::Result<String> {
    crate::file::text_of(folder.read(name, MAX_FILE_BYTES)?)
}

fn head(text: &str) -> Result<Head, ProfileError> {
    Ok(toml::from_str(text)?)
}

/// Returns the place of the value of the figure `key`, `TABLE.KEY` or the key alone, or of the whole table of this name.
fn value_at(tree: &Tree<'_>, key: &str) -> Option<Range<usize>> {
    let path: Vec<&str> = key.split('.').collect();
    let of_figure: Vec<&str> = path.iter().copied().chain(["value"]).collect();
    place_of(tree, &of_figure).or_else(|| place_of(tree, &path))
}

/// Checks that `value` of `key` in the file at `path` is `min` to `max`.
///
/// # Errors
/// The illegal value, with the legal values.
pub fn check(path: &Path, key: &str, value: u64, min: u64, max: u64) -> Result<(), ProfileError> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(ProfileError::of_key(path, key, format!("{key} of {value}, expected {min} to {max}")))
}

#[cfg(test)]
mod tests {
    use super::Basis;

    #[test]
    fn first_words_of_a_source_give_the_basis() {
        use Basis::{Assumed, Fitted, Measured};
        for (source, basis) in [
            ("measured: 52.77 GB/s of writes", Measured),
            ("hosts.json: 15 MiB", Measured),
            ("PCIe 5.0 §2.8: 50 us to 50 ms by default", Measured),
            ("fit: 5 rows", Fitted),
            ("fit", Fitted),
            ("not seen: writes are bound by the card", Fitted),
            ("not told apart from root_complex_latency_ps", Fitted),
            ("not given", Assumed),
            ("not measured by pcie-bench", Assumed),
            ("as xeon-e5-2630v4: fit: 5 rows", Assumed),
            ("guess: a hit in the cache", Assumed),
            ("by definition", Assumed),
        ] {
            assert_eq!(Basis::of_source(source), basis, "{source}");
        }
    }

    #[test]
    fn names_basis_once_or_for_each_figure() {
        use Basis::{Assumed, Fitted};
        assert_eq!(Basis::in_words(&[("a", Fitted), ("b", Fitted)]), "fitted");
        assert_eq!(
            Basis::in_words(&[("a", Assumed), ("b", Fitted), ("a", Assumed)]),
            "fitted (b), assumed (a)"
        );
    }
}
