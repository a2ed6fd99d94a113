// SPDX-License-Identifier: Apache-2.0 OR MIT
// Stands between the peripheral's DMA port and the modules that answer it. While the bus is in reset the port is idle. Requests that were in progress
// are finished inside: missing data are replaced by empty strobes, and answers are dropped. The port opens when they have ended.
// Handshake: AXI4 on both sides, without the payload that passes unchanged.
module pcie_endpoint_guard #(
    parameter int BYTES = 8
) (
    input logic clk,
    input logic rst,
    input logic bus_rst,

    input logic s_awvalid,
    output logic s_awready,
    input logic s_wvalid,
    output logic s_wready,
    input logic [BYTES-1:0] s_wstrb,
    output logic s_bvalid,
    input logic s_bready,
    input logic s_arvalid,
    output logic s_arready,
    output logic s_rvalid,
    input logic s_rready,

    output logic awvalid,
    input logic awready,
    output logic wvalid,
    input logic wready,
    output logic [BYTES-1:0] wstrb,
    input logic bvalid,
    output logic bready,
    output logic arvalid,
    input logic arready,
    input logic rvalid,
    output logic rready,
    input logic rlast,
    output logic closed
);
    logic closing;
    logic [7:0] writes, reads;  // bursts without their last answer
    assign closed = bus_rst || closing;
    assign awvalid = s_awvalid && !closed;
    assign s_awready = awready && !closed;
    assign wvalid = s_wvalid || closed;
    assign s_wready = wready && !closed;
    assign wstrb = closed ? '0 : s_wstrb;
    assign s_bvalid = bvalid && !closed;
    assign bready = s_bready || closed;
    assign arvalid = s_arvalid && !closed;
    assign s_arready = arready && !closed;
    assign s_rvalid = rvalid && !closed;
    assign rready = s_rready || closed;
    always_ff @(posedge clk)
        if (rst) begin
            closing <= 1'b0;
            writes <= '0;
            reads <= '0;
        end else begin
            writes <= writes + 8'(awvalid && awready) - 8'(bvalid && bready);
            reads <= reads + 8'(arvalid && arready) - 8'(rvalid && rready && rlast);
            if (bus_rst) closing <= 1'b1;
            else if (writes == '0 && reads == '0) closing <= 1'b0;
        end
endmodule
