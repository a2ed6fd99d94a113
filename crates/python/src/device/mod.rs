// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Devices in Python as a model of labs. `device = "python"` names a class in a file or a module. A lab that is built in code can
//! use an object instead.
//!
//! - [`description`]: attributes of a device.
//! - [`io`], [`request`], [`bytes`]: objects for its coroutine.
//! - [`report`]: its counters, and the exception that ended it.

pub(crate) mod bytes;
mod description;
pub(crate) mod io;
pub(crate) mod report;
pub(crate) mod request;

use crate::author::Author;
use crate::coroutine::Coroutine;
use crate::driver;
use crate::run_state::RunState;
use ::device::AsyncDevice;
use description::Description;
use endpoint::{FunctionConfig, VirtualFunctions};
use host::Cpu;
use host::firmware::FoundFunction;
use io::Io;
use plug::site::NativeCode;
use plug::{Fault, Model, Needs, Plugged, Shared, Site};
use pyo3::prelude::*;
use report::PythonReport;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::rc::Rc;
use tlp::PayloadPool;

/// A device in Python: an instance of a class derived from `riser.Device`, which can include its driver.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Settings {
    /// The class of the device: `FILE.py:CLASS`, or `MODULE:CLASS` of a module that Python finds. The code is native
    /// and runs only if this is allowed.
    class: Option<String>,
    /// Keyword arguments for the class.
    settings: serde_json::Map<String, serde_json::Value>,
    /// Virtual functions that the host enables (SR-IOV), at most as many as the class has.
    #[schemars(range(min = 0, max = 256))]
    virtual_functions: u16,
    /// Number of the object, in a lab that was built in code.
    object: Option<u32>,
}

impl Model for Settings {
    const NAME: &'static str = "python";

    fn needs(&self) -> Needs {
        Needs { virtual_functions: self.virtual_functions, ..Needs::default() }
    }

    fn check_together(&self) -> Result<(), Fault> {
        match (&self.class, self.object) {
            (None, None) => Err(Fault::at("class", "no class: expected `FILE.py:CLASS` or `MODULE:CLASS`")),
            (Some(class), None) if !class.contains(':') => Err(Fault::at(
                "class",
                format!("class `{class}`: expected `FILE.py:CLASS` or `MODULE:CLASS`"),
            )),
            (Some(_), Some(_)) => Err(Fault::at("object", "object with a class: expected one of the two")),
            _ => Ok(()),
        }
    }

    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        let run = Rc::clone(site.context.get_or_default::<Rc<RunState>>());
        Python::attach(|py| {
            let device = match self.object {
                Some(object) => run.object(py, object).map_err(|e| at(py, "object", &e))?,
                None => self.load(py, site)?,
            };
            self.plug_object(py, device, site, run)
        })
    }
}

fn at(py: Python<'_>, key: &str, error: &PyErr) -> Fault {
    Fault::at(key, report::text(py, error))
}

impl Settings {
    /// Returns an instance of the class.
    fn load<'py>(&self, py: Python<'py>, site: &Site<'_>) -> Result<Bound<'py, PyAny>, Fault> {
        let class = self.class.as_deref().unwrap_or_default();
        let load = || -> PyResult<Bound<'py, PyAny>> {
            let module = py.import("riser._device")?;
            if site.native == NativeCode::NotLoaded {
                // The lab is only checked, so the class is not loaded. A default device is used in its place.
                return module.getattr("Device")?.call0();
            }
            let settings = pythonize::pythonize(py, &self.settings)?;
            module.getattr("load")?.call1((class, site.folder.path(), settings))
        };
        if site.native == NativeCode::Refused {
            return Err(Fault::at(
                "class",
                format!("`{class}` is foreign code: use --allow-native to run it"),
            ));
        }
        load().map_err(|e| at(py, "class", &e))
    }

    fn plug_object(
        &self,
        py: Python<'_>,
        device: Bound<'_, PyAny>,
        site: &Site<'_>,
        run: Rc<RunState>,
    ) -> Result<Plugged, Fault> {
        let described = Description::of(&device).and_then(|it| device.call_method0("_check").map(|_| it));
        let description = described.map_err(|e| at(py, "class", &e))?;
        if self.virtual_functions > description.vfs() && site.native != NativeCode::NotLoaded {
            let (asked, has) = (self.virtual_functions, description.vfs());
            let text = format!("virtual_functions of {asked}: expected 0 to {has}, as in the class");
            return Err(Fault::at("virtual_functions", text));
        }
        let (registers, unnamed) = (description.registers(), description.unnamed());
        let report = Shared::new(PythonReport::new(device.clone().unbind()));
        if site.native != NativeCode::NotLoaded {
            run.add_report(&report);
        }
        let author = Author { device: Rc::new(device.unbind()), report: report.clone(), run };
        let make = {
            let (author, pool, messages) = (author.clone(), site.payloads.clone(), description.messages());
            move |vf| Box::new(author.device(vf, &pool).with_messages(messages))
        };
        let physical = FunctionConfig { config: description.physical(site)?, device: make(None) };
        let virtual_functions = match description.vfs() {
            0 => None,
            _ => {
                let config = description.virtual_space(site)?;
                Some(VirtualFunctions { config, device: Box::new(move |n| make(Some(n))) })
            }
        };
        let drive =
            move |cpu: Cpu, functions: Vec<FoundFunction>| driver::drive(author.clone(), cpu, functions);
        let plugged = Plugged::with_virtual_functions(physical, virtual_functions, drive);
        Ok(plugged.naming(registers).warning(unnamed).reporting(&report))
    }
}

impl Author {
    /// Returns the device of a function. Its coroutine starts again after each reset.
    fn device(&self, vf: Option<u16>, pool: &PayloadPool) -> AsyncDevice {
        let author = self.clone();
        AsyncDevice::with_pool(pool.clone(), move |io: ::device::Io| author.clone().live(io, vf))
    }

    /// Runs one life of a function.
    async fn live(self, io: ::device::Io, vf: Option<u16>) {
        let begun = Python::attach(|py| {
            let handle = Io::new(py, io.clone(), vf, self.clone())?;
            Coroutine::new(
                &self.run,
                self.device.bind(py).call_method1("_live", (handle,))?,
                "the result of run()",
            )
        });
        let ended = match begun {
            Ok(coroutine) => coroutine.await.map(drop),
            Err(error) => Err(error),
        };
        match ended {
            Ok(()) => self.report.change(|report| report.returned(io.now())),
            Err(error) => self.fail(error, io.now()),
        }
    }
}
