// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The settings that rules depend on, and their origin: the user, the file, a configuration request in the capture,
//! the default of the specification, or the TLPs themselves.

use super::Broken;
use crate::names::Names;
use crate::settings::{DeviceControl, FunctionOverrides, TAGS};
use std::collections::BTreeMap;
use tlp::{Bdf, Body, Mps, Mrrs, Rcb, Repr, RuleId, Violation};

/// Maximum number of functions whose settings are kept.
const MAX_FUNCTIONS: usize = 65_536;
/// The longest default completion timeout: 50 ms (`PCIe 5.0 §2.8`), in picoseconds.
pub const DEFAULT_TIMEOUT_PS: u64 = 50_000_000_000;

/// The origin of a setting.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The user specified the limit.
    Option,
    /// A comment of the file gives it.
    File,
    /// A configuration request in the capture set it.
    Capture,
    /// The specification defines it.
    Default,
    /// The smallest value with which the TLPs break no rule, since the real value is unknown.
    Inferred,
}

impl Origin {
    /// `option`, `file`, `capture`, `default` or `inferred`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Origin::Option => "option",
            Origin::File => "file",
            Origin::Capture => "capture",
            Origin::Default => "default",
            Origin::Inferred => "inferred",
        }
    }
}

/// A setting.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// Read Completion Boundary of root complexes, in bytes.
    RcbRoot,
    /// Read Completion Boundary of endpoints and switches, in bytes.
    RcbDevice,
    /// Max_Payload_Size, in bytes.
    Mps,
    /// Max_Read_Request_Size, in bytes.
    Mrrs,
    /// Number of tags.
    Tags,
    /// Completion timeout, in picoseconds.
    TimeoutPs,
}

/// A setting with its value and its origin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize)]
pub struct Applied {
    /// The setting.
    pub setting: Setting,
    /// Its value, in the unit of the setting.
    pub value: u64,
    /// Its origin.
    pub origin: Origin,
}

/// `RCB of root complexes 64 bytes (default)`.
impl std::fmt::Display for Applied {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = self.value;
        match self.setting {
            Setting::RcbRoot => write!(f, "RCB of root complexes {value} bytes"),
            Setting::RcbDevice => write!(f, "RCB of endpoints and switches {value} bytes"),
            Setting::Mps => write!(f, "Max_Payload_Size {value} bytes"),
            Setting::Mrrs => write!(f, "Max_Read_Request_Size {value} bytes"),
            Setting::Tags => write!(f, "{value} tags"),
            Setting::TimeoutPs => write!(f, "completion timeout {} us", value / 1_000_000),
        }?;
        write!(f, " ({})", self.origin.name())
    }
}

/// All settings, and lower bounds of unknown ones, inferred from the TLPs.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits {
    given: FunctionOverrides,
    /// Settings that the file gives.
    of_file: FunctionOverrides,
    functions: BTreeMap<Bdf, DeviceControl>,
    /// The longest data of a TLP, the longest read and the highest tag, of functions whose setting is unknown.
    data_bytes: Option<u32>,
    read_bytes: Option<u32>,
    tag: Option<u16>,
}

impl Limits {
    pub(super) fn new(given: FunctionOverrides) -> Limits {
        Limits { given, ..Limits::default() }
    }

    /// Stores the settings of the file. Settings of the user override them.
    pub(super) const fn take(&mut self, of_file: FunctionOverrides) {
        self.of_file = of_file;
    }

    /// A setting of the user or of the file.
    fn given<T>(&self, of: impl Fn(&FunctionOverrides) -> Option<T>) -> Option<(T, Origin)> {
        let of_file = || of(&self.of_file).map(|value| (value, Origin::File));
        of(&self.given).map(|value| (value, Origin::Option)).or_else(of_file)
    }

    /// Stores the settings of a function after a configuration request to it.
    pub(super) fn learn(&mut self, function: Bdf, names: &Names) {
        if let Some(control) = names.device_control(function)
            && (self.functions.len() < MAX_FUNCTIONS || self.functions.contains_key(&function))
        {
            self.functions.insert(function, control);
        }
    }

    pub(super) fn timeout_ps(&self) -> u64 {
        self.given.timeout_ps.unwrap_or(DEFAULT_TIMEOUT_PS)
    }

    pub(super) fn timeout(&self) -> Applied {
        let origin = if self.given.timeout_ps.is_some() { Origin::Option } else { Origin::Default };
        Applied { setting: Setting::TimeoutPs, value: self.timeout_ps(), origin }
    }

    /// The Read Completion Boundary of a completer.
    pub(super) fn rcb(&self, is_root: bool) -> (Rcb, Applied) {
        let (rcb, setting, origin) = match (is_root, self.given(|given| given.rcb)) {
            (false, _) => (Rcb::ENDPOINT, Setting::RcbDevice, Origin::Default),
            (true, Some((rcb, origin))) => (rcb, Setting::RcbRoot, origin),
            (true, None) => (Rcb::default(), Setting::RcbRoot, Origin::Default),
        };
        (rcb, Applied { setting, value: rcb.bytes().into(), origin })
    }

