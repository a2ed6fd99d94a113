// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks the fault tables of a lab, converts them to rules of a fabric, and describes them in words.

use crate::fault_pairs;
use crate::fault_schema::{Fault, FaultDirection, FaultFrames, FaultKind, FaultStatus, Outage, OutageKind};
use crate::schema::Lab;
use crate::wrong::{Checked, Wrong, check_known, found, wrong};
use fabric::{
    Alteration, Direction, FaultAction, FaultLimit, FaultRule, FrameKind, InternalError, LinkChange,
    LinkEvent, LinkId, TlpFilter,
};
use plug::file::{FileError, Overrides, Schema, Source};
use serde::Deserialize;
use std::path::Path;
use tlp::{Class, Duration, Status, Tag, Time};
use toml::Spanned;
use toml::de::{DeValue, Deserializer};

/// The fault rules of `lab`. Unknown slots have already been rejected.
pub(crate) fn rules(lab: &Lab) -> Vec<FaultRule> {
    lab.fault.iter().filter_map(|fault| Some(rule(fault, link_of(lab, fault.slot.get_ref())?))).collect()
}

/// The starts and ends of the outages of `lab`.
pub(crate) fn outages(lab: &Lab) -> Vec<LinkEvent> {
    let at = |us: u64| Time::ZERO + Duration::from_us(us);
    let mut events = Vec::new();
    for outage in &lab.outage {
        let Some(link) = link_of(lab, outage.slot.get_ref()) else { continue };
        let [begin, end] = match outage.kind {
            OutageKind::Cut => [LinkChange::Cut, LinkChange::Restore],
            OutageKind::Removal => [LinkChange::Remove, LinkChange::Insert],
            // A button is pressed once; this event has no end.
            OutageKind::Attention => [LinkChange::PressAttention, LinkChange::PressAttention],
        };
        events.push(LinkEvent { at: at(*outage.at_us.get_ref()), link, change: begin });
        if let Some(until) = &outage.until_us {
            events.push(LinkEvent { at: at(*until.get_ref()), link, change: end });
        }
    }
    events
}

/// True if links of `lab` go down while it runs.
pub(crate) fn take_links_down(lab: &Lab) -> bool {
    !lab.outage.is_empty() || lab.fault.iter().any(|fault| *fault.action.get_ref() == FaultKind::Cut)
}

/// Time of the last outage of link `n`. The hot-plug driver of the slot does not end earlier.
pub(crate) fn last_event(lab: &Lab, n: usize) -> Time {
    let own = lab.outage.iter().filter(|o| link_of(lab, o.slot.get_ref()) == Some(LinkId(n as u32)));
    let ends = own.map(|o| *o.until_us.as_ref().unwrap_or(&o.at_us).get_ref());
    Time::ZERO + Duration::from_us(ends.max().unwrap_or(0))
}

/// The link above the slot or switch `name`. Links of slots come first.
fn link_of(lab: &Lab, name: &str) -> Option<LinkId> {
    lab.hanging().position(|h| h.name.get_ref() == name).map(|n| LinkId(n as u32))
}

/// Errors of the faults and outages of `lab`.
pub(crate) fn check(lab: &Lab) -> Vec<Wrong> {
    let faults = lab.fault.iter().flat_map(|fault| check_fault(lab, fault));
    let outages = lab.outage.iter().flat_map(|outage| check_outage(lab, outage));
    faults.chain(outages).chain(check_overlaps(lab).err()).collect()
}

/// Checks that outages of a slot do not overlap: the end of the first would end the second too.
fn check_overlaps(lab: &Lab) -> Checked {
    let lasting = |o: &&Outage| o.kind != OutageKind::Attention;
    let mut all: Vec<&Outage> = lab.outage.iter().filter(lasting).collect();
    all.sort_by_key(|o| (o.slot.get_ref().clone(), *o.at_us.get_ref()));
    for pair in all.windows(2) {
        let (first, second) = (pair[0], pair[1]);
        let begin = *second.at_us.get_ref();
        let is_over = first.until_us.as_ref().is_some_and(|until| *until.get_ref() <= begin);
        if first.slot.get_ref() == second.slot.get_ref() && !is_over {
            let (slot, from) = (second.slot.get_ref(), first.at_us.get_ref());
            let until = first.until_us.as_ref().map_or("the end".into(), |us| format!("{} us", us.get_ref()));
            let message = format!(
                "at_us of {begin}: `{slot}` has an outage from {from} us to {until}: outages of a slot may not overlap"
            );
            return wrong(second.at_us.span(), message);
        }
    }
    Ok(())
}

