// SPDX-License-Identifier: Apache-2.0 OR MIT
// The data link control and management state machine (PCIe 6.0 §3.2.1) and the exchange of Data Link Features (§3.3).
// Handshake: feature_request is a level; a Data Link Feature DLLP is sent as often as the arbiter takes it.
module pcie_dll_state #(
    parameter int FEATURE_EXCHANGE = 1
) (
    input logic clk,
    input logic rst,
    input logic phy_link_up,

    input logic vc0_ready,  // flow-control initialization of VC0 is complete
    input logic vc0_init1,  // an InitFC1 of VC0 arrives

    input logic feature_valid,
    input logic feature_ack,
    input logic [22:0] features,
    output logic remote_valid,
    output logic [22:0] remote_features,

    output logic [1:0] state
);
    `include "pcie_dll.svh"

    always_ff @(posedge clk)
        if (rst || !phy_link_up) begin
            state <= DL_INACTIVE;
            remote_valid <= 1'b0;
            remote_features <= '0;
        end else begin
            case (state)
                DL_INACTIVE: state <= FEATURE_EXCHANGE != 0 ? DL_FEATURE : DL_INIT;
                // The other end has received our Data Link Feature DLLP, or it continues without the exchange because
                // it does not support it.
                DL_FEATURE: if ((feature_valid && feature_ack) || vc0_init1) state <= DL_INIT;
                DL_INIT: if (vc0_ready) state <= DL_ACTIVE;
                default: ;
            endcase
            if (feature_valid && state == DL_FEATURE && !remote_valid) begin
                remote_valid <= 1'b1;
                remote_features <= features;
            end
        end
endmodule
