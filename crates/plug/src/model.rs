// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A model of a device as a lab names it, and the table of models.

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

/// A model: its settings, which are a table in the slot that names it.
///
/// The type says once what is legal: [`schemars`] attributes are the limits, comments the reference. Readers of files
/// check them at the place of each key, [`check`](Self::check) does so for settings made by code.
pub trait Model:
    Clone + fmt::Debug + Send + Sync + Serialize + DeserializeOwned + JsonSchema + 'static
{
    /// Its name in labs, and that of its table in a slot: small letters, digits and hyphens.
    const NAME: &'static str;

    /// The names of the registers of its functions, which `riser trace` and `riser lspci` show.
    const REGISTERS: &'static [FunctionRegisters] = &[];

    /// The tests that [`offer`](Self::offer) accepts; none where it offers no transfers.
    const TESTS: &'static [Test] = &[];

    /// The model, set to the transfers of `workload`. It fills the [`Transfers`](crate::transfers::Transfers) that it
    /// is [measuring](Plugged::measuring) until they are done, and keeps up the load until then.
    ///
    /// # Errors
    /// What of that it cannot do, and what it can. Nothing that is asked for is left out silently.
    fn offer(workload: &Workload, folder: &Folder) -> Result<Offer, Fault> {
        let _ = (workload, folder);
        Err(Fault::from(format!("model `{}` offers no transfers", Self::NAME)))
    }

    /// What the lab has to know before the model is plugged in.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// Makes the device, its driver and its report from settings that have been checked. Called more than once: to
    /// find errors, and to run.
    ///
    /// # Errors
    /// The settings that cannot be had at this site, and why.
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
    /// The first setting that is not legal.
    fn check(&self) -> Result<(), Fault> {
        let value = serde_json::to_value(self).map_err(|e| Fault::from(e.to_string()))?;
        Schema::shared::<Self>().check(&value).into_iter().next().map_or_else(|| self.check_together(), Err)
    }
}

/// What the lab has to know of a device's settings.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Needs {
    /// Virtual functions that the host is to enable.
    pub virtual_functions: u16,
    /// A BAR that is to be at a certain address.
    pub fixed_bar: Option<FixedBar>,
    /// Bytes of the longest deferrable write that it sends.
    pub deferrable_write_bytes: Option<u32>,
    /// Host memory that its driver will ask for.
    pub window: Option<Window>,
    /// The least time for which the host is to wait for completions.
    pub host_patience: Duration,
}

/// A BAR at a fixed address, given by the setting `address`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FixedBar {
    /// The BAR, 0 to 5.
    pub bar: u8,
    /// Its address, a multiple of its size.
    pub address: u64,
    /// Its bytes, a power of two.
    pub size_bytes: u64,
}

/// A window of host memory, given by the setting `window_bytes`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// The part of host memory that it is in.
    pub memory: MemoryKind,
    /// Size in bytes.
    pub bytes: u64,
    /// Alignment of its address, in bytes.
    pub alignment: u64,
}

/// Why a model cannot be made as its settings say.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{message}")]
pub struct Fault {
    /// The key at fault, from the table of settings on; an index stands for an element of a list. Empty where no single key is.
    pub key: Vec<String>,
    /// What is wrong, and what is legal.
    pub message: String,
}

impl Fault {
    /// A fault of `key`, keys with dots between and indexes for elements of lists.
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

/// A model of any type, with its settings. Clones are the same plan.
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
    /// The plan of a model with these settings.
    pub fn new(settings: impl Model) -> Plan {
        Plan(Arc::new(settings))
    }

    /// The model's name.
    pub fn name(&self) -> &'static str {
        self.0.name()
    }

    /// See [`Model::needs`].
    pub fn needs(&self) -> Needs {
        self.0.needs()
    }

    /// Checks the settings, then [`Model::plug`].
    ///
    /// # Errors
    /// Those of both.
    pub fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        self.0.plug(site)
    }

    /// The settings, if the model is `M`.
    pub fn settings<M: Model>(&self) -> Option<&M> {
        self.0.as_any().downcast_ref()
    }
}

