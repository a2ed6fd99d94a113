// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lab settings of a design in a slot: the file of the design, whose library `riser rtl build` has made.

use crate::block::{Block, BlockKind};
use crate::clocks::Clocks;
use crate::descriptor::{Descriptors, Options};
use crate::design::{Alignment, Design, Straddle};
use crate::design_record::{DesignRecorder, RecordSettings};
use crate::findings::{DesignStatus, TagsOf};
use crate::library::{LibraryFile, at_design, check_given, create, refused};
use crate::loader::{Instance, Loaded};
use crate::recording::{Recorder, Recording};
use crate::seven_series::SevenSeries;
use crate::slot::Rtl;
use crate::space;
use crate::tlp_stream::TlpStream;
use crate::trigger::{Part, Triggers};
use capture::Filter;
use endpoint::{EndpointLimits, HardBlock, TagsPer};
use plug::plugged::StandIn;
use plug::site::NativeCode;
use plug::{Fault, HostTask, Model, Needs, Plugged, Shared, Site};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use tlp::{Duration, PayloadPool, Time};

/// A design in Verilog with a PCI Express block, under Verilator. `riser rtl build` makes its library, whose code runs only with `--allow-native`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["design"]))]
pub struct Settings {
    /// File of the design: a path relative to the lab file.
    pub design: String,
    /// File for the waveforms of all its signals (FST). Needs `riser rtl build --waves`. The name must be new, or the
    /// name of a waveform file.
    pub waves: String,
    /// Record waves around a TLP at the block, given as a filter of `riser trace`: `status=UR`, `type=MWr and addr=0xfee00000`. `riser run` then
    /// runs the lab twice; both runs are identical.
    pub waves_when: String,
    /// With `waves_when`: start, in microseconds before the first match.
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub waves_before_us: u64,
    /// With `waves_when`: end, in microseconds after the first match.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub waves_after_us: u64,
    /// Start of the waves, in microseconds of virtual time.
    #[schemars(range(min = 0, max = 1_000_000_000_000_u64))]
    pub waves_from_us: u64,
    /// End of the waves, in microseconds of virtual time.
    #[schemars(range(min = 1, max = 1_000_000_000_000_u64))]
    pub waves_to_us: u64,
    /// If true, a run with errors of the design fails at its end: `wrong` of its report.
    pub deny_findings: bool,
    /// Number of virtual functions that the host enables, unless a kernel does; at most as many as the design has.
    #[schemars(range(min = 0, max = 252))]
    pub vfs: u16,
    /// Actions of the host on the device, in order.
    pub step: Vec<native::Step>,
}

impl Default for Settings {
    fn default() -> Settings {
        let (design, waves, waves_when, step) = Default::default();
        let [waves_from_us, waves_to_us, waves_before_us, waves_after_us] = [0, LAST_US, 5, 5];
        Settings {
            design,
            waves,
            waves_when,
            waves_before_us,
            waves_after_us,
            waves_from_us,
            waves_to_us,
            deny_findings: false,
            vfs: 0,
            step,
        }
    }
}

/// End of waves that have no end setting.
const LAST_US: u64 = 1_000_000_000_000;

impl Model for Settings {
    const NAME: &'static str = "rtl";

    fn needs(&self) -> Needs {
        Needs { virtual_functions: self.vfs, ..Needs::default() }
    }

