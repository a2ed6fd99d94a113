// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Answers memory requests from memory. An adapter uses it for a peer's DMA, and `psmem` for a host's MMIO.
//! Sans-IO. Never waits, never allocates for a request, and never answers posted requests.
//!
//! - [`Completer`]: requests in, completions out.
//! - [`CompleterMemory`]: the memory that it reads and writes; [`Image`] is one that threads share.
//! - [`Incoming`]: parses a peer's bytes as a TLP, and corrects known mistakes of upstream's software.
//!
//! | request | answer |
//! |---|---|
//! | MRd | CplD, split at Max_Payload_Size and Read Completion Boundary (`PCIe 5.0 §2.3.1.1`), each of less than 1024 DW ([`completion_piece`]) |
//! | MRd outside the memory | Cpl, UR; if the memory fails, CA |
//! | MWr | none; poisoned writes, and writes outside the memory or to read-only memory, are dropped and counted |
//! | IORd, IOWr, CfgRd, CfgWr, AtomicOps, MRdLk, DMWr, translation requests | Cpl (CplLk), UR |
//! | Msg, MsgD | none; counted |
//! | Cpl, CplD | none; counted as strays |

mod image;
mod incoming;
#[cfg(test)]
mod tests;

pub use image::{CHUNK, IMAGE_MAX, Image};
pub use incoming::{Incoming, padding_of_short_write, reason_to_drop};

use tlp::message::{MessageCodes, is_ignored};
use tlp::rules::reasons::{aborted, of_transaction, poisoned, request_type, unclaimed};
use tlp::rules::{Head, Refusal, Refusals};
use tlp::{
    AddressType, Awaited, Bdf, Body, CompletedRequest, MemoryOp, Mps, Rcb, Repr, RuleId, Span, Status, Time,
    Violation, split,
};

/// Maximum number of completions of one read: 4 KiB at the smallest Max_Payload_Size, plus one if the address is
/// not aligned.
pub const COMPLETIONS_MAX: usize = 4096 / 128 + 1;

/// Size of a completion header in bytes.
const HEADER_LEN: usize = 12;

/// Error: the TLP was not handled, because there is no room for its answers. The TLP had no effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

/// Reason why memory cannot execute an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Some of the addresses are outside the memory.
    OutOfRange,
    /// The memory is read-only.
    ReadOnly,
    /// The backing store of the memory failed.
    Failed,
}

/// Memory that a [`Completer`] reads and writes.
pub trait CompleterMemory {
    /// Checks that all of `bytes` bytes, 1 to 4096, from `address` can be read, or written.
    ///
    /// # Errors
    /// The reason why they cannot be accessed; never [`Fault::Failed`].
    fn check(&self, address: u64, bytes: u64, is_write: bool) -> Result<(), Fault>;

    /// Prepares `bytes` bytes for reading; [`check`](Self::check) has allowed it.
    ///
    /// # Errors
    /// [`Fault::Failed`].
    fn prepare(&mut self, address: u64, bytes: u64) -> Result<(), Fault> {
        let _ = (address, bytes);
        Ok(())
    }

    /// Reads prepared bytes into all of `out`.
    fn read(&mut self, address: u64, out: &mut [u8]);

    /// Writes `data`; [`check`](Self::check) has allowed it.
    ///
    /// # Errors
    /// [`Fault::Failed`].
    fn write(&mut self, address: u64, data: &[u8]) -> Result<(), Fault>;
}

/// Output for the completions of a [`Completer`].
pub trait Completions {
    /// Returns how many completions the output accepts now.
    fn room(&self) -> usize;

    /// Sends a TLP of `len` bytes, which `fill` writes. Called at most [`room`](Self::room) times.
    fn send(&mut self, len: usize, fill: &mut dyn FnMut(&mut [u8]));
}

device::counters! {
    /// Counters of a [`Completer`].
    pub struct CompleterCounters {
        /// Memory reads answered with data.
        reads,
        /// Bytes requested by these reads.
        read_bytes,
        /// Memory writes executed.
        writes,
        /// Bytes written by these writes.
        written_bytes,
        /// Completions sent, including those without data.
        completions,
        /// Reads outside the memory, answered with UR.
        reads_out_of_range,
        /// Writes outside the memory, dropped.
        writes_out_of_range,
        /// Writes to read-only memory, dropped.
        writes_read_only,
        /// Reads (answered with CA) and writes that failed because the file of the memory could not be read.
        failed,
        /// Poisoned writes, dropped.
        poisoned,
        /// Non-posted requests of other kinds, answered with UR.
        unsupported,
        /// Messages, dropped.
        messages,
        /// Completions that answer no request, dropped.
        stray_completions,
    }
}

