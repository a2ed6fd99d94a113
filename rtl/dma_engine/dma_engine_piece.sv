// SPDX-License-Identifier: Apache-2.0 OR MIT
// Computes the next piece of a transfer, and the rest after it. A piece ends at the next multiple of `most` + 1, a power
// of two, so that it does not cross 4 KiB and does not exceed the maximum request size. Combinational.
module dma_engine_piece #(
    parameter int ROW = 9,
    parameter int MOST = 9, // bits of the maximum request size less one
    parameter int BYTE = 5  // bits of the byte index in a row
) (
    input logic [63:0] address,
    input logic [40:0] left,
    input logic [BYTE-1:0] from,   // byte position of the stream in its row
    input logic [MOST-1:0] most,   // maximum request size less one: a mask
    input logic all,               // `bytes` is all of `left`
    output logic [40:0] bytes,
    output logic is_last,
    output logic [63:0] next_address,
    output logic [40:0] next_left,
    output logic [BYTE-3:0] lane,  // its first lane in its first row of the buffer
    output logic [ROW:0] rows      // number of rows in the buffer
);
    logic [MOST-1:0] room;  // bytes up to the boundary, less one
    logic [MOST:0] to_boundary;
    logic [BYTE-1:0] begins;
    logic is_beyond;

    assign room = ~address[MOST-1:0] & most;
    assign to_boundary = {1'b0, room} + 1'b1;
    // `next_*` is unused after the last piece. Adding ~room subtracts `to_boundary`.
    assign {is_beyond, next_left} = {1'b0, left} + {{42 - MOST{1'b1}}, ~room};
    assign is_last = is_beyond || next_left == '0;
    assign bytes = is_last || all ? left : 41'(to_boundary);
    assign next_address = (address | 64'(most)) + 64'd1;
    // Double-words stay whole, and are placed so that a shift by 0 to 3 bytes yields the stream.
    assign begins = from - BYTE'(address[1:0]);
    assign lane = begins[BYTE-1:2];
    assign rows = (ROW + 1)'((14'(begins) + 14'(address[1:0]) + 14'(bytes[12:0]) + 14'(2 ** BYTE - 1)) >> BYTE);
endmodule
