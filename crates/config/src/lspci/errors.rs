// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Error-related extended capabilities: Advanced Error Reporting, Downstream Port Containment (`PCIe 5.0 §7.8.4`,
//! `§7.9.15`).

use super::Head;
use super::own::Own;
use super::space::Space;
use crate::cap::pcie;
use crate::ext::{aer, dpc};
use crate::register::get;

const UNCORRECTABLE: &str = "DLP{DataLinkProtocol+} SDES{SurpriseDown+} TLP{PoisonedTlp+} FCP{FlowControlProtocol+} \
    CmpltTO{CompletionTimeout+} CmpltAbrt{CompleterAbort+} UnxCmplt{UnexpectedCompletion+} RxOF{ReceiverOverflow+} \
    MalfTLP{MalformedTlp+} ECRC{Ecrc+} UnsupReq{UnsupportedRequest+} ACSViol{AcsViolation+}";
const CORRECTABLE: &str = "RxErr{Receiver+} BadTLP{BadTlp+} BadDLLP{BadDllp+} Rollover{ReplayNumRollover+} \
    Timeout{ReplayTimerTimeout+} AdvNonFatalErr{AdvisoryNonFatal+}";
/// Device/Port Types with root registers: root port and Root Complex Event Collector.
const ROOTS: [u32; 2] = [4, 10];

/// Advanced Error Reporting, with the root registers if the function is a root port.
pub(super) fn reporting(own: &mut Own<'_>) {
    own.at(aer::UNCORRECTABLE_STATUS).show(&["\t\tUESta:\t", UNCORRECTABLE]);
    own.at(aer::UNCORRECTABLE_MASK).show(&["\t\tUEMsk:\t", UNCORRECTABLE]);
    own.at(aer::SEVERITY).show(&["\t\tUESvrt:\t", UNCORRECTABLE]);
    own.at(aer::CORRECTABLE_STATUS).show(&["\t\tCESta:\t", CORRECTABLE]);
    own.at(aer::CORRECTABLE_MASK).show(&["\t\tCEMsk:\t", CORRECTABLE]);
    own.at(aer::CONTROL).show(&[
        "\t\tAERCap:\tFirst Error Pointer: {FIRST_ERROR_POINTER:02x}, ",
        "ECRCGenCap{ECRC_GENERATION_CAPABLE+} ECRCGenEn{ECRC_GENERATION+} ",
        "ECRCChkCap{ECRC_CHECK_CAPABLE+} ECRCChkEn{ECRC_CHECK+}",
        "\t\t\tMultHdrRecCap{MULTIPLE_HEADERS_CAPABLE+} MultHdrRecEn{MULTIPLE_HEADERS+} ",
        "TLPPfxPres{PREFIX_LOG_PRESENT+} HdrLogCap{TIMEOUT_HEADER_CAPABLE+}",
    ]);
    log(own, "HeaderLog", aer::HEADER_LOG);
    if own.dw(aer::CONTROL) & aer::control::PREFIX_LOG_PRESENT != 0 {
        log(own, "PrefixLog", aer::PREFIX_LOG);
    }
    if is_root(own.space) {
        root(own);
    }
}

fn log(own: &mut Own<'_>, what: &str, first: u16) {
    let words = [0, 1, 2, 3].map(|n| format!("{:08x}", own.dw(first + n)));
    own.lines.line(2, format!("{what}: {}", words.join(" ")));
}

/// True if the PCI Express capability belongs to a root port or a Root Complex Event Collector.
pub(super) fn is_root(space: &Space<'_>) -> bool {
    let head = super::heads(space).into_iter().find(Head::is_express);
    head.is_some_and(|h| ROOTS.contains(&get(space.dw(h.at), pcie::capabilities::PORT_TYPE)))
}

fn root(own: &mut Own<'_>) {
    own.at(aer::ROOT_COMMAND).show(&[
        "\t\tRootCmd: CERptEn{CORRECTABLE_REPORTING+} NFERptEn{NON_FATAL_REPORTING+} FERptEn{FATAL_REPORTING+}",
    ]);
    own.at(aer::ROOT_STATUS).show(&[
        "\t\tRootSta: CERcvd{CORRECTABLE_RECEIVED+} MultCERcvd{MULTIPLE_CORRECTABLE+} ",
        "UERcvd{UNCORRECTABLE_RECEIVED+} MultUERcvd{MULTIPLE_UNCORRECTABLE+}",
        "\t\t\t FirstFatal{FIRST_FATAL+} NonFatalMsg{NON_FATAL_RECEIVED+} FatalMsg{FATAL_RECEIVED+} ",
        "IntMsg {INTERRUPT_MESSAGE}",
    ]);
    own.at(aer::ERROR_SOURCE).show(&["\t\tErrorSrc: ERR_COR: {15-0:04x} ERR_FATAL/NONFATAL: {31-16:04x}"]);
}

/// Downstream Port Containment.
pub(super) fn containment(own: &mut Own<'_>) {
    own.at(dpc::CONTROL).show(&[
        "\t\tDpcCap:\tINT Msg #{INTERRUPT_MESSAGE}, RPExt{RP_EXTENSIONS+} ",
        "PoisonedTLP{POISONED_EGRESS_SUPPORTED+} SwTrigger{SOFTWARE_TRIGGER_SUPPORTED+} ",
        "RP PIO Log {LOG_SIZE}, DL_ActiveErr{DL_ACTIVE_SUPPORTED+}",
        "\t\tDpcCtl:\tTrigger:{TRIGGER:x} Cmpl{COMPLETION_UR+} INT{INTERRUPT+} ErrCor{ERR_COR+} ",
        "PoisonedTLP{POISONED_EGRESS+} SwTrigger{SOFTWARE_TRIGGER+} DL_ActiveErr{DL_ACTIVE_ERR_COR+}",
    ]);
    own.at(dpc::STATUS).show(&[
        "\t\tDpcSta:\tTrigger{TRIGGERED+} Reason:{REASON:02x} INT{INTERRUPT+} RPBusy{RP_BUSY+} ",
        "TriggerExt:{REASON_EXTENSION:02x} RP PIO ErrPtr:{FIRST_ERROR:02x}",
        "\t\tSource:\t{SOURCE:04x}",
    ]);
}
