// SPDX-License-Identifier: Apache-2.0 OR MIT
// Knows how far writes have come: those of the RQ stream have sequence numbers, which the block gives back where no completion can pass
// them any more (PG156, PG213: pcie_rq_seq_num). Whoever wants to be behind all that was asked for by now takes `asked` as its ticket, and
// waits until that has `passed`.
// Handshake: `may_send` is clear while as many are under way as there are numbers. Numbers that do not come back (the block dropped
// their requests) are given up after WAIT_CYCLES without any. It never holds back a request for longer.
module dma_engine_order #(
    parameter int NUMBER = 4,  // bits of a sequence number
    parameter int WAIT_CYCLES = 65536
) (
    input logic clk,
    input logic rst,
    input logic ask,   // a write was put into the queue
    input logic send,  // one was taken by the block
    output logic may_send,
    output logic [NUMBER-1:0] number,  // of the request that is sent next
    input logic [1:0] back,
    input logic [2*NUMBER-1:0] back_numbers,
    output logic [7:0] asked,
    output logic [7:0] passed
);
    localparam int WAIT = $clog2(WAIT_CYCLES);
    logic [7:0] sent, after_first, after_second;
    logic [WAIT:0] waited;
    logic gives_up;

    // Numbers come back in their order: one says the same of all before it.
    function automatic logic [7:0] up_to(input logic [7:0] from, input logic [NUMBER-1:0] to);
        up_to = from + 8'(NUMBER'(to - from[NUMBER-1:0]));
    endfunction

    assign after_first = back[0] ? up_to(passed, back_numbers[NUMBER-1:0]) : passed;
    assign after_second = back[1] ? up_to(after_first, back_numbers[2*NUMBER-1:NUMBER]) : after_first;
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
            passed <= gives_up ? sent : after_second;
            waited <= back != '0 || passed == sent || gives_up ? '0 : waited + 1'b1;
        end

`ifdef FORMAL
`include "order_properties.svh"
`endif
endmodule
