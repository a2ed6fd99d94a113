// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests to measure, as users give them: numbers, names, and lists of some of them. A request becomes plans, one for each combination, which are measured
//! row by row. Prints nothing.

use crate::BenchError;
use crate::configurations::Iommu;
use crate::results::sheet::Entry;
use crate::{DEFAULT_FRAMES, DEFAULT_SIZES, Plan, Test, tests_named, usual_link};
use devices::pcie_bench::{CARDS, card};
use lab::Folder;
use lab::profile::{self, HOSTS};
use lab::schema::{BufferPages, Credits, Link};
use plug::profile::ProfileError;
use plug::transfers::{CacheState, Pattern};
use plug::values::{Gen, Lanes, MpsBytes, MrrsBytes, RcbBytes, ValueError};
use plug::{MemoryKind, Models, Offering};
use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;

/// Largest number of transfers, counted or warm-up.
pub const MAX_TRANSFERS: u64 = 1 << 24;
/// A transfer never crosses 4 KiB.
const MAX_TRANSFER_BYTES: u32 = 4096;
/// Maximum number of sizes in one call.
pub const MAX_SIZES: usize = 4096;
/// Maximum number of rows in one call.
const MAX_ROWS: usize = 65_536;

/// A request to measure. For empty and `None` fields, the profiles and the model decide.
#[derive(Clone, Debug, Default)]
pub struct Ask {
    /// Tests, or the suites `full` and `short`.
    pub suite: Vec<String>,
    /// Transfer sizes in bytes, 1 to 4096; of frames, those of the NIC.
    pub sizes: Vec<u32>,
    /// The measured model.
    pub model: Option<String>,
    /// Host profile.
    pub host: Option<String>,
    /// The host's IOMMU.
    pub iommu: Iommu,
    /// Pages of the host's buffers.
    pub pages: BufferPages,
    /// Device profile.
    pub device: Option<String>,
    /// Generation of the link; `None`: as [`link_to`].
    pub generation: Option<i64>,
    /// Lanes of the link; `None`: as [`link_to`].
    pub lanes: Option<i64>,
    /// Values of Max_Payload_Size, in bytes.
    pub mps: Vec<i64>,
    /// Values of Max_Read_Request_Size, in bytes.
    pub mrrs: Vec<i64>,
    /// Values of the root port's credits.
    pub credits: Vec<RootCredits>,
    /// Read Completion Boundary in bytes.
    pub rcb: Option<i64>,
    /// Memory region of the window.
    pub memory: Option<MemoryKind>,
    /// Size of the window in bytes.
    pub window_bytes: Option<u64>,
    /// Offset of each transfer from the start of a cache line, in bytes.
    pub offset_bytes: Option<u32>,
    /// Order of the units in the window.
    pub pattern: Option<Pattern>,
    /// State of the host's caches at the start.
    pub cache: Option<CacheState>,
    /// Number of counted transfers.
    pub transfers: Option<u64>,
    /// Number of warm-up transfers before them.
    pub warm_up: Option<u64>,
    /// Values of the number of outstanding transfers.
    pub outstanding: Vec<u16>,
    /// Seed of the random addresses.
    pub seed: u64,
}

/// Reason why nothing can be measured.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AskError {
    /// The request is invalid; the text has the expected values.
    #[error("{0}")]
    Wrong(String),
    /// A profile could not be read.
    #[error("{0}")]
    Profile(String),
}

impl From<ProfileError> for AskError {
    fn from(error: ProfileError) -> AskError {
        AskError::Profile(error.to_string())
    }
}

impl AskError {
    /// Returns the error of a profile that cannot be read: of a file if the name is a path, otherwise of the request.
    pub(crate) fn of_name(name: &str, error: &impl ToString) -> AskError {
        let is_path = name.contains('/') || name.ends_with(".toml");
        let of = if is_path { AskError::Profile } else { AskError::Wrong };
        of(error.to_string())
    }

