// SPDX-License-Identifier: Apache-2.0 OR MIT
// The transaction layer of one PCI Express port (PCIe 6.0 chapter 2, non-FLIT mode), between the user and pcie_dll. README.md describes the ports.
//
// TLPs are in beats as in pcie_dll: byte k of a beat is in bits 8k+7:8k. A TLP begins in lane 0. `end` is the lane of its last
// double-word, valid with `eop`. Field n of a vector per VC and type is VC n / 3 and type n % 3: P, NP, Cpl.
module pcie_tl #(
    parameter int DATA_WIDTH = 256,           // 64, 128, 256 or 512
    parameter int NUM_VCS = 1,                // 1 to 8
    parameter int MAX_TLP_BYTES = 544,        // longest TLP to send, with header and ECRC
    parameter int MAX_PAYLOAD = 512,          // largest Max_Payload_Size, 128 to 4096
    parameter int TX_BYTES = 4096,            // transmit buffer per VC and type; a TLP takes whole beats
    parameter int TX_TLPS = 16,               // TLPs in it
    parameter int RX_P_HEADERS = 96,          // receive buffers of each VC: headers, and units of 16 bytes of data
    parameter int RX_P_DATA = 736,
    parameter int RX_NP_HEADERS = 64,
    parameter int RX_NP_DATA = 32,
    parameter int RX_CPL_HEADERS = 96,
    parameter int RX_CPL_DATA = 736,
    parameter int INFINITE_COMPLETIONS = 1,   // 1: advertise infinite completion credits, as endpoints and root ports must
    parameter int BLOCK_RAM = 1,              // 0: distributed RAM
    parameter int VC_PHASES = 32,             // phases of weighted arbitration: a power of two to 128
    parameter int COUNTER_WIDTH = 16,         // of each event's counter
    localparam int LANE = DATA_WIDTH > 32 ? $clog2(DATA_WIDTH / 32) : 1
) (
    input logic clk,
    input logic rst,

    // Settings
    input logic [23:0] tc_map,          // VC of TC n in bits 3n+2:3n
    input logic [NUM_VCS-1:0] vc_enable,
    input logic [1:0] vc_arbitration,   // 0 strict priority, 1 round robin, 2 weighted round robin
    input logic [3*VC_PHASES-1:0] vc_phases,
    input logic [2:0] max_payload,      // Max_Payload_Size: 128 bytes times 2^max_payload
    input logic [15:0] update_fc_latency_limit,  // cycles until an UpdateFC goes before TLPs
    input logic [23:0] update_fc_period,         // cycles between UpdateFCs of each type, 30 us at most; 0: none
    input logic [22:0] local_features,

    // User: TLPs to send
    input logic tx_valid,
    input logic tx_sop,
    input logic tx_eop,
    input logic [LANE-1:0] tx_end,
    input logic [DATA_WIDTH-1:0] tx_data,
    input logic [2:0] tx_vc,  // the VC to which tc_map maps the TLP's TC
    output logic tx_ready,
    output logic [3*NUM_VCS-1:0] tx_room,  // the transmit buffer has room for a TLP

    // User: received TLPs
    output logic rx_p_valid,
    output logic rx_p_sop,
    output logic rx_p_eop,
    output logic rx_p_cut,
    output logic rx_p_poisoned,
    output logic [2:0] rx_p_vc,
    output logic [LANE-1:0] rx_p_end,
    output logic [DATA_WIDTH-1:0] rx_p_data,
    input logic rx_p_ready,

    output logic rx_np_valid,
    output logic rx_np_sop,
    output logic rx_np_eop,
    output logic rx_np_cut,
    output logic rx_np_poisoned,
    output logic [2:0] rx_np_vc,
    output logic [LANE-1:0] rx_np_end,
    output logic [DATA_WIDTH-1:0] rx_np_data,
    input logic rx_np_ready,

    output logic rx_cpl_valid,
    output logic rx_cpl_sop,
    output logic rx_cpl_eop,
    output logic rx_cpl_cut,
    output logic rx_cpl_poisoned,
    output logic [2:0] rx_cpl_vc,
    output logic [LANE-1:0] rx_cpl_end,
    output logic [DATA_WIDTH-1:0] rx_cpl_data,
    input logic rx_cpl_ready,

    // Data link layer: ports of the same names there
    output logic tx_tlp_valid,
    output logic tx_tlp_sop,
    output logic tx_tlp_eop,
    output logic tx_tlp_nullify,
    output logic [LANE-1:0] tx_tlp_end,
    output logic [DATA_WIDTH-1:0] tx_tlp_data,
    input logic tx_tlp_ready,

    input logic rx_tlp_valid,
    input logic rx_tlp_sop,
    input logic rx_tlp_eop,
    input logic rx_tlp_good,
    input logic [LANE-1:0] rx_tlp_end,
    input logic [DATA_WIDTH-1:0] rx_tlp_data,

    output logic [NUM_VCS-1:0] vc_tlp_seen,
    output logic [72*NUM_VCS-1:0] init_fc,
    input logic [NUM_VCS-1:0] vc_init2,
    input logic [NUM_VCS-1:0] vc_ready,

    output logic tx_fc_valid,
    output logic tx_fc_urgent,
    output logic [1:0] tx_fc_type,
    output logic [2:0] tx_fc_vc,
    output logic [23:0] tx_fc_value,
    input logic tx_fc_ready,

    input logic rx_fc_valid,
    input logic [1:0] rx_fc_kind,
    input logic [1:0] rx_fc_type,
    input logic [2:0] rx_fc_vc,
    input logic [23:0] rx_fc_value,

    input logic [1:0] dl_state,
    input logic [22:0] remote_features,

    // Status
    output logic scaled_flow_control,
    output logic [3*NUM_VCS-1:0] tx_starved,  // a TLP waits for credits
    output logic error_valid,                 // a received TLP was dropped: its faults and its header, byte 0 in bits 7:0
    output logic [7:0] error_syndrome,
    output logic [127:0] error_header,
    output logic [14:0] events,
    output logic [15*COUNTER_WIDTH-1:0] counts
);
    `include "pcie_dll.svh"
    `include "pcie_tl.svh"
    localparam int BEAT_BYTES = DATA_WIDTH / 8;
    localparam int TX_ROWS = TX_BYTES / BEAT_BYTES;
    localparam int MAX_ROWS = (MAX_TLP_BYTES + BEAT_BYTES - 1) / BEAT_BYTES;

    if (DATA_WIDTH != 64 && DATA_WIDTH != 128 && DATA_WIDTH != 256 && DATA_WIDTH != 512)
        $error("pcie_tl: DATA_WIDTH is %0d; expected 64, 128, 256 or 512", DATA_WIDTH);
    if (NUM_VCS < 1 || NUM_VCS > 8) $error("pcie_tl: NUM_VCS is %0d; expected 1 to 8", NUM_VCS);
    if (MAX_PAYLOAD < 128 || MAX_PAYLOAD > 4096 || 2 ** $clog2(MAX_PAYLOAD) != MAX_PAYLOAD)
        $error("pcie_tl: MAX_PAYLOAD is %0d; expected a power of two from 128 to 4096", MAX_PAYLOAD);
    if (MAX_TLP_BYTES < MAX_PAYLOAD + 20 || MAX_TLP_BYTES % 4 != 0 || MAX_TLP_BYTES > 4160)
        $error("pcie_tl: MAX_TLP_BYTES is %0d; expected a multiple of 4 from MAX_PAYLOAD + 20 to 4160", MAX_TLP_BYTES);
    if (TX_ROWS < 4 * MAX_ROWS + 8 || 2 ** $clog2(TX_ROWS) != TX_ROWS || TX_ROWS * BEAT_BYTES != TX_BYTES)
        $error("pcie_tl: TX_BYTES is %0d; expected a power of two with room for four TLPs and eight beats", TX_BYTES);
    if (TX_TLPS < 4 || TX_TLPS > 256 || 2 ** $clog2(TX_TLPS) != TX_TLPS)
        $error("pcie_tl: TX_TLPS is %0d; expected a power of two from 4 to 256", TX_TLPS);
    // The least credits of §2.6.1, and the most that can be advertised.
    if (RX_P_HEADERS < 1 || RX_P_HEADERS > 2032 || RX_NP_HEADERS < 1 || RX_NP_HEADERS > 2032 || RX_CPL_HEADERS < 1 || RX_CPL_HEADERS > 2032)
        $error("pcie_tl: receive headers are %0d, %0d, %0d; expected 1 to 2032", RX_P_HEADERS, RX_NP_HEADERS, RX_CPL_HEADERS);
    if (RX_P_DATA < MAX_PAYLOAD / 16 || RX_P_DATA > 32752)
        $error("pcie_tl: RX_P_DATA is %0d; expected MAX_PAYLOAD / 16 to 32752", RX_P_DATA);
    if (RX_NP_DATA < 2 || RX_NP_DATA > 32752) $error("pcie_tl: RX_NP_DATA is %0d; expected 2 to 32752", RX_NP_DATA);
    if (RX_CPL_DATA < MAX_PAYLOAD / 16 || RX_CPL_DATA > 32752)
        $error("pcie_tl: RX_CPL_DATA is %0d; expected MAX_PAYLOAD / 16 to 32752", RX_CPL_DATA);
    if (VC_PHASES < 2 || VC_PHASES > 128 || 2 ** $clog2(VC_PHASES) != VC_PHASES)
        $error("pcie_tl: VC_PHASES is %0d; expected a power of two from 2 to 128", VC_PHASES);
    if (COUNTER_WIDTH < 1) $error("pcie_tl: COUNTER_WIDTH is %0d; expected 1 or more", COUNTER_WIDTH);

    logic unused;
    assign unused = &{local_features[22:1], remote_features[22:1]};

    // Until DL_Init the layer is empty. `clear` is a cycle late, so that the features are known in its last cycle.
    logic clear, active;
    logic [NUM_VCS-1:0] clear_vc;
    assign active = dl_state == DL_ACTIVE;
    assign scaled_flow_control = local_features[0] && remote_features[0];
    always_ff @(posedge clk) begin
        clear <= rst || dl_state < DL_INIT;
        for (int n = 0; n < NUM_VCS; n++) clear_vc[n] <= rst || dl_state < DL_INIT || (n != 0 && !vc_enable[n]);
    end

    logic bad_update, bad_init, refused, sent;
    pcie_tl_tx #(
        .DATA_WIDTH(DATA_WIDTH),
        .NUM_VCS(NUM_VCS),
        .MAX_TLP_BYTES(MAX_TLP_BYTES),
        .ROWS(TX_ROWS),
        .TLPS(TX_TLPS),
        .BLOCK(BLOCK_RAM),
        .PHASES(VC_PHASES)
    ) tx (
        .clk(clk),
        .rst(rst),
        .clear(clear),
        .active(active),
        .clear_vc(clear_vc),
        .vc_ready(vc_ready),
        .scaled(scaled_flow_control),
        .tc_map(tc_map),
        .vc_arbitration(vc_arbitration),
        .vc_phases(vc_phases),
        .tx_valid(tx_valid),
        .tx_sop(tx_sop),
        .tx_eop(tx_eop),
        .tx_end(tx_end),
        .tx_data(tx_data),
        .tx_vc(tx_vc),
        .tx_ready(tx_ready),
        .tx_room(tx_room),
        .tlp_valid(tx_tlp_valid),
        .tlp_sop(tx_tlp_sop),
        .tlp_eop(tx_tlp_eop),
        .tlp_nullify(tx_tlp_nullify),
        .tlp_end(tx_tlp_end),
        .tlp_data(tx_tlp_data),
        .tlp_ready(tx_tlp_ready),
        .fc_valid(rx_fc_valid),
        .fc_is_update(rx_fc_kind == FC_UPDATE),
        .fc_type(rx_fc_type),
        .fc_vc(rx_fc_vc),
        .fc_value(rx_fc_value),
        .starved(tx_starved),
        .event_update(bad_update),
        .event_init(bad_init),
        .event_refused(refused),
        .event_sent(sent)
    );

    logic overflow, poisoned, received;
    logic [6:0] malformed;
    pcie_tl_rx #(
        .DATA_WIDTH(DATA_WIDTH),
        .NUM_VCS(NUM_VCS),
        .P_HEADERS(RX_P_HEADERS),
        .P_DATA(RX_P_DATA),
        .NP_HEADERS(RX_NP_HEADERS),
        .NP_DATA(RX_NP_DATA),
        .CPL_HEADERS(RX_CPL_HEADERS),
        .CPL_DATA(RX_CPL_DATA),
        .INFINITE_COMPLETIONS(INFINITE_COMPLETIONS),
        .BLOCK(BLOCK_RAM)
    ) rx (
        .clk(clk),
        .rst(rst),
        .clear(clear),
        .active(active),
        .clear_vc(clear_vc),
        .vc_init2(vc_init2),
        .vc_ready(vc_ready),
        .scaled(scaled_flow_control),
        .tc_map(tc_map),
        .max_payload(max_payload),
        .update_latency_limit(update_fc_latency_limit),
        .update_period(update_fc_period),
        .tlp_valid(rx_tlp_valid),
        .tlp_sop(rx_tlp_sop),
        .tlp_eop(rx_tlp_eop),
        .tlp_good(rx_tlp_good),
        .tlp_end(rx_tlp_end),
        .tlp_data(rx_tlp_data),
        .vc_seen(vc_tlp_seen),
        .init2_valid(rx_fc_valid && rx_fc_kind == FC_INIT2),
        .init2_vc(rx_fc_vc),
        .init_fc(init_fc),
        .fc_valid(tx_fc_valid),
        .fc_urgent(tx_fc_urgent),
        .fc_type(tx_fc_type),
        .fc_vc(tx_fc_vc),
        .fc_value(tx_fc_value),
        .fc_ready(tx_fc_ready),
        .out_valid({rx_cpl_valid, rx_np_valid, rx_p_valid}),
        .out_sop({rx_cpl_sop, rx_np_sop, rx_p_sop}),
        .out_eop({rx_cpl_eop, rx_np_eop, rx_p_eop}),
        .out_cut({rx_cpl_cut, rx_np_cut, rx_p_cut}),
        .out_poisoned({rx_cpl_poisoned, rx_np_poisoned, rx_p_poisoned}),
        .out_vc({rx_cpl_vc, rx_np_vc, rx_p_vc}),
        .out_end({rx_cpl_end, rx_np_end, rx_p_end}),
        .out_data({rx_cpl_data, rx_np_data, rx_p_data}),
        .out_ready({rx_cpl_ready, rx_np_ready, rx_p_ready}),
        .malformed(malformed),
        .overflow(overflow),
        .poisoned(poisoned),
        .received(received),
        .header(error_header)
    );

    always_comb begin
        events = '0;
        events[MALFORMED-1:0] = malformed;
        events[EVENT_OVERFLOW] = overflow;
        events[EVENT_POISONED] = poisoned;
        events[EVENT_UPDATE] = bad_update;
        events[EVENT_INIT] = bad_init;
        events[EVENT_REFUSED] = refused;
        events[EVENT_UPDATE_SENT] = tx_fc_valid && tx_fc_ready;
        events[EVENT_SENT] = sent;
        events[EVENT_RECEIVED] = received;
    end
    assign error_syndrome = events[7:0];
    assign error_valid = error_syndrome != '0;
    pcie_dll_counters #(
        .NUMBER(TL_EVENTS),
        .WIDTH(COUNTER_WIDTH)
    ) counters (
        .clk(clk),
        .rst(rst),
        .events(events),
        .counts(counts)
    );
endmodule
