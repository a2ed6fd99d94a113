// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The settings tables in the slots of a lab file: the model of the same name reads each of them. Also the limits of
//! single keys.

use crate::schema::{Host, Slot, Switch};
use crate::wrong::LocatedSource;
use plug::file::{FileError, Schema, Tree, place_of};
use plug::{Fault, ModelKind, Models, Plan};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

/// Settings of models, by the position of the name of the slot or switch and the model's name, and those of the host.
#[derive(Default)]
pub(crate) struct Tables<'a>(BTreeMap<usize, BTreeMap<String, Tree<'a>>>, BTreeMap<String, Tree<'a>>);

/// Splits the file into the part without models' settings, the settings, and the errors of slot contents that are neither
/// settings nor keys.
pub(crate) fn split<'a>(
    place: &LocatedSource<'a>,
    schema: &Schema,
    models: &Models,
) -> (Tree<'a>, Tables<'a>, Vec<FileError>) {
    let (mut tree, mut tables, mut errors) = (place.places.clone(), Tables::default(), Vec::new());
    let keys = schema.keys("Slot");
    let slots = tree.get_mut().get_mut("slot").map(Spanned::get_mut);
    let slots = match slots {
        Some(DeValue::Array(slots)) => slots.iter_mut().collect(),
        _ => Vec::new(),
    };
    for slot in slots {
        if let DeValue::Table(slot) = slot.get_mut() {
            errors.extend(split_slot(place, &keys, models, slot, &mut tables));
        }
    }
    if let Some(DeValue::Table(host)) = tree.get_mut().get_mut("host").map(Spanned::get_mut) {
        tables.1 = split_models(models, ModelKind::RootComplex, host);
    }
    if let Some(DeValue::Array(switches)) = tree.get_mut().get_mut("switch").map(Spanned::get_mut) {
        for switch in switches.iter_mut() {
            let DeValue::Table(switch) = switch.get_mut() else { continue };
            let name = switch.get("name").map_or(0, |name| name.span().start);
            tables.0.insert(name, split_models(models, ModelKind::Switch, switch));
        }
    }
    (tree, tables, errors)
}

/// Takes the settings of models of this kind out of the table that may name one.
fn split_models<'a>(models: &Models, kind: ModelKind, from: &mut DeTable<'a>) -> BTreeMap<String, Tree<'a>> {
    let mut settings = BTreeMap::new();
    for name in models.names_of(kind) {
        let is_table = from.get(name).is_some_and(|value| matches!(value.get_ref(), DeValue::Table(_)));
        if is_table && let Some((_, value)) = from.remove_entry(name) {
            let span = value.span();
            if let DeValue::Table(table) = value.into_inner() {
                settings.insert(name.to_owned(), Spanned::new(span, table));
            }
        }
    }
    settings
}

/// Model of devices in Python, which only the command of the Python package has.
const PYTHON: &str = "python";

/// Returns the message about a field or device that does not exist.
fn unknown<'a>(kind: &str, name: &str, legal: impl Iterator<Item = &'a str>) -> String {
    if name == PYTHON {
        return format!(
            "unknown {kind} `{PYTHON}`, expected the riser of the Python package: install its wheel, then run python3 -m riser"
        );
    }
    let legal: Vec<String> = legal.map(|name| format!("`{name}`")).collect();
    format!("unknown {kind} `{name}`, expected one of {}", legal.join(", "))
}

/// Takes the settings of models out of `slot`. Reports and removes unknown contents.
fn split_slot<'a>(
    place: &LocatedSource<'a>,
    keys: &[&str],
    models: &Models,
    slot: &mut DeTable<'a>,
    tables: &mut Tables<'a>,
) -> Vec<FileError> {
    let name = slot.get("name").map(|name| name.span().start);
    let is_own = |key: &str| keys.contains(&key) && !models.contains(key);
    let all = slot.keys().map(|key| key.get_ref().to_string());
    let foreign: Vec<String> = all.filter(|key| !is_own(key)).collect();
    let mut errors = Vec::new();
    for key in foreign {
        let Some((at, value)) = slot.remove_entry(key.as_str()) else { continue };
        let span = value.span();
        match (value.into_inner(), name) {
            _ if !models.contains(&key) => {
                errors.push(place.source.error(at.span(), unknown("field", &key, keys.iter().copied())));
            }
            (DeValue::Table(table), Some(name)) => {
                tables.0.entry(name).or_default().insert(key, Spanned::new(span, table));
            }
            // A slot without a name is an error; errors of its settings are reported as well.
            (DeValue::Table(table), None) => {
                let read = models.read(&key, place.source, Spanned::new(span, table));
                errors.extend(read.and_then(Result::err).into_iter().flat_map(|unread| unread.errors));
            }
            _ => errors.push(place.source.error(span, format!("{key} is not a table, expected tables"))),
        }
    }
    errors
}

impl<'a> Tables<'a> {
    /// Reads the settings of the slot's device, of the model that provides its driver, and of its data link layer into the slot. Returns
    /// their errors.
    pub(crate) fn fill(
        &mut self,
        place: &LocatedSource<'a>,
        models: &Models,
        slot: &mut Slot,
    ) -> Vec<FileError> {
        let mut own = self.0.remove(&slot.name.span().start).unwrap_or_default();
        let named = [Some(&slot.device), slot.driver.as_ref(), slot.data_link.as_ref()];
        let [device, driver, link] = named.map(|model| {
            let table = own.remove(model?.get_ref().as_str());
            Some(read_plan(place, models, &slot.name, model?, table))
        });
        let (name, named) = (slot.name.get_ref(), slot.device.get_ref());
        let foreign = own.into_iter().map(|(table, at)| {
            let message = format!("slot `{name}` has settings of `{table}`: its device is `{named}`");
            place.source.error(at.span(), message)
        });
        let mut errors: Vec<FileError> = foreign.collect();
        let plans = [&mut slot.plan, &mut slot.driver_plan, &mut slot.data_link_plan];
        for (read, plan) in [device, driver, link].into_iter().zip(plans) {
            match read {
                Some(Ok(read)) => *plan = Some(read),
                Some(Err(wrong)) => errors.extend(wrong),
                None => {}
            }
        }
        errors
    }
}

