// SPDX-License-Identifier: Apache-2.0 OR MIT
// Merges two streams of TLPs: whole TLPs alternate if both streams have one.
// Handshake: a stream offers a TLP only when it can deliver all its beats. A beat stays until tx_ready.
module pcie_packetizer_arbiter #(
    parameter int WIDTH = 256  // bits of a beat with its marks
) (
    input logic clk,
    input logic rst,
    input logic [1:0] valid,
    output logic [1:0] ready,
    input logic [1:0] eop,
    input logic [WIDTH-1:0] beat_0,
    input logic [WIDTH-1:0] beat_1,
    output logic tx_valid,
    input logic tx_ready,
    output logic [WIDTH-1:0] tx_beat
);
    logic in_tlp, owner, choice;
    assign choice = in_tlp ? owner : valid[~owner] ? ~owner : owner;
    // A beat that waits keeps its place.
    logic waits, waiter, chosen;
    assign chosen = waits ? waiter : choice;
    assign tx_valid = valid[chosen];
    assign tx_beat = chosen ? beat_1 : beat_0;
    assign ready = {tx_ready && chosen, tx_ready && !chosen};
    always_ff @(posedge clk)
        if (rst) begin
            in_tlp <= 1'b0;
            owner <= 1'b0;
            waits <= 1'b0;
        end else begin
            waits <= tx_valid && !tx_ready;
            waiter <= chosen;
            if (tx_valid && tx_ready) begin
                in_tlp <= !eop[chosen];
                owner <= chosen;
            end
        end
endmodule