fn check_name(lab: &Lab, name: &Spanned<String>) -> Checked {
    check_known(name, lab.hanging().map(|h| h.name))
}

fn check_outage(lab: &Lab, outage: &Outage) -> Vec<Wrong> {
    let name = check_name(lab, &outage.slot);
    let kind = name.and_then(|()| check_button(lab, outage)).and_then(|()| check_removal(lab, outage));
    found([kind, check_end(outage)])
}

fn check_end(outage: &Outage) -> Checked {
    let at = *outage.at_us.get_ref();
    match &outage.until_us {
        Some(until) if *until.get_ref() <= at => {
            wrong(until.span(), format!("until_us of {}, expected a time after at_us, {at}", until.get_ref()))
        }
        _ => Ok(()),
    }
}

/// Checks that an attention button is pressed only at a hot-plug capable slot that has one.
fn check_button(lab: &Lab, outage: &Outage) -> Checked {
    if outage.kind != OutageKind::Attention {
        return Ok(());
    }
    if let Some(until) = &outage.until_us {
        return wrong(until.span(), "until_us: legal only with kind = \"cut\" or \"removal\"");
    }
    match has_button(lab, outage.slot.get_ref()) {
        true => Ok(()),
        false => wrong(
            outage.slot.span(),
            format!(
                "`{}` has no attention button, expected slots and switches with hot_plug = true and hot_plug_controls",
                outage.slot.get_ref()
            ),
        ),
    }
}

fn has_hot_plug(lab: &Lab, name: &str) -> bool {
    lab.hanging().any(|h| h.name.get_ref() == name && h.hot_plug)
}

fn has_button(lab: &Lab, name: &str) -> bool {
    lab.hanging().any(|h| h.name.get_ref() == name && h.controls)
}

/// Checks that a removal happens only at a hot-plug capable slot, so that software can detect it.
fn check_removal(lab: &Lab, outage: &Outage) -> Checked {
    let name = outage.slot.get_ref();
    if outage.kind != OutageKind::Removal || has_hot_plug(lab, name) {
        return Ok(());
    }
    wrong(
        outage.slot.span(),
        format!(
            "`{name}` is not hot-plug capable, expected slots and switches with hot_plug = true; kind = \"cut\" cuts only its link"
        ),
    )
}

fn check_fault(lab: &Lab, fault: &Fault) -> Vec<Wrong> {
    let mut wrong =
        found([check_name(lab, &fault.slot), check_nth(fault), check_filter(fault), check_parameters(fault)]);
    if wrong.is_empty() {
        wrong.extend(fault_pairs::check(fault).err());
    }
    wrong
}

/// Parses a fault given as `KEY = VALUE, ...` outside of a file, and checks all but its link.
///
/// # Errors
/// The first error, with the legal values.
pub fn read_command(keys: &str) -> Result<Fault, FileError> {
    let text = format!("fault = {{ {keys} }}");
    let overrides = Overrides::default();
    let source = Source { path: Path::new("fault"), text: &text, overrides: &overrides };
    let mut tree = source.tree().map_err(|errors| errors.all()[0].clone())?;
    let given = tree.get_mut().remove("fault").map(|given| (given.span(), given.into_inner()));
    let Some((span, DeValue::Table(given))) = given else {
        return Err(FileError::whole(source.path, "expected KEY = VALUE, ..."));
    };
    let given = Spanned::new(span, given);
    let schema = Schema::shared::<Fault>();
    let values = serde_json::Value::deserialize(Deserializer::from(given.clone())).unwrap_or_default();
    let read = source.read::<Fault>(given, &schema);
    let fault = read.map_err(|unread| unread.errors[0].clone())?;
    check_command(&fault).map_err(|wrong| FileError::whole(source.path, wrong.message))?;
    let outside = schema.check(&values).into_iter().next();
    outside.map_or(Ok(fault), |outside| Err(FileError::whole(source.path, outside.message)))
}

