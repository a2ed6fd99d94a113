// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors in a lab file, with their places.

use crate::schema::{Hanging, Slot, Switch};
use plug::Fault;
use plug::file::{FileError, Source, Tree as Places, place_of};
use std::ops::Range;
use toml::Spanned;

/// An error in a lab file, with its place. An empty span at 0 means the file as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) span: Range<usize>,
    pub(crate) message: String,
}

impl Wrong {
    pub(crate) fn at(span: Range<usize>, message: impl Into<String>) -> Wrong {
        Wrong { span, message: message.into() }
    }
}

/// Result of one check.
pub(crate) type Checked = Result<(), Wrong>;

/// Returns an error.
pub(crate) fn wrong(span: Range<usize>, message: impl Into<String>) -> Checked {
    Err(Wrong::at(span, message))
}

/// Collects the errors of several checks.
pub(crate) fn found<const N: usize>(checks: [Checked; N]) -> Vec<Wrong> {
    checks.into_iter().filter_map(Result::err).collect()
}

/// A file with the positions of its keys.
pub(crate) struct LocatedSource<'a> {
    pub(crate) source: &'a Source<'a>,
    pub(crate) places: Places<'a>,
}

/// An error of a link, with the keys of its table that may have caused it, the likeliest first.
pub struct LinkFault {
    /// Keys, each as a path in the link's table.
    pub keys: Vec<Vec<String>>,
    /// The illegal value, and the legal values.
    pub message: String,
}

impl LinkFault {
    pub(crate) fn new(key: &str, message: String) -> LinkFault {
        LinkFault { keys: vec![vec![key.to_owned()]], message }
    }
}

impl LocatedSource<'_> {
    /// Converts errors for the file.
    pub(crate) fn errors(&self, all: impl IntoIterator<Item = Wrong>) -> impl Iterator<Item = FileError> {
        all.into_iter().map(|Wrong { span, message }| self.source.error(span, message))
    }

    /// Returns an error of a link: see [`link_at`](Self::link_at).
    pub(crate) fn link(&self, own: &Hanging<'_>, fault: LinkFault) -> Wrong {
        let owner = [own.table, &own.index.to_string()];
        self.link_at(&owner, own.name.span(), &own.to_string(), fault)
    }

    /// Returns an error of the link of the slot or switch at `owner`. Its place is the key that the error concerns, in
    /// the link's own table or in the common table; otherwise `name`.
    pub(crate) fn link_at(&self, owner: &[&str], name: Range<usize>, what: &str, fault: LinkFault) -> Wrong {
        let own = [owner, &["link"]].concat();
        let tables = [own.as_slice(), &["link"]];
        let path = |table: &[&str], key: &[String]| -> Option<Range<usize>> {
            let key: Vec<&str> = key.iter().map(String::as_str).collect();
            place_of(&self.places, &[table, &key].concat())
        };
        let at = fault.keys.iter().find_map(|key| tables.iter().find_map(|table| path(table, key)));
        Wrong::at(at.unwrap_or(name), format!("link of {what}, {}", fault.message))
    }

    /// Place of `key` in the settings of slot `n`; otherwise the place of the slot's name.
    pub(crate) fn setting(&self, n: usize, slot: &Slot, key: &[&str]) -> Range<usize> {
        let n = n.to_string();
        let path = [&["slot", n.as_str(), slot.device.get_ref().as_str()], key].concat();
        (0..key.len())
            .find_map(|less| place_of(&self.places, &path[..path.len() - less]))
            .unwrap_or_else(|| slot.name.span())
    }

    /// Returns an error of the settings of the host's root complex `model`.
    pub(crate) fn host_fault(&self, model: &Spanned<String>, fault: &Fault) -> Wrong {
        let name = model.get_ref();
        let key = fault.key.iter().map(String::as_str);
        let path: Vec<&str> = ["host", name].into_iter().chain(key).collect();
        let at = place_of(&self.places, &path).unwrap_or_else(|| model.span());
        Wrong::at(at, format!("root complex: {fault}"))
    }

    /// Returns an error of the settings of switch `n`, which is not riser's.
    pub(crate) fn switch_fault(&self, n: usize, switch: &Switch, fault: &Fault) -> Wrong {
        let (number, name) = (n.to_string(), switch.name.get_ref());
        let model = switch.device.as_ref().map_or("", |model| model.get_ref());
        let key = fault.key.iter().map(String::as_str);
        let path: Vec<&str> = ["switch", &number, model].into_iter().chain(key).collect();
        let at = place_of(&self.places, &path).unwrap_or_else(|| switch.name.span());
        Wrong::at(at, format!("switch `{name}`: {fault}"))
    }

    /// Returns an error of the settings of slot `n`.
    pub(crate) fn fault(&self, n: usize, slot: &Slot, fault: &Fault) -> Wrong {
        let key: Vec<&str> = fault.key.iter().map(String::as_str).collect();
        Wrong::at(self.setting(n, slot, &key), format!("slot `{}`: {fault}", slot.name.get_ref()))
    }
}

/// Checks that `name` is in the list `there`.
pub(crate) fn check_known<'a>(
    name: &Spanned<String>,
    there: impl Iterator<Item = &'a Spanned<String>>,
) -> Checked {
    let there: Vec<&str> = there.map(|name| name.get_ref().as_str()).collect();
    if there.contains(&name.get_ref().as_str()) {
        return Ok(());
    }
    wrong(name.span(), format!("no slot `{}`, expected {}", name.get_ref(), there.join(", ")))
}
