// SPDX-License-Identifier: Apache-2.0 OR MIT
// Tracks the progress of writes. Writes on the RQ stream have sequence numbers, which the block returns when no
// completion can pass them any more (PG156, PG213: pcie_rq_seq_num). To wait for all writes requested so far, take
// `asked` as a ticket, and wait until that number has `passed`.
// Handshake: `may_send` is clear while all numbers are in use. If numbers do not return (because the block dropped
// their requests), this module stops waiting for them after WAIT_CYCLES without a returned number. No request is
// delayed for a longer time.
module dma_engine_order #(
    parameter int NUMBER = 4,  // bits of a sequence number
    parameter int WAIT_CYCLES = 65536
) (
    input logic clk,
    input logic rst,
    input logic ask,   // a write was queued
    input logic send,  // the block accepted one
    output logic may_send,
    output logic [NUMBER-1:0] number,  // of the next request
    input logic [1:0] back,
    input logic [2*NUMBER-1:0] back_numbers,
    output logic [7:0] asked,
    output logic [7:0] passed
);
    localparam int WAIT = $clog2(WAIT_CYCLES);
    logic [7:0] sent, after;
    logic [NUMBER-1:0] last;
    logic [WAIT:0] waited;
    logic gives_up;

    // Numbers return in order: each number also covers all earlier numbers.
    function automatic logic [7:0] up_to(input logic [7:0] from, input logic [NUMBER-1:0] to);
        up_to = {from[7:NUMBER] + (8 - NUMBER)'(to < from[NUMBER-1:0]), to};
    endfunction

    // Two numbers in one cycle amount to the second one.
    assign last = back[1] ? back_numbers[2*NUMBER-1:NUMBER] : back_numbers[NUMBER-1:0];
    assign after = back != '0 ? up_to(passed, last) : passed;
    assign gives_up = waited[WAIT];
    assign number = NUMBER'(sent + 8'd1);
    assign may_send = 8'(sent - passed) < 8'(2 ** NUMBER - 2);

    always_ff @(posedge clk)
        if (rst) begin
            {asked, sent, passed} <= '0;
            waited <= '0;
        end else begin
            asked <= asked + 8'(ask);
            sent <= sent + 8'(send);
            passed <= gives_up ? sent : after;
            waited <= back != '0 || passed == sent || gives_up ? '0 : waited + 1'b1;
        end

`ifdef FORMAL
`include "order_properties.svh"
`endif
endmodule
