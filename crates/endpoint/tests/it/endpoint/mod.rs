// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The endpoint between TLPs and transactions, and the properties of the seam that it guarantees.

mod channels;
mod errors;
mod hard_block;
mod harness;
mod held;
mod inbound;
mod interrupts;
mod kinds;
mod many;
mod outbound;
mod own_registers;
mod power;
mod prefixes;
mod properties;
mod raw;
mod reads;
mod registers;
mod reset;
mod sizes;
mod tag_pool;
mod virtual_functions;