/// Answers memory requests.
#[derive(Clone, Debug)]
pub struct Completer {
    /// Completer ID.
    pub id: Bdf,
    /// Maximum data of one completion.
    pub mps: Mps,
    /// Boundary at which completions of one read may be split.
    pub rcb: Rcb,
    /// Counts of handled requests.
    pub counters: CompleterCounters,
    refusals: Refusals,
    now: Time,
}

impl Completer {
    /// Creates a completer with this ID: with [`Rcb::ENDPOINT`] for a device, with 64 or 128 B for a root complex.
    pub fn new(id: Bdf, mps: Mps, rcb: Rcb) -> Completer {
        let (counters, refusals, now) = (CompleterCounters::default(), Refusals::default(), Time::ZERO);
        Completer { id, mps, rcb, counters, refusals, now }
    }

    /// Executes a TLP, and answers it. `data` holds the data of the TLP in whole DWs as on the wire, and is empty
    /// for a read.
    ///
    /// # Errors
    /// [`Full`] if `out` has no room for all answers: up to [`COMPLETIONS_MAX`].
    pub fn handle(
        &mut self,
        repr: &Repr,
        data: &[u8],
        memory: &mut impl CompleterMemory,
        out: &mut dyn Completions,
    ) -> Result<(), Full> {
        self.handle_across(repr, data, 0, memory, out)
    }

    /// Executes a TLP like [`handle`](Self::handle). If the TLP is a read, it also requests `behind_bytes` bytes
    /// after the 4 KiB boundary at which `repr` ends. The read has at most 4096 bytes in total.
    ///
    /// # Errors
    /// Those of [`handle`](Self::handle).
    pub fn handle_across(
        &mut self,
        repr: &Repr,
        data: &[u8],
        behind_bytes: u32,
        memory: &mut impl CompleterMemory,
        out: &mut dyn Completions,
    ) -> Result<(), Full> {
        match &repr.body {
            Body::Memory(m) if m.op == MemoryOp::Read && repr.at != AddressType::TranslationRequest => {
                self.read(repr, m.span.byte_count() + behind_bytes, memory, out)
            }
            Body::Memory(m) if m.op == MemoryOp::Write => {
                self.write(repr, m.span, data, memory);
                Ok(())
            }
            Body::Completion(_) => {
                let why = of_transaction(RuleId::UnexpectedCompletion, repr);
                self.refused(|c| &mut c.stray_completions, why, repr);
                Ok(())
            }
            Body::Message(message) => {
                self.counters.messages += 1;
                if !is_ignored(message.code) && !MessageCodes::OF_ENDPOINTS.contains(message.code) {
                    let why = Violation::new(RuleId::MessageSupported, message.code.into());
                    self.record(why, Head::of_header(repr));
                }
                Ok(())
            }
            _ => {
                self.refuse(repr, Status::UnsupportedRequest, out)?;
                self.refused(|c| &mut c.unsupported, request_type(repr), repr);
                Ok(())
            }
        }
    }

    /// Answers a non-posted request with a completion without data. Other TLPs are not answered.
    ///
    /// # Errors
    /// [`Full`] if there is no room for the completion.
    pub fn refuse(&mut self, repr: &Repr, status: Status, out: &mut dyn Completions) -> Result<(), Full> {
        let Some(completion) = refusal(self.id, repr, status) else { return Ok(()) };
        if out.room() == 0 {
            return Err(Full);
        }
        self.counters.completions += 1;
        out.send(HEADER_LEN, &mut |slot| {
            completion.emit(slot);
        });
        Ok(())
    }

    fn read(
        &mut self,
        repr: &Repr,
        bytes: u32,
        memory: &mut impl CompleterMemory,
        out: &mut dyn Completions,
    ) -> Result<(), Full> {
        let Some(mut asked) = CompletedRequest::of(repr) else { return Ok(()) };
        asked.bytes.byte_count = bytes;
        let address = asked.bytes.first_byte;
        let needed = cut(asked.bytes, self.mps, self.rcb).count();
        if out.room() < needed {
            return Err(Full);
        }
        if memory.check(address, u64::from(bytes), false).is_err() {
            self.refuse(repr, Status::UnsupportedRequest, out)?;
            self.refused(|c| &mut c.reads_out_of_range, unclaimed(address), repr);
            return Ok(());
        }
        if memory.prepare(address, u64::from(bytes)).is_err() {
            self.refuse(repr, Status::CompleterAbort, out)?;
            self.refused(|c| &mut c.failed, aborted(), repr);
            return Ok(());
        }
        self.counters.reads += 1;
        self.counters.read_bytes += u64::from(bytes);
        self.counters.completions += needed as u64;
        self.complete(&asked, memory, out);
        Ok(())
    }

