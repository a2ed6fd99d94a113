// SPDX-License-Identifier: Apache-2.0 OR MIT
// The data link layer of one PCI Express port (PCIe 6.0 chapter 3, non-FLIT mode), between the transaction layer and the logical
// physical layer. README.md describes the ports.
//
// Byte k of a beat is in bits 8k+7:8k, so lane n (a double-word) is in bits 32n+31:32n. A frame begins in lane 0 of a beat:
//   TLP frame: 2 bytes for the physical layer (0), 4'b0 and 12 bits of sequence number, TLP, LCRC
//   DLLP:      2 bytes for the physical layer (0), 4 bytes, CRC-16
// `end` is the lane of the last double-word, valid with `eop`. All beats but the last are full.
module pcie_dll #(
    parameter int DATA_WIDTH = 256,       // 64, 128, 256 or 512
    parameter int NUM_VCS = 1,            // 1 to 8
    parameter int MAX_TLP_BYTES = 544,    // longest TLP to send: Max_Payload_Size + 16 of header + 4 of ECRC + prefixes
    parameter int REPLAY_BYTES = 8192,    // replay buffer; a frame takes whole rows of DATA_WIDTH
    parameter int REPLAY_TLPS = 128,      // unacknowledged TLPs at most; 2047 if 2048
    parameter int REPLAY_BLOCK_RAM = 1,   // 0: distributed RAM
    parameter int CUT_THROUGH = 1,        // 0: a TLP is sent when it is complete
    parameter int FEATURE_EXCHANGE = 1,   // 0: no DL_Feature state, hence no scaled flow control
    parameter int INIT_FC_CYCLES = 1024,  // pace of InitFC; NUM_VCS times this is less than 34 us
    parameter int COUNTER_WIDTH = 16,     // of each event's counter
    localparam int LANE = DATA_WIDTH > 32 ? $clog2(DATA_WIDTH / 32) : 1
) (
    input logic clk,
    input logic rst,

    // Settings, in clock cycles; they may change with the link's rate and width
    input logic [15:0] replay_timer_limit,
    input logic [15:0] ack_latency_limit,
    input logic [7:0] ack_count_limit,
    input logic [22:0] local_features,  // bit 0: scaled flow control

    // Physical layer
    input logic phy_link_up,
    input logic phy_recovery,
    output logic retrain_request,

    output logic phy_tx_valid,
    output logic phy_tx_sop,
    output logic phy_tx_eop,
    output logic phy_tx_dllp,
    output logic phy_tx_nullify,
    output logic [LANE-1:0] phy_tx_end,
    output logic [DATA_WIDTH-1:0] phy_tx_data,
    input logic phy_tx_ready,

    input logic phy_rx_valid,
    input logic phy_rx_sop,
    input logic phy_rx_eop,
    input logic phy_rx_dllp,
    input logic phy_rx_nullify,
    input logic phy_rx_error,
    input logic [LANE-1:0] phy_rx_end,
    input logic [DATA_WIDTH-1:0] phy_rx_data,

    // Transaction layer: TLPs
    input logic tx_tlp_valid,
    input logic tx_tlp_sop,
    input logic tx_tlp_eop,
    input logic tx_tlp_nullify,
    input logic [LANE-1:0] tx_tlp_end,
    input logic [DATA_WIDTH-1:0] tx_tlp_data,
    output logic tx_tlp_ready,

    output logic rx_tlp_valid,
    output logic rx_tlp_sop,
    output logic rx_tlp_eop,
    output logic rx_tlp_good,
    output logic [LANE-1:0] rx_tlp_end,
    output logic [DATA_WIDTH-1:0] rx_tlp_data,

    // Transaction layer: flow control
    input logic [NUM_VCS-1:0] vc_enable,
    input logic [NUM_VCS-1:0] vc_tlp_seen,
    input logic [72*NUM_VCS-1:0] init_fc,
    output logic [NUM_VCS-1:0] vc_init2,
    output logic [NUM_VCS-1:0] vc_ready,

    input logic tx_fc_valid,
    input logic tx_fc_urgent,
    input logic [1:0] tx_fc_type,
    input logic [2:0] tx_fc_vc,
    input logic [23:0] tx_fc_value,
    output logic tx_fc_ready,

    output logic rx_fc_valid,
    output logic [1:0] rx_fc_kind,
    output logic [1:0] rx_fc_type,
    output logic [2:0] rx_fc_vc,
    output logic [23:0] rx_fc_value,

    // Other DLLPs: power management, vendor
    input logic tx_dllp_valid,
    input logic [31:0] tx_dllp_bytes,
    output logic tx_dllp_ready,
    output logic rx_dllp_valid,
    output logic [31:0] rx_dllp_bytes,

    // Status
    output logic [1:0] dl_state,  // DL_Inactive, DL_Feature, DL_Init, DL_Active
    output logic dl_up,           // TLPs may arrive: FC_INIT2 of VC0, or DL_Active
    output logic remote_features_valid,
    output logic [22:0] remote_features,
    output logic [15:0] events,
    output logic [16*COUNTER_WIDTH-1:0] counts
);
    `include "pcie_dll.svh"
    localparam int BEAT_BYTES = DATA_WIDTH / 8;
    localparam int ROWS = REPLAY_BYTES / BEAT_BYTES;
    localparam int MAX_ROWS = (MAX_TLP_BYTES + 8 + BEAT_BYTES - 1) / BEAT_BYTES;

    if (DATA_WIDTH != 64 && DATA_WIDTH != 128 && DATA_WIDTH != 256 && DATA_WIDTH != 512)
        $error("pcie_dll: DATA_WIDTH is %0d; expected 64, 128, 256 or 512", DATA_WIDTH);
    if (NUM_VCS < 1 || NUM_VCS > 8) $error("pcie_dll: NUM_VCS is %0d; expected 1 to 8", NUM_VCS);
    if (MAX_TLP_BYTES < 20 || MAX_TLP_BYTES % 4 != 0 || MAX_TLP_BYTES > 4160)
        $error("pcie_dll: MAX_TLP_BYTES is %0d; expected a multiple of 4 from 20 to 4160", MAX_TLP_BYTES);
    if (ROWS < 4 || 2 ** $clog2(ROWS) != ROWS || ROWS * BEAT_BYTES != REPLAY_BYTES)
        $error("pcie_dll: REPLAY_BYTES is %0d; expected a power of two, at least four beats", REPLAY_BYTES);
    if (MAX_ROWS + 2 > ROWS)
        $error("pcie_dll: REPLAY_BYTES is %0d; expected room for MAX_TLP_BYTES and three beats more", REPLAY_BYTES);
    if (REPLAY_TLPS < 2 || REPLAY_TLPS > 2048 || 2 ** $clog2(REPLAY_TLPS) != REPLAY_TLPS)
        $error("pcie_dll: REPLAY_TLPS is %0d; expected a power of two from 2 to 2048", REPLAY_TLPS);
    if (INIT_FC_CYCLES < 16) $error("pcie_dll: INIT_FC_CYCLES is %0d; expected 16 or more", INIT_FC_CYCLES);
    if (COUNTER_WIDTH < 1) $error("pcie_dll: COUNTER_WIDTH is %0d; expected 1 or more", COUNTER_WIDTH);

    // ---- link state ----
    logic connected, active, fc_valid, feature_valid, feature_ack;
    logic [1:0] fc_kind, fc_type;
    logic [2:0] fc_vc;
    logic [23:0] fc_value;
    logic [22:0] features;
    assign connected = dl_state != DL_INACTIVE;
    assign active = dl_state == DL_ACTIVE;
    assign dl_up = vc_init2[0];

    pcie_dll_state #(
        .FEATURE_EXCHANGE(FEATURE_EXCHANGE)
    ) link_state (
        .clk(clk),
        .rst(rst),
        .phy_link_up(phy_link_up),
        .vc0_ready(vc_ready[0]),
        .vc0_init1(fc_valid && fc_kind == FC_INIT1 && fc_vc == 3'd0),
        .feature_valid(feature_valid),
        .feature_ack(feature_ack),
        .features(features),
        .remote_valid(remote_features_valid),
        .remote_features(remote_features),
        .state(dl_state)
    );

    // ---- receiving ----
    logic accepted, duplicate, bad_lcrc, receiver_error, gap, nullified, bad_dllp, unknown_dllp;
    logic ack_valid, ack_is_nak;
    logic [11:0] ack_seq, next_rcv_seq;

    pcie_dll_tlp_receiver #(
        .DATA_WIDTH(DATA_WIDTH)
    ) tlp_receiver (
        .clk(clk),
        .rst(rst),
        .clear(!connected),
        .enable(dl_up),
        .frame_valid(phy_rx_valid && !phy_rx_dllp),
        .frame_sop(phy_rx_sop),
        .frame_eop(phy_rx_eop),
        .frame_nullify(phy_rx_nullify),
        .frame_error(phy_rx_error),
        .frame_end(phy_rx_end),
        .frame_data(phy_rx_data),
        .tlp_valid(rx_tlp_valid),
        .tlp_sop(rx_tlp_sop),
        .tlp_eop(rx_tlp_eop),
        .tlp_good(rx_tlp_good),
        .tlp_end(rx_tlp_end),
        .tlp_data(rx_tlp_data),
        .next_rcv_seq(next_rcv_seq),
        .accepted(accepted),
        .duplicate(duplicate),
        .bad_lcrc(bad_lcrc),
        .receiver_error(receiver_error),
        .gap(gap),
        .nullified(nullified)
    );

    pcie_dll_dllp_receiver #(
        .NUM_VCS(NUM_VCS)
    ) dllp_receiver (
        .clk(clk),
        .rst(rst),
        .enable(connected),
        .frame_valid(phy_rx_valid && phy_rx_dllp && phy_rx_eop),
        .frame_sound(phy_rx_sop && !phy_rx_error && phy_rx_end == LANE'(1)),
        .frame_bytes(phy_rx_data[63:16]),
        .ack_valid(ack_valid),
        .ack_is_nak(ack_is_nak),
        .ack_seq(ack_seq),
        .fc_valid(fc_valid),
        .fc_kind(fc_kind),
        .fc_type(fc_type),
        .fc_vc(fc_vc),
        .fc_value(fc_value),
        .feature_valid(feature_valid),
        .feature_ack(feature_ack),
        .features(features),
        .other_valid(rx_dllp_valid),
        .other_bytes(rx_dllp_bytes),
        .bad(bad_dllp),
        .unknown(unknown_dllp)
    );
    assign rx_fc_valid = fc_valid && dl_state >= DL_INIT;
    assign rx_fc_kind = fc_kind;
    assign rx_fc_type = fc_type;
    assign rx_fc_vc = fc_vc;
    assign rx_fc_value = fc_value;

    logic ack_request, nak_request, ack_taken, nak_taken;
    pcie_dll_acknowledge acknowledge (
        .clk(clk),
        .rst(rst),
        .clear(!connected),
        .ack_latency_limit(ack_latency_limit),
        .ack_count_limit(ack_count_limit),
        .accepted(accepted),
        .duplicate(duplicate),
        .bad(bad_lcrc || receiver_error || gap),
        .ack_request(ack_request),
        .nak_request(nak_request),
        .ack_taken(ack_taken),
        .nak_taken(nak_taken)
    );

    logic init_request, init_taken;
    logic [31:0] init_bytes;
    pcie_dll_fc_init #(
        .NUM_VCS(NUM_VCS),
        .REPEAT_CYCLES(INIT_FC_CYCLES)
    ) fc_init (
        .clk(clk),
        .rst(rst),
        .state(dl_state),
        .vc_enable(vc_enable),
        .init_fc(init_fc),
        .vc_tlp_seen(vc_tlp_seen | NUM_VCS'(accepted && !active)),
        .vc_init2(vc_init2),
        .vc_ready(vc_ready),
        .fc_valid(rx_fc_valid),
        .fc_kind(fc_kind),
        .fc_type(fc_type),
        .fc_vc(fc_vc),
        .init_request(init_request),
        .init_bytes(init_bytes),
        .init_taken(init_taken)
    );

    // ---- sending ----
    logic room, may_number, rewound, row_valid, row_last, row_nullified, tx_nullified, tx_overlong;
    logic [LANE-1:0] row_end, out_end;
    logic [DATA_WIDTH-1:0] row_data, out_data;
    logic [11:0] next_transmit_seq, acked_seq, sent_seq, unacknowledged;
    logic purge, replay, replay_taken, hold, out_valid, out_last, out_nullified, out_take, tlp_sent, replaying;
    logic protocol_error, replay_timeout, replay_rollover, nak_received, replay_begins;

    // NEXT_TRANSMIT_SEQ - ACKD_SEQ is less than 2048 when a TLP is numbered (§3.6.2.1).
    assign unacknowledged = next_transmit_seq - acked_seq - 12'd1;
    assign may_number = unacknowledged < 12'(REPLAY_TLPS == 2048 ? 2047 : REPLAY_TLPS);

    pcie_dll_framer #(
        .DATA_WIDTH(DATA_WIDTH),
        .MAX_ROWS(MAX_ROWS),
        .CUT_THROUGH(CUT_THROUGH)
    ) framer (
        .clk(clk),
        .rst(rst),
        .enable(active),
        .tlp_valid(tx_tlp_valid),
        .tlp_sop(tx_tlp_sop),
        .tlp_eop(tx_tlp_eop),
        .tlp_nullify(tx_tlp_nullify),
        .tlp_end(tx_tlp_end),
        .tlp_data(tx_tlp_data),
        .tlp_ready(tx_tlp_ready),
        .room(room),
        .may_number(may_number),
        .rewound(rewound),
        .next_transmit_seq(next_transmit_seq),
        .row_valid(row_valid),
        .row_last(row_last),
        .row_nullified(row_nullified),
        .row_end(row_end),
        .row_data(row_data),
        .event_nullified(tx_nullified),
        .event_overlong(tx_overlong)
    );

    pcie_dll_replay_buffer #(
        .DATA_WIDTH(DATA_WIDTH),
        .ROWS(ROWS),
        .TLPS(REPLAY_TLPS),
        .MAX_ROWS(MAX_ROWS),
        .BLOCK(REPLAY_BLOCK_RAM),
        .CUT_THROUGH(CUT_THROUGH)
    ) replay_buffer (
        .clk(clk),
        .rst(rst),
        .enable(active),
        .row_valid(row_valid),
        .row_last(row_last),
        .row_nullified(row_nullified),
        .row_end(row_end),
        .row_data(row_data),
        .room(room),
        .rewound(rewound),
        .purge(purge),
        .purge_seq(ack_seq[$clog2(REPLAY_TLPS)-1:0]),
        .acked_seq(acked_seq),
        .replay(replay),
        .replay_taken(replay_taken),
        .hold(hold),
        .out_valid(out_valid),
        .out_last(out_last),
        .out_nullified(out_nullified),
        .out_end(out_end),
        .out_data(out_data),
        .out_take(out_take),
        .sent_seq(sent_seq),
        .tlp_sent(tlp_sent),
        .replaying(replaying)
    );

    pcie_dll_replay_control replay_control (
        .clk(clk),
        .rst(rst),
        .enable(active),
        .replay_timer_limit(replay_timer_limit),
        .phy_recovery(phy_recovery),
        .retrain_request(retrain_request),
        .hold(hold),
        .ack_valid(ack_valid),
        .ack_is_nak(ack_is_nak),
        .ack_seq(ack_seq),
        .acked_seq(acked_seq),
        .purge(purge),
        .sent_seq(sent_seq),
        .tlp_sent(tlp_sent),
        .replaying(replaying),
        .replay(replay),
        .replay_taken(replay_taken),
        .event_protocol_error(protocol_error),
        .event_timeout(replay_timeout),
        .event_rollover(replay_rollover),
        .event_nak(nak_received),
        .event_replay(replay_begins)
    );

    logic feature_taken;
    pcie_dll_arbiter #(
        .DATA_WIDTH(DATA_WIDTH)
    ) arbiter (
        .clk(clk),
        .rst(rst),
        .enable(connected),
        .nak_request(nak_request),
        .ack_request(ack_request),
        .acknowledged_seq(next_rcv_seq - 12'd1),
        .nak_taken(nak_taken),
        .ack_taken(ack_taken),
        .init_request(init_request),
        .init_bytes(init_bytes),
        .init_taken(init_taken),
        .feature_request(feature_request),
        .feature_bytes({local_features[7:0], local_features[15:8], remote_features_valid, local_features[22:16], DLLP_FEATURE}),
        .feature_taken(feature_taken),
        .update_request(tx_fc_valid && active),
        .update_urgent(tx_fc_urgent),
        .update_bytes({tx_fc_value[7:0], tx_fc_value[15:8], tx_fc_value[23:16], FC_UPDATE, tx_fc_type, 1'b0, tx_fc_vc}),
        .update_taken(tx_fc_ready),
        .other_request(tx_dllp_valid && active),
        .other_bytes(tx_dllp_bytes),
        .other_taken(tx_dllp_ready),
        .tlp_valid(out_valid),
        .tlp_last(out_last),
        .tlp_nullified(out_nullified),
        .tlp_end(out_end),
        .tlp_data(out_data),
        .tlp_take(out_take),
        .phy_valid(phy_tx_valid),
        .phy_sop(phy_tx_sop),
        .phy_eop(phy_tx_eop),
        .phy_dllp(phy_tx_dllp),
        .phy_nullify(phy_tx_nullify),
        .phy_end(phy_tx_end),
        .phy_data(phy_tx_data),
        .phy_ready(phy_tx_ready)
    );

    // Data Link Feature DLLPs have the pace of VC0's InitFC.
    logic feature_request;
    logic [5:0] feature_pace;
    assign feature_request = dl_state == DL_FEATURE && feature_pace == '0;
    always_ff @(posedge clk)
        if (rst || dl_state != DL_FEATURE) feature_pace <= '0;
        else if (feature_taken) feature_pace <= '1;
        else if (feature_pace != '0) feature_pace <= feature_pace - 1'b1;

    always_comb begin
        events = '0;
        events[EVENT_BAD_LCRC] = bad_lcrc;
        events[EVENT_SEQUENCE_GAP] = gap;
        events[EVENT_DUPLICATE] = duplicate;
        events[EVENT_NULLIFIED] = nullified;
        events[EVENT_RECEIVER_ERROR] = receiver_error;
        events[EVENT_BAD_DLLP] = bad_dllp;
        events[EVENT_UNKNOWN_DLLP] = unknown_dllp;
        events[EVENT_PROTOCOL_ERROR] = protocol_error;
        events[EVENT_REPLAY_TIMEOUT] = replay_timeout;
        events[EVENT_REPLAY_ROLLOVER] = replay_rollover;
        events[EVENT_NAK_RECEIVED] = nak_received;
        events[EVENT_REPLAY] = replay_begins;
        events[EVENT_ACK_SENT] = ack_taken;
        events[EVENT_NAK_SENT] = nak_taken;
        events[EVENT_TX_NULLIFIED] = tx_nullified;
        events[EVENT_TX_OVERLONG] = tx_overlong;
    end
    pcie_dll_counters #(
        .NUMBER(EVENTS),
        .WIDTH(COUNTER_WIDTH)
    ) counters (
        .clk(clk),
        .rst(rst),
        .events(events),
        .counts(counts)
    );
endmodule
