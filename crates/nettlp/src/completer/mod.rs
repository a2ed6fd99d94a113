// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Answers memory requests from memory: what an adapter does with a peer's DMA, and `psmem` with a host's MMIO. Sans-IO;
//! never waits, never allocates for a request, never answers posted ones.
//!
//! - [`Completer`]: requests in, completions out.
//! - [`Memory`]: what it reads and writes; [`Image`] is one that threads share.
//! - [`Incoming`]: a peer's bytes as a TLP, with upstream's habits mended.
//!
//! | request | answer |
//! |---|---|
//! | MRd | CplD, cut at Max_Payload_Size and Read Completion Boundary (`PCIe 5.0 §2.3.1.1`), none of 1024 DW ([`completion_piece`]) |
//! | MRd beyond the memory | Cpl, UR; where the memory fails, CA |
//! | MWr | none; what is poisoned, beyond the memory or read-only is dropped and counted |
//! | IORd, IOWr, CfgRd, CfgWr, AtomicOps, MRdLk, DMWr, translation requests | Cpl (CplLk), UR |
//! | Msg, MsgD | none; counted |
//! | Cpl, CplD | none; strays, counted |

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
    AddressType, Asked, Awaited, Bdf, Body, MemoryOp, Mps, Rcb, Repr, RuleId, Span, Status, Time, Violation,
    split,
};

/// The most completions of one read: 4 KiB at the least Max_Payload_Size, and one for its alignment.
pub const COMPLETIONS_MAX: usize = 4096 / 128 + 1;

/// Bytes of the header of a completion.
const HEADER_LEN: usize = 12;

/// Why a TLP was not taken: no room for what answers it. Nothing has happened then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

/// Why memory does not do what is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It has not all of these addresses.
    OutOfRange,
    /// It takes no writes.
    ReadOnly,
    /// What holds it failed.
    Failed,
}

/// What a [`Completer`] reads and writes.
pub trait Memory {
    /// Whether all of `bytes` bytes, 1 to 4096, from `address` on can be read, or written.
    ///
    /// # Errors
    /// Where they cannot; never [`Fault::Failed`].
    fn check(&self, address: u64, bytes: u64, is_write: bool) -> Result<(), Fault>;

    /// Makes `bytes` bytes ready to be read; [`check`](Self::check) has allowed it.
    ///
    /// # Errors
    /// [`Fault::Failed`].
    fn prepare(&mut self, address: u64, bytes: u64) -> Result<(), Fault> {
        let _ = (address, bytes);
        Ok(())
    }

    /// Reads what is prepared into all of `out`.
    fn read(&mut self, address: u64, out: &mut [u8]);

    /// Writes `data`; [`check`](Self::check) has allowed it.
    ///
    /// # Errors
    /// [`Fault::Failed`].
    fn write(&mut self, address: u64, data: &[u8]) -> Result<(), Fault>;
}

/// Where a [`Completer`] puts completions.
pub trait Completions {
    /// How many it takes now.
    fn room(&self) -> usize;

    /// Takes a TLP of `len` bytes, which `fill` writes. Called no more often than there is room.
    fn send(&mut self, len: usize, fill: &mut dyn FnMut(&mut [u8]));
}

device::counters! {
    /// What a [`Completer`] has done.
    pub struct CompleterCounters {
        /// Memory reads that were answered with data.
        reads,
        /// Bytes that these asked for.
        read_bytes,
        /// Memory writes that were done.
        writes,
        /// Bytes that these wrote.
        written_bytes,
        /// Completions sent, those without data included.
        completions,
        /// Reads beyond the memory, answered with UR.
        reads_out_of_range,
        /// Writes beyond the memory, dropped.
        writes_out_of_range,
        /// Writes to memory that takes none, dropped.
        writes_read_only,
        /// Reads that failed (CA), and writes that did: the file behind the memory could not be read.
        failed,
        /// Poisoned writes, dropped.
        poisoned,
        /// Non-posted requests of other kinds, answered with UR.
        unsupported,
        /// Messages, dropped.
        messages,
        /// Completions that answer nothing, dropped.
        stray_completions,
    }
}

/// Answers memory requests.
#[derive(Clone, Debug)]
pub struct Completer {
    /// Completer ID.
    pub id: Bdf,
    /// The most data of one completion.
    pub mps: Mps,
    /// Where completions of one read may be cut.
    pub rcb: Rcb,
    /// What it has done.
    pub counters: CompleterCounters,
    refusals: Refusals,
    now: Time,
}

