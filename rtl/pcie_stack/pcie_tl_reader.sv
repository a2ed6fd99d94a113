// SPDX-License-Identifier: Apache-2.0 OR MIT
// A memory of TLPs in rows, and the stream of the TLPs that leave it, a beat per cycle.
// Handshake: a TLP is taken with pick_valid && pick_ready. The stream is valid/ready; a beat stays until it is taken. While `clear` is set, the
// memory is empty: a TLP whose begin was taken ends with a beat that has eop and `cut`.
module pcie_tl_reader #(
    parameter int DATA_WIDTH = 256,
    parameter int QUEUES = 1,
    parameter int ROWS = 128,  // of each queue; a power of two
    parameter int NOTE = 8,
    parameter int BLOCK = 1,
    localparam int LANE = DATA_WIDTH > 32 ? $clog2(DATA_WIDTH / 32) : 1,
    localparam int ROW = $clog2(ROWS),
    localparam int QUEUE = QUEUES > 1 ? $clog2(QUEUES) : 1
) (
    input logic clk,
    input logic rst,
    input logic clear,

    input logic write,
    input logic [QUEUE-1:0] write_queue,
    input logic [ROW-1:0] write_row,
    input logic [LANE-1:0] write_end,
    input logic [DATA_WIDTH-1:0] write_data,

    input logic pick_valid,
    output logic pick_ready,
    input logic [QUEUE-1:0] pick_queue,
    input logic [ROW-1:0] pick_start,
    input logic [ROW-1:0] pick_end,
    input logic [NOTE-1:0] pick_note,

    output logic out_valid,
    output logic out_sop,
    output logic out_eop,
    output logic out_cut,
    output logic [LANE-1:0] out_end,
    output logic [DATA_WIDTH-1:0] out_data,
    output logic [QUEUE-1:0] out_queue,
    output logic [NOTE-1:0] out_note,
    input logic out_ready
);
    logic busy, first, last, advance, begun;
    logic [QUEUE-1:0] queue;
    logic [ROW-1:0] row, end_row;
    logic [NOTE-1:0] note;
    assign advance = !out_valid || out_ready;
    assign last = row == end_row;
    assign pick_ready = !busy || (advance && last);

    logic begun_next;
    assign begun_next = out_valid && out_ready ? !out_eop : begun;
    always_ff @(posedge clk)
        if (rst) begin
            busy <= 1'b0;
            out_valid <= 1'b0;
            begun <= 1'b0;
        end else begin
            begun <= begun_next;
            if (clear) begin
                busy <= 1'b0;
                out_valid <= begun_next;
            end else begin
                if (pick_ready) busy <= pick_valid;
                if (advance) out_valid <= busy;
            end
        end
    always_ff @(posedge clk) begin
        if (pick_ready) begin
            queue <= pick_queue;
            row <= pick_start;
            end_row <= pick_end;
            note <= pick_note;
            first <= 1'b1;
        end else if (advance) begin
            row <= row + 1'b1;
            first <= 1'b0;
        end
        if (clear) begin
            out_sop <= 1'b0;
            out_eop <= 1'b1;
            out_cut <= 1'b1;
        end else if (advance) begin
            out_sop <= first;
            out_eop <= last;
            out_cut <= 1'b0;
            out_queue <= queue;
            out_note <= note;
        end
    end

    localparam int RAM_ROW = QUEUES > 1 ? QUEUE + ROW : ROW;
    logic [RAM_ROW-1:0] write_address, read_address;
    if (QUEUES > 1) begin : several
        assign write_address = {write_queue, write_row};
        assign read_address = {queue, row};
    end else begin : single
        logic unused;
        assign unused = &write_queue;
        assign write_address = write_row;
        assign read_address = row;
    end
    pcie_ram #(
        .WIDTH(DATA_WIDTH + LANE),
        .DEPTH(2 ** RAM_ROW),
        .BLOCK(BLOCK)
    ) memory (
        .clk(clk),
        .write(write),
        .write_address(write_address),
        .write_data({write_end, write_data}),
        .read(busy && advance),
        .read_address(read_address),
        .read_data({out_end, out_data})
    );
endmodule