    fn check_together(&self) -> Result<(), Fault> {
        check_given(&self.design)?;
        let [from, to] = [self.waves_from_us, self.waves_to_us];
        if from >= to {
            return Err(Fault::at(
                "waves_to_us",
                format!("waves_to_us of {to}; expected a time after waves_from_us, {from}"),
            ));
        }
        self.check_trigger()
    }

    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        let path = site.folder.path().join(&self.design);
        let design = Design::read(&path).map_err(at_design)?;
        let elsewhere = match design.block.kind {
            BlockKind::LinkFrames => {
                Some("frames of a link are for data_link = \"rtl-link\" or device = \"rtl-endpoint\"")
            }
            BlockKind::RootComplex => {
                Some("a root complex is part of a host, as root_complex = \"rtl-root-complex\" of [host]")
            }
            BlockKind::Switch => Some("a switch is between links, as device = \"rtl-switch\" of [[switch]]"),
            _ => None,
        };
        if let Some(elsewhere) = elsewhere {
            let kind = serde_json::to_string(&design.block.kind).unwrap_or_default();
            return Err(at_design(format!(
                "{}: block.kind = {kind}: expected a block with TLPs; {elsewhere}",
                path.display()
            )));
        }
        self.check_functions(&design)?;
        check_link(&design, site)?;
        check_tags(&design, site.tags)?;
        let status = Shared::new(DesignStatus::denying(self.deny_findings));
        let pool = site.payloads.clone();
        let mut not_built = None;
        let part = match site.native {
            NativeCode::Allowed => self.part(site.context.get())?,
            _ => None,
        };
        let mut not_found = None;
        let (trigger, around) = match part {
            Some(Part::Search(trigger)) => (Some(trigger), Some(None)),
            Some(Part::Write(at)) => {
                not_found = at.is_none().then(|| {
                    format!("waves_when: no TLP matches `{}`; no waves were written", self.waves_when)
                });
                (None, Some(at))
            }
            None => (None, None),
        };
        let watched = match site.native {
            NativeCode::Allowed => {
                let watch = site.context.get::<DesignRecorder>();
                watch.map(|watch| watch.design_record(&design, path.clone(), &status))
            }
            _ => None,
        };
        let mut is_shown = false;
        let instance = match site.native {
            NativeCode::Allowed => {
                let look = watched.as_ref().map(|(_, look)| look);
                let waves = self.waves_of(&path, look, around);
                is_shown = waves.is_some();
                let seed = look.map_or(site.seed, |look| look.seed);
                Some(self.instance(&path, &design, seed, waves, site.context.get())?)
            }
            NativeCode::NotLoaded => {
                let library = LibraryFile::of(&design, &path, !self.waves.is_empty())?;
                not_built = Loaded::look(&library).err();
                None
            }
            NativeCode::Refused => {
                return Err(refused(&path));
            }
        };
        let (block, limits) = block(&design, site.tags, &pool, &status);
        let clocks = Clocks::new(&design.frequencies());
        let (instance, recorder) = instance.unzip();
        let rtl = Rtl::new(instance, clocks, block, status.clone())
            .recorded(recorder.flatten())
            .watched(watched.map(|(design_record, _)| design_record))
            .looking(trigger)
            .showing(is_shown);
        let limits = EndpointLimits { lenient_completions: site.lenient_completions, ..limits };
        let functions = space::physical(&design, site.pcie)?;
        let mut block = HardBlock::new("rtl", functions, limits, pool, rtl).map_err(at_design)?;
        for (physical, config) in space::virtual_ones(&design, site.pcie)? {
            block = block.with_virtual_functions(physical, config).map_err(at_design)?;
        }
        let plugged = match self.vfs {
            0 => Plugged::block(block, native::driver(&self.step, &status)),
            _ => Plugged::block_with_virtual_functions(block, native::functions_driver(&self.step, &status)),
        };
        let plugged =
            plugged.reporting(&status).warning(not_built.map(|why| why.to_string())).warning(not_found);
        Ok(if self.step.is_empty() { driven_by_models(plugged, &design) } else { plugged })
    }
}

/// Checks that the block supports the link of its slot.
pub(crate) fn check_link(design: &Design, site: &Site<'_>) -> Result<(), Fault> {
    let (kind, rate, lanes) = (design.block.kind, site.pcie.rate, site.pcie.width.lanes());
    let (most, most_lanes) = (kind.most_rate(), design.block.lanes);
    if rate <= most && u16::from(lanes) <= most_lanes {
        return Ok(());
    }
    let name = serde_json::to_string(&kind).unwrap_or_default();
    let [is, legal] = [rate, most].map(tlp::Rate::generation);
    Err(Fault::at(
        "design",
        format!(
            "a link of {rate} (link.gen = {is}) and {lanes} lanes; expected for {name} with block.lanes = {most_lanes}: link.gen 1 to {legal} and link.lanes 1 to {most_lanes}"
        ),
    ))
}

/// Checks that the block can send the tags of its slot. With more tags, software would enable 10-bit tags, and the
/// design's tags would be different.
fn check_tags(design: &Design, tags: u16) -> Result<(), Fault> {
    let most = design.block.kind.most_tags();
    if tags <= most {
        return Ok(());
    }
    let name = serde_json::to_string(&design.block.kind).unwrap_or_default();
    Err(Fault::at("design", format!("{tags} tags (tags of the slot); expected 1 to {most} for {name}")))
}

/// If the host has no steps, the lab may name a model whose driver drives the design, through its first memory BAR.
fn driven_by_models(plugged: Plugged, design: &Design) -> Plugged {
    let is_memory = |bar: &&native::BarSettings| bar.kind != native::BarKind::Io;
    match design.function.bars.iter().find(is_memory) {
        Some(bar) => {
            let arrival: HostTask = Box::new(|_| Box::pin(std::future::ready(Ok(()))));
            plugged.standing_in(StandIn { bar: bar.bar, arrival })
        }
        None => plugged,
    }
}

impl Settings {
    /// Checks the trigger of the waves.
    fn check_trigger(&self) -> Result<(), Fault> {
        if self.waves_when.is_empty() {
            return Ok(());
        }
        let wrong = |why: &str| Err(Fault::at("waves_when", format!("waves_when: {why}")));
        if self.waves.is_empty() {
            return wrong("waves is missing; expected the file to write them to");
        }
        if [self.waves_from_us, self.waves_to_us] != [0, LAST_US] {
            return wrong("expected either waves_when, or waves_from_us and waves_to_us");
        }
        match self.waves_when.parse::<Filter>() {
            Ok(filter) if filter.asks_for_outcome() => {
                wrong("expected a filter on fields of the TLP itself, not of its transaction")
            }
            Ok(_) => Ok(()),
            Err(e) => wrong(&e.to_string()),
        }
    }