/// Lists the keys of a fault with their legal values, required keys first. `names` are the names of slots and switches.
pub fn legal_keys(names: &str) -> String {
    let schema = Schema::shared::<Fault>();
    let must = schema.required();
    let of = |key: &&str| match *key {
        "slot" => format!("slot ({names})"),
        key => format!("{key} ({})", schema.legal(&[key.to_owned()]).unwrap_or_default()),
    };
    let list = |keys: &[&str]| keys.iter().map(of).collect::<Vec<_>>().join(", ");
    let more: Vec<&str> = schema.keys("").into_iter().filter(|key| !must.contains(key)).collect();
    format!("{}, and optionally {}", list(&must), list(&more))
}

/// Checks a fault given outside of a file, except its link.
///
/// # Errors
/// The first error, with the legal values.
fn check_command(fault: &Fault) -> Checked {
    let all = [check_nth(fault), check_filter(fault), check_parameters(fault), fault_pairs::check(fault)];
    all.into_iter().collect()
}

fn check_nth(fault: &Fault) -> Checked {
    match fault.nth.get_ref() {
        0 => wrong(fault.nth.span(), "nth of 0: frames are counted from 1"),
        _ => Ok(()),
    }
}

/// Checks the conditions that apply only to TLPs: `frames` must be a kind of TLP.
fn check_filter(fault: &Fault) -> Checked {
    if let (None, Some(last)) = (&fault.first_address, &fault.last_address) {
        return wrong(last.span(), "last_address: needs first_address");
    }
    if let (Some(first), Some(last)) = (&fault.first_address, &fault.last_address)
        && last.get_ref() < first.get_ref()
    {
        let message =
            format!("last_address of {:#x}, expected {:#x} and more", last.get_ref(), first.get_ref());
        return wrong(last.span(), message);
    }
    let keys = [
        ("tlp_type", fault.tlp_type.is_some()),
        ("first_address", fault.first_address.is_some()),
        ("requester", fault.requester.is_some()),
        ("tag", fault.tag.is_some()),
    ];
    use FaultFrames::{Completion, NonPosted, Posted, Tlp};
    let of_tlps = matches!(fault.frames.get_ref(), Tlp | Posted | NonPosted | Completion);
    match keys.into_iter().find(|(_, given)| *given && !of_tlps) {
        Some((key, _)) => wrong(
            fault.frames.span(),
            format!("{key}: legal only with frames = \"tlp\", \"posted\", \"non-posted\" or \"completion\""),
        ),
        None => Ok(()),
    }
}

/// Checks that each action has its parameters and no others.
fn check_parameters(fault: &Fault) -> Checked {
    use FaultKind::{
        Cut, Delay, FlipHeader, SetByteCount, SetLength, SetRequester, SetStatus, SetTag, ShiftCredits,
        ShiftSequence,
    };
    let action = *fault.action.get_ref();
    // The key, whether it is given, its action, the action's name, and whether the action needs the key.
    let keys = [
        ("delay_ns", fault.delay_ns.is_some(), Delay, "delay", true),
        ("restore_after_us", fault.restore_after_us.is_some(), Cut, "cut", false),
        ("status", fault.status.is_some(), SetStatus, "set-status", true),
        ("new_tag", fault.new_tag.is_some(), SetTag, "set-tag", true),
        ("new_requester", fault.new_requester.is_some(), SetRequester, "set-requester", true),
        ("byte_count", fault.byte_count.is_some(), SetByteCount, "set-byte-count", true),
        ("length_dw", fault.length_dw.is_some(), SetLength, "set-length", true),
        ("header_dw", fault.header_dw.is_some(), FlipHeader, "flip-header", true),
        ("header_bits", fault.header_bits.is_some(), FlipHeader, "flip-header", true),
        ("sequence_ahead", fault.sequence_ahead.is_some(), ShiftSequence, "shift-sequence", true),
        ("header_credits", fault.header_credits.is_some(), ShiftCredits, "shift-credits", false),
        ("data_credits", fault.data_credits.is_some(), ShiftCredits, "shift-credits", false),
    ];
    for (key, given, of, name, needed) in keys {
        if given && of != action {
            return wrong(fault.action.span(), format!("{key}: legal only with action = \"{name}\""));
        }
        if !given && needed && of == action {
            return wrong(fault.action.span(), format!("action \"{name}\" needs {key}"));
        }
    }
    if action == ShiftCredits && fault.header_credits.is_none() && fault.data_credits.is_none() {
        let message = "action \"shift-credits\" needs header_credits or data_credits";
        return wrong(fault.action.span(), message);
    }
    Ok(())
}

