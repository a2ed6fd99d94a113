// SPDX-License-Identifier: Apache-2.0 OR MIT
// A queue: what is pushed comes out in the same order.
// Handshake: `dout` is the first while `valid`; `pop` takes it. `room` says how many more there is room for; who pushes looks at it before:
// a push into a full queue, or a pop from an empty one, is never done by its users, and does nothing.
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
