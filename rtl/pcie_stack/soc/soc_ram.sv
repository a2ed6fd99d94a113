// SPDX-License-Identifier: Apache-2.0 OR MIT
// Memory on AXI4 for simulation: one burst each way at a time, a beat per cycle, the first in the cycle after the address. Bursts are INCR. The argument
// +ram=FILE names its contents for $readmemh; without it, they are in memory.hex.
module soc_ram #(
    parameter int WORDS = 1 << 23,  // of 64 bits; a power of two
    parameter logic [31:0] BASE = 32'h8000_0000
) (
    input logic clk,
    input logic rst,
    input logic awvalid,
    output logic awready,
    input logic [3:0] awid,
    input logic [31:0] awaddr,
    input logic wvalid,
    output logic wready,
    input logic [63:0] wdata,
    input logic [7:0] wstrb,
    input logic wlast,
    output logic bvalid,
    input logic bready,
    output logic [3:0] bid,
    output logic [1:0] bresp,
    input logic arvalid,
    output logic arready,
    input logic [3:0] arid,
    input logic [31:0] araddr,
    input logic [7:0] arlen,
    output logic rvalid,
    input logic rready,
    output logic [3:0] rid,
    output logic [63:0] rdata,
    output logic [1:0] rresp,
    output logic rlast
);
    localparam int INDEX = $clog2(WORDS);
    logic [63:0] memory[0:WORDS-1];
    string contents;
    initial begin
        if (!$value$plusargs("ram=%s", contents)) contents = "memory.hex";
        $readmemh(contents, memory);
    end

    function automatic logic outside_memory(input logic [31:0] address);
        outside_memory = address < BASE || 33'(address - BASE) >= 33'(WORDS) * 8;
    endfunction

    logic writing, w_outside;
    logic [INDEX-1:0] w_at;
    assign awready = !writing && !bvalid;
    assign wready = writing;
    assign bresp = w_outside ? 2'd3 : 2'd0;
    always_ff @(posedge clk) begin
        if (awvalid && awready) begin
            writing <= 1'b1;
            w_at <= awaddr[3+:INDEX];
            w_outside <= outside_memory(awaddr);
            bid <= awid;
        end
        if (wvalid && wready) begin
            w_at <= w_at + 1'b1;
            for (int k = 0; k < 8; k++) if (wstrb[k] && !w_outside) memory[w_at][8*k+:8] <= wdata[8*k+:8];
            if (wlast) begin
                writing <= 1'b0;
                bvalid <= 1'b1;
            end
        end
        if (bvalid && bready) bvalid <= 1'b0;
        if (rst) begin
            writing <= 1'b0;
            bvalid <= 1'b0;
        end
    end

    logic r_outside;
    logic [INDEX-1:0] r_at;
    logic [7:0] r_left;
    assign arready = !rvalid || rready && rlast;
    assign rdata = memory[r_at];
    assign rresp = r_outside ? 2'd3 : 2'd0;
    assign rlast = r_left == '0;
    always_ff @(posedge clk) begin
        if (rvalid && rready) begin
            r_at <= r_at + 1'b1;
            r_left <= r_left - 1'b1;
            if (rlast) rvalid <= 1'b0;
        end
        if (arvalid && arready) begin
            rvalid <= 1'b1;
            r_at <= araddr[3+:INDEX];
            r_left <= arlen;
            r_outside <= outside_memory(araddr);
            rid <= arid;
        end
        if (rst) rvalid <= 1'b0;
    end
endmodule