    /// Returns what this run does for `waves_when`.
    fn part(&self, triggers: Option<&Triggers>) -> Result<Option<Part>, Fault> {
        if self.waves_when.is_empty() {
            return Ok(None);
        }
        let wrong = |why: String| Fault::at("waves_when", format!("waves_when: {why}"));
        let filter = self.waves_when.parse::<Filter>().map_err(|e| wrong(e.to_string()))?;
        let triggers = triggers.ok_or_else(|| {
            wrong(
                "works only with `riser run`, which runs the lab twice; use waves_from_us otherwise"
                    .to_owned(),
            )
        });
        Ok(Some(triggers?.part(filter)))
    }

    /// Checks the virtual functions and steps, which belong to function 0.
    fn check_functions(&self, design: &Design) -> Result<(), Fault> {
        let sriov = design.function.sriov.as_ref();
        let most = sriov.map_or(0, |sriov| sriov.vfs);
        if self.vfs > most {
            return Err(Fault::at(
                "vfs",
                format!("vfs of {}; expected 0 to {most}, as many as the design has", self.vfs),
            ));
        }
        let parts = native::Parts {
            virtual_functions: self.vfs,
            virtual_bars: sriov.map_or(&[], |sriov| &sriov.bars),
            virtual_vectors: sriov.and_then(|sriov| sriov.msix).map_or(0, |msix| msix.vectors),
            ..native::Parts::one(&design.function.bars, design.vectors())
        };
        native::check_steps(&self.step, parts)
    }

    /// Returns the waveform file, if there is one, and the start and end of the waves.
    fn waves_of(
        &self,
        path: &Path,
        look: Option<&RecordSettings>,
        around: Option<Option<Time>>,
    ) -> Option<(PathBuf, [Time; 2])> {
        if let Some(look) = look {
            return look.waves.clone().map(|(waves, to)| (waves, [Time::ZERO, to]));
        }
        let us = Duration::from_us;
        let window = match around {
            None => [self.waves_from_us, self.waves_to_us].map(|at| Time::ZERO + us(at)),
            Some(None) => return None,
            Some(Some(at)) => {
                let before = us(self.waves_before_us).min(at.since(Time::ZERO));
                [Time::ZERO + (at.since(Time::ZERO) - before), at + us(self.waves_after_us)]
            }
        };
        let base = path.parent().unwrap_or(Path::new(""));
        (!self.waves.is_empty()).then(|| (base.join(&self.waves), window))
    }

    fn instance(
        &self,
        path: &Path,
        design: &Design,
        seed: u64,
        waves: Option<(PathBuf, [Time; 2])>,
        recording: Option<&Recording>,
    ) -> Result<Loading, Fault> {
        let library = LibraryFile::of(design, path, waves.is_some() || !self.waves_when.is_empty())?;
        let loaded = Loaded::open(&library).map_err(at_design)?;
        let mut instance = create(&loaded, design, path, seed)?;
        if let Some((waves, window)) = waves {
            instance
                .waves(&waves, window, &library.command)
                .map_err(|e| Fault::at("waves", format!("{}: {e}", waves.display())))?;
        }
        let folder = design.working_folder(path.parent().unwrap_or(Path::new("")));
        Ok((instance, recording.and_then(|recording| recording.start(&loaded, seed, folder))))
    }
}

/// A design, and its recorder.
type Loading = (Instance, Option<Shared<Recorder>>);

/// Creates the block, and the limits of the front before it.
fn block(
    design: &Design,
    tags: u16,
    pool: &PayloadPool,
    status: &Shared<DesignStatus>,
) -> (Box<dyn Block>, EndpointLimits) {
    let settings = &design.block;
    let limits = EndpointLimits {
        max_outstanding_reads: tags,
        msix_in_device: !settings.msix_inside,
        ..EndpointLimits::default()
    };
    let (shape, latency) = (design.shape(), settings.latency_cycles);
    match settings.kind {
        BlockKind::SevenSeries => {
            return (Box::new(SevenSeries::new(shape, latency, pool.clone(), status.clone())), limits);
        }
        BlockKind::TlpStream => {
            return (Box::new(TlpStream::new(shape, latency, pool.clone(), status.clone())), limits);
        }
        _ => {}
    }
    let Straddle { rq, rc, cq, cc } = settings.straddle;
    let options = Options {
        shape,
        latency,
        client_tags: settings.client_tags,
        address_aligned: settings.alignment == Alignment::Address,
        packets: [rq, rc, cq, cc].map(usize::from),
        virtual_functions: design.virtual_functions(),
        msix_inside: settings.msix_inside,
        tags: tags.min(settings.kind.tags()),
        tags_of: if tags < settings.kind.tags() { TagsOf::Slot } else { TagsOf::Block },
    };
    let limits =
        EndpointLimits { max_outstanding_reads: options.tags, tags_per: TagsPer::Endpoint, ..limits };
    (Box::new(Descriptors::new(&options, pool.clone(), status.clone())), limits)
}
