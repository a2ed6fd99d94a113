// SPDX-License-Identifier: Apache-2.0 OR MIT
// Checks received TLPs (PCIe 6.0 §2.2, §2.3, §2.6.1.2) and sorts them by VC and type.
// Handshake: none: credits are the back-pressure. Rows leave two cycles after their beats; `row_commit` is valid with the last row.
//
// `fits` tells for each VC and type whether the buffer has room for `need` data credits and a header. Rows of a TLP that does not fit, and rows
// beyond the length in the header, are not written.
module pcie_tl_receiver #(
    parameter int DATA_WIDTH = 256,
    parameter int NUM_VCS = 1,
    localparam int LANES = DATA_WIDTH / 32,
    localparam int LANE = LANES > 1 ? $clog2(LANES) : 1
) (
    input logic clk,
    input logic rst,  // also while the link is down
    input logic [23:0] tc_map,
    input logic [NUM_VCS-1:0] vc_open,  // TLPs of this channel may arrive
    input logic [2:0] max_payload,      // 128 bytes times 2^max_payload

    input logic tlp_valid,
    input logic tlp_sop,
    input logic tlp_eop,
    input logic tlp_good,
    input logic [LANE-1:0] tlp_end,
    input logic [DATA_WIDTH-1:0] tlp_data,

    output logic [8:0] need,
    input logic [3*NUM_VCS-1:0] fits,

    output logic row_valid,
    output logic row_first,
    output logic row_commit,
    output logic row_discard,  // a malformed TLP ends that used credits
    output logic [2:0] row_vc,
    output logic [1:0] row_kind,
    output logic [8:0] row_credits,
    output logic row_relaxed,
    output logic row_poisoned,
    output logic [LANE-1:0] row_end,
    output logic [DATA_WIDTH-1:0] row_data,

    output logic [NUM_VCS-1:0] vc_seen,   // a TLP of this channel was received
    output logic [6:0] malformed,  // syndrome, at the end of a malformed TLP
    output logic overflow,
    output logic poisoned,
    output logic received,
    output logic [127:0] header   // of the TLP that ends, as in its bytes
);
    `include "pcie_tl.svh"

    // ---- stage 1: a beat and the fields of its header ----
    logic first_valid, first_sop, first_eop, first_good;
    logic [LANE-1:0] first_end;
    logic [DATA_WIDTH-1:0] first_data;
    logic [11:0] position;      // double-words before this beat, at most 2048 and a few
    logic [127:0] kept, head;  // header so far; with this beat
    always_ff @(posedge clk)
        if (rst) first_valid <= 1'b0;
        else first_valid <= tlp_valid;
    always_ff @(posedge clk) begin
        if (tlp_valid) begin
            first_sop <= tlp_sop;
            first_eop <= tlp_eop;
            first_good <= tlp_good;
            first_end <= tlp_end;
            first_data <= tlp_data;
            position <= tlp_sop ? 12'd0 : position[11] ? position : position + 12'(LANES);
        end
        if (first_valid) kept <= head;
    end
    if (LANES >= 4) begin : wide
        assign head = first_sop ? first_data[127:0] : kept;
    end else begin : narrow
        assign head = first_sop ? {kept[127:64], first_data[63:0]} : position == 12'd2 ? {first_data[63:0], kept[63:0]} : kept;
    end

    logic is_defined, four, has_data, relaxed;
    logic [1:0] kind;
    logic [10:0] length;
    logic [11:0] dwords;
    logic [8:0] credits;
    pcie_tl_header decoder (
        .word(head[31:0]),
        .is_defined(is_defined),
        .kind(kind),
        .four(four),
        .has_data(has_data),
        .length(length),
        .dwords(dwords),
        .credits(credits),
        .relaxed(relaxed)
    );

    // Requests with an address: memory and AtomicOps. TH replaces the byte enables of a read by a steering tag.
    logic [4:0] type_;
    logic is_memory, is_atomic, is_io, is_config, is_message, with_enables, single;
    assign type_ = head[4:0];
    assign is_memory = type_[4:1] == 4'b0000 || type_ == 5'b11011;
    assign is_atomic = type_[4:2] == 3'b011;
    assign is_io = type_ == 5'b00010;
    assign is_config = type_[4:1] == 4'b0010;
    assign is_message = type_[4:3] == 2'b10;
    assign with_enables = (is_memory && !(head[8] && !has_data)) || is_io || is_config;
    assign single = length == 11'd1;

    logic [3:0] first_enables, last_enables;
    assign {last_enables, first_enables} = head[63:56];
    // Enables that leave a hole are allowed for one double-word, and for two in one quad-word (§2.2.5).
    logic first_hole, last_hole, aligned, bad_enables;
    logic [11:2] offset;  // within 4 KiB
    assign offset = four ? {head[115:112], head[127:122]} : {head[83:80], head[95:90]};
    assign first_hole = !(first_enables == 4'b1111 || first_enables == 4'b1110 || first_enables == 4'b1100 || first_enables == 4'b1000);
    assign last_hole = !(last_enables == 4'b1111 || last_enables == 4'b0111 || last_enables == 4'b0011 || last_enables == 4'b0001);
    assign aligned = length == 11'd2 && !offset[2];
    assign bad_enables = single ? last_enables != '0 : first_enables == '0 || last_enables == '0 || (!aligned && (first_hole || last_hole));

    // I/O and configuration requests (§2.2.7) and these messages (§2.2.8) use TC0.
    logic [7:0] code;
    logic [2:0] tc, vc;
    logic only_tc0, closed;
    assign code = head[63:56];
    assign tc = head[14:12];
    assign vc = tc_map[3*tc+:3];
    assign only_tc0 = is_io || is_config || (is_message && (code[7:3] == 5'b00100 || code[7:4] == 4'h3 || code == 8'h00 || code == 8'h14 ||
        code[7:2] == 6'b000110 || code == 8'h50));
    always_comb begin
        closed = 1'b1;
        for (int n = 0; n < NUM_VCS; n++) if (vc == 3'(n) && vc_open[n]) closed = 1'b0;
    end

    logic bad_operand, crosses;
    logic [10:0] room_in_page;
    assign room_in_page = 11'd1024 - {1'b0, offset[11:2]};
    assign crosses = (is_memory || is_atomic) && length > room_in_page;
    always_comb begin
        bad_operand = (is_io || is_config) && !single;
        // FetchAdd and Swap: one operand of 4 or 8 bytes; CAS: two of 4, 8 or 16.
        if (is_atomic) bad_operand = type_[1] ? length != 11'd2 && length != 11'd4 && length != 11'd8 : length != 11'd1 && length != 11'd2;
        if (is_atomic && (type_[1] ? (length == 11'd4 && offset[2]) || (length == 11'd8 && offset[3:2] != '0) : length == 11'd2 && offset[2]))
            bad_operand = 1'b1;
    end

    logic [12:0] through;
    assign through = {1'b0, position} + 13'(first_end) + 13'd1;
    logic [6:0] faults;
    always_comb begin
        faults = '0;
        faults[EVENT_FORMAT] = !is_defined;
        faults[EVENT_LENGTH] = is_defined && through != 13'(dwords);
        faults[EVENT_PAYLOAD] = is_defined && has_data && length > 11'(12'd32 << max_payload);
        faults[EVENT_BYTE_ENABLES] = is_defined && with_enables && bad_enables;
        faults[EVENT_TRAFFIC_CLASS] = is_defined && (closed || (only_tc0 && tc != '0));
        faults[EVENT_BOUNDARY] = is_defined && crosses;
        faults[EVENT_OPERAND] = is_defined && bad_operand;
    end

    // ---- stage 2: a row and the verdict ----
    logic second_valid, second_last, second_good, second_usable, second_poisoned, second_within, fits_kept, fits_now;
    logic [6:0] second_faults;
    always_ff @(posedge clk)
        if (rst) second_valid <= 1'b0;
        else second_valid <= first_valid;
    always_ff @(posedge clk) begin
        row_first <= first_sop;
        second_last <= first_eop;
        second_good <= first_good;
        second_usable <= is_defined && !closed;
        second_faults <= faults;
        second_within <= position < dwords;
        second_poisoned <= head[22];
        row_vc <= vc;
        row_kind <= kind;
        row_credits <= credits;
        row_relaxed <= relaxed;
        row_end <= first_end;
        row_data <= first_data;
        header <= head;
    end
    assign need = row_credits;
    assign row_poisoned = second_poisoned;
    always_comb begin
        fits_now = fits_kept;
        if (row_first) begin
            fits_now = 1'b0;
            for (int n = 0; n < 3 * NUM_VCS; n++) if (row_vc == 3'(n / 3) && row_kind == 2'(n % 3)) fits_now = fits[n];
        end
    end
    always_ff @(posedge clk) if (second_valid) fits_kept <= fits_now;

    logic ends;
    assign ends = second_valid && second_last && second_good;
    assign row_valid = second_valid && second_usable && fits_now && second_within;
    assign row_commit = ends && second_usable && fits_now && second_faults == '0;
    assign row_discard = ends && second_usable && fits_now && second_faults != '0;
    assign malformed = ends ? second_faults : '0;
    assign overflow = ends && second_usable && !fits_now;
    assign poisoned = row_commit && second_poisoned;
    assign received = row_commit;
    always_comb for (int n = 0; n < NUM_VCS; n++) vc_seen[n] = ends && second_usable && row_vc == 3'(n);
    logic unused;
    assign unused = &{head[31:23], head[21:15], head[11:9], head[121:116], head[111:96]};
endmodule
