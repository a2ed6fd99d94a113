// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Long reads and writes that can be interrupted, and access to physical memory for `introspect`.

use super::{Client, ClientError, Clock, Transfer};
use crate::carrier::Carrier;
use crate::requester::Fault;
use introspect::{Answer, PhysicalMemory};
use thiserror::Error;
use tlp::Duration;

/// Bytes of one transfer. An interrupted read returns a multiple of this size.
const TRANSFER_BYTES: usize = 64 << 10;
/// Timeout for the acknowledgement of the last writes.
const SETTLE: Duration = Duration::from_ms(5000);

/// A step of [`Client::write_all`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteStep {
    /// The TLPs are being sent.
    Send,
    /// The peer's acknowledgement is awaited.
    Acknowledge,
    /// All writes are acknowledged. If requested, the bytes are read back.
    ReadBack,
}

/// Reason why a write failed.
#[derive(Debug, Error)]
pub enum WriteError {
    /// The client failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The byte at this address should have the third value, but was read back as the second value.
    #[error(
        "byte {0:#x} is {1:#04x} after {2:#04x} was written: writes are refused there, were lost, or another writer changed it"
    )]
    Differs(u64, u8, u8),
}

impl<C: Carrier, K: Clock> Client<C, K> {
    /// Reads from `address` on. Returns the number of bytes that were read without a gap: fewer than `data.len()` only if the caller's
    /// flag was set ([`stop_with`](Client::stop_with)).
    ///
    /// # Errors
    /// As [`read`](Client::read), except [`ClientError::Stopped`].
    pub fn read_until_stopped(&mut self, address: u64, data: &mut [u8]) -> Result<usize, ClientError> {
        let len = data.len();
        let parts = (0..).step_by(TRANSFER_BYTES).zip(data.chunks_mut(TRANSFER_BYTES));
        let mut transfers: Vec<Transfer<'_>> =
            parts.map(|(at, data)| Transfer::Read { address: address + at, data }).collect();
        let (mut done, mut fault) = (vec![false; transfers.len()], None);
        let result = self.transfer(&mut transfers, |place, ended| match ended {
            Ok(_) => done[place] = true,
            Err(error) => fault = fault.or(Some(error)),
        });
        match (result, fault) {
            (Err(ClientError::Stopped), _) => {
                Ok(len.min(done.iter().take_while(|done| **done).count() * TRANSFER_BYTES))
            }
            (Err(error), _) => Err(error),
            (Ok(()), Some(fault)) => Err(fault.into()),
            (Ok(()), None) => Ok(len),
        }
    }

    /// Writes `data` from `address` on, and waits for the acknowledgement of a session. With `verify`, reads the
    /// bytes back and compares them. Writes the current step to `step`.
    ///
    /// # Errors
    /// The client fails, or the bytes differ.
    pub fn write_all(
        &mut self,
        address: u64,
        data: &[u8],
        verify: bool,
        step: &mut WriteStep,
    ) -> Result<(), WriteError> {
        *step = WriteStep::Send;
        self.write(address, data)?;
        *step = WriteStep::Acknowledge;
        self.settle(SETTLE)?;
        *step = WriteStep::ReadBack;
        if !verify {
            return Ok(());
        }
        // Over ports, reads may pass writes. This read may not, because it uses the first tag, as all writes do.
        self.read(address, &mut [0])?;
        let mut found = vec![0; data.len()];
        self.read(address, &mut found)?;
        match data.iter().zip(&found).position(|(written, found)| written != found) {
            Some(at) => Err(WriteError::Differs(address + at as u64, found[at], data[at])),
            None => Ok(()),
        }
    }
}

impl<C: Carrier, K: Clock> PhysicalMemory for Client<C, K> {
    type Error = ClientError;

    fn read(&mut self, address: u64, data: &mut [u8]) -> Result<Answer, ClientError> {
        match Client::read(self, address, data) {
            Ok(()) => Ok(Answer::Read),
            Err(ClientError::Fault(Fault::UnsupportedRequest(_) | Fault::CompleterAbort(_))) => {
                Ok(Answer::Refused)
            }
            Err(error) => Err(error),
        }
    }
}