/// Why a table of models cannot be made.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ModelError {
    /// Two models have this name.
    #[error("a second model named `{0}`: names are unique")]
    Second(&'static str),
    /// No lab could use this name.
    #[error(
        "model named `{0}`: legal are small letters, digits and hyphens, a letter first, and no key of a slot"
    )]
    Name(&'static str),
    /// Registers of a model cannot be told apart.
    #[error(
        "model `{model}`, register `{register}`: legal are registers of BAR 0 to 5 with at least a byte, in rising order, none in \
         another"
    )]
    Register {
        /// The model.
        model: &'static str,
        /// Its first register that is not legal.
        register: &'static str,
    },
    /// Two models have the same IDs and different registers: a capture could be of either.
    #[error(
        "model `{model}` names registers of {vendor:04x}:{device:04x}, which model `{other}` calls otherwise: IDs are unique"
    )]
    Ids {
        /// The model.
        model: &'static str,
        /// The model that named them before.
        other: &'static str,
        /// Vendor ID.
        vendor: u16,
        /// Device ID.
        device: u16,
    },
}

/// The models that labs may name. Clones are cheap.
#[derive(Clone, Default, Debug)]
pub struct Models(BTreeMap<&'static str, Offering>);

/// A model by its type alone, without settings: for whoever reads these, or has its transfers measured.
#[derive(Clone, Copy)]
pub struct Offering {
    name: &'static str,
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
    /// The model `M`.
    pub fn of<M: Model>() -> Offering {
        Offering {
            name: M::NAME,
            tests: M::TESTS,
            registers: M::REGISTERS,
            schema: Schema::shared::<M>,
            offer: M::offer,
            read: read::<M>,
        }
    }

    /// The model's name.
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
    /// Those of [`Model::offer`]; also a test that is not among [`tests`](Self::tests).
    pub fn offer(&self, workload: &Workload, folder: &Folder) -> Result<Offer, Fault> {
        if self.tests.contains(&workload.test) {
            return (self.offer)(workload, folder);
        }
        let legal: Vec<&str> = self.tests.iter().map(|test| test.name()).collect();
        let (name, test) = (self.name, workload.test.name());
        Err(Fault::at(
            "test",
            format!("model `{name}` does not offer {test}: legal are {}", legal.join(", ")),
        ))
    }
}

/// The keys of a slot, which cannot be names of models.
const SLOT_KEYS: [&str; 9] =
    ["name", "device", "driver", "parent", "port", "hot_plug", "link", "tags", "completion_timeout_us"];

/// Whether a model may have this name: small letters, digits and hyphens, a letter first, and no key of a slot.
pub fn is_model_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        && !SLOT_KEYS.contains(&name)
}

impl Models {
    /// Adds the model `M`.
    ///
    /// # Errors
    /// Where its name is not legal or already taken, or its registers cannot be told apart; the table stays as it was.
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

    /// The functions whose registers have names, each with the name of its model.
    fn functions(&self) -> impl Iterator<Item = (&'static str, &'static FunctionRegisters)> + '_ {
        self.0.iter().flat_map(|(name, model)| model.registers.iter().map(|function| (*name, function)))
    }

    /// The names of the registers of all models' functions.
    pub fn registers(&self) -> DeviceRegisters {
        self.functions().map(|(_, f)| ((f.vendor, f.device), f.registers)).collect()
    }

    /// This table with `M`: for tables of names that are known to be legal.
    ///
    /// # Panics
    /// Where [`add`](Self::add) fails.
    #[must_use]
    pub fn with<M: Model>(mut self) -> Models {
        if let Err(error) = self.add::<M>() {
            panic!("{error}");
        }
        self
    }

    /// The names of the models, in order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.0.keys().copied()
    }

    /// Whether there is a model `name`.
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The model `name`, for a measurement.
    ///
    /// # Errors
    /// Where there is no such model, or it offers no transfers; names those that do.
    pub fn offering(&self, name: &str) -> Result<Offering, String> {
        match self.0.get(name) {
            Some(model) if !model.tests.is_empty() => Ok(*model),
            found => {
                let offer = self.0.values().filter(|m| !m.tests.is_empty());
                let names: Vec<&str> = offer.map(|m| m.name).collect();
                let what = found.map_or("no model", |_| "no transfers of model");
                Err(format!("{what} `{name}`: those that offer transfers are {}", names.join(", ")))
            }
        }
    }

    /// The schema of the settings of model `name`.
    pub fn schema(&self, name: &str) -> Option<Arc<Schema>> {
        Some((self.0.get(name)?.schema)())
    }

    /// The model `name` with the settings of `table`; `None` where there is no such model.
    pub fn read<'a>(
        &self,
        name: &str,
        source: &Source<'a>,
        table: Tree<'a>,
    ) -> Option<Result<Plan, Unread<Plan>>> {
        Some((self.0.get(name)?.read)(source, table))
    }
}
