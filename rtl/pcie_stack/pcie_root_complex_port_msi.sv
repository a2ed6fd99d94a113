// SPDX-License-Identifier: Apache-2.0 OR MIT
// Inserts the root port's own MSI into the stream of posted TLPs, between two TLPs, as a memory write with a 4 DW header if the address
// needs one. So it takes the way of every other MSI.
// Handshake: `request` stays until `taken`. rx_* and the output are streams of whole TLPs.
module pcie_root_complex_port_msi #(
    parameter int DATA_WIDTH = 256
) (
    input logic clk,
    input logic rst,
    input logic request,
    input logic [63:0] address,
    input logic [15:0] vector,
    output logic taken,
    input logic rx_valid,
    output logic rx_ready,
    input logic rx_sop,
    input logic rx_eop,
    input logic rx_poisoned,
    input logic [DATA_WIDTH-1:0] rx_data,
    output logic valid,
    input logic ready,
    output logic sop,
    output logic eop,
    output logic poisoned,
    output logic [DATA_WIDTH-1:0] data
);
    function automatic logic [31:0] swapped(input logic [31:0] word);
        swapped = {word[7:0], word[15:8], word[23:16], word[31:24]};
    endfunction

    // A TLP of 5 double-words takes two beats of 128 bits.
    logic in_tlp, inserts, second, wide, two_beats;
    assign wide = address[63:32] != '0;
    assign two_beats = wide && DATA_WIDTH == 128;
    logic [159:0] tlp;
    always_comb begin
        tlp[31:0] = swapped({1'b0, 1'b1, wide, 29'd1});
        tlp[63:32] = swapped({16'd0, 8'd0, 4'd0, 4'hf});
        if (wide) tlp[159:64] = {16'd0, vector, swapped(address[31:0]), swapped(address[63:32])};
        else tlp[159:64] = {32'd0, 16'd0, vector, swapped(address[31:0])};
    end
    assign valid = inserts || rx_valid;
    assign rx_ready = ready && !inserts;
    assign sop = inserts ? !second : rx_sop;
    assign eop = inserts ? second || !two_beats : rx_eop;
    assign poisoned = !inserts && rx_poisoned;
    always_comb begin
        data = rx_data;
        if (inserts) data = DATA_WIDTH'(tlp);
        if (inserts && second) data[31:0] = tlp[159:128];
    end
    assign taken = inserts && ready && eop;
    always_ff @(posedge clk)
        if (rst) begin
            in_tlp <= 1'b0;
            inserts <= 1'b0;
            second <= 1'b0;
        end else begin
            if (rx_valid && rx_ready) in_tlp <= !rx_eop;
            // An insertion begins after the beat that is offered now, if that is the last of its TLP.
            if (inserts) inserts <= !taken;
            else inserts <= request && (rx_valid ? rx_ready && rx_eop : !in_tlp);
            if (inserts && ready) second <= !eop;
        end
endmodule
