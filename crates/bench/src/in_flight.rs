// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The number of transfers that a NIC must have in flight to keep up with its Ethernet. Each answer names the latency that it depends on.

use crate::ask::{AskError, check_profiles, link_to};
use crate::{BenchError, Plan, Test};
use model::{InFlight, ModelError, QUOTED, Quoted, in_flight, packet_ns};
use plug::profile::Basis;
use plug::values::{Gen, Lanes};
use serde::Serialize;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Bytes of the frame in the paper's question.
pub const PAPER_BYTES: u32 = 128;
/// Rate of the Ethernet in the paper's question, in Gb/s.
pub const PAPER_GBPS: f64 = 40.0;

/// The latency of a transfer.
#[derive(Clone, Copy, Debug)]
pub enum Latency {
    /// A latency that the paper prints.
    Quoted(&'static Quoted),
    /// A range from the first to the second, in ns.
    Given(f64, f64),
}

/// The text is not a latency.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("expected {}, a number of ns above 0, or two as NS..NS", QUOTED.map(|quoted| quoted.name).join(", "))]
pub struct LatencyError;

impl FromStr for Latency {
    type Err = LatencyError;

    fn from_str(text: &str) -> Result<Latency, LatencyError> {
        if let Some(quoted) = Quoted::find(text) {
            return Ok(Latency::Quoted(quoted));
        }
        let number = |n: &str| n.parse::<f64>().ok().filter(|n| n.is_finite() && *n > 0.0);
        let (least, most) = text.split_once("..").unwrap_or((text, text));
        let ends = number(least).zip(number(most)).filter(|(least, most)| least <= most);
        ends.map(|(least, most)| Latency::Given(least, most)).ok_or(LatencyError)
    }
}

/// A question about transfers in flight.
#[derive(Clone, Debug)]
pub struct Question {
    /// Bytes of an Ethernet frame, with its FCS.
    pub frame_bytes: u32,
    /// Rate of the Ethernet in Gb/s.
    pub ethernet_gbps: f64,
    /// Latencies of a transfer. Default: the paper's latencies, unless `hosts` has any.
    pub latencies: Vec<Latency>,
    /// Host profiles whose latency is simulated.
    pub hosts: Vec<String>,
    /// The device profile for `hosts`, or `None` for `nfp6000`.
    pub device: Option<String>,
    /// Generation of the link to `hosts`. Default: the profile's.
    pub generation: Option<i64>,
    /// Lanes of that link. Default: the profile's.
    pub lanes: Option<i64>,
    /// Time in ns that a miss in the IOTLB adds.
    pub iommu_miss_ns: Option<f64>,
}

/// Reason why there is no answer.
#[derive(Debug, Error)]
pub enum QuestionError {
    /// A profile or a value is invalid.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// A number of the question is invalid.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The link is invalid.
    #[error("{0}")]
    Link(BenchError),
    /// The simulation failed.
    #[error("{0}")]
    Run(String),
}

impl From<BenchError> for QuestionError {
    fn from(error: BenchError) -> QuestionError {
        QuestionError::Run(error.to_string())
    }
}

/// An answer and its source. Serializes as an object; [`Display`](fmt::Display) gives text.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    source: String,
    /// Origin of the latency.
    basis: Basis,
    frame_bytes: u32,
    ethernet_gbps: f64,
    packet_ns: f64,
    latency_ns_min: f64,
    latency_ns_max: f64,
    exact_min: f64,
    exact_max: f64,
    needed_min: u32,
    needed_max: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    paper_needed: Option<u32>,
    /// A remark, or empty.
    note: String,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} under way: {} ns / {:.1} ns = {}\n  {}\n  basis: {}",
            range(self.needed_min, self.needed_max, |n| n.to_string()),
            range(self.latency_ns_min, self.latency_ns_max, |ns| format!("{ns:.0}")),
            self.packet_ns,
            range(self.exact_min, self.exact_max, |n| format!("{n:.1}")),
            self.source,
            self.basis.name(),
        )?;
        if self.note.is_empty() { Ok(()) } else { write!(f, "\n  {}", self.note) }
    }
}

/// Returns one value, or two as `from to to`.
fn range<T: PartialEq>(from: T, to: T, text: impl Fn(T) -> String) -> String {
    if from == to { text(from) } else { format!("{} to {}", text(from), text(to)) }
}

/// A latency, and its source.
struct Known {
    source: String,
    basis: Basis,
    least_ns: f64,
    most_ns: f64,
}

impl Question {
    /// Returns an answer for each latency and each host. Adds to `warnings` the figures of profiles that are extrapolated on the link.
    ///
    /// # Errors
    /// A number or a profile is invalid, or a simulation fails.
    pub fn answers(&self, warnings: &mut Vec<String>) -> Result<Vec<Answer>, QuestionError> {
        let mut latencies = self.latencies.clone();
        if latencies.is_empty() && self.hosts.is_empty() {
            latencies = QUOTED.iter().map(Latency::Quoted).collect();
        }
        let mut answers = latencies.iter().map(|l| self.given(*l)).collect::<Result<Vec<_>, _>>()?;
        for host in &self.hosts {
            answers.push(self.simulated(host, warnings)?);
        }
        Ok(answers)
    }