    /// Returns the error of an invalid request.
    pub fn wrong(why: impl ToString) -> AskError {
        AskError::Wrong(why.to_string())
    }
}

/// Reason why some rows were not measured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ended {
    /// The call was cancelled. The text gives the measured and the total number of rows.
    Interrupted(String),
    /// A row failed. The text has the reason and the same two numbers.
    Failed(String),
}

impl Ended {
    /// Returns the text.
    pub fn why(&self) -> &str {
        let (Ended::Interrupted(why) | Ended::Failed(why)) = self;
        why
    }
}

/// Credits that the root port advertises for requests; `None`: the default of the link.
#[derive(Clone, Copy, Debug)]
pub struct RootCredits(Option<Credits>);

impl FromStr for RootCredits {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<RootCredits, BenchError> {
        let legal = || {
            BenchError::from(
                "expected `default`, PH:PD or PH:PD:NPH:NPD with headers 0 to 127 and data 0 to 2047, where 0 is infinite",
            )
        };
        if text == "default" {
            return Ok(RootCredits(None));
        }
        let numbers: Vec<u16> =
            text.split(':').map(str::parse).collect::<Result<_, _>>().map_err(|_| legal())?;
        let (posted, non_posted) = match numbers[..] {
            [ph, pd] => ((ph, pd), None),
            [ph, pd, nph, npd] => ((ph, pd), Some((nph, npd))),
            _ => return Err(legal()),
        };
        Ok(RootCredits(Some(Credits {
            posted_header: Some(posted.0),
            posted_data: Some(posted.1),
            non_posted_header: non_posted.map(|(header, _)| header),
            non_posted_data: non_posted.map(|(_, data)| data),
            ..Credits::default()
        })))
    }
}

/// Returns the link to `host`: `generation` and `lanes`, or else those of the host's profile.
///
/// # Errors
/// An invalid generation or width.
pub(crate) fn link_to(host: &str, generation: Option<i64>, lanes: Option<i64>) -> Result<Link, BenchError> {
    let usual = usual_link(host);
    Ok(Link {
        generation: generation.map(Gen::try_from).transpose()?.or(usual.generation),
        lanes: lanes.map(Lanes::try_from).transpose()?.or(usual.lanes),
        ..usual
    })
}

/// Rejects unknown profiles and invalid profile files.
///
/// # Errors
/// The known profiles, or the fault in a file.
pub(crate) fn check_profiles(host: &str, device: Option<&str>) -> Result<(), AskError> {
    let here = Folder::default();
    HOSTS.text(host, &here).map_err(|e| AskError::of_name(host, &e))?;
    device
        .map_or(Ok(()), |name| CARDS.text(name, &here).map(drop).map_err(|e| AskError::of_name(name, &e)))?;
    profile::host(host, Path::new(""))?;
    device.map_or(Ok(()), |device| Ok(card(device, &here).map(drop)?))
}

/// Rejects modes that have no effect on `host`.
///
/// # Errors
/// The part that the host lacks, or a profile that cannot be read.
pub(crate) fn check_host(host: &str, iommu: Iommu, cache: Option<CacheState>) -> Result<(), AskError> {
    let profile = profile::host(host, Path::new(""))?;
    if iommu != Iommu::Off && profile.iommu.is_none() {
        let why = format!("iommu {iommu}: host profile `{host}` has no IOMMU, expected `off`");
        return Err(AskError::Wrong(why));
    }
    match cache {
        Some(cache) if profile.llc.is_none() => Err(AskError::Wrong(format!(
            "cache {}: without effect, since host profile `{host}` has no cache (llc)",
            cache.name()
        ))),
        _ => Ok(()),
    }
}

/// Rejects pages of buffers that have no effect.
///
/// # Errors
/// The IOMMU is off.
pub(crate) fn check_pages(iommu: Iommu, pages: BufferPages) -> Result<(), AskError> {
    if iommu != Iommu::Off || pages == BufferPages::default() {
        return Ok(());
    }
    let why =
        format!("buffer pages of {}: no effect with iommu off, expected iommu 4k, 2m or 1g", pages.name());
    Err(AskError::Wrong(why))
}

