// SPDX-License-Identifier: Apache-2.0 OR MIT
// Schedules Acks and Naks: NAK_SCHEDULED, the AckNak latency timer and coalescing (PCIe 6.0 §3.6.3.1).
// Handshake: a request stays until it is taken. Both carry NEXT_RCV_SEQ - 1 of the cycle in which they are taken.
module pcie_dll_acknowledge (
    input logic clk,
    input logic rst,
    input logic clear,  // DL_Inactive

    input logic [15:0] ack_latency_limit,  // clock cycles from the first unacknowledged TLP to the Ack's request
    input logic [7:0] ack_count_limit,     // TLPs that one Ack covers at most; 0: no limit

    input logic accepted,
    input logic duplicate,
    input logic bad,

    output logic ack_request,
    output logic nak_request,
    input logic ack_taken,
    input logic nak_taken
);
    logic nak_scheduled;
    logic [15:0] timer;
    logic [7:0] count;  // TLPs accepted since the last Ack or Nak, saturated
    logic due;
    assign due = count != '0 && (timer >= ack_latency_limit || (ack_count_limit != '0 && count >= ack_count_limit));

    always_ff @(posedge clk)
        if (rst || clear) begin
            nak_scheduled <= 1'b0;
            nak_request <= 1'b0;
            ack_request <= 1'b0;
            timer <= '0;
            count <= '0;
        end else begin
            // Only one Nak is sent until the missing TLP arrives. If that Nak is lost, the other end's REPLAY_TIMER
            // expires.
            if (accepted) nak_scheduled <= 1'b0;
            else if (bad) nak_scheduled <= 1'b1;
            if (bad && !nak_scheduled) nak_request <= 1'b1;
            else if (nak_taken) nak_request <= 1'b0;

            if (ack_taken || nak_taken) begin
                // A TLP that is accepted in this cycle is not in the DLLP that leaves.
                count <= 8'(accepted);
                timer <= '0;
            end else begin
                if (accepted && count != '1) count <= count + 1'b1;
                if (count != '0 && timer != '1) timer <= timer + 1'b1;
            end
            if (duplicate) ack_request <= 1'b1;
            else if (ack_taken || nak_taken) ack_request <= 1'b0;
            else if (due) ack_request <= 1'b1;
        end

`ifdef PROVE_ACKNOWLEDGE
`include "acknowledge_properties.svh"
`endif
endmodule
