// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A model of a device that a lab can name, and the table of models.

use crate::file::{Folder, Schema, Source, Tree, Unread};
use crate::plugged::Plugged;
use crate::registers::FunctionRegisters;
use crate::site::Site;
use crate::transfers::{Offer, Test, Workload};
use crate::values::MemoryKind;
use capture::DeviceRegisters;
use config::BuildError;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use thiserror::Error;
use tlp::Duration;

/// The part of a lab that a model is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ModelKind {
    /// A device or data link layer, which a slot names.
    Device,
    /// A root complex, which a host names.
    RootComplex,
    /// A switch, which a switch of the lab names as its `device`.
    Switch,
}

/// A model, whose settings are a table in the slot that names it.
///
/// The type defines its legal values once: [`schemars`] attributes are the limits, and comments are the reference.
/// Readers of files check the limits at the place of each key; [`check`](Self::check) does this for settings that are
/// made in code.
pub trait Model:
    Clone + fmt::Debug + Send + Sync + Serialize + DeserializeOwned + JsonSchema + 'static
{
    /// Name of the model in labs and of its table in a slot: small letters, digits and hyphens.
    const NAME: &'static str;

    /// The part of a lab that the model is.
    const KIND: ModelKind = ModelKind::Device;

    /// Names of its functions' registers, which `riser trace` and `riser lspci` show.
    const REGISTERS: &'static [FunctionRegisters] = &[];

    /// The tests that [`offer`](Self::offer) accepts; empty if the model offers no transfers.
    const TESTS: &'static [Test] = &[];

    /// Returns the model configured for the transfers of `workload`. The model fills the
    /// [`Transfers`](crate::transfers::Transfers) that it is [measuring](Plugged::measuring) until they are done, and
    /// keeps up the load until then.
    ///
    /// # Errors
    /// The first part of the workload that the model cannot do, and the legal values. No part is silently ignored.
    fn offer(workload: &Workload, folder: &Folder) -> Result<Offer, Fault> {
        let _ = (workload, folder);
        Err(Fault::from(format!("model `{}` offers no transfers", Self::NAME)))
    }

    /// Returns the model's requirements on the lab, before it is plugged in.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// Creates the device, its driver and its report from checked settings. Called more than once: to find errors,
    /// and to run.
    ///
    /// # Errors
    /// The settings that are impossible at this site, with the reason.
    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault>;

    /// Checks relations between settings, which the limits of single settings do not express.
    ///
    /// # Errors
    /// The first setting that conflicts with others.
    fn check_together(&self) -> Result<(), Fault> {
        Ok(())
    }

    /// Checks the limits of each setting, then the relations between them.
    ///
    /// # Errors
    /// The first illegal setting.
    fn check(&self) -> Result<(), Fault> {
        let value = serde_json::to_value(self).map_err(|e| Fault::from(e.to_string()))?;
        Schema::shared::<Self>().check(&value).into_iter().next().map_or_else(|| self.check_together(), Err)
    }
}

/// Requirements of a device on its lab.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Needs {
    /// Number of virtual functions that the host enables.
    pub virtual_functions: u16,
    /// A BAR that must be at a certain address.
    pub fixed_bar: Option<FixedBar>,
    /// Bytes of the longest deferrable write that the device sends.
    pub deferrable_write_bytes: Option<u32>,
    /// Host memory that the device's driver will allocate.
    pub window: Option<Window>,
    /// Minimum time that the host must wait for completions.
    pub host_patience: Duration,
    /// The device is a design with its own configuration space and its own data link layer, which has one virtual channel. It answers only if
    /// its native code runs.
    pub own_link: bool,
}

/// A BAR at a fixed address, given by the setting `address`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FixedBar {
    /// The BAR, 0 to 5.
    pub bar: u8,
    /// Address, a multiple of the size.
    pub address: u64,
    /// Size in bytes, a power of two.
    pub size_bytes: u64,
}

/// A window of host memory, given by the setting `window_bytes`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// The part of host memory that the buffer is in.
    pub memory: MemoryKind,
    /// Size in bytes.
    pub bytes: u64,
    /// Alignment of its address, in bytes.
    pub alignment: u64,
}

/// Error: a model cannot be created from its settings.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{message}")]
pub struct Fault {
    /// The wrong key, as a path in the table of settings; an index selects an element of a list. Empty if no single
    /// key is wrong.
    pub key: Vec<String>,
    /// The illegal value, and the legal values.
    pub message: String,
}

impl Fault {
    /// Returns an error of `key`, a path of keys and list indexes separated by dots.
    pub fn at(key: &str, message: impl Into<String>) -> Fault {
        Fault { key: key.split('.').map(str::to_owned).collect(), message: message.into() }
    }
}

