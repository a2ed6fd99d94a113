// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The counters of an endpoint. No reset clears them, not even a reset of the device.

device::counters! {
    /// The counters of an endpoint, over all its functions and since the start of the run.
    pub struct Counters {
        /// Requests handed to a device.
        requests,
        /// Configuration requests answered.
        config_requests,
        /// DMA reads begun.
        dma_reads,
        /// DMA reads whose bytes arrived.
        dma_reads_done,
        /// DMA reads that ended in an error of any kind.
        dma_reads_failed,
        /// DMA AtomicOps begun. Their ends are counted together with the ends of reads.
        dma_atomics,
        /// DMA writes begun.
        dma_writes,
        /// MSI and MSI-X writes sent.
        interrupts,
        /// Assert_INTx and Deassert_INTx messages sent.
        intx_messages,
        /// PM_PME messages sent.
        pme_messages,
        /// Completions matched to a read of this endpoint.
        completions,

        /// Unsupported Requests answered with UR (`PCIe 5.0 §2.3.1`).
        unsupported_requests,
        /// Posted Unsupported Requests, including messages that no function takes: dropped and logged (`§2.3.1`).
        unsupported_posted,
        /// Requests that the device, or the endpoint in its place, answered with CA.
        completer_aborts,
        /// Malformed TLPs: dropped and logged (`§2.3`).
        malformed,
        /// Poisoned requests: dropped and logged (`§2.7.2`).
        poisoned_requests,
        /// Poisoned completions: the read fails.
        poisoned_completions,
        /// Completions that match no outstanding request: dropped and logged (`§2.3.2`).
        unexpected_completions,
        /// Unexpected completions whose request had timed out.
        late_completions,
        /// Completions of a read that had failed, or was voided by a reset: dropped, as expected.
        swallowed_completions,
        /// Requests whose completion did not arrive in time (`§2.8`).
        completion_timeouts,
        /// Reads completed with UR.
        received_unsupported,
        /// Reads completed with CA.
        received_abort,
        /// Posted requests for which the endpoint had no token left: dropped. Non-posted ones are answered with CA.
        request_overflows,
        /// Deferrable writes that the device answered with a request to retry.
        deferred_writes,
        /// TLPs with a wrong ECRC: dropped and logged (`§2.7.1`).
        ecrc_errors,
        /// Messages that the endpoint itself consumed, such as Set_Slot_Power_Limit.
        messages_consumed,
        /// Messages that no function takes and that are not errors: Vendor_Defined Type 1, Ignored Messages
        /// (`§2.2.8.6`, `§2.2.8.7`).
        messages_ignored,
        /// ERR_COR, ERR_NONFATAL and ERR_FATAL messages sent.
        error_messages,
        /// Error messages lost because the queue was full.
        error_messages_lost,

        /// Reads, writes and interrupts refused because Bus Master Enable is clear.
        blocked_by_bus_master,
        /// Interrupts raised while neither MSI nor MSI-X is enabled, and INTx levels of a function without Interrupt Pin.
        interrupts_not_enabled,
        /// Interrupts beyond the granted vectors. An MSI uses a granted vector instead (modulo their number), and an
        /// MSI-X is dropped.
        interrupts_out_of_range,
        /// Answers and takes with a token that is unknown, answered or voided by a reset.
        stale_tokens,
        /// Answers of a wrong length: completed with CA.
        bad_answers,
        /// Outputs that no endpoint can send: of a class other than the polled one, a message of odd length, bytes beyond 2^64.
        bad_outputs,
        /// Wrong TLPs of a design that were sent unchanged.
        wrong_outputs,
        /// Function Level Resets.
        function_level_resets,
        /// Resets on the way from D3hot to D0.
        power_state_resets,
        /// Virtual functions enabled.
        virtual_functions_enabled,
        /// Times the link went down.
        link_downs,
    }
}

/// Names of counters that do not count errors.
const NO_ERRORS: [&str; 16] = [
    "requests",
    "config_requests",
    "dma_reads",
    "dma_reads_done",
    "dma_atomics",
    "dma_writes",
    "interrupts",
    "intx_messages",
    "pme_messages",
    "completions",
    "deferred_writes",
    "messages_consumed",
    "function_level_resets",
    "power_state_resets",
    "virtual_functions_enabled",
    "swallowed_completions",
];

/// Error counters of refused TLPs. Only [`Shared::refused`](super::Shared::refused) increments them, and names the rule.
const REFUSALS: [&str; 13] = [
    "unsupported_requests",
    "unsupported_posted",
    "completer_aborts",
    "malformed",
    "poisoned_requests",
    "poisoned_completions",
    "unexpected_completions",
    "completion_timeouts",
    "received_unsupported",
    "received_abort",
    "request_overflows",
    "ecrc_errors",
    "blocked_by_bus_master",
];

impl Counters {
    /// Returns the number of refused TLPs. Each has a [rule](crate::TlpPort::refusals).
    pub fn refused(&self) -> u64 {
        self.rows().filter(|(name, _)| REFUSALS.contains(name)).map(|(_, n)| n).sum()
    }

    /// Returns the names and values of counters that are not zero.
    pub(crate) fn counts(&self) -> Vec<(&'static str, u64)> {
        self.rows().filter(|(_, n)| *n > 0).collect()
    }

    /// Returns the names and values of error counters that are not zero.
    pub fn errors(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        self.rows().filter(|(name, n)| *n > 0 && !NO_ERRORS.contains(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_of_harmless_counters_has_only_existing_names() {
        let names: Vec<&str> = Counters::default().rows().map(|(name, _)| name).collect();
        assert!(NO_ERRORS.iter().all(|name| names.contains(name)));
        let counted = Counters { requests: 1, malformed: 2, ..Counters::default() };
        assert_eq!(counted.errors().collect::<Vec<_>>(), [("malformed", 2)]);
    }
}
