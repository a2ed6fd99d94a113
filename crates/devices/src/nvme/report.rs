// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a subsystem has done, and what came of the host's job. Numbers only.

use crate::traffic::Latencies;
use plug::{Shown, gbps, ns};
use tlp::{Duration, Time};

/// What the subsystem has done.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Read commands that ended well.
    pub reads: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Writes that ended well.
    pub writes: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Commands of all kinds that failed.
    pub failed: u64,
    /// Doorbells that meant nothing.
    pub refused_doorbells: u64,
    /// How often a controller could not go on (CSTS.CFS).
    pub fatal: u64,
    /// Where the time of all I/O commands went.
    pub stages: Stages,
    /// The host's job, once it has ended.
    pub job: Option<JobReport>,
}

/// Where the time of I/O commands went at the controller, all commands together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stages {
    /// From the doorbell until somebody works on the command: it is read out of the host's memory.
    pub fetch: Duration,
    /// From there to its end: pointers and data are moved, and the media take their time.
    pub work: Duration,
    /// What the media took of that.
    pub media: Duration,
    /// From its end until its completion is on its way.
    pub completion: Duration,
}

impl Stages {
    /// What pointers and data took.
    pub fn data(&self) -> Duration {
        self.work - self.media
    }
}

/// What came of the host's job.
#[derive(Clone, Debug, Default)]
pub struct JobReport {
    /// Bytes of all commands.
    pub bytes: u64,
    /// From the first command to the last completion.
    pub elapsed: Duration,
    /// Of each command, from when its doorbell is written to when the host sees its completion.
    pub latencies: Latencies,
    /// Writes to doorbells.
    pub doorbells: u64,
    /// Times that the host was woken.
    pub interrupts: u64,
    /// Where the time went at the controller.
    pub stages: Stages,
}

impl JobReport {
    /// Commands a second.
    pub fn iops(&self) -> f64 {
        match self.elapsed.as_ps() {
            0 => 0.0,
            ps => self.latencies.count() as f64 * 1e12 / ps as f64,
        }
    }

    /// Data, in Gb/s.
    pub fn gbps(&self) -> f64 {
        gbps(self.bytes, self.elapsed)
    }

    /// What a command took in the mean: all of it; at the controller until it was fetched, for data, for media, for its completion; and the
    /// rest, the ways of doorbells, completions and interrupts. In ns.
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

impl plug::Report for Report {
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
