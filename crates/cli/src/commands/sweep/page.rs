// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of a sweep.

use crate::failure::Failure;
use crate::outputs::Place;
use sweep::Run;
use view::report::Report;

pub(super) fn write(page: Place, run: &Run<'_>) -> Result<(), Failure> {
    let report = Report { title: run.sweep().file().path.display().to_string(), ..Report::default() };
    let mut out = page.open()?;
    report.write(&mut out).map_err(|e| out.failed(&e))?;
    out.finish()
}