impl Ask {
    /// Returns a plan for each combination, in the order of the lists.
    ///
    /// # Errors
    /// An invalid value, or a profile that cannot be read.
    pub fn plans(&self, models: &Models) -> Result<Vec<Plan>, AskError> {
        let base = self.base(models)?;
        let mps = each(&self.mps, base.link.mps_bytes, MpsBytes::try_from)?;
        let mrrs = each(&self.mrrs, base.link.mrrs_bytes, MrrsBytes::try_from)?;
        let credits = or_default(&self.credits, RootCredits(None));
        let outstanding: Vec<Option<u16>> = match self.outstanding.is_empty() {
            true => vec![None],
            false => self.outstanding.iter().copied().map(Some).collect(),
        };
        let combinations = mps.len() * mrrs.len() * credits.len() * outstanding.len();
        let rows = combinations.saturating_mul(base.tests.len() * base.sizes.len());
        if rows > MAX_ROWS {
            return Err(AskError::Wrong(format!("{rows} rows: expected at most {MAX_ROWS}")));
        }
        let mut plans = Vec::with_capacity(combinations);
        for mps in &mps {
            for mrrs in &mrrs {
                for credits in &credits {
                    let link = link(&base.link, *mps, *mrrs, *credits)?;
                    let plan = Plan { link: link.clone(), ..base.clone() };
                    plan.check().map_err(AskError::wrong)?;
                    for outstanding in &outstanding {
                        plans.push(Plan { link: link.clone(), outstanding: *outstanding, ..base.clone() });
                    }
                }
            }
        }
        Ok(plans)
    }

    /// Returns the link to `host`, without the settings that are lists.
    ///
    /// # Errors
    /// Values that a link cannot have.
    pub fn link(&self, host: &str) -> Result<Link, BenchError> {
        let rcb_bytes = self.rcb.map(RcbBytes::try_from).transpose()?;
        Ok(Link { rcb_bytes, ..link_to(host, self.generation, self.lanes)? })
    }

    /// Returns the plan, without the settings that are lists.
    fn base(&self, models: &Models) -> Result<Plan, AskError> {
        let defaults = Plan::default();
        let model = match &self.model {
            None => defaults.model,
            Some(name) => models.offering(name).map_err(|e| AskError::Wrong(e.to_string()))?,
        };
        let mut tests = Vec::new();
        for name in &self.suite {
            tests.extend(tests_named(name, model.tests()).map_err(AskError::wrong)?);
        }
        tests.sort_unstable();
        tests.dedup();
        let host = self.host.clone().unwrap_or(defaults.host);
        let sizes = self.sizes(&model)?;
        self.check_ranges()?;
        // Other models have separate profiles.
        check_profiles(&host, self.device.as_deref().filter(|_| self.model.is_none()))?;
        check_host(&host, self.iommu, self.cache)?;
        check_pages(self.iommu, self.pages)?;
        let link = self.link(&host).map_err(AskError::wrong)?;
        Ok(Plan {
            model,
            tests,
            sizes,
            host,
            iommu: self.iommu,
            pages: self.pages,
            device: self.device.clone(),
            link,
            window_bytes: self.window_bytes,
            host_offset_bytes: self.offset_bytes,
            pattern: self.pattern,
            cache: self.cache,
            memory: self.memory,
            latency_transfers: self.transfers.unwrap_or(defaults.latency_transfers),
            bandwidth_transfers: self.transfers.unwrap_or(defaults.bandwidth_transfers),
            warm_up: self.warm_up,
            outstanding: None,
            seed: self.seed,
        })
    }

