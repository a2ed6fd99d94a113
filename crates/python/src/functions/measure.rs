// SPDX-License-Identifier: Apache-2.0 OR MIT
//! bench, compare and fit, by `riser-bench`.

use super::apart::apart;
use super::arguments::Arguments;
use super::json;
use crate::error;
use ::bench::BenchError;
use ::bench::ask::{self, Ask, AskError, Ended, RootCredits};
use ::bench::compare::compare_folders;
use ::bench::configurations::Iommu;
use ::bench::fit::task::{self, FitReport, Prepared, Task, provenance};
use ::bench::fit::{self, Fitted};
use ::bench::results::sheet::{self, Results};
use ::bench::suite::Rule;
use lab::schema::BufferPages;
use plug::MemoryKind;
use plug::transfers::{CacheState, Pattern};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// How work ended: `done`, or `failed` with the reason, or the exception that interrupted it.
type End = (&'static str, String, Option<Py<PyAny>>);

fn end(ended: &'static str, why: Option<String>, raised: Option<PyErr>) -> End {
    let raised = raised.map(|error| Python::attach(|py| error.into_value(py).into_any()));
    (ended, why.unwrap_or_default(), raised)
}

/// Measures. Returns the JSON of the results, the CSV of `riser bench -o`, and how it ended.
#[pyfunction(name = "bench")]
#[pyo3(signature = (arguments, progress, /))]
pub(crate) fn bench_of(
    py: Python<'_>,
    arguments: &Bound<'_, PyDict>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, String, End)> {
    let ask = of_arguments(&Arguments(arguments))?;
    py.detach(|| {
        let plans = ask.plans(&worlds::models()).map_err(refused)?;
        let (measured, raised) = apart(progress.as_ref(), |cancel, far| {
            ask::measure(&plans, cancel, |done, all, test, size| {
                far.tell(
                    format!("{} {size} B, row {} of {all}", test.name(), done + 1),
                    Some(done as f64 / all as f64),
                );
            })
        });
        let (entries, ended) = measured.map_err(|e| error::RunFailed::new_err(e.to_string()))?;
        let (how, why) = match ended {
            None => ("done", None),
            Some(Ended::Interrupted(why)) => ("interrupted", Some(why)),
            Some(Ended::Failed(why)) => ("failed", Some(why)),
        };
        let text = json(&Results::new(&plans, &entries, why.as_deref()))?;
        let csv = sheet::write(&entries).map_err(error::internal)?;
        Ok((text, csv, end(how, why, raised)))
    })
}

/// Returns the exception for an invalid request.
pub(super) fn refused(error: AskError) -> PyErr {
    match error {
        AskError::Wrong(why) => error::argument(why),
        AskError::Profile(why) => error::lab(why),
    }
}

/// States of the host's caches.
const CACHES: [(&str, CacheState); 4] = {
    use CacheState::{Cold, DeviceThrash, DeviceWarm, HostWarm};
    [
        (Cold.name(), Cold),
        (HostWarm.name(), HostWarm),
        (DeviceWarm.name(), DeviceWarm),
        (DeviceThrash.name(), DeviceThrash),
    ]
};

fn of_arguments(given: &Arguments<'_, '_>) -> PyResult<Ask> {
    let credits = given.list::<String>("credits")?.into_iter().map(|text| {
        text.parse::<RootCredits>().map_err(|legal| error::argument(format!("credits {text}: {legal}")))
    });
    Ok(Ask {
        suite: given.list("suite")?,
        sizes: given.list("size")?,
        model: given.get("model")?,
        host: given.get("host")?,
        iommu: given
            .or("iommu", Iommu::Off.to_string())?
            .parse()
            .map_err(|e: BenchError| error::argument(e.to_string()))?,
        pages: given
            .word("buffer_pages", &BufferPages::ALL.map(|pages| (pages.name(), pages)))?
            .unwrap_or_default(),
        device: given.get("device")?,
        generation: given.get("gen")?,
        lanes: given.get("lanes")?,
        mps: given.list("mps")?,
        mrrs: given.list("mrrs")?,
        credits: credits.collect::<PyResult<_>>()?,
        rcb: given.get("rcb")?,
        memory: given.word("addr", &[("32", MemoryKind::Low), ("64", MemoryKind::High)])?,
        window_bytes: given.get("window")?,
        offset_bytes: given.get("offset")?,
        pattern: given
            .word("pattern", &[("sequential", Pattern::Sequential), ("random", Pattern::Random)])?,
        cache: given.word("cache", &CACHES)?,
        transfers: given.get("transfers")?,
        warm_up: given.get("warm_up")?,
        outstanding: given.list("outstanding")?,
        seed: given.or("seed", 1)?,
    })
}

/// Compares two folders of results. Returns the output of `riser compare --json`.
#[pyfunction(name = "compare")]
#[pyo3(signature = (reference, other, skip, whole, /))]
pub(crate) fn compare_of(
    py: Python<'_>,
    reference: PathBuf,
    other: PathBuf,
    skip: Option<PathBuf>,
    whole: bool,
) -> PyResult<String> {
    py.detach(|| {
        let compared = compare_folders(&reference, &other, skip.as_deref(), whole);
        json(&compared.map_err(error::lab)?.0)
    })
}

/// Fits a profile. Returns its text, the output of `riser fit --json`, and how it ended. `work` is a file for copies.
#[pyfunction(name = "fit")]
#[pyo3(signature = (arguments, output, work, progress, /))]
pub(crate) fn fit_of(
    py: Python<'_>,
    arguments: &Bound<'_, PyDict>,
    output: String,
    work: PathBuf,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, String, End)> {
    let given = Arguments(arguments);
    let task = Task {
        data: given.list("data")?,
        like: given.get("like")?,
        server: given.get("server")?,
        device: given.get("device")?,
        iommu: given.or("iommu", "off".to_owned())?,
        sockets: given.or("sockets", vec![0, 0, 0])?,
        mps: given.or("mps", 256)?,
        mrrs: given.or("mrrs", 512)?,
    };
    let residuals = given.or("residuals", true)?.then_some(given.or("jobs", 2_usize)?);
    if let Some(jobs) = residuals.filter(|jobs| !(1..=256).contains(jobs)) {
        return Err(error::argument(format!("jobs {jobs}: expected 1 to 256")));
    }
    py.detach(|| {
        let mut prepared = task.prepare().map_err(refused)?;
        let (fitted, raised) =
            apart(progress.as_ref(), |cancel, far| fit_apart(&mut prepared, &work, cancel, far));
        let (fitted, failed) = fitted;
        if raised.is_none() {
            failed.map_or(Ok(()), |why| Err(error::RunFailed::new_err(why)))?;
            let shown = fit::nothing_shown(&fitted);
            shown.map_or(Ok(()), |why| Err(error::lab(why)))?;
        }
        let Prepared { inputs, like, mut profile, begun, warnings } = prepared;
        let warnings = task::warnings(&warnings, begun, &fitted);
        profile.attribute(&provenance(&task, &inputs, &like, &warnings), &fitted);
        let report = |residuals| {
            let figures = (&fitted[..], warnings.clone());
            json(&FitReport::new(output.clone(), &profile, &inputs, figures, residuals))
        };
        let Some(jobs) = residuals.filter(|_| raised.is_none()) else {
            let how = if raised.is_some() { "interrupted" } else { "done" };
            return Ok((profile.text().to_owned(), report(None)?, end(how, None, raised)));
        };
        let (compared, raised) = apart(progress.as_ref(), |cancel, far| {
            fit::residuals(&inputs, &Rule::quick(), &work, jobs, &mut |done, of| {
                far.tell(format!("residuals, row {done} of {of}"), Some(done as f64 / of.max(1) as f64));
                go_on(cancel)
            })
        });
        let how = if raised.is_some() { "interrupted" } else { "done" };
        let compared = match compared {
            Ok(compared) => Some(compared),
            Err(why) if raised.is_none() => return Err(error::RunFailed::new_err(why.to_string())),
            Err(_) => None,
        };
        Ok((profile.text().to_owned(), report(compared.as_ref())?, end(how, None, raised)))
    })
}

fn go_on(cancel: &AtomicBool) -> Result<(), BenchError> {
    if cancel.load(Ordering::Relaxed) { Err("interrupted".into()) } else { Ok(()) }
}

/// Fits on a separate thread. Returns the fitted figures, and the reason why other figures are missing.
fn fit_apart(
    prepared: &mut Prepared,
    work: &Path,
    cancel: &AtomicBool,
    far: &super::apart::Far,
) -> (Vec<Fitted>, Option<String>) {
    let mut so_far: Vec<Fitted> = Vec::new();
    let Prepared { inputs, profile, begun, .. } = prepared;
    let fitted = fit::fit(inputs, profile, *begun, &Rule::quick(), work, |figure| {
        far.tell(format!("{} {} ns", figure.parameter.name(), figure.value_ps as f64 / 1000.0), None);
        so_far.retain(|other| other.parameter != figure.parameter);
        so_far.push(figure.clone());
        go_on(cancel)
    });
    match fitted {
        Ok(fitted) => (fitted, None),
        Err(error) => (so_far, Some(error.to_string())),
    }
}
