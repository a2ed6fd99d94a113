// SPDX-License-Identifier: Apache-2.0 OR MIT
// Names that the modules of the endpoint share. The modules that it has in common with the root complex use the names of pcie_root_complex.svh,
// which has the other bits of `events`.
    `include "pcie_root_complex.svh"
// verilator lint_off UNUSEDPARAM
    localparam int EVENT_BUS_RESET = 9;        // request of the host ended by a reset of the bus
    localparam int EVENT_INTERRUPT_LOST = 10;  // a line rose while no message can be sent
    localparam int EVENT_FUNCTION_RESET = 21;  // Function Level Reset, or the link went down
    // EVENT_DECODE: DMA while the function may not send requests. EVENT_MSI: MSI or MSI-X sent. EVENT_MESSAGE: error message sent.
// verilator lint_on UNUSEDPARAM
