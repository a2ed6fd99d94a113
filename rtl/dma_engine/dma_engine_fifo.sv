// SPDX-License-Identifier: Apache-2.0 OR MIT
// A queue: words come out in the order in which they were pushed.
// Handshake: `dout` is the first word while `valid`; `pop` removes it. `room` is the number of free places. Users check `room` before a
// push and `valid` before a pop; otherwise the push or pop has no effect.
module dma_engine_fifo #(
    parameter int WIDTH = 8,
    parameter int DEPTH = 16,  // a power of two
    localparam int ADDRESS = $clog2(DEPTH)
) (
    input logic clk,
    input logic rst,
    input logic push,
    input logic [WIDTH-1:0] din,
    input logic pop,
    output logic [WIDTH-1:0] dout,
    output logic valid,
    output logic [ADDRESS:0] room
);
    logic [ADDRESS:0] tail, head;
    logic pushes, pops;

    assign room = (ADDRESS + 1)'(DEPTH) - (tail - head);
    assign valid = tail != head;
    assign pushes = push && room != '0;
    assign pops = pop && valid;

    dma_engine_ram #(
        .WIDTH(WIDTH),
        .DEPTH(DEPTH)
    ) store (
        .clk,
        .write(pushes),
        .write_address(tail[ADDRESS-1:0]),
        .write_data(din),
        .read_address(head[ADDRESS-1:0]),
        .read_data(dout)
    );

    always_ff @(posedge clk)
        if (rst) {tail, head} <= '0;
        else begin
            tail <= tail + (ADDRESS + 1)'(pushes);
            head <= head + (ADDRESS + 1)'(pops);
        end

`ifdef FORMAL
`include "fifo_properties.svh"
`endif
endmodule