    fn complete(
        &self,
        asked: &CompletedRequest,
        memory: &mut impl CompleterMemory,
        out: &mut dyn Completions,
    ) {
        for (rest, piece) in cut(asked.bytes, self.mps, self.rcb) {
            let lead = rest.lead() as usize;
            let header = asked.with_data(self.id, asked.bytes.byte_count - rest.byte_count, piece);
            out.send(header.tlp_len(), &mut |slot| {
                header.emit(slot);
                let data = &mut slot[HEADER_LEN..];
                // Bytes that were not requested must not leak to the peer.
                data[..lead].fill(0);
                data[lead + piece as usize..].fill(0);
                memory.read(rest.first_byte, &mut data[lead..lead + piece as usize]);
            });
        }
    }

    fn write(&mut self, repr: &Repr, span: Span, data: &[u8], memory: &mut impl CompleterMemory) {
        if repr.ep {
            return self.refused(|c| &mut c.poisoned, poisoned(), repr);
        }
        let (address, bytes) = (span.first_byte(), span.byte_count());
        let checked = memory.check(address, u64::from(bytes), true);
        match checked.and_then(|()| store(span, data, memory)) {
            Ok(written) => {
                self.counters.written_bytes += u64::from(written);
                self.counters.writes += 1;
            }
            Err(Fault::OutOfRange) => {
                self.refused(|c| &mut c.writes_out_of_range, unclaimed(address), repr);
            }
            Err(Fault::ReadOnly) => self.refused(|c| &mut c.writes_read_only, request_type(repr), repr),
            Err(Fault::Failed) => self.refused(|c| &mut c.failed, aborted(), repr),
        }
    }

    /// Counts a TLP that is refused or dropped, and records the reason.
    #[cold]
    fn refused(&mut self, counter: fn(&mut CompleterCounters) -> &mut u64, why: Violation, repr: &Repr) {
        *counter(&mut self.counters) += 1;
        self.record(why, Head::of_header(repr));
    }

    /// Records why a TLP was refused before it reached [`handle`](Self::handle). The caller counts it.
    #[cold]
    pub fn record(&mut self, why: Violation, tlp: Head) {
        self.refusals.record(self.now, None, why, tlp);
    }

    /// Sets the time that the refusals of the next TLPs report.
    pub fn set_time(&mut self, now: Time) {
        self.now = now;
    }

    /// Returns the reasons why TLPs were refused or dropped, one reason of each kind.
    pub fn refusals(&self) -> &[Refusal] {
        self.refusals.kinds()
    }
}

/// Writes the enabled bytes, and returns their number.
fn store(span: Span, data: &[u8], memory: &mut impl CompleterMemory) -> Result<u32, Fault> {
    let (address, lead, bytes) = (span.first_byte(), span.lead() as usize, span.byte_count());
    let data = data.get(lead..lead + bytes as usize).ok_or(Fault::Failed)?;
    if span.is_contiguous() {
        memory.write(address, data)?;
        return Ok(bytes);
    }
    let mut written = 0;
    for index in (0..bytes).filter(|index| span.is_enabled(*index)) {
        memory.write(address + u64::from(index), &data[index as usize..][..1])?;
        written += 1;
    }
    Ok(written)
}

/// Returns the data size of the next completion of a read, like [`split::completion_piece`], but at most 1023 DW.
/// Upstream's programs read Length 0, which means 1024 DW, as no data. Only a Max_Payload_Size of 4096 allows a
/// completion of 1024 DW.
pub fn completion_piece(address: u64, remaining: u32, mps: Mps, rcb: Rcb) -> u32 {
    const MOST: u64 = 1023 * 4;
    let piece = split::completion_piece(address, remaining, mps, rcb);
    if (address & 3) + u64::from(piece) <= MOST {
        return piece;
    }
    let cut = ((address & !3) + MOST) & !u64::from(rcb.bytes() - 1);
    (cut - address) as u32
}

/// Returns the completions of a read. Gives for each the bytes that remain before it, and its size in bytes.
fn cut(mut rest: Awaited, mps: Mps, rcb: Rcb) -> impl Iterator<Item = (Awaited, u32)> {
    std::iter::from_fn(move || {
        let before = rest;
        let piece =
            (rest.byte_count > 0).then(|| completion_piece(rest.first_byte, rest.byte_count, mps, rcb))?;
        rest = rest.behind(piece);
        Some((before, piece))
    })
}

/// Returns the completion without data that refuses a non-posted request, CplLk for MRdLk; `None` for a posted request or a completion.
pub fn refusal(id: Bdf, repr: &Repr, status: Status) -> Option<Repr> {
    CompletedRequest::of(repr).map(|asked| asked.without_data(id, status))
}
