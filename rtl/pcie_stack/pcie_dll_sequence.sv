// SPDX-License-Identifier: Apache-2.0 OR MIT
// Judges the sequence number of a TLP with a right LCRC: NEXT_RCV_SEQ (PCIe 6.0 §3.6.3.1).
// Handshake: none. The verdict is combinational, in the cycle of `sound`.
module pcie_dll_sequence #(
    parameter int SEQ_BITS = 12  // less in proofs only
) (
    input logic clk,
    input logic rst,

    input logic sound,
    input logic [SEQ_BITS-1:0] seq,
    output logic accepted,
    output logic duplicate,
    output logic gap,
    output logic [SEQ_BITS-1:0] next_rcv_seq
);
    logic [SEQ_BITS-1:0] lag;
    assign lag = next_rcv_seq - seq;
    assign accepted = sound && lag == '0;
    assign duplicate = sound && lag != '0 && lag <= SEQ_BITS'(2 ** (SEQ_BITS - 1));
    assign gap = sound && lag > SEQ_BITS'(2 ** (SEQ_BITS - 1));

    always_ff @(posedge clk)
        if (rst) next_rcv_seq <= '0;
        else if (accepted) next_rcv_seq <= next_rcv_seq + 1'b1;
endmodule