    fn sizes(&self, model: &Offering) -> Result<Vec<u32>, AskError> {
        if self.sizes.len() > MAX_SIZES {
            return Err(AskError::Wrong(format!("more than {MAX_SIZES} sizes: use a larger STEP")));
        }
        let has_frames = model.tests().iter().any(|test| Test::LOOP.contains(test));
        // A NIC checks its frames itself.
        let wrong = |size: &&u32| !has_frames && !(1..=MAX_TRANSFER_BYTES).contains(*size);
        if let Some(size) = self.sizes.iter().find(wrong) {
            return Err(AskError::Wrong(format!("size {size}: expected 1 to {MAX_TRANSFER_BYTES}")));
        }
        Ok(match self.sizes.as_slice() {
            [] if has_frames => DEFAULT_FRAMES.to_vec(),
            [] => DEFAULT_SIZES.to_vec(),
            given => given.to_vec(),
        })
    }

    fn check_ranges(&self) -> Result<(), AskError> {
        let offset = self.offset_bytes.map(u64::from);
        let outstanding = self.outstanding.iter().map(|n| ("outstanding", Some(u64::from(*n)), 1..=1024));
        let given = [
            ("window", self.window_bytes, 4096..=1 << 30),
            ("offset", offset, 0..=63),
            ("transfers", self.transfers, 1..=MAX_TRANSFERS),
            ("warm_up", self.warm_up, 0..=MAX_TRANSFERS),
        ];
        for (name, value, legal) in given.into_iter().chain(outstanding) {
            if let Some(value) = value.filter(|value| !legal.contains(value)) {
                let (from, to) = legal.into_inner();
                return Err(AskError::Wrong(format!("{name} {value}: expected {from} to {to}")));
            }
        }
        Ok(())
    }
}

fn or_default<T: Copy>(given: &[T], default: T) -> Vec<T> {
    if given.is_empty() { vec![default] } else { given.to_vec() }
}

/// Returns the given values, or `usual` if the list is empty.
fn each<T>(
    given: &[i64],
    usual: Option<T>,
    value: impl Fn(i64) -> Result<T, ValueError>,
) -> Result<Vec<Option<T>>, AskError> {
    match given {
        [] => Ok(vec![usual]),
        _ => given.iter().map(|n| value(*n).map(Some).map_err(AskError::wrong)).collect(),
    }
}

fn link(
    base: &Link,
    mps: Option<MpsBytes>,
    mrrs: Option<MrrsBytes>,
    credits: RootCredits,
) -> Result<Link, AskError> {
    let link = Link { mps_bytes: mps, mrrs_bytes: mrrs, root_credits: credits.0, ..base.clone() };
    match lab::links::check(&link, &Link::default()).first() {
        Some(fault) => {
            let mps = mps.map_or(0, |MpsBytes(mps)| mps.bytes());
            Err(AskError::Wrong(format!("--mps {mps}, --root-credits: {}", fault.message)))
        }
        None => Ok(link),
    }
}

/// Measures every test with every size and every plan. Plans that differ only in the number of outstanding transfers share their latency rows, which have one
/// transfer in flight. Before each row, calls `told` with the number of measured rows, the number of all rows, the test and the size. If `cancel` becomes true
/// or a row fails, returns the finished rows and the reason.
///
/// # Errors
/// The error of the first row, if that one fails.
pub fn measure(
    plans: &[Plan],
    cancel: &AtomicBool,
    mut told: impl FnMut(usize, usize, Test, u32),
) -> Result<(Vec<Entry>, Option<Ended>), BenchError> {
    let rows = rows(plans);
    let all = rows.len();
    let mut entries = Vec::new();
    for (plan, test, size) in rows {
        let done = entries.len();
        told(done, all, test, size);
        let ended = match plan.measure_unless(cancel, test, size) {
            Ok(Some(row)) => {
                let (settings, basis) = (plan.settings(test, size)?, plan.basis(test, size)?);
                entries.push(Entry { settings, row, basis });
                continue;
            }
            Ok(None) => Ended::Interrupted(format!("interrupted: {done} of {all} rows were measured")),
            Err(error) if done == 0 => return Err(error.to_string().into()),
            Err(error) => Ended::Failed(format!("{error}: {done} of {all} rows were measured")),
        };
        return Ok((entries, Some(ended)));
    }
    Ok((entries, None))
}

