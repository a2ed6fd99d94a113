// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Operations of a subsystem, and results of the host's job. Numbers only.

use crate::traffic::Latencies;
use plug::{Shown, gbps, ns};
use tlp::{Duration, Time};

/// Operations of the subsystem.
#[derive(Clone, Debug, Default)]
pub struct NvmeReport {
    /// Successful reads.
    pub reads: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Successful writes.
    pub writes: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Failed commands of all kinds.
    pub failed: u64,
    /// Invalid doorbells.
    pub refused_doorbells: u64,
    /// Number of fatal errors (CSTS.CFS).
    pub fatal: u64,
    /// Times of all I/O commands.
    pub stages: Stages,
    /// The host's job, after its end.
    pub job: Option<JobReport>,
}

/// Times of I/O commands in the controller, as a sum over all commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stages {
    /// From the doorbell to the start of work: the command is read from host memory.
    pub fetch: Duration,
    /// Time from the fetch to the end of the command: pointers, data and media.
    pub work: Duration,
    /// The media's share of that.
    pub media: Duration,
    /// From its end until its completion is sent.
    pub completion: Duration,
}

impl Stages {
    /// Time of pointers and data.
    pub fn data(&self) -> Duration {
        self.work - self.media
    }
}

/// Results of the host's job.
#[derive(Clone, Debug, Default)]
pub struct JobReport {
    /// Bytes of all commands.
    pub bytes: u64,
    /// From the first command to the last completion.
    pub elapsed: Duration,
    /// Latency of each command, from the write to its doorbell until the host sees its completion.
    pub latencies: Latencies,
    /// Doorbell writes.
    pub doorbells: u64,
    /// Interrupts of the host.
    pub interrupts: u64,
    /// Times in the controller.
    pub stages: Stages,
}

impl JobReport {
    /// Commands per second.
    pub fn iops(&self) -> f64 {
        match self.elapsed.as_ps() {
            0 => 0.0,
            ps => self.latencies.count() as f64 * 1e12 / ps as f64,
        }
    }

    /// Data rate in Gb/s.
    pub fn gbps(&self) -> f64 {
        gbps(self.bytes, self.elapsed)
    }

    /// Mean times of a command in ns: total; fetch, data, media and completion in the controller; and the rest, which is the transport of
    /// doorbells, completions and interrupts.
    pub fn mean_ns(&self) -> [f64; 6] {
        let each = |duration: Duration| ns(duration) / self.latencies.count().max(1) as f64;
        let all = self.latencies.mean().map_or(0.0, ns);
        let stages = &self.stages;
        let [fetch, data, media, completion] =
            [stages.fetch, stages.data(), stages.media, stages.completion].map(each);
        [all, fetch, data, media, completion, all - fetch - data - media - completion]
    }

    fn show(&self, shown: &mut Shown) {
        let count = self.latencies.count();
        shown.put("job.commands", count);
        shown.put("job.iops", self.iops());
        shown.put("job.data_gbps", self.gbps());
        let names = ["latency", "fetch", "data", "media", "completion", "way"];
        for (name, value) in names.into_iter().zip(self.mean_ns()) {
            shown.put(format!("job.{name}_ns_mean"), value);
        }
        if let Some([median, p99]) = self.latencies.percentiles([500, 990]) {
            shown.put("job.latency_ns_median", ns(median));
            shown.put("job.latency_ns_p99", ns(p99));
        }
        shown.put("job.doorbells", self.doorbells);
        shown.put("job.interrupts", self.interrupts);
    }
}

impl plug::Report for NvmeReport {
    fn shown(&self, _: Time) -> Shown {
        let mut shown = Shown::new().with_counts([
            ("reads", self.reads),
            ("bytes_read", self.bytes_read),
            ("writes", self.writes),
            ("bytes_written", self.bytes_written),
            ("failed_commands", self.failed),
            ("refused_doorbells", self.refused_doorbells),
            ("fatal", self.fatal),
        ]);
        if let Some(job) = &self.job {
            job.show(&mut shown);
        }
        shown
    }
}
