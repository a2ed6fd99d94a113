// SPDX-License-Identifier: Apache-2.0 OR MIT
// Makes bursts of 64 bits of the bursts of whole words that the root complex sends. The bus has 32 address bits: a request above them goes to `ABOVE`, where the SoC
// answers with an error. Data of a wide word arrive in two beats that belong together.
module soc_narrow #(
    parameter int WIDTH = 128,
    parameter int ID = 3,
    parameter logic [19:0] ABOVE = 20'h00003,
    localparam int PARTS = WIDTH / 64,
    localparam int PART = $clog2(PARTS)
) (
    input logic clk,
    input logic rst,
    // verilator lint_off UNUSEDSIGNAL
    input logic [7:0] awlen,
    input logic [63:0] awaddr,
    input logic [7:0] arlen,
    input logic [63:0] araddr,
    // verilator lint_on UNUSEDSIGNAL
    input logic wvalid,
    output logic wready,
    input logic [WIDTH-1:0] wdata,
    input logic [WIDTH/8-1:0] wstrb,
    input logic wlast,
    output logic rvalid,
    input logic rready,
    output logic [ID-1:0] rid,
    output logic [WIDTH-1:0] rdata,
    output logic [1:0] rresp,
    output logic rlast,

    output logic [31:0] to_awaddr,
    output logic [7:0] to_awlen,
    output logic [31:0] to_araddr,
    output logic [7:0] to_arlen,
    output logic to_wvalid,
    input logic to_wready,
    output logic [63:0] to_wdata,
    output logic [7:0] to_wstrb,
    output logic to_wlast,
    input logic to_rvalid,
    output logic to_rready,
    input logic [ID-1:0] to_rid,
    input logic [63:0] to_rdata,
    input logic [1:0] to_rresp,
    input logic to_rlast
);
    if (WIDTH != 128 && WIDTH != 256) $error("soc_narrow: WIDTH is %0d; expected 128 or 256", WIDTH);

    function automatic logic [31:0] address(input logic [63:0] wide);
        address = wide[63:32] != '0 ? {ABOVE, wide[11:0]} : wide[31:0];
    endfunction

    assign to_awaddr = address(awaddr);
    assign to_araddr = address(araddr);
    assign to_awlen = {awlen[7-PART:0], PART'(PARTS - 1)};
    assign to_arlen = {arlen[7-PART:0], PART'(PARTS - 1)};

    logic [PART-1:0] w_part;
    assign to_wvalid = wvalid;
    assign to_wdata = wdata[64*w_part+:64];
    assign to_wstrb = wstrb[8*w_part+:8];
    assign to_wlast = wlast && &w_part;
    assign wready = to_wready && &w_part;
    always_ff @(posedge clk) begin
        if (to_wvalid && to_wready) w_part <= w_part + 1'b1;
        if (rst) w_part <= '0;
    end

    logic [PART-1:0] r_part;
    logic [WIDTH-65:0] collected;
    logic [1:0] worst;
    assign rvalid = to_rvalid && &r_part;
    assign to_rready = rready || !(&r_part);
    assign rid = to_rid;
    assign rdata = {to_rdata, collected};
    assign rresp = worst > to_rresp ? worst : to_rresp;
    assign rlast = to_rlast;
    always_ff @(posedge clk) begin
        if (to_rvalid && to_rready) begin
            r_part <= r_part + 1'b1;
            if (!(&r_part)) collected[64*r_part+:64] <= to_rdata;
            worst <= &r_part ? 2'd0 : rresp;
        end
        if (rst) begin
            r_part <= '0;
            worst <= '0;
        end
    end
endmodule
