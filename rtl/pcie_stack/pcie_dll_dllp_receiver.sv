// SPDX-License-Identifier: Apache-2.0 OR MIT
// Checks and decodes DLLPs (PCIe 6.0 §3.5.1, §3.6.2.2). A DLLP takes lanes 0 and 1 of one beat: bytes 2 to 7.
// No handshake. Each output is valid for a cycle, two cycles after the frame. DLLPs of reserved types are dropped (§3.5.1).
module pcie_dll_dllp_receiver #(
    parameter int NUM_VCS = 1
) (
    input logic clk,
    input logic rst,
    input logic enable,  // not DL_Inactive

    input logic frame_valid,
    input logic frame_sound,  // one beat of two double-words, and no error of the physical layer
    input logic [47:0] frame_bytes,

    output logic ack_valid,
    output logic ack_is_nak,
    output logic [11:0] ack_seq,

    output logic fc_valid,
    output logic [1:0] fc_kind,  // FC_INIT1, FC_INIT2 or FC_UPDATE
    output logic [1:0] fc_type,  // 0 P, 1 NP, 2 Cpl
    output logic [2:0] fc_vc,
    output logic [23:0] fc_value,  // HdrScale, HdrFC, DataScale, DataFC

    output logic feature_valid,
    output logic feature_ack,
    output logic [22:0] features,

    output logic other_valid,  // power management, vendor, NOP
    output logic [31:0] other_bytes,

    output logic bad,
    output logic unknown
);
    `include "pcie_dll.svh"

    logic valid, sound;
    logic [47:0] bytes;
    logic [15:0] crc;
    always_ff @(posedge clk) begin
        valid <= !rst && enable && frame_valid;
        sound <= frame_sound;
        bytes <= frame_bytes;
    end
    pcie_dll_crc16 crc_16 (
        .bytes(bytes[31:0]),
        .crc(crc)
    );

    logic right, is_ack, is_nak, is_feature, is_fc, is_other;
    logic [7:0] kind;
    assign kind = bytes[7:0];
    assign right = valid && sound && crc == bytes[47:32];
    assign is_ack = kind == DLLP_ACK;
    assign is_nak = kind == DLLP_NAK;
    assign is_feature = kind == DLLP_FEATURE;
    // If bit 3 is set, the DLLP belongs to multi-root I/O virtualization, which is reserved here.
    assign is_fc = kind[7:6] != 2'b00 && kind[5:4] != 2'b11 && !kind[3] && 4'(kind[2:0]) < 4'(NUM_VCS);
    assign is_other = kind == 8'h20 || kind == 8'h21 || kind == 8'h23 || kind == 8'h24 || kind == 8'h30 || kind == 8'h31;

    always_ff @(posedge clk) begin
        ack_valid <= right && (is_ack || is_nak);
        fc_valid <= right && is_fc;
        feature_valid <= right && is_feature;
        other_valid <= right && is_other;
        bad <= valid && !right;
        unknown <= right && !(is_ack || is_nak || is_feature || is_fc || is_other);
        other_bytes <= bytes[31:0];
    end
    assign ack_is_nak = other_bytes[4];
    assign ack_seq = {other_bytes[19:16], other_bytes[31:24]};
    assign fc_kind = other_bytes[7:6];
    assign fc_type = other_bytes[5:4];
    assign fc_vc = other_bytes[2:0];
    assign fc_value = {other_bytes[15:8], other_bytes[23:16], other_bytes[31:24]};
    assign feature_ack = other_bytes[15];
    assign features = {other_bytes[14:8], other_bytes[23:16], other_bytes[31:24]};
endmodule
