// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The driver on the simulated host: enables and identifies the controller of each function, creates queue pairs, and runs the job on
//! them. The model includes register accesses, but not the execution time of the CPU's own instructions.

use super::admin_queues::Admin;
use super::job::{Pair, Pass, Places};
use super::report::{JobReport, NvmeReport, Stages};
use super::settings::{Job, Kind, Settings};
use host::Cpu;
use host::DriverError;
use host::firmware::FoundFunction;
use plug::Shared;
use std::rc::Rc;
use tlp::Duration;

/// Runs the job on all functions in parallel.
///
/// # Errors
/// The operation that failed.
pub(super) async fn driver(
    cpu: Cpu,
    functions: Vec<FoundFunction>,
    settings: Settings,
    (namespace_bytes, seed): (u64, u64),
    report: Shared<NvmeReport>,
) -> Result<(), DriverError> {
    let (mut pairs, job) = (Vec::new(), settings.job);
    for (number, function) in (0..).zip(functions) {
        let function = Rc::new(function);
        let at_function = |why| format!("{function}: {why}");
        let mut admin = Admin::enable(&cpu, &function).await.map_err(at_function)?;
        let block_bytes = admin.identify().await.map_err(at_function)?;
        for id in 1..=job.queues.min(settings.pairs_of(number)) {
            pairs.push(Pair::open(&mut admin, id, job, block_bytes).await.map_err(at_function)?);
        }
    }
    let share = Places { bytes: namespace_bytes, pairs: pairs.len() as u64, seed };
    let before = report.get().stages;
    let start = cpu.now();
    let done = run_all(&cpu, pairs, job.kind, share).await?;
    let end = cpu.now();
    report.change(|report| report.job = Some(summary(&done, end.since(start), before, report.stages, job)));
    if job.kind == Kind::Write && job.verify {
        let pairs = done.into_iter().map(|(pair, _)| pair).collect();
        run_all(&cpu, pairs, Kind::Read, share).await?;
    }
    Ok(())
}

async fn run_all(
    cpu: &Cpu,
    pairs: Vec<Pair>,
    kind: Kind,
    share: Places,
) -> Result<Vec<(Pair, Pass)>, DriverError> {
    let run = |(n, pair): (u64, Pair)| cpu.spawn(pair.run(kind, n, share));
    let running: Vec<_> = (0..).zip(pairs).map(run).collect();
    let mut done = Vec::with_capacity(running.len());
    for task in running {
        done.push(task.await??);
    }
    Ok(done)
}

fn summary(done: &[(Pair, Pass)], elapsed: Duration, before: Stages, after: Stages, job: Job) -> JobReport {
    let mut report = JobReport {
        elapsed,
        stages: Stages {
            fetch: after.fetch - before.fetch,
            work: after.work - before.work,
            media: after.media - before.media,
            completion: after.completion - before.completion,
        },
        ..JobReport::default()
    };
    for (_, pass) in done {
        report.latencies.join(&pass.latencies);
        report.doorbells += pass.doorbells;
        report.interrupts += pass.interrupts;
    }
    report.bytes = report.latencies.count() * u64::from(job.command_bytes);
    report
}
