// SPDX-License-Identifier: Apache-2.0 OR MIT
// The queue of requests. With HOLD_READS, writes go on while the block has no credit for a read: reads and writes have a queue each, in one
// memory. Both queues keep their order. A read goes before the writes if the block has a credit for it.
// `credits` is the block's pcie_tfc_nph_av, whose maximum also means more. It does not include the reads that the block accepted in the two
// cycles before (PG156, PG213: "Avoiding Head-of-Line Blocking for Posted Requests"), so this module counts them. A memory read takes no data
// credit, so pcie_tfc_npd_av does not matter.
// Handshake: `dout` is the next request while `valid`, and stays until `pop`. Users check `room` before they push, with HOLD_READS only for
// a write, and `reads` for a read.
module dma_engine_requests #(
    parameter int HOLD_READS = 0,
    parameter int WIDTH = 8,
    parameter int DEPTH = 16,  // places of a queue: a power of two
    localparam int ADDRESS = $clog2(DEPTH)
) (
    input logic clk,
    input logic rst,
    input logic push,
    input logic push_read,           // with `push`: it is a read
    input logic [WIDTH-1:0] din,
    input logic pop,
    output logic [WIDTH-1:0] dout,
    output logic valid,
    output logic [ADDRESS:0] room,   // free places; with HOLD_READS: for writes
    output logic [ADDRESS:0] reads,  // queued reads, only with HOLD_READS
    input logic [3:0] credits,
    input logic read_accepted        // the block accepted a read
);
    if (HOLD_READS == 0) begin : in_order
        dma_engine_fifo #(
            .WIDTH(WIDTH),
            .DEPTH(DEPTH)
        ) queue (
            .clk,
            .rst,
            .push,
            .din,
            .pop,
            .dout,
            .valid,
            .room
        );
        assign reads = '0;
        /* verilator lint_off UNUSEDSIGNAL */
        logic unused;
        assign unused = ^{push_read, credits, read_accepted};
        /* verilator lint_on UNUSEDSIGNAL */
    end else begin : by_kind
        logic [ADDRESS:0] read_tail, read_head, write_tail, write_head;
        logic may_read;        // there is a credit for one more read, until a read uses it
        logic is_read;         // kind of `dout`
        logic keeps_write;     // `dout` was a write and was not popped
        logic [3:0] unseen;    // popped reads that `credits` does not include
        logic [1:0] accepted;  // `read_accepted` in the cycle before, and in the one before that

        assign reads = read_tail - read_head;
        assign room = (ADDRESS + 1)'(DEPTH) - (write_tail - write_head);
        assign is_read = may_read && reads != '0 && !keeps_write;
        assign valid = is_read || write_tail != write_head;

        dma_engine_ram #(
            .WIDTH(WIDTH),
            .DEPTH(2 * DEPTH)
        ) store (
            .clk,
            .write(push),
            .write_address({push_read, push_read ? read_tail[ADDRESS-1:0] : write_tail[ADDRESS-1:0]}),
            .write_data(din),
            .read_address({is_read, is_read ? read_head[ADDRESS-1:0] : write_head[ADDRESS-1:0]}),
            .read_data(dout)
        );

        always_ff @(posedge clk)
            if (rst) begin
                {read_tail, read_head, write_tail, write_head} <= '0;
                {may_read, keeps_write} <= '0;
                {unseen, accepted} <= '0;
            end else begin
                read_tail <= read_tail + (ADDRESS + 1)'(push && push_read);
                write_tail <= write_tail + (ADDRESS + 1)'(push && !push_read);
                read_head <= read_head + (ADDRESS + 1)'(pop && is_read);
                write_head <= write_head + (ADDRESS + 1)'(pop && !is_read);
                keeps_write <= valid && !is_read && !pop;
                may_read <= !(pop && is_read) && (may_read || credits > unseen);
                accepted <= {accepted[0], read_accepted};
                unseen <= unseen + 4'(pop && is_read) - 4'(accepted[1]);
            end

`ifdef FORMAL
`include "requests_properties.svh"
`endif
    end
endmodule