/// Returns the rule by which the fabric applies `fault` to `link`.
pub fn rule(fault: &Fault, link: LinkId) -> FaultRule {
    FaultRule {
        link,
        direction: match fault.direction {
            FaultDirection::Upstream => Direction::Upstream,
            FaultDirection::Downstream => Direction::Downstream,
        },
        kind: kind(fault),
        nth: *fault.nth.get_ref(),
        every: fault.every,
        chance: fault.probability.map(|p| p.0),
        action: action(fault),
        limit: FaultLimit {
            count: fault.count.as_ref().map(|count| *count.get_ref()),
            duration: fault.for_ms.as_ref().map(|ms| Duration::from_ms(*ms.get_ref())),
        },
    }
}

fn kind(fault: &Fault) -> FrameKind {
    let class = match fault.frames.get_ref() {
        FaultFrames::Any => return FrameKind::Any,
        FaultFrames::Config => return FrameKind::Config,
        FaultFrames::Dllp => return FrameKind::Dllp,
        FaultFrames::Ack => return FrameKind::Ack,
        FaultFrames::Nak => return FrameKind::Nak,
        FaultFrames::InitFc => return FrameKind::InitFc,
        FaultFrames::UpdateFc => return FrameKind::UpdateFc,
        FaultFrames::Tlp => None,
        FaultFrames::Posted => Some(Class::Posted),
        FaultFrames::NonPosted => Some(Class::NonPosted),
        FaultFrames::Completion => Some(Class::Completion),
    };
    let first = fault.first_address.as_ref().map(|a| *a.get_ref());
    let last = fault.last_address.as_ref().map(|a| *a.get_ref());
    FrameKind::Where(TlpFilter {
        class,
        ty: fault.tlp_type,
        addresses: first.map(|first| (first, last.unwrap_or(first))),
        requester: fault.requester.map(|id| id.0),
        tag: fault.tag.as_ref().map(|tag| Tag::from_bits(*tag.get_ref())),
    })
}

/// The value of a key that [`check`] has found present.
fn given<T: Copy + Default>(value: Option<&Spanned<T>>) -> T {
    value.map(|v| *v.get_ref()).unwrap_or_default()
}

fn action(fault: &Fault) -> FaultAction {
    FaultAction::Alter(match fault.action.get_ref() {
        FaultKind::Corrupt => return FaultAction::Corrupt,
        FaultKind::Drop => return FaultAction::Drop,
        FaultKind::BreakFraming => return FaultAction::BreakFraming,
        FaultKind::Double => return FaultAction::Double,
        FaultKind::Delay => return FaultAction::Delay(Duration::from_ns(given(fault.delay_ns.as_ref()))),
        FaultKind::Cut => {
            let restore_after = fault.restore_after_us.as_ref().map(|us| Duration::from_us(*us.get_ref()));
            return FaultAction::Cut { restore_after };
        }
        FaultKind::CorrectedInternal => return FaultAction::InternalError(InternalError::Corrected),
        FaultKind::UncorrectableInternal => return FaultAction::InternalError(InternalError::Uncorrectable),
        FaultKind::Poison => Alteration::Poison,
        FaultKind::WrongEcrc => Alteration::WrongEcrc,
        FaultKind::SetStatus => Alteration::Status(fault.status.map_or(Status::Success, status)),
        FaultKind::SetTag => Alteration::Tag(Tag::from_bits(given(fault.new_tag.as_ref()))),
        FaultKind::SetRequester => {
            Alteration::Requester(fault.new_requester.map(|id| id.0).unwrap_or_default())
        }
        FaultKind::SetByteCount => Alteration::ByteCount(given(fault.byte_count.as_ref())),
        FaultKind::SetLength => Alteration::Length(given(fault.length_dw.as_ref())),
        FaultKind::FlipHeader => Alteration::HeaderBits {
            dw: given(fault.header_dw.as_ref()),
            bits: given(fault.header_bits.as_ref()),
        },
        FaultKind::ShiftSequence => Alteration::Sequence(given(fault.sequence_ahead.as_ref())),
        FaultKind::ShiftCredits => Alteration::Credits {
            header: given(fault.header_credits.as_ref()),
            data: given(fault.data_credits.as_ref()),
        },
    })
}

