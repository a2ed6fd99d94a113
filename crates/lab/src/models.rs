// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Devices in the slots of a lab, of any registered model.

use crate::error::{IS_DATA_LINK, IS_ROOT_COMPLEX, IS_SWITCH};
use crate::file::LabFile;
use crate::schema::{self, Lab, Slot};
use crate::tree::Tree;
use crate::{bridges, channels, links};
use config::PcieLayout;
use endpoint::{EndpointLimits, TagsPer};
use fabric::{HostId, HostProfile, LinkConfig};
use host::memory::HostMemory;
use plug::file::Schema;
use plug::site::NativeCode;
use plug::{End, Fault, ModelKind, Models, Plugged, RunContext, Site};
use serde_json::{Value, json};
use std::sync::Arc;
use tlp::{Bdf, Duration, Mps, Mrrs, PayloadPool, TcSet};

/// Models of a lab's slots, each with the schema of its settings.
type Schemas<'a> = Vec<(&'a str, Arc<Schema>)>;

fn schemas(models: &Models) -> Schemas<'static> {
    models.names().filter_map(|name| Some((name, models.schema(name)?))).collect()
}

/// Whether slots may have the model `name`. Models of other programs are devices.
fn is_device(models: &Models, name: &str) -> bool {
    models.kind(name).is_none_or(|kind| kind == ModelKind::Device)
}

/// Returns the schema of lab files whose slots may have these models.
pub fn schema(models: &Models) -> Schema {
    of_schemas(models, &schemas(models))
}

fn of_schemas(models: &Models, all: &Schemas<'_>) -> Schema {
    let mut schema = Schema::of::<Lab>();
    for (name, of) in all {
        let (owner, what) = match models.kind(name) {
            Some(ModelKind::RootComplex) => ("Host", "root complex"),
            Some(ModelKind::Switch) => ("Switch", "switch"),
            Some(ModelKind::Device) | None => ("Slot", "device"),
        };
        schema.add_table(owner, name, of, &format!("Settings of the {what} `{name}`."));
    }
    let devices = || all.iter().filter(|(name, _)| is_device(models, name));
    let values = || devices().map(|(name, of)| ((*name).to_owned(), of.about()));
    schema.set_values("Slot", "device", values());
    schema.set_values("Slot", "driver", values());
    schema
}

/// Returns the JSON Schema of lab files whose slots may have these models, and `own` models that are not in this program.
pub fn json_schema<'a>(models: &Models, own: impl IntoIterator<Item = (&'a str, Schema)>) -> Value {
    let own = own.into_iter().map(|(name, schema)| (name, Arc::new(schema)));
    let all: Schemas<'_> = schemas(models).into_iter().chain(own).collect();
    let mut json = of_schemas(models, &all).json("riser lab");
    let all: Schemas<'_> = all.into_iter().filter(|(name, _)| is_device(models, name)).collect();
    let slot = &mut json["definitions"]["Slot"];
    slot["dependencies"] = all.iter().map(|(name, _)| ((*name).to_owned(), settings_rule(name))).collect();
    for key in MODEL_KEYS {
        let needed = all.iter().filter(|(_, of)| !of.required().is_empty());
        slot["dependencies"][key] =
            needed.fold(json!({}), |others, (name, _)| needs_table(key, name, others));
    }
    // The reference lists the names once, for `device`.
    slot["properties"]["data_link"]["enum"] = all.iter().map(|(name, _)| *name).collect();
    json
}

/// Keys of a slot that name a model, whose settings are in the table of its name.
const MODEL_KEYS: [&str; 3] = ["device", "driver", "data_link"];

/// A slot has only settings of the models that it names.
fn settings_rule(name: &str) -> Value {
    let [device, driver, data_link] = MODEL_KEYS;
    let is = |key: &str| json!({ "required": [key], "properties": { key: { "const": name } } });
    // Two rules, so that a validator marks the key `device` if there is no other.
    json!({
        "if": { "anyOf": [{ "required": [driver] }, { "required": [data_link] }] },
        "then": { "anyOf": [is(device), is(driver), is(data_link)] },
        "else": is(device),
    })
}

/// A slot that names this model by `key` has its settings; `others` is the rule of other models.
fn needs_table(key: &str, name: &str, others: Value) -> Value {
    json!({
        "if": { "properties": { key: { "const": name } } },
        "then": { "required": [name] },
        "else": others,
    })
}

/// The environment that a lab's devices are plugged into.
pub(crate) struct Sites<'a> {
    file: &'a LabFile,
    payloads: &'a PayloadPool,
    memory: &'a HostMemory,
    of_host: OfHost,
    native: NativeCode,
    /// Max_Payload_Size on the path of each slot, as enumeration will set it.
    path_mps: Vec<Mps>,
    /// Traffic Classes that every link on the path of each slot maps.
    path_tcs: Vec<TcSet>,
    ids: Vec<Bdf>,
    /// The first link below a root port of the simulated host.
    root_link: Option<usize>,
}

/// Facts about the simulated host that models need.
#[derive(Clone, Copy)]
pub(crate) struct OfHost {
    completion_timeout: Duration,
    digests: bool,
}

impl OfHost {
    /// The host of a lab that is only checked.
    pub(crate) const UNKNOWN: OfHost = OfHost { completion_timeout: Duration::MAX, digests: false };

    pub(crate) const fn of(host: &HostProfile) -> OfHost {
        OfHost { completion_timeout: host.completion_timeout, digests: host.ecrc.devices }
    }
}

/// Vector by which the raw-TLP device of slot `n` reports its end. This vector is above all vectors that firmware
/// assigns.
const fn raw_vector(n: usize) -> u16 {
    0x8000 + n as u16
}