/// Returns plan, test and size of each row. Plans vary the number of outstanding transfers last. A latency test has one
/// transfer in flight, so it is measured only once for all numbers of outstanding transfers.
fn rows(plans: &[Plan]) -> Vec<(&Plan, Test, u32)> {
    let mut rows = Vec::new();
    for (at, plan) in plans.iter().enumerate() {
        let first = at == 0 || plans[at - 1].outstanding.is_none() || !same_link(&plans[at - 1], plan);
        for &test in plan.tests.iter().filter(|test| first || !test.is_latency()) {
            rows.extend(plan.sizes.iter().map(|&size| (plan, test, size)));
        }
    }
    rows
}

/// Returns true if two plans of one call differ at most in the number of outstanding transfers.
fn same_link(a: &Plan, b: &Plan) -> bool {
    let credits = |plan: &Plan| plan.link.root_credits.map(all);
    (a.link.mps_bytes, a.link.mrrs_bytes, credits(a)) == (b.link.mps_bytes, b.link.mrrs_bytes, credits(b))
}

/// Returns the credits that a request can set.
fn all(credits: Credits) -> [Option<u16>; 4] {
    let Credits { posted_header, posted_data, non_posted_header, non_posted_data, .. } = credits;
    [posted_header, posted_data, non_posted_header, non_posted_data]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_credits() {
        for (text, expected) in [
            ("16:64", [Some(16), Some(64), None, None]),
            ("16:64:8:0", [Some(16), Some(64), Some(8), Some(0)]),
        ] {
            let Ok(RootCredits(Some(credits))) = text.parse() else { panic!("{text}") };
            assert_eq!(all(credits), expected);
        }
        assert!(matches!("default".parse(), Ok(RootCredits(None))));
        for text in ["", "16", "16:64:8", "1:2:3:4:5", "-1:4", "x:4", "65536:4"] {
            assert!(text.parse::<RootCredits>().is_err_and(|e| e.to_string().contains("PH:PD")), "{text}");
        }
    }

    #[test]
    fn errors_name_invalid_values() {
        let ask = || Ask { suite: vec!["LAT_RD".into()], ..Ask::default() };
        let cases = [
            (Ask { window_bytes: Some(64), ..ask() }, "window 64: expected 4096 to"),
            (Ask { offset_bytes: Some(64), ..ask() }, "offset 64: expected 0 to 63"),
            (Ask { outstanding: vec![8, 0], ..ask() }, "outstanding 0: expected 1 to 1024"),
            (Ask { transfers: Some(0), ..ask() }, "transfers 0: expected 1 to"),
            (Ask { sizes: vec![4097], ..ask() }, "size 4097: expected 1 to 4096"),
            (Ask { suite: vec!["X".into()], ..ask() }, "no test `X`"),
            (Ask { host: Some("nowhere".into()), ..ask() }, "nowhere"),
            (Ask { iommu: Iommu::Pages4k, ..ask() }, "iommu 4k: host profile `ideal` has no IOMMU"),
            (
                Ask { pages: BufferPages::Mib2, ..ask() },
                "buffer pages of 2MiB: no effect with iommu off, expected iommu 4k",
            ),
            (
                Ask { cache: Some(CacheState::Cold), ..ask() },
                "cache cold: without effect, since host profile `ideal`",
            ),
            (
                Ask {
                    host: Some("xeon-e5-2637v3".into()),
                    model: Some("dma-engine".into()),
                    suite: vec!["BW_WR".into()],
                    cache: Some(CacheState::HostWarm),
                    ..ask()
                },
                "cache of host-warm, expected cold",
            ),
        ];
        for (wrong, says) in cases {
            let error = wrong.plans(&devices::models()).unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
