// SPDX-License-Identifier: Apache-2.0 OR MIT
// Handshakes between the AXI4 MMIO port of the core and its targets: one read and one write at a time. Addresses and data go to all targets; part n of each
// vector belongs to target n. The target of a request comes with it and stays while the request waits.
module soc_bus #(
    parameter int TARGETS = 3,
    localparam int NUMBER = $clog2(TARGETS)
) (
    input logic clk,
    input logic rst,
    input logic [NUMBER-1:0] aw_target,
    input logic [NUMBER-1:0] ar_target,

    input logic awvalid,
    output logic awready,
    input logic wvalid,
    output logic wready,
    input logic wlast,
    output logic bvalid,
    input logic bready,
    input logic arvalid,
    output logic arready,
    output logic rvalid,
    input logic rready,
    input logic rlast,

    output logic [TARGETS-1:0] to_awvalid,
    input logic [TARGETS-1:0] to_awready,
    output logic [TARGETS-1:0] to_wvalid,
    input logic [TARGETS-1:0] to_wready,
    input logic [TARGETS-1:0] to_bvalid,
    output logic [TARGETS-1:0] to_bready,
    output logic [TARGETS-1:0] to_arvalid,
    input logic [TARGETS-1:0] to_arready,
    input logic [TARGETS-1:0] to_rvalid,
    output logic [TARGETS-1:0] to_rready,

    output logic [NUMBER-1:0] w_target,  // of the write in progress
    output logic [NUMBER-1:0] r_target   // of the read in progress
);
    // A target may wait for both the address and the data, so both are offered together.
    logic writing, address_done, data_done;
    always_comb begin
        to_awvalid = '0;
        to_wvalid = '0;
        to_bready = '0;
        to_awvalid[w_target] = writing && awvalid && !address_done;
        to_wvalid[w_target] = writing && wvalid && !data_done;
        to_bready[w_target] = bready;
    end
    assign awready = writing && !address_done && to_awready[w_target];
    assign wready = writing && !data_done && to_wready[w_target];
    assign bvalid = writing && to_bvalid[w_target];
    always_ff @(posedge clk) begin
        if (!writing && awvalid) begin
            writing <= 1'b1;
            w_target <= aw_target;
            address_done <= 1'b0;
            data_done <= 1'b0;
        end
        if (awvalid && awready) address_done <= 1'b1;
        if (wvalid && wready && wlast) data_done <= 1'b1;
        if (bvalid && bready) writing <= 1'b0;
        if (rst) writing <= 1'b0;
    end

    logic reading;
    always_comb begin
        to_arvalid = '0;
        to_rready = '0;
        to_arvalid[ar_target] = arvalid && !reading;
        to_rready[r_target] = rready && reading;
    end
    assign arready = !reading && to_arready[ar_target];
    assign rvalid = reading && to_rvalid[r_target];
    always_ff @(posedge clk) begin
        if (arvalid && arready) begin
            reading <= 1'b1;
            r_target <= ar_target;
        end
        if (rvalid && rready && rlast) reading <= 1'b0;
        if (rst) reading <= 1'b0;
    end
endmodule
