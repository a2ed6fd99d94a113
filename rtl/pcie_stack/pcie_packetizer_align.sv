// SPDX-License-Identifier: Apache-2.0 OR MIT
// Moves the data of a packet to other lanes, at a beat per cycle: from TLPs to words of the bus, and back.
// Handshake: `command_valid` with its fields stays until `command_ready`, which comes with the packet's first step. An input beat is taken by
// `in_take`. Outputs are registered and stay until out_ready. `step` tells the user that the outputs are loaded in this cycle.
module pcie_packetizer_align #(
    parameter int LANES = 8,
    parameter int COUNT = 8,    // bits of numbers of beats
    parameter int CONTEXT = 8,  // bits that the user keeps with a packet
    localparam int LANE = $clog2(LANES)
) (
    input logic clk,
    input logic rst,
    input logic cancel,  // forget the packet; the output stays

    input logic command_valid,
    output logic command_ready,
    input logic [LANE-1:0] command_shift,   // lane out minus lane in
    input logic command_skip,               // lane out is less than lane in: the first step makes no output
    input logic [COUNT-1:0] command_in,     // beats in
    input logic [COUNT-1:0] command_out,    // beats out, at least 1
    input logic [CONTEXT-1:0] command_context,

    input logic in_valid,
    output logic in_take,
    input logic [32*LANES-1:0] in_data,

    output logic step,
    output logic step_first,
    output logic step_last,
    output logic [CONTEXT-1:0] step_context,
    output logic out_valid,
    input logic out_ready,
    output logic [32*LANES-1:0] out_data
);
    logic busy, skip, needs, goes;
    logic [LANE-1:0] shift, kept_shift;
    logic kept_skip;
    logic [COUNT-1:0] in_left, out_left, kept_in, kept_out;
    logic [CONTEXT-1:0] kept_context;
    logic first, kept_first;  // no output has been made

    assign shift = busy ? kept_shift : command_shift;
    assign skip = busy ? kept_skip : command_skip;
    assign in_left = busy ? kept_in : command_in;
    assign out_left = busy ? kept_out : command_out;
    assign step_context = busy ? kept_context : command_context;
    assign first = busy ? kept_first : 1'b1;

    assign needs = in_left != '0;
    assign goes = (busy || command_valid) && !cancel && (in_valid || !needs) && (!out_valid || out_ready);
    assign in_take = goes && needs;
    assign command_ready = goes && !busy;
    assign step = goes && !skip;
    assign step_first = first;
    assign step_last = out_left == COUNT'(1);

    logic [32*LANES-1:0] rotated, previous, joined;
    for (genvar bit_of = 0; bit_of < LANE; bit_of++) begin : stages
        localparam int BY = 32 * 2 ** bit_of;
        logic [32*LANES-1:0] unturned, turned;
        if (bit_of == 0) assign unturned = in_data;
        else assign unturned = stages[bit_of-1].turned;
        assign turned = shift[bit_of] ? {unturned[32*LANES-BY-1:0], unturned[32*LANES-1:32*LANES-BY]} : unturned;
    end
    assign rotated = stages[LANE-1].turned;
    always_comb
        for (int n = 0; n < LANES; n++)
            joined[32*n+:32] = LANE'(n) < shift ? (busy ? previous[32*n+:32] : 32'd0) : needs ? rotated[32*n+:32] : 32'd0;

    always_ff @(posedge clk)
        if (rst) begin
            busy <= 1'b0;
            out_valid <= 1'b0;
        end else begin
            if (cancel) busy <= 1'b0;
            else if (goes) busy <= skip || !step_last;
            if (step) out_valid <= 1'b1;
            else if (out_ready) out_valid <= 1'b0;
        end
    always_ff @(posedge clk)
        if (goes) begin
            kept_shift <= shift;
            kept_skip <= 1'b0;
            kept_in <= in_left - COUNT'(needs);
            kept_out <= out_left - COUNT'(!skip);
            kept_context <= step_context;
            kept_first <= first && skip;
            previous <= rotated;
            if (step) out_data <= joined;
        end
endmodule
