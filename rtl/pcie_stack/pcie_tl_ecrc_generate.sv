// SPDX-License-Identifier: Apache-2.0 OR MIT
// Gives TLPs an ECRC on their way to the data link layer (PCIe 6.0 §2.7.1): sets TD and appends the digest. A TLP that has a digest keeps it.
// Handshake: valid/ready streams of whole TLPs. A TLP leaves two cycles after it came, without a pause that it did not have. While `clear` is set, all
// beats are taken and dropped, and a TLP that has begun to leave ends with a nullified beat.
//
// A digest that does not fit into the last beat takes one more beat. As in pcie_dll_framer, the last beat is filled with zeros and their effect on
// the register is taken back.
module pcie_tl_ecrc_generate #(
    parameter int DATA_WIDTH = 256,
    localparam int LANES = DATA_WIDTH / 32,
    localparam int LANE = LANES > 1 ? $clog2(LANES) : 1
) (
    input logic clk,
    input logic rst,
    input logic clear,  // the link is down
    input logic enable,

    input logic in_valid,
    input logic in_sop,
    input logic in_eop,
    input logic in_nullify,
    input logic [LANE-1:0] in_end,
    input logic [DATA_WIDTH-1:0] in_data,
    output logic in_ready,

    output logic out_valid,
    output logic out_sop,
    output logic out_eop,
    output logic out_nullify,
    output logic [LANE-1:0] out_end,
    output logic [DATA_WIDTH-1:0] out_data,
    input logic out_ready
);
    `include "pcie_crc.svh"

    // ---- beats with room for the digest ----
    logic advance, tail, tail_nullify, adding, adds, take, makes, fits;
    logic [DATA_WIDTH-1:0] beat;
    assign advance = !out_valid || out_ready;
    assign in_ready = clear || (advance && !tail);
    assign take = in_valid && in_ready;
    assign adds = in_sop ? enable && !in_data[23] : adding;
    assign fits = in_end != LANE'(LANES - 1);
    assign makes = advance && (tail || in_valid);
    always_comb begin
        for (int n = 0; n < LANES; n++) beat[32*n+:32] = tail || (adds && in_eop && LANE'(n) > in_end) ? 32'd0 : in_data[32*n+:32];
        if (in_sop && adds && !tail) beat[23] = 1'b1;
    end

    logic first_valid, first_sop, first_eop, first_nullify, first_adds, first_sums;
    logic [LANE-1:0] first_end;
    logic [DATA_WIDTH-1:0] first_data, counted;
    logic begun, begun_next;  // a TLP has begun to leave
    assign begun_next = out_valid && out_ready ? !out_eop : begun;
    always_ff @(posedge clk)
        if (rst) begin
            tail <= 1'b0;
            first_valid <= 1'b0;
            out_valid <= 1'b0;
            begun <= 1'b0;
        end else begin
            begun <= begun_next;
            if (clear) begin
                tail <= 1'b0;
                first_valid <= 1'b0;
                out_valid <= begun_next;
            end else if (advance) begin
                tail <= take && in_eop && adds && !fits;
                first_valid <= makes;
                out_valid <= first_valid;
            end
        end

    logic second_adds;
    logic [DATA_WIDTH-1:0] second_data;
    always_ff @(posedge clk)
        if (advance || clear) begin
            if (take) begin
                adding <= adds;
                tail_nullify <= in_nullify;
            end
            first_sop <= in_sop && !tail;
            first_eop <= tail || (in_eop && (!adds || fits));
            first_nullify <= tail ? tail_nullify : in_nullify;
            first_end <= tail ? '0 : in_end + LANE'(adds && in_eop && fits);
            first_adds <= tail || (adds && in_eop && fits);
            first_sums <= !tail;
            first_data <= beat;
            out_sop <= first_sop && !clear;
            out_eop <= first_eop || clear;
            out_nullify <= first_nullify || clear;
            out_end <= first_end;
            second_adds <= first_adds;
            second_data <= first_data;
        end

    // ---- the digest: Type[0] and EP count as 1 ----
    logic [31:0] state;
    always_comb begin
        counted = first_data;
        if (first_sop) begin
            counted[0] = 1'b1;
            counted[22] = 1'b1;
        end
    end
    pcie_dll_lcrc #(
        .DATA_WIDTH(DATA_WIDTH),
        .SKIPPED(0)
    ) crc (
        .clk(clk),
        .valid(first_valid && first_sums && advance),
        .first(first_sop),
        .data(counted),
        .state(state)
    );

    function automatic logic [1024*LANE-1:0] make_backwards();
        logic [1023:0] power;
        power = lcrc_dword(1'b1);
        for (int s = 0; s < LANE; s++) begin
            make_backwards[1024*s+:1024] = lcrc_rows(power);
            power = lcrc_product(power, power);
        end
    endfunction
    localparam logic [1024*LANE-1:0] BACKWARDS = make_backwards();
    logic [LANE-1:0] back;
    logic [31:0] sum, earlier;
    assign back = LANE'(0) - out_end;
    always_comb begin
        sum = state;
        earlier = state;
        for (int s = 0; s < LANE; s++) begin
            earlier = sum;
            if (second_adds && back[s]) for (int i = 0; i < 32; i++) sum[i] = ^(earlier & BACKWARDS[1024*s+32*i+:32]);
        end
        for (int n = 0; n < LANES; n++) out_data[32*n+:32] = second_adds && LANE'(n) == out_end ? ~sum : second_data[32*n+:32];
    end
endmodule