impl From<String> for Fault {
    fn from(message: String) -> Fault {
        Fault { key: Vec::new(), message }
    }
}

impl From<BuildError> for Fault {
    fn from(error: BuildError) -> Fault {
        Fault::from(error.to_string())
    }
}

/// A model of any type, with its settings. Clones share the plan.
#[derive(Clone, Debug)]
pub struct Plan(Arc<dyn AnyPlan>);

trait AnyPlan: fmt::Debug + Send + Sync {
    fn name(&self) -> &'static str;
    fn needs(&self) -> Needs;
    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault>;
    fn as_any(&self) -> &dyn Any;
}

impl<M: Model> AnyPlan for M {
    fn name(&self) -> &'static str {
        M::NAME
    }

    fn needs(&self) -> Needs {
        Model::needs(self)
    }

    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        self.check()?;
        Model::plug(self, site)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Plan {
    /// Returns the plan of a model with these settings.
    pub fn new(settings: impl Model) -> Plan {
        Plan(Arc::new(settings))
    }

    /// Returns the model's name.
    pub fn name(&self) -> &'static str {
        self.0.name()
    }

    /// See [`Model::needs`].
    pub fn needs(&self) -> Needs {
        self.0.needs()
    }

    /// Checks the settings, then calls [`Model::plug`].
    ///
    /// # Errors
    /// Errors of both steps.
    pub fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        self.0.plug(site)
    }

    /// Returns the settings, if the model is `M`.
    pub fn settings<M: Model>(&self) -> Option<&M> {
        self.0.as_any().downcast_ref()
    }
}

/// Reason why a model cannot be added to a table.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ModelError {
    /// Two models have this name.
    #[error("a second model named `{0}`: names are unique")]
    Second(&'static str),
    /// The name is illegal.
    #[error(
        "model named `{0}`, expected small letters, digits and hyphens, a letter first, but not a key of a slot"
    )]
    Name(&'static str),
    /// Registers of a model overlap or are out of order.
    #[error(
        "model `{model}`, register `{register}`, expected non-empty registers of BAR 0 to 5 in rising order, without \
         overlap"
    )]
    Register {
        /// Name of the model.
        model: &'static str,
        /// Its first illegal register.
        register: &'static str,
    },
    /// Two models give registers of the same IDs different names, so that a capture would be ambiguous.
    #[error(
        "model `{model}` names registers of {vendor:04x}:{device:04x}, but model `{other}` gives them other names: IDs must be unique"
    )]
    Ids {
        /// Name of the model.
        model: &'static str,
        /// The model that was added earlier.
        other: &'static str,
        /// Vendor ID.
        vendor: u16,
        /// Device ID.
        device: u16,
    },
}

/// Error: a model cannot be measured.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{} `{name}`: expected {}", if *is_model { "no transfers of model" } else { "no model" }, known.join(", "))]
pub struct OfferingError {
    /// The name.
    pub name: String,
    /// True if there is a model of this name. It then offers no transfers.
    pub is_model: bool,
    /// The models that offer transfers.
    pub known: Vec<&'static str>,
}

/// The models that labs may name. Clones are cheap.
#[derive(Clone, Default, Debug)]
pub struct Models(BTreeMap<&'static str, Offering>);

/// A model without settings: its type's schema and its measured transfers.
#[derive(Clone, Copy)]
pub struct Offering {
    name: &'static str,
    kind: ModelKind,
    tests: &'static [Test],
    registers: &'static [FunctionRegisters],
    schema: fn() -> Arc<Schema>,
    offer: fn(&Workload, &Folder) -> Result<Offer, Fault>,
    read: for<'a> fn(&Source<'a>, Tree<'a>) -> Result<Plan, Unread<Plan>>,
}

fn read<'a, M: Model>(source: &Source<'a>, table: Tree<'a>) -> Result<Plan, Unread<Plan>> {
    let read = source.read::<M>(table, &Schema::shared::<M>());
    read.map(Plan::new).map_err(|Unread { errors, rest }| Unread { errors, rest: rest.map(Plan::new) })
}

impl fmt::Debug for Offering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Offering").field(&self.name).finish()
    }
}

impl Offering {
    /// Returns the model `M`.
    pub fn of<M: Model>() -> Offering {
        Offering {
            name: M::NAME,
            kind: M::KIND,
            tests: M::TESTS,
            registers: M::REGISTERS,
            schema: Schema::shared::<M>,
            offer: M::offer,
            read: read::<M>,
        }
    }