    /// Checks the size and the tag of a TLP.
    pub(super) fn judge(&mut self, repr: &Repr, report: &mut impl FnMut(Broken)) {
        let data = repr.data_dw() * 4;
        if data > 0 {
            self.judge_data(repr, data, report);
        }
        let (requester, tag) = repr.transaction();
        match &repr.body {
            Body::Completion(_) | Body::Message(_) => return,
            Body::Memory(m) if m.op.is_posted() => return,
            Body::Memory(m) if m.op.is_read() => {
                self.judge_read(requester, m.span.length_dw() * 4, report);
            }
            _ => {}
        }
        let known = self.known(self.given(|given| given.tags), requester, |control| control.tags);
        let Some((tags, origin)) = known else {
            self.tag = self.tag.max(Some(tag.bits()));
            return;
        };
        if tag.bits() >= tags {
            let by = Applied { setting: Setting::Tags, value: tags.into(), origin };
            report(Broken::by(Violation::new(RuleId::TagRange, tag.bits().into()), by));
        }
    }

    fn judge_data(&mut self, repr: &Repr, data: u32, report: &mut impl FnMut(Broken)) {
        let (requester, _) = repr.transaction();
        let mps = |control: &DeviceControl| control.mps;
        let given = self.given(|given| given.mps);
        let mut known = self.known(given, requester, mps);
        if let Body::Completion(c) = &repr.body {
            let sender = self.known(given, c.completer, mps);
            // A sender must not exceed the setting of the receiver either.
            known = match (known, sender) {
                (Some(receiver), Some(sender)) => Some(receiver.min(sender)),
                (receiver, sender) => receiver.or(sender),
            };
        }
        let Some((mps, origin)) = known else {
            self.data_bytes = self.data_bytes.max(Some(data));
            return;
        };
        if data > mps.bytes() {
            let by = Applied { setting: Setting::Mps, value: mps.bytes().into(), origin };
            report(Broken::by(Violation::new(RuleId::MaxPayloadSize, data.into()), by));
        }
    }

    fn judge_read(&mut self, requester: Bdf, bytes: u32, report: &mut impl FnMut(Broken)) {
        let given = self.given(|given| given.mrrs);
        let Some((mrrs, origin)) = self.known(given, requester, |control| control.mrrs) else {
            self.read_bytes = self.read_bytes.max(Some(bytes));
            return;
        };
        if bytes > mrrs.bytes() {
            let by = Applied { setting: Setting::Mrrs, value: mrrs.bytes().into(), origin };
            report(Broken::by(Violation::new(RuleId::MaxReadRequestSize, u64::from(bytes / 4)), by));
        }
    }

    fn known<T>(
        &self,
        given: Option<(T, Origin)>,
        function: Bdf,
        of: impl Fn(&DeviceControl) -> Option<T>,
    ) -> Option<(T, Origin)> {
        match given {
            Some(given) => Some(given),
            None if self.functions.is_empty() => None,
            None => Some((of(self.functions.get(&function)?)?, Origin::Capture)),
        }
    }

    /// All settings, with the number of functions that have each.
    pub(super) fn applied(&self) -> Vec<(Applied, usize)> {
        let mut all: BTreeMap<Applied, usize> = BTreeMap::new();
        all.insert(self.timeout(), 1);
        let mut add = |setting, value: Option<u64>, origin| {
            if let Some(value) = value {
                *all.entry(Applied { setting, value, origin }).or_default() += 1;
            }
        };
        let bytes_of_mps = |mps: Mps| u64::from(mps.bytes());
        let bytes_of_mrrs = |mrrs: Mrrs| u64::from(mrrs.bytes());
        let given = [
            (Setting::Mps, self.given(|given| given.mps.map(bytes_of_mps))),
            (Setting::Mrrs, self.given(|given| given.mrrs.map(bytes_of_mrrs))),
            (Setting::Tags, self.given(|given| given.tags.map(u64::from))),
        ];
        for (setting, given) in given {
            given.into_iter().for_each(|(value, origin)| add(setting, Some(value), origin));
        }
        for control in self.functions.values() {
            let of_function =
                [control.mps.map(bytes_of_mps), control.mrrs.map(bytes_of_mrrs), control.tags.map(u64::from)];
            for ((setting, given), value) in given.iter().zip(of_function) {
                add(*setting, value.filter(|_| given.is_none()), Origin::Capture);
            }
        }
        let legal = |bytes: u32| u64::from(bytes.next_power_of_two().max(128));
        add(Setting::Mps, self.data_bytes.map(legal), Origin::Inferred);
        add(Setting::Mrrs, self.read_bytes.map(legal), Origin::Inferred);
        let tags = |tag: u16| TAGS.into_iter().find(|tags| tag < *tags).map(u64::from);
        add(Setting::Tags, self.tag.and_then(tags), Origin::Inferred);
        let rcbs = [true, false].map(|is_root| (self.rcb(is_root).1, 0));
        rcbs.into_iter().chain(all).collect()
    }
}