    fn packet_ns(&self) -> Result<f64, ModelError> {
        packet_ns(self.frame_bytes, self.ethernet_gbps)
    }

    /// Returns true if this is the paper's question.
    fn is_papers(&self) -> bool {
        self.frame_bytes == PAPER_BYTES && (self.ethernet_gbps - PAPER_GBPS).abs() < f64::EPSILON
    }

    fn given(&self, latency: Latency) -> Result<Answer, QuestionError> {
        match latency {
            Latency::Given(least_ns, most_ns) => {
                let known = Known { source: "as given".into(), basis: Basis::Assumed, least_ns, most_ns };
                Ok(self.answer(known, self.packet_ns()?, None, String::new())?)
            }
            Latency::Quoted(quoted) => Ok(self.quoted(quoted)?),
        }
    }

    fn quoted(&self, q: &Quoted) -> Result<Answer, ModelError> {
        let (source, basis) = (q.source.to_owned(), Basis::Measured);
        let known = Known { source, basis, least_ns: q.least_ns, most_ns: q.most_ns };
        if !self.is_papers() {
            let note = format!("the latency was measured with {PAPER_BYTES} B");
            return self.answer(known, self.packet_ns()?, None, note);
        }
        let mut answer = self.answer(known, q.packet_ns, Some(q.says), String::new())?;
        answer.note = self.note(q, &answer)?;
        Ok(answer)
    }

    /// Compares an answer with the paper's.
    fn note(&self, q: &Quoted, answer: &Answer) -> Result<String, ModelError> {
        let agrees = answer.needed_min <= q.says && q.says <= answer.needed_max;
        let exact = self.packet_ns()?;
        Ok(match agrees || self.iommu_miss_ns.is_some() {
            true if (q.packet_ns - exact).abs() > 1e-9 => {
                let finer = in_flight(answer.latency_ns_max, exact)?;
                format!(
                    "with the unrounded {exact:.1} ns per packet: {:.1}, so {}",
                    finer.exact, finer.needed
                )
            }
            true => String::new(),
            false => format!("the paper gives {}, as in its section 2", q.says),
        })
    }

    fn simulated(&self, host: &str, warnings: &mut Vec<String>) -> Result<Answer, QuestionError> {
        let device = self.device.as_deref().unwrap_or("nfp6000");
        check_profiles(host, Some(device))?;
        let link = link_to(host, self.generation, self.lanes).map_err(QuestionError::Link)?;
        let over = match (link.generation, link.lanes) {
            (Some(Gen(rate)), Some(Lanes(width))) => format!("Gen{} x{}", rate.generation(), width.lanes()),
            _ => String::new(),
        };
        let plan = Plan { host: host.to_owned(), device: Some(device.to_owned()), link, ..Plan::default() };
        let new = plan.warnings().into_iter().filter(|line| !warnings.contains(line));
        let new: Vec<String> = new.collect();
        warnings.extend(new);
        let row = plan.measure(Test::LatRd, self.frame_bytes);
        let row = row.map_err(|why| QuestionError::Run(why.to_string()))?;
        let latency = row
            .latency
            .ok_or_else(|| QuestionError::Run("the simulation of LAT_RD has no latency".into()))?;
        let ns = latency.latency_ns_median;
        let basis = plan.basis(Test::LatRd, self.frame_bytes)?;
        let source = format!(
            "simulated: LAT_RD of {} B, median, host profile {host}, device profile {device}, {over}",
            self.frame_bytes
        );
        let known = Known { source, basis, least_ns: ns, most_ns: ns };
        Ok(self.answer(known, self.packet_ns()?, None, String::new())?)
    }

    fn answer(
        &self,
        Known { source, basis, least_ns, most_ns }: Known,
        packet_ns: f64,
        paper_needed: Option<u32>,
        note: String,
    ) -> Result<Answer, ModelError> {
        let miss = self.iommu_miss_ns.unwrap_or(0.0);
        let ask = |ns: f64| -> Result<InFlight, ModelError> { in_flight(ns + miss, packet_ns) };
        let (least, most) = (ask(least_ns)?, ask(most_ns)?);
        let source = if miss > 0.0 { format!("{source}; and {miss} ns of IOMMU") } else { source };
        Ok(Answer {
            source,
            basis,
            frame_bytes: self.frame_bytes,
            ethernet_gbps: self.ethernet_gbps,
            packet_ns,
            latency_ns_min: least.latency_ns,
            latency_ns_max: most.latency_ns,
            exact_min: least.exact,
            exact_max: most.exact,
            needed_min: least.needed,
            needed_max: most.needed,
            paper_needed,
            note,
        })
    }
}
