// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory as the backend of an adapter, without a host: a PCI Express function with its own registers, and an
//! [`Image`] that starts at address 0. Never issues a request.
//!
//! Configuration (UDP ports 0x5001, 0x4001) shows this function: a type 0 header, vendor 3776h, device 8022h, class FF0000h; BAR0
//! 4 KiB (adapter registers), BAR2 4 KiB (MSI-X table and Pending Bit Array), BAR4 16 MiB at F000_0000h; Power Management, MSI-X
//! with 16 vectors, PCI Express, Advanced Error Reporting. Memory Space and Bus Master are enabled.
//!
//! Writes change the registers as the register definitions say. Only one bit has an effect beyond its register:
//! while Bus Master Enable is clear, DMA is refused, because it would never reach a root complex.

use super::backend::{Backend, Outbox, Received};
use super::egress::Back;
use super::registers::Registers;
use crate::completer::{Completer, CompleterCounters, CompleterMemory, Full, Image};
use crate::dropped::{DropReason, Drops};
use crate::wire::messaging::{MSIX_ENTRIES, MsixEntry, Question, Reply, Request};
use config::header::{self, command, type0};
use config::{Bar, BuildError, Builder, ConfigSpace, Identity, MsixLayout, PcieLayout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tlp::rules::Refusal;
use tlp::{Bdf, Body, MemoryOp, Mps, Rcb, RuleId, Span, Status, Time, Violation};

/// Address range of interrupt writes on x86.
const INTERRUPTS: u64 = 0xfee0_0000;
const INTERRUPTS_LEN: u64 = 1 << 20;
/// Start address of BAR4.
const BAR4: u32 = 0xf000_0000;

/// The function, shared by all threads of an adapter.
#[derive(Debug)]
pub struct Function {
    state: Mutex<MemoryState>,
    is_bus_master: AtomicBool,
    id: Bdf,
}

#[derive(Debug)]
struct MemoryState {
    config: ConfigSpace,
    registers: Registers,
}

impl Function {
    /// Creates a function with this requester ID and these adapter registers.
    ///
    /// # Errors
    /// Fails only if the `config` crate rejects the configuration space built here.
    pub fn new(registers: Registers) -> Result<Function, BuildError> {
        let identity = Identity {
            vendor: 0x3776,
            device: 0x8022,
            revision: 1,
            class: 0xff_00_00,
            subsystem_vendor: 0x3776,
            subsystem: 0x0001,
        };
        let mut config = Builder::type0(identity)
            .bar(0, Bar::memory32(4096))
            .bar(2, Bar::memory32(4096))
            .bar(4, Bar::memory64(16 << 20))
            .power_management()
            .pcie(PcieLayout::default())
            .msix(MsixLayout { vectors: MSIX_ENTRIES as u16, table: (2, 0), pending: (2, 0x800) })
            .advanced_error_reporting()
            .build()?;
        for (register_dw, value) in [
            (type0::BAR0, BAR4 + (16 << 20)),
            (type0::BAR0 + 2, BAR4 + (17 << 20)),
            (type0::BAR0 + 4, BAR4),
            (header::COMMAND_STATUS, command::MEMORY_SPACE | command::BUS_MASTER),
        ] {
            let _ = config.write(register_dw, 0xf, value);
        }
        let id = registers.requester;
        Ok(Function {
            is_bus_master: AtomicBool::new(config.bus_master_enable()),
            state: Mutex::new(MemoryState { config, registers }),
            id,
        })
    }

    /// Returns its requester and completer ID.
    pub const fn id(&self) -> Bdf {
        self.id
    }

    // Ignores that the lock is poisoned: no thread can panic in the middle of a change.
    fn with<T>(&self, does: impl FnOnce(&mut MemoryState) -> T) -> T {
        does(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

device::counters! {
    /// Counters of a memory backend, in addition to those of its completer.
    pub struct MemoryCounters {
        /// Writes to the interrupt range outside the memory.
        interrupts,
        /// Requests received while Bus Master Enable was clear: reads were answered with UR, writes were dropped.
        not_bus_master,
        /// Completions that the sockets rejected.
        lost_completions,
    }
}

/// Memory backend of an adapter. Each thread has its own backend. All threads share the [`Image`] and the [`Function`].
#[derive(Debug)]
pub struct MemoryBackend {
    image: Arc<Image>,
    function: Arc<Function>,
    completer: Completer,
    counters: MemoryCounters,
    drops: Drops,
}

impl MemoryBackend {
    /// Creates a backend that answers from `image`, in completions of up to `mps`, split at 64 B boundaries like
    /// those of a root complex.
    pub fn new(image: Arc<Image>, function: Arc<Function>, mps: Mps) -> MemoryBackend {
        let completer = Completer::new(function.id(), mps, Rcb::default());
        let (counters, drops) = (MemoryCounters::default(), Drops::default());
        MemoryBackend { image, function, completer, counters, drops }
    }

    /// Returns the completer for configuration.
    pub const fn completer_mut(&mut self) -> &mut Completer {
        &mut self.completer
    }

    /// Returns the counters of its completer.
    pub const fn completer_counters(&self) -> CompleterCounters {
        self.completer.counters
    }

    /// Returns the counters of the backend itself.
    pub const fn counters(&self) -> MemoryCounters {
        self.counters
    }

    /// Returns true if a write is an interrupt: a write to the interrupt range, outside the memory.
    fn is_interrupt(&self, span: Span) -> bool {
        let (address, bytes) = (span.first_byte(), u64::from(span.byte_count()));
        let inside = address >= INTERRUPTS && address - INTERRUPTS < INTERRUPTS_LEN;
        inside && self.image.check(address, bytes, true).is_err()
    }
}

impl Backend for MemoryBackend {
    fn reads_across_4k(&self) -> bool {
        true
    }

    fn refusals(&self) -> Vec<Refusal> {
        self.completer.refusals().to_vec()
    }

    fn refusal_kinds(&self) -> usize {
        self.completer.refusals().len()
    }

    fn drops(&self) -> Drops {
        self.drops
    }

    fn handle(&mut self, now: Time, tlp: &Received<'_>, out: &mut dyn Outbox) -> Result<(), Full> {
        self.completer.set_time(now);
        let mut back = Back { out, way: tlp.way, lost: 0 };
        if let Body::Memory(m) = &tlp.repr.body {
            if !self.function.is_bus_master.load(Ordering::Relaxed) {
                self.completer.refuse(tlp.repr, Status::UnsupportedRequest, &mut back)?;
                self.counters.not_bus_master += 1;
                self.completer.record(Violation::new(RuleId::BusMasterEnable, 0), tlp.head());
                return Ok(());
            }
            if m.op == MemoryOp::Write && self.is_interrupt(m.span) {
                self.counters.interrupts += 1;
                return Ok(());
            }
        }
        let done =
            self.completer.handle_across(tlp.repr, tlp.data, tlp.behind_bytes, &mut self.image, &mut back);
        self.counters.lost_completions += back.lost;
        for _ in 0..back.lost {
            self.drops.record_tlp(now, DropReason::LostCompletion, Some(tlp.way.peer), tlp.head());
        }
        done
    }

    fn message(&mut self, _: Time, question: Question) -> Option<Reply> {
        if question.function > 0 {
            return None;
        }
        Some(match question.request {
            Request::Bar4Start => {
                let bar = self.function.with(|state| state.config.bar(4));
                Reply::Bar4Start(bar.map_or(0, |bar| bar.address))
            }
            Request::DeviceId => Reply::DeviceId(self.function.id()),
            Request::MsixTable => {
                let entry = |n| MsixEntry { address: INTERRUPTS, data: n as u32 };
                Reply::MsixTable(std::array::from_fn(entry))
            }
        })
    }

    fn config_read(&mut self, _: Time, register_dw: u16) -> u32 {
        self.function.with(|state| state.config.read(register_dw))
    }

    fn config_write(&mut self, _: Time, register_dw: u16, byte_enables: u8, value: u32) {
        let enabled = self.function.with(|state| {
            // No other part of the function depends on this write.
            let _ = state.config.write(register_dw, byte_enables, value);
            state.config.bus_master_enable()
        });
        self.function.is_bus_master.store(enabled, Ordering::Relaxed);
    }

    fn register_read(&mut self, register_dw: u8) -> u32 {
        self.function.with(|state| state.registers.read(register_dw))
    }

    fn register_write(&mut self, register_dw: u8, value: u32) {
        self.function.with(|state| state.registers.write(register_dw, value));
    }
}