impl Completer {
    /// A completer of this ID: with [`Rcb::ENDPOINT`] in a device's place, 64 or 128 B in a root complex's.
    pub fn new(id: Bdf, mps: Mps, rcb: Rcb) -> Completer {
        let (counters, refusals, now) = (CompleterCounters::default(), Refusals::default(), Time::ZERO);
        Completer { id, mps, rcb, counters, refusals, now }
    }

    /// Does what a TLP asks, and answers it. `data` are its whole DWs as on the wire, none of a read.
    ///
    /// # Errors
    /// [`Full`] where `out` has no room for all answers: up to [`COMPLETIONS_MAX`].
    pub fn handle(
        &mut self,
        repr: &Repr,
        data: &[u8],
        memory: &mut impl Memory,
        out: &mut dyn Completions,
    ) -> Result<(), Full> {
        self.handle_across(repr, data, 0, memory, out)
    }

    /// The same, for a read that asks for `behind_bytes` more than `repr` says, behind the 4 KiB boundary at which it ends:
    /// together at most 4096.
    ///
    /// # Errors
    /// As [`handle`](Self::handle).
    pub fn handle_across(
        &mut self,
        repr: &Repr,
        data: &[u8],
        behind_bytes: u32,
        memory: &mut impl Memory,
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

    /// Answers a non-posted request with a completion without data. Others are not answered.
    ///
    /// # Errors
    /// [`Full`] where there is no room for it.
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
        memory: &mut impl Memory,
        out: &mut dyn Completions,
    ) -> Result<(), Full> {
        let Some(mut asked) = Asked::of(repr) else { return Ok(()) };
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

    fn complete(&self, asked: &Asked, memory: &mut impl Memory, out: &mut dyn Completions) {
        for (rest, piece) in cut(asked.bytes, self.mps, self.rcb) {
            let lead = rest.lead() as usize;
            let header = asked.with_data(self.id, asked.bytes.byte_count - rest.byte_count, piece);
            out.send(header.tlp_len(), &mut |slot| {
                header.emit(slot);
                let data = &mut slot[HEADER_LEN..];
                // Bytes that were not asked for are no peer's business.
                data[..lead].fill(0);
                data[lead + piece as usize..].fill(0);
                memory.read(rest.first_byte, &mut data[lead..lead + piece as usize]);
            });
        }
    }

    fn write(&mut self, repr: &Repr, span: Span, data: &[u8], memory: &mut impl Memory) {
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

    /// Counts a TLP that is refused or dropped, and keeps the reason.
    #[cold]
    fn refused(&mut self, counter: fn(&mut CompleterCounters) -> &mut u64, why: Violation, repr: &Repr) {
        *counter(&mut self.counters) += 1;
        self.record(why, Head::of_header(repr));
    }

    /// Keeps why a TLP was refused that did not reach [`handle`](Self::handle). The caller counts it.
    #[cold]
    pub fn record(&mut self, why: Violation, tlp: Head) {
        self.refusals.record(self.now, None, why, tlp);
    }

    /// Sets the time of the TLPs that come next, for refusals.
    pub fn set_time(&mut self, now: Time) {
        self.now = now;
    }

    /// Why TLPs were refused or dropped, one of each kind.
    pub fn refusals(&self) -> &[Refusal] {
        self.refusals.kinds()
    }
}

/// Writes the enabled bytes, and says how many they are.
fn store(span: Span, data: &[u8], memory: &mut impl Memory) -> Result<u32, Fault> {
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

/// Bytes of the next completion of a read, as [`split::completion_piece`], but at most 1023 DW: Length 0, which is 1024 DW, is no data to
/// upstream's programs. Only a Max_Payload_Size of 4096 has any.
pub fn completion_piece(address: u64, remaining: u32, mps: Mps, rcb: Rcb) -> u32 {
    const MOST: u64 = 1023 * 4;
    let piece = split::completion_piece(address, remaining, mps, rcb);
    if (address & 3) + u64::from(piece) <= MOST {
        return piece;
    }
    let cut = ((address & !3) + MOST) & !u64::from(rcb.bytes() - 1);
    (cut - address) as u32
}

/// The completions of a read: what is left before each, and how many bytes it has.
fn cut(mut rest: Awaited, mps: Mps, rcb: Rcb) -> impl Iterator<Item = (Awaited, u32)> {
    std::iter::from_fn(move || {
        let before = rest;
        let piece =
            (rest.byte_count > 0).then(|| completion_piece(rest.first_byte, rest.byte_count, mps, rcb))?;
        rest = rest.behind(piece);
        Some((before, piece))
    })
}

/// The completion without data that refuses a non-posted request, CplLk for MRdLk; `None` for what is posted or a completion.
pub fn refusal(id: Bdf, repr: &Repr, status: Status) -> Option<Repr> {
    Asked::of(repr).map(|asked| asked.without_data(id, status))
}