    /// Returns the model's name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// See [`Model::TESTS`].
    pub const fn tests(&self) -> &'static [Test] {
        self.tests
    }

    /// See [`Model::offer`].
    ///
    /// # Errors
    /// Like [`Model::offer`]; also a test that is not in [`tests`](Self::tests).
    pub fn offer(&self, workload: &Workload, folder: &Folder) -> Result<Offer, Fault> {
        if self.tests.contains(&workload.test) {
            return (self.offer)(workload, folder);
        }
        let legal: Vec<&str> = self.tests.iter().map(|test| test.name()).collect();
        let (name, test) = (self.name, workload.test.name());
        Err(Fault::at("test", format!("model `{name}` does not offer {test}, expected {}", legal.join(", "))))
    }
}

/// The keys of a slot, which cannot be names of models.
const SLOT_KEYS: [&str; 10] = [
    "name",
    "device",
    "driver",
    "data_link",
    "parent",
    "port",
    "hot_plug",
    "link",
    "tags",
    "completion_timeout_us",
];

/// True if a model may have this name: small letters, digits and hyphens, starting with a letter, and not a key of a
/// slot.
pub fn is_model_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        && !SLOT_KEYS.contains(&name)
}

impl Models {
    /// Adds the model `M`.
    ///
    /// # Errors
    /// If the model's name is illegal or already used, or its registers are ambiguous. In this case the table does not
    /// change.
    pub fn add<M: Model>(&mut self) -> Result<(), ModelError> {
        let name = M::NAME;
        if !is_model_name(name) {
            return Err(ModelError::Name(name));
        }
        if self.0.contains_key(name) {
            return Err(ModelError::Second(name));
        }
        M::REGISTERS.iter().try_for_each(|function| self.check_registers(name, function))?;
        self.0.insert(name, Offering::of::<M>());
        Ok(())
    }

    fn check_registers(&self, model: &'static str, of: &FunctionRegisters) -> Result<(), ModelError> {
        of.check(model)?;
        let FunctionRegisters { vendor, device, registers } = *of;
        for (other, known) in self.functions() {
            if (known.vendor, known.device) == (vendor, device) && known.registers != registers {
                return Err(ModelError::Ids { model, other, vendor, device });
            }
        }
        Ok(())
    }

    /// The functions with named registers, each with the name of its model.
    fn functions(&self) -> impl Iterator<Item = (&'static str, &'static FunctionRegisters)> + '_ {
        self.0.iter().flat_map(|(name, model)| model.registers.iter().map(|function| (*name, function)))
    }

    /// Returns the names of the registers of all models' functions.
    pub fn registers(&self) -> DeviceRegisters {
        self.functions().map(|(_, f)| ((f.vendor, f.device), f.registers)).collect()
    }

    /// Returns this table with `M`, for names that are known to be legal.
    ///
    /// # Panics
    /// If [`add`](Self::add) fails.
    #[must_use]
    pub fn with<M: Model>(mut self) -> Models {
        if let Err(error) = self.add::<M>() {
            panic!("{error}");
        }
        self
    }

    /// Returns the names of the models, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.0.keys().copied()
    }

    /// Returns the part of a lab that the model `name` is, if there is such a model.
    pub fn kind(&self, name: &str) -> Option<ModelKind> {
        self.0.get(name).map(|model| model.kind)
    }

    /// Returns the names of the models of this kind, in alphabetical order.
    pub fn names_of(&self, kind: ModelKind) -> impl Iterator<Item = &'static str> + '_ {
        self.0.iter().filter(move |(_, model)| model.kind == kind).map(|(name, _)| *name)
    }

    /// True if there is a model `name`.
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Returns the model `name`, for a measurement.
    ///
    /// # Errors
    /// There is no model of this name, or the model offers no transfers.
    pub fn offering(&self, name: &str) -> Result<Offering, OfferingError> {
        match self.0.get(name) {
            Some(model) if !model.tests.is_empty() => Ok(*model),
            found => {
                let offer = self.0.values().filter(|m| !m.tests.is_empty());
                let known = offer.map(|m| m.name).collect();
                Err(OfferingError { name: name.to_owned(), is_model: found.is_some(), known })
            }
        }
    }

    /// Returns the schema of the settings of model `name`.
    pub fn schema(&self, name: &str) -> Option<Arc<Schema>> {
        Some((self.0.get(name)?.schema)())
    }

    /// Reads the model `name` with the settings of `table`. `None` if there is no model of this name.
    pub fn read<'a>(
        &self,
        name: &str,
        source: &Source<'a>,
        table: Tree<'a>,
    ) -> Option<Result<Plan, Unread<Plan>>> {
        Some((self.0.get(name)?.read)(source, table))
    }
}