fn status(status: FaultStatus) -> Status {
    match status {
        FaultStatus::Success => Status::Success,
        FaultStatus::UnsupportedRequest => Status::UnsupportedRequest,
        FaultStatus::ConfigRetry => Status::ConfigRetry,
        FaultStatus::CompleterAbort => Status::CompleterAbort,
    }
}

/// Describes a fault: `fault on nic, upstream: any frame corrupted, the 3rd, then every 50th`.
pub(crate) fn draw(fault: &Fault) -> String {
    let direction = match fault.direction {
        FaultDirection::Upstream => "upstream",
        FaultDirection::Downstream => "downstream",
    };
    let nth = *fault.nth.get_ref();
    let which = match fault.every {
        0 => format!("the {}", ordinal(nth)),
        every if every == nth => format!("every {}", ordinal(every)),
        every => format!("the {}, then every {}", ordinal(nth), ordinal(every)),
    };
    let some = if fault.probability.is_some() { ", some of them" } else { "" };
    let most = fault.count.as_ref().map_or(String::new(), |count| format!(", {} at most", count.get_ref()));
    let ms = fault.for_ms.as_ref().map_or(String::new(), |ms| format!(", for {} ms", ms.get_ref()));
    let (slot, frames, done) = (fault.slot.get_ref(), frames(fault), done(*fault.action.get_ref()));
    format!("fault on {slot}, {direction}: {frames} {done}, {which}{some}{most}{ms}")
}

/// Describes an outage: `outage of nic from 5 us to 9 us: cut`.
pub(crate) fn draw_outage(outage: &Outage) -> String {
    let kind = match outage.kind {
        OutageKind::Cut => "cut",
        OutageKind::Removal => "removed",
        OutageKind::Attention => {
            return format!("attention button of {} at {} us", outage.slot.get_ref(), outage.at_us.get_ref());
        }
    };
    let until = outage.until_us.as_ref().map_or_else(String::new, |us| format!(" to {} us", us.get_ref()));
    format!("outage of {} from {} us{until}: {kind}", outage.slot.get_ref(), outage.at_us.get_ref())
}

fn frames(fault: &Fault) -> String {
    let mut text = match fault.frames.get_ref() {
        FaultFrames::Any => "any frame".to_owned(),
        // By their name in the file.
        frames => {
            serde_json::to_value(frames).ok().and_then(|v| Some(v.as_str()?.to_owned())).unwrap_or_default()
        }
    };
    if let Some(ty) = fault.tlp_type {
        text += &format!(" of type {ty:?}");
    }
    if let Some(first) = &fault.first_address {
        let last = fault.last_address.as_ref().unwrap_or(first).get_ref();
        text += &format!(" to {:#x}..{last:#x}", first.get_ref());
    }
    if let Some(id) = fault.requester {
        text += &format!(" of {}", id.0);
    }
    if let Some(tag) = &fault.tag {
        text += &format!(" with tag {}", tag.get_ref());
    }
    text
}

const fn done(action: FaultKind) -> &'static str {
    match action {
        FaultKind::Corrupt => "corrupted",
        FaultKind::Drop => "dropped",
        FaultKind::BreakFraming => "broken in its framing",
        FaultKind::Double => "doubled",
        FaultKind::Delay => "delayed",
        FaultKind::Cut => "cuts the link",
        FaultKind::Poison => "poisoned",
        FaultKind::WrongEcrc => "given a wrong ECRC",
        FaultKind::SetStatus => "given another status",
        FaultKind::SetTag => "given another tag",
        FaultKind::SetRequester => "given another requester",
        FaultKind::SetByteCount => "given another byte count",
        FaultKind::SetLength => "given another length",
        FaultKind::FlipHeader => "altered in its header",
        FaultKind::ShiftSequence => "given another sequence number",
        FaultKind::ShiftCredits => "given other credits",
        FaultKind::CorrectedInternal => "corrected by its receiver",
        FaultKind::UncorrectableInternal => "lost within its receiver",
    }
}

fn ordinal(n: u64) -> String {
    let suffix = match (n % 10, n % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{n}{suffix}")
}
