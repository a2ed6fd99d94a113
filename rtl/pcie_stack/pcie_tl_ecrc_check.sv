// SPDX-License-Identifier: Apache-2.0 OR MIT
// Checks the ECRC of TLPs that the data link layer hands over (PCIe 6.0 §2.7.1). It only watches: the TLP goes its way, with its digest.
// Handshake: none. `error` is a pulse after the last beat of a good TLP with a wrong digest; `header` is then that TLP's, byte 0 in bits 7:0.
module pcie_tl_ecrc_check #(
    parameter int DATA_WIDTH = 256,
    localparam int LANES = DATA_WIDTH / 32,
    localparam int LANE = LANES > 1 ? $clog2(LANES) : 1
) (
    input logic clk,
    input logic rst,
    input logic enable,
    input logic tlp_valid,
    input logic tlp_sop,
    input logic tlp_eop,
    input logic tlp_good,
    input logic [LANE-1:0] tlp_end,
    input logic [DATA_WIDTH-1:0] tlp_data,
    output logic error,
    output logic [127:0] header
);
    `include "pcie_crc.svh"
    logic [DATA_WIDTH-1:0] counted;
    always_comb begin
        for (int n = 0; n < LANES; n++) counted[32*n+:32] = tlp_eop && LANE'(n) > tlp_end ? 32'd0 : tlp_data[32*n+:32];
        if (tlp_sop) begin
            counted[0] = 1'b1;
            counted[22] = 1'b1;
        end
    end
    logic [31:0] state;
    pcie_dll_lcrc #(
        .DATA_WIDTH(DATA_WIDTH),
        .SKIPPED(0)
    ) crc (
        .clk(clk),
        .valid(tlp_valid),
        .first(tlp_sop),
        .data(counted),
        .state(state)
    );

    logic has_digest, judged;
    logic [LANE-1:0] last;
    always_ff @(posedge clk)
        if (rst) judged <= 1'b0;
        else judged <= tlp_valid && tlp_eop && tlp_good && enable && (tlp_sop ? tlp_data[23] : has_digest);
    always_ff @(posedge clk)
        if (tlp_valid) begin
            last <= tlp_end;
            if (tlp_sop) has_digest <= tlp_data[23];
        end

    if (DATA_WIDTH >= 128) begin : wide
        always_ff @(posedge clk) if (tlp_valid && tlp_sop) header <= tlp_data[127:0];
    end else begin : narrow
        logic second;
        always_ff @(posedge clk)
            if (tlp_valid) begin
                second <= tlp_sop;
                if (tlp_sop) header[63:0] <= tlp_data[63:0];
                else if (second) header[127:64] <= tlp_data[63:0];
            end
    end

    // After a right digest the register has a fixed value, changed by the zeros after the end.
    localparam logic [31:0] RIGHT = lcrc_shift(32'hffff_ffff, 32, 1'b0);
    logic [LANES-1:0] right;
    for (genvar n = 0; n < LANES; n++) begin : residues
        localparam logic [31:0] ZEROS_AFTER_RIGHT = lcrc_shift(RIGHT, 32 * (LANES - 1 - n), 1'b0);
        assign right[n] = last == LANE'(n) && state == ZEROS_AFTER_RIGHT;
    end
    assign error = judged && right == '0;
endmodule
