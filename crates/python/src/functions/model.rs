// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Closed forms, by `riser-model`, and the shipped profiles.

use super::arguments::Arguments;
use super::json;
use super::measure::refused;
use crate::error;
use ::lab::profile::{HOSTS, Shelf, Shipped};
use ::model::nic::{Answer, Question, TABLE_SIZES};
use ::model::{Addressing, Dllps, Form, Measured, Packeting, Params, Transfer};
use devices::pcie_bench::CARDS;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Serialize;

/// Valid rates of the Ethernet in Gb/s.
const ETHERNET_GBPS: std::ops::RangeInclusive<f64> = 0.001..=100_000.0;
/// Maximum number of devices in one chart, in addition to the curves of the bare link and the Ethernet.
const MAX_DEVICES: usize = view::figure::MAX_SERIES - 2;

/// Returns bandwidth by transfer size: a list of the output of `riser model bw --json`.
#[pyfunction]
#[pyo3(signature = (arguments, /))]
pub(crate) fn model_bandwidth(arguments: &Bound<'_, PyDict>) -> PyResult<String> {
    let given = Arguments(arguments);
    let (params, form) = (params(&given)?, form(&given)?);
    let dllps = given.get::<Bound<'_, PyDict>>("dllps")?;
    if form == Form::Published && dllps.is_some() {
        return Err(error::argument("dllps: only form exact accepts counts".to_owned()));
    }
    let dllps = dllps.map_or(Ok(Dllps::default()), |counts| of_kinds(&Arguments(&counts)))?;
    let offset_bytes = given.or("offset", 0)?;
    let answer = |size_bytes| {
        let transfer = Transfer { size_bytes, offset_bytes };
        let answer = match form {
            Form::Exact => ::model::exact(&params, transfer, &dllps),
            Form::Published => ::model::published(&params, transfer),
        };
        answer.map_err(|why| error::argument(why.to_string()))
    };
    let sizes = given.list::<u32>("size")?;
    json(&sizes.into_iter().map(answer).collect::<PyResult<Vec<_>>>()?)
}

fn of_kinds(counts: &Arguments<'_, '_>) -> PyResult<Dllps> {
    let kind = |name: &str| {
        let counts = counts.get::<(f64, f64)>(name)?;
        Ok::<_, PyErr>(counts.map(|(up, down)| Measured { up, down }))
    };
    Ok(Dllps { write: kind("write")?, read: kind("read")?, read_write: kind("read_write")? })
}

/// Returns the throughput of NICs by packet size, as the output of `riser model nic --json`.
#[pyfunction]
#[pyo3(signature = (arguments, /))]
pub(crate) fn model_nic(arguments: &Bound<'_, PyDict>) -> PyResult<String> {
    let given = Arguments(arguments);
    let ethernet_gbps = given.or("ethernet", 40.0)?;
    if !ETHERNET_GBPS.contains(&ethernet_gbps) {
        return Err(error::argument(format!("ethernet {ethernet_gbps}: expected 0.001 to 100000")));
    }
    let traffic = [("both", Packeting::Both), ("tx", Packeting::Tx), ("rx", Packeting::Rx)];
    let devices = bench::packet_devices::devices(&given.list("device")?, MAX_DEVICES);
    let question = Question {
        params: params(&given)?,
        form: form(&given)?,
        packeting: given.word("traffic", &traffic)?.unwrap_or(Packeting::Both),
        ethernet_gbps,
        devices: devices.map_err(refused)?,
    };
    let sizes = given.list("size")?;
    let sizes = if sizes.is_empty() { TABLE_SIZES.to_vec() } else { sizes };
    let series = question.series(&sizes).map_err(|e| error::argument(e.to_string()))?;
    json(&Answer::new(&question, series))
}

fn form(given: &Arguments<'_, '_>) -> PyResult<Form> {
    let forms = [Form::Exact, Form::Published].map(|form| (form.name(), form));
    Ok(given.word("form", &forms)?.unwrap_or(Form::Exact))
}

fn params(given: &Arguments<'_, '_>) -> PyResult<Params> {
    let [mps, mrrs, rcb] =
        [("mps", 256), ("mrrs", 512), ("rcb", 64)].map(|(name, usual)| given.or(name, usual));
    let params = Params::new(given.or("gen", 3)?, given.or("lanes", 8)?, mps?, mrrs?, rcb?);
    let addressing = given.word("addr", &[("32", Addressing::A32), ("64", Addressing::A64)])?;
    Ok(Params {
        addressing: addressing.unwrap_or(Addressing::A64),
        ecrc: given.or("ecrc", false)?,
        ..params.map_err(|why| error::argument(why.to_string()))?
    })
}

/// A shipped profile.
#[derive(Serialize)]
struct Profile {
    name: &'static str,
    kind: &'static str,
    description: String,
    not_predicted: Option<String>,
}

fn shipped() -> impl Iterator<Item = (&'static str, &'static Shipped)> {
    let of = |shelf: &'static Shelf| shelf.all.iter().map(|shipped| (shelf.kind, shipped));
    of(&HOSTS).chain(of(&CARDS))
}

/// Returns the shipped profiles, as in the output of `riser profiles --json`.
#[pyfunction]
pub(crate) fn profiles() -> PyResult<String> {
    let profile = |(kind, s): (&'static str, &Shipped)| Profile {
        name: s.name,
        kind,
        description: s.description(),
        not_predicted: s.not_predicted(),
    };
    json(&shipped().map(profile).collect::<Vec<_>>())
}

/// Returns a whole profile, converted from TOML.
#[pyfunction]
#[pyo3(signature = (name, /))]
pub(crate) fn profile(name: &str) -> PyResult<String> {
    let Some((_, found)) = shipped().find(|(_, shipped)| shipped.name == name) else {
        let names = shipped().map(|(_, shipped)| shipped.name).collect::<Vec<_>>().join(", ");
        return Err(error::argument(format!("no profile `{name}`; known profiles: {names}")));
    };
    let table: toml::Table = found.text.parse().map_err(error::internal)?;
    json(&table)
}