impl<'a> Tables<'a> {
    /// Reads the settings of the host's root complex into the host. Returns their errors.
    pub(crate) fn fill_host(
        &mut self,
        place: &LocatedSource<'a>,
        models: &Models,
        host: &mut Host,
    ) -> Vec<FileError> {
        let own = std::mem::take(&mut self.1);
        let owner = Owner { name: "the host", table: "host", key: "root_complex", what: "root complex" };
        let kind = ModelKind::RootComplex;
        owner.fill(place, (models, kind), host.root_complex.as_ref(), own, &mut host.root_complex_plan)
    }

    /// Reads the settings of a switch that is not riser's into the switch. Returns their errors.
    pub(crate) fn fill_switch(
        &mut self,
        place: &LocatedSource<'a>,
        models: &Models,
        switch: &mut Switch,
    ) -> Vec<FileError> {
        let own = self.0.remove(&switch.name.span().start).unwrap_or_default();
        let name = format!("switch `{}`", switch.name.get_ref());
        let owner = Owner { name: &name, table: "switch", key: "device", what: "switch" };
        owner.fill(place, (models, ModelKind::Switch), switch.device.as_ref(), own, &mut switch.plan)
    }
}

/// A table other than a slot that may name a model: its name in errors, its name in the file, the key that names the model, and the kind of
/// the model in words.
struct Owner<'o> {
    name: &'o str,
    table: &'static str,
    key: &'static str,
    what: &'static str,
}

impl Owner<'_> {
    /// Reads the settings `own` of `model`, which must be of this kind, into `plan`. Returns their errors.
    fn fill<'a>(
        &self,
        place: &LocatedSource<'a>,
        (models, kind): (&Models, ModelKind),
        model: Option<&Spanned<String>>,
        mut own: BTreeMap<String, Tree<'a>>,
        plan: &mut Option<Plan>,
    ) -> Vec<FileError> {
        let Owner { name: owner, table, key, what } = *self;
        let read = model.map(|model| {
            let name = model.get_ref();
            let settings = own.remove(name.as_str());
            if models.kind(name) != Some(kind) {
                let message = unknown(what, name, models.names_of(kind));
                return Err(vec![place.source.error(model.span(), message)]);
            }
            read_plan_of(place, models, (owner, model.span(), table), model, settings)
        });
        let foreign = own.into_iter().map(|(name, at)| {
            let message =
                format!("[{table}.{name}] has no effect, because {owner} has no {key} = \"{name}\"");
            place.source.error(at.span(), message)
        });
        let mut errors: Vec<FileError> = foreign.collect();
        match read {
            Some(Ok(read)) => *plan = Some(read),
            Some(Err(wrong)) => errors.extend(wrong),
            None => {}
        }
        errors
    }
}

/// Returns the model that a slot names, with the settings of `table`.
fn read_plan<'a>(
    place: &LocatedSource<'a>,
    models: &Models,
    slot: &Spanned<String>,
    model: &Spanned<String>,
    table: Option<Tree<'a>>,
) -> Result<Plan, Vec<FileError>> {
    let name = model.get_ref();
    if models.schema(name).is_none() {
        return Err(vec![place.source.error(model.span(), unknown("device", name, models.names()))]);
    }
    let owner = format!("slot `{}`", slot.get_ref());
    read_plan_of(place, models, (&owner, slot.span(), "slot"), model, table)
}

/// Returns the model that an owner names, with the settings of `table`. The owner has a name for errors, a place, and a table in the
/// file.
fn read_plan_of<'a>(
    place: &LocatedSource<'a>,
    models: &Models,
    (owner, at, parent): (&str, Range<usize>, &str),
    model: &Spanned<String>,
    table: Option<Tree<'a>>,
) -> Result<Plan, Vec<FileError>> {
    let name = model.get_ref();
    let required = models.schema(name).map(|schema| schema.required().join("`, `")).unwrap_or_default();
    if table.is_none() && !required.is_empty() {
        let message = format!("{owner}: {name} needs [{parent}.{name}] with `{required}`");
        return Err(vec![place.source.error(at, message)]);
    }
    let table = table.unwrap_or_else(|| Spanned::new(0..0, DeTable::new()));
    let read = models.read(name, place.source, table);
    read.map_or(Err(Vec::new()), |read| read.map_err(|unread| unread.errors))
}

/// Returns errors of single keys, regardless of the others.
pub(crate) fn check_limits(place: &LocatedSource<'_>, schema: &Schema) -> Vec<FileError> {
    // A value that is not JSON has an illegal type, which is reported elsewhere.
    let value = Value::deserialize(Deserializer::from(place.places.clone())).unwrap_or_default();
    let error = |Fault { key, message }| {
        let path: Vec<&str> = key.iter().map(String::as_str).collect();
        let at = place_of(&place.places, &path).unwrap_or(0..0);
        (!depends_on_others(&path)).then(|| place.source.error(at, message))
    };
    schema.check(&value).into_iter().filter_map(error).collect()
}

/// Keys whose limits depend on other keys: they are checked together with these.
fn depends_on_others(path: &[&str]) -> bool {
    matches!(path, ["link", ..] | ["slot" | "switch", _, "link", ..] | ["fault", _, "nth"])
}
