// SPDX-License-Identifier: Apache-2.0 OR MIT
// Decides when a bus has stopped to answer: it owes something, and no handshake has occurred for TIMEOUT cycles. The state ends when
// nothing is owed.
module pcie_tilelink_timer #(
    parameter int TIMEOUT = 100000  // cycles; 0: never
) (
    input logic clk,
    input logic rst,
    input logic owing,
    input logic progress,
    output logic stalled,
    output logic begins     // pulse
);
    if (TIMEOUT < 0) $error("pcie_tilelink_timer: TIMEOUT is %0d; expected 0 or more", TIMEOUT);
    if (TIMEOUT == 0) begin : never
        // verilator lint_off UNUSEDSIGNAL
        logic unused;
        // verilator lint_on UNUSEDSIGNAL
        assign unused = &{clk, rst, owing, progress};
        assign stalled = 1'b0;
        assign begins = 1'b0;
    end else begin : counted
        localparam int WIDTH = $clog2(TIMEOUT + 1);
        logic [WIDTH-1:0] cycles;
        assign begins = owing && !progress && !stalled && cycles == WIDTH'(TIMEOUT);
        always_ff @(posedge clk)
            if (rst) begin
                stalled <= 1'b0;
                cycles <= '0;
            end else begin
                stalled <= owing && (stalled || begins);
                cycles <= owing && !progress && !begins ? cycles + WIDTH'(!stalled) : '0;
            end
    end
endmodule