impl<'a> Sites<'a> {
    /// `links` is from [`bridges::all_links`].
    pub(crate) fn new(
        file: &'a LabFile,
        payloads: &'a PayloadPool,
        memory: &'a HostMemory,
        of_host: OfHost,
        tree: &Tree,
        links: &[LinkConfig],
        native: NativeCode,
    ) -> Sites<'a> {
        let (path_mps, path_tcs) = (bridges::path_mps(tree, links), channels::path_tcs(tree, links));
        let ids = tree.slot_ids();
        let root_link = tree.root_links(HostId::FIRST).next();
        Sites { file, payloads, memory, of_host, native, path_mps, path_tcs, ids, root_link }
    }

    /// Plugs in the device of slot `n` for the run with this context.
    ///
    /// # Errors
    /// The device's model rejects its settings.
    pub(crate) fn plug(&self, n: usize, slot: &Slot, context: &mut RunContext) -> Result<Plugged, Fault> {
        let lab = &self.file.lab;
        let tags = limits(lab, slot).max_outstanding_reads;
        let link = links::config(&lab.link, &slot.link);
        let mrrs = links::merge(&lab.link, &slot.link).mrrs_bytes.map_or_else(Mrrs::default, |m| m.0);
        let plan = slot.plan.as_ref();
        let plan = plan.ok_or_else(|| format!("no model `{}`", slot.device.get_ref()))?;
        let mut site = Site {
            pcie: PcieLayout { ten_bit_tag: tags > 256, ..links::layout(&link) },
            mps: self.path_mps.get(n).copied().unwrap_or(link.device.mps),
            mrrs,
            tcs: self.path_tcs.get(n).copied().unwrap_or(TcSet::ALL),
            tags,
            id: self.ids.get(n).copied().unwrap_or_default(),
            done_vector: raw_vector(n),
            ..self.site(context)
        };
        let plugged = plan.plug(&mut site)?;
        match plugged.end {
            End::DataLink(_) => return Err(Fault::from(IS_DATA_LINK.to_owned())),
            End::RootComplex(_) => return Err(Fault::from(IS_ROOT_COMPLEX.to_owned())),
            End::Switch(_) => return Err(Fault::from(IS_SWITCH.to_owned())),
            _ => {}
        }
        let plugged = match &slot.driver_plan {
            Some(driver) => plugged.driven_as(driver.plug(&mut site)?)?,
            None => plugged,
        };
        match &slot.data_link_plan {
            Some(link) => plugged.above(link.plug(&mut site)?),
            None => Ok(plugged),
        }
    }
    /// Plugs in the root complex of the simulated host, if it is not riser's. `links` are all links.
    pub(crate) fn plug_root_complex(
        &self,
        links: &[LinkConfig],
        context: &mut RunContext,
    ) -> Option<Result<Plugged, Fault>> {
        let plan = self.file.lab.host.root_complex_plan.as_ref()?;
        let below = self.root_link.and_then(|n| links.get(n));
        let pcie = below.map_or_else(PcieLayout::default, links::layout);
        Some(plan.plug(&mut Site { pcie, ..self.site(context) }))
    }

    /// Plugs in switch `n`, if that is not riser's. Its site has the highest rate and the largest width of its links. `links` are all links.
    pub(crate) fn plug_switch(
        &self,
        n: usize,
        tree: &Tree,
        links: &[LinkConfig],
        context: &mut RunContext,
    ) -> Option<Result<Plugged, Fault>> {
        let plan = self.file.lab.switch[n].plan.as_ref()?;
        let below = (1..=tree.downstream_ports[n]).filter_map(|port| tree.below(n, port));
        let own: Vec<PcieLayout> =
            below.chain([tree.slots.len() + n]).map(|link| links::layout(&links[link])).collect();
        let default = PcieLayout::default();
        let rate = own.iter().map(|layout| layout.rate).max().unwrap_or(default.rate);
        let width = own.iter().map(|layout| layout.width).max_by_key(|width| width.lanes());
        let pcie = PcieLayout { rate, width: width.unwrap_or(default.width), ..default };
        Some(plan.plug(&mut Site { pcie, ..self.site(context) }))
    }

    /// Returns a site with the settings that all models share, and defaults for the others.
    fn site<'s>(&'s self, context: &'s mut RunContext) -> Site<'s> {
        let lab = &self.file.lab;
        Site {
            pcie: PcieLayout::default(),
            mps: Mps::default(),
            mrrs: Mrrs::default(),
            tcs: TcSet::ALL,
            tags: 0,
            lenient_completions: lab.lenient_completions,
            id: Bdf::default(),
            done_vector: 0,
            completion_timeout: self.of_host.completion_timeout,
            digests: self.of_host.digests,
            payloads: self.payloads,
            memory: self.memory,
            folder: &self.file.base,
            seed: lab.seed,
            native: self.native,
            context,
        }
    }
}

/// The limits of the slot's endpoint.
pub(crate) fn limits(lab: &Lab, slot: &Slot) -> EndpointLimits {
    let tags_per = match slot.tags_per {
        schema::TagsPer::Function => TagsPer::Function,
        schema::TagsPer::Endpoint => TagsPer::Endpoint,
    };
    let lenient_completions = lab.lenient_completions;
    let mut limits = EndpointLimits { tags_per, lenient_completions, ..EndpointLimits::default() };
    if let Some(tags) = &slot.tags {
        limits.max_outstanding_reads = *tags.get_ref();
    }
    if let Some(us) = &slot.completion_timeout_us {
        limits.completion_timeout = Duration::from_us(*us.get_ref());
    }
    limits
}
