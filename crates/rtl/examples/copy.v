// SPDX-License-Identifier: Apache-2.0 OR MIT
// Copies up to a page of host memory. The design is connected to a block with descriptor streams (PLUS: UltraScale+, otherwise
// UltraScale), and sends interrupts from its own MSI-X table. Any data width; all streams may straddle.
//
//   0x00 identity                    0x20 number of a deliberate error
//   0x08 source, a page (64 bits)    0x24 status: [31:16] completions, [11:8] last error code, [0] busy
//   0x10 destination, a page         0x28 function of the last write
//   0x18 bytes: a multiple of 128    0x2c function that issues the copy's requests
//   0x1c start                       0x30 reads whose tags the block has chosen
module copy #(parameter WIDTH = 256, LANES = WIDTH / 32, RQ = 60, RC = 75, CQ = 85, CC = 33) (
    input wire reset_n, output wire alive);
localparam WIDE = WIDTH == 512;
wire clk, reset, up;
reg [WIDTH-1:0] rq_data, cc_data;
reg [LANES-1:0] rq_keep, cc_keep;
reg rq_last, rq_valid, cc_last, cc_valid;
// User signals with the width of 512-bit streams.
reg [136:0] rq_user;
reg [80:0] cc_user;
wire [3:0] rq_ready, cc_ready;
wire [WIDTH-1:0] rc_data, cq_data;
wire [LANES-1:0] rc_keep, cq_keep;
wire rc_last, rc_valid, cq_last, cq_valid;
wire [RC-1:0] rc_user_;
wire [CQ-1:0] cq_user_;
wire [160:0] rc_user = 161'd0 | rc_user_;
wire [182:0] cq_user = 183'd0 | cq_user_;
wire [5:0] sequence0, sequence1;
wire sequence0_valid, sequence1_valid, tag0_valid, tag1_valid;
reg msix;
reg [63:0] msix_address;
reg [31:0] msix_data;
wire sent, failed;
assign alive = up;

// ---- requests to the design: at most two begin in a beat ----
reg [31:0] inbox_address [0:7];
reg [31:0] inbox_data [0:7];
reg [31:0] inbox_third [0:7];
reg [31:0] inbox_fourth [0:7];
reg [3:0] inbox_head, inbox_tail;
wire [3:0] inbox_count = inbox_tail - inbox_head;
wire cq_ready = inbox_count < 5;
reg cq_inside;
reg [31:0] table_ [0:15];
reg [10:0] cq_at;
reg [31:0] cq_word [0:3];
integer lane;
reg cq_begins, cq_ends, cq_end;
always @(posedge clk) if (reset) begin
    {inbox_tail, cq_inside, cq_at} = 0;
    for (lane = 0; lane < 16; lane = lane + 1) table_[lane] = lane % 4 == 3 ? 1 : 0;
end else if (cq_valid && cq_ready) begin
    for (lane = 0; lane < LANES; lane = lane + 1) begin
        if (WIDE) begin
            cq_begins = (cq_user[80] && cq_user[83:82] * 4 == lane) || (cq_user[81] && cq_user[85:84] * 4 == lane);
            cq_ends = (cq_user[86] && cq_user[91:88] == lane) || (cq_user[87] && cq_user[95:92] == lane);
        end else begin
            cq_begins = lane == 0 && cq_user[40];
            cq_ends = cq_last && cq_keep[lane] && (lane == LANES - 1 || !cq_keep[(lane + 1) % LANES]);
        end
        if (cq_begins) {cq_inside, cq_at} = {1'b1, 11'd0};
        if (cq_inside) begin
            if (cq_at < 4) cq_word[cq_at[1:0]] = cq_data[32 * lane +: 32];
            if (cq_at >= 4 && cq_word[2][14:11] == 4'b0001 && cq_word[0][12]) begin
                // A write may cover any part of the table.
                table_[cq_word[0][5:2] + cq_at[3:0] - 4'd4] = cq_data[32 * lane +: 32];
            end
            if (cq_at == 4) inbox_data[inbox_tail[2:0]] = cq_data[32 * lane +: 32];
            cq_at = cq_at + 1;
            if (cq_ends) begin
                inbox_address[inbox_tail[2:0]] = cq_word[0];
                inbox_third[inbox_tail[2:0]] = cq_word[2];
                inbox_fourth[inbox_tail[2:0]] = cq_word[3];
                inbox_tail = inbox_tail + 1;
                cq_inside = 0;
            end
        end
    end
end

// ---- completions: each word is stored at its address ----
reg [31:0] memory [0:1023];
reg rc_inside;
reg [10:0] rc_at, rc_words;
reg [9:0] rc_word;
reg [15:0] completions;
reg [3:0] error;
reg [10:0] bytes_left;
reg rc_begins, rc_ends, rc_was_inside;
reg [31:0] rc_now;
integer spot;
integer which;
reg clear;
always @(posedge clk) if (reset) begin
    {rc_inside, rc_at, completions, error, bytes_left} = 0;
end else begin
    if (clear) {completions, error, bytes_left} = 0;
    rc_was_inside = rc_inside;
    if (rc_valid) for (spot = 0; spot < LANES; spot = spot + 1) begin
        rc_begins = 0;
        rc_ends = 0;
        if (WIDE) for (which = 0; which < 4; which = which + 1) begin
            rc_begins = rc_begins || (rc_user[64 + which] && rc_user[68 + 2 * which +: 2] * 4 == spot);
            rc_ends = rc_ends || (rc_user[76 + which] && rc_user[80 + 4 * which +: 4] == spot);
        end else begin
            // is_sof_0 alone is in the lower half, unless a packet was in progress.
            rc_begins = (spot == 0 && rc_user[32] && !rc_was_inside) || (spot == 4 && rc_user[33])
                || (spot == 4 && rc_user[32] && rc_was_inside);
            rc_ends = (rc_user[34] && rc_user[37:35] == spot) || (rc_user[38] && rc_user[41:39] == spot);
        end
        if (rc_begins) {rc_inside, rc_at} = {1'b1, 11'd0};
        if (rc_inside) begin
            rc_now = rc_data[32 * spot +: 32];
            if (rc_at == 0) begin
                rc_word = rc_now[11:2];
                if (rc_now[15:12] != 0) error = rc_now[15:12];
                completions = completions + 1;
                if (rc_now[30]) bytes_left = bytes_left + 1;
            end
            if (rc_at >= 3) begin
                memory[rc_word] = rc_now;
                rc_word = rc_word + 1;
            end
            rc_at = rc_at + 1;
            if (rc_ends) rc_inside = 0;
        end
    end
end

// ---- registers, and completions of the design ----
reg [63:0] source, destination;
reg [12:0] bytes;
reg [7:0] wrote, copies_as;
reg start;
reg [3:0] wrong;
reg [15:0] core_tags;
reg busy;
wire [31:0] in_address = inbox_address[inbox_head[2:0]];
wire [31:0] in_data = inbox_data[inbox_head[2:0]];
wire [31:0] in_third = inbox_third[inbox_head[2:0]];
wire [31:0] in_fourth = inbox_fourth[inbox_head[2:0]];
wire in_write = in_third[14:11] == 4'b0001;
wire [31:0] value = in_address[12] ? table_[in_address[5:2]]
    : in_address[5:2] == 0 ? 32'h0c0de001 : in_address[5:2] == 2 ? source[31:0] : in_address[5:2] == 9 ? {completions, 4'd0, error, 7'd0, busy}
    : in_address[5:2] == 10 ? {24'd0, wrote} : in_address[5:2] == 12 ? {16'd0, core_tags} : 32'd0;
// The first half of a completion on 64 bits has been sent.
reg half;
wire [127:0] answer = {value,
    // attributes, class, completer (only its function number), tag
    1'b0, in_fourth[30:25], 1'b0, 8'd0, in_fourth[15:8], in_fourth[7:0],
    in_third[31:16], 5'd0, 11'd1,
    3'd0, 13'd4, 9'd0, in_address[6:2], 2'd0};
wire [511:0] wide_answer = {384'd0, answer};
always @(posedge clk) if (reset) begin
    {inbox_head, cc_valid, cc_last, start, wrong, half, source, destination, bytes, wrote, copies_as} <= 0;
end else begin
    start <= 0;
    wrong <= 0;
    if (cc_valid && cc_ready[0]) cc_valid <= 0;
    if (inbox_count != 0 && in_write) begin
        inbox_head <= inbox_head + 1;
        wrote <= in_fourth[15:8];
        if (!in_address[12]) case (in_address[5:2])
            2: source[31:0] <= in_data;
            3: source[63:32] <= in_data;
            4: destination[31:0] <= in_data;
            5: destination[63:32] <= in_data;
            6: bytes <= in_data[12:0];
            7: start <= 1;
            8: wrong <= in_data[3:0];
            11: copies_as <= in_data[7:0];
            default: ;
        endcase
    end else if (inbox_count != 0 && (!cc_valid || cc_ready[0])) begin
        cc_valid <= 1;
        cc_user <= 0;
        if (WIDTH == 64) begin
            cc_data <= half ? answer[127:64] : answer[63:0];
            {cc_last, cc_keep, half} <= {half, {LANES{1'b1}}, !half};
        end else begin
            cc_data <= wide_answer[WIDTH-1:0];
            {cc_last, cc_keep} <= {1'b1, {LANES{1'b0}} | 4'hf};
            // is_sop, and is_eop in lane 3
            if (WIDE) {cc_user[0], cc_user[6], cc_user[11:8]} <= {1'b1, 1'b1, 4'd3};
        end
        if (WIDTH != 64 || half) inbox_head <= inbox_head + 1;
    end
end

// ---- requests of the design ----
localparam IDLE = 0, READ = 1, WAIT = 2, WRITE = 3, SETTLE = 4, NOTIFY = 5, ANSWER = 6;
reg [2:0] state;
reg [6:0] piece;
reg [5:0] at;
reg [5:0] last_left;
reg [3:0] mistake;
reg [1:0] again;
wire [6:0] reads = bytes[12:6];
wire [5:0] writes = bytes[12:7];
// A read of 64 B, or a write of 128 B.
wire is_write = state == WRITE;
wire [63:0] address = is_write ? destination + {piece, 7'd0} + (mistake == 3 ? 64'd4064 : 64'd0) : source + {piece, 6'd0};
wire [7:0] tag = mistake == 4 ? 8'd0 : {2'd0, piece[5:0]};
wire [127:0] descriptor = {1'b0, 3'd0, 3'd0, 1'b0, 8'd0, 8'd0, tag,
    8'd0, copies_as, 1'b0, is_write ? 4'b0001 : 4'b0000, is_write ? (mistake == 2 ? 11'd33 : 11'd32) : 11'd16,
    address};
wire [6:0] words = is_write ? 36 : 4;
integer k;
reg [6:0] word;
always @(posedge clk) if (reset) begin
    {state, rq_valid, msix, busy, core_tags, clear, mistake} <= 0;
end else begin
    clear <= 0;
    msix <= 0;
    core_tags <= core_tags + tag0_valid + tag1_valid;
    if (sequence0_valid) last_left <= sequence0;
    if (sequence1_valid) last_left <= sequence1;
    if (rq_valid && rq_ready[0]) rq_valid <= 0;
    case (state)
        IDLE: if (start || wrong != 0) begin
            {busy, clear, piece, at, mistake} <= {1'b1, 1'b1, 7'd0, 6'd0, wrong};
            state <= wrong == 2 || wrong == 3 ? WRITE : READ;
            last_left <= 6'h3f;
        end
        READ, WRITE: if (!rq_valid || rq_ready[0]) begin
            for (k = 0; k < LANES; k = k + 1) begin
                word = at * LANES + k;
                rq_keep[k] <= word < words;
                rq_data[32 * k +: 32] <= word < 4 ? descriptor[32 * word[1:0] +: 32] : memory[{piece[4:0], 5'd0} + word - 4];
            end
            rq_valid <= 1;
            rq_last <= (at + 1) * LANES >= words;
            rq_user <= 0;
            if (WIDE) begin
                {rq_user[3:0], rq_user[11:8], rq_user[66:61]} <= {4'hf, 4'hf, 1'b0, piece[4:0]};
                rq_user[20] <= at == 0;
                rq_user[26] <= (at + 1) * LANES >= words;
                rq_user[31:28] <= (words - 1) % LANES;
            end else {rq_user[7:0], rq_user[27:24]} <= {8'hff, piece[3:0]};
            at <= at + 1;
            if ((at + 1) * LANES >= words) begin
                at <= 0;
                piece <= piece + 1;
                if (is_write && piece + 1 == writes || mistake == 2 || mistake == 3) state <= mistake == 0 ? SETTLE : ANSWER;
                if (!is_write && piece + 1 == reads) state <= WAIT;
            end
        end
        WAIT: if (bytes_left == {4'd0, reads} || mistake != 0) begin
            piece <= 0;
            state <= mistake == 0 && error == 0 ? WRITE : ANSWER;
        end
        // The interrupt follows the last write.
        SETTLE: if (WIDE ? last_left[4:0] == piece[4:0] - 5'd1 : last_left[3:0] == piece[3:0] - 4'd1) state <= NOTIFY;
        NOTIFY: begin
            {msix, msix_address, msix_data} <= {1'b1, table_[1], table_[0], table_[2]};
            state <= ANSWER;
        end
        default: begin
            busy <= !(sent || failed || mistake != 0 || error != 0);
            if (sent || failed || mistake != 0 || error != 0) state <= IDLE;
        end
    endcase
end

`ifdef PLUS
pcie4_uscale_plus_0 block (
    .user_clk(clk), .user_reset(reset), .user_lnk_up(up), .sys_clk(1'b0), .sys_clk_gt(1'b0), .sys_reset(reset_n),
    .s_axis_rq_tdata(rq_data), .s_axis_rq_tkeep(rq_keep), .s_axis_rq_tlast(rq_last), .s_axis_rq_tvalid(rq_valid),
    .s_axis_rq_tuser(rq_user[RQ-1:0]), .s_axis_rq_tready(rq_ready),
    .m_axis_rc_tdata(rc_data), .m_axis_rc_tkeep(rc_keep), .m_axis_rc_tlast(rc_last), .m_axis_rc_tvalid(rc_valid),
    .m_axis_rc_tuser(rc_user_), .m_axis_rc_tready(1'b1),
    .m_axis_cq_tdata(cq_data), .m_axis_cq_tkeep(cq_keep), .m_axis_cq_tlast(cq_last), .m_axis_cq_tvalid(cq_valid),
    .m_axis_cq_tuser(cq_user_), .m_axis_cq_tready(cq_ready), .pcie_cq_np_req(2'b01),
    .s_axis_cc_tdata(cc_data), .s_axis_cc_tkeep(cc_keep), .s_axis_cc_tlast(cc_last), .s_axis_cc_tvalid(cc_valid),
    .s_axis_cc_tuser(cc_user[CC-1:0]), .s_axis_cc_tready(cc_ready),
    .pcie_rq_seq_num0(sequence0), .pcie_rq_seq_num_vld0(sequence0_valid),
    .pcie_rq_seq_num1(sequence1), .pcie_rq_seq_num_vld1(sequence1_valid),
    .pcie_rq_tag_vld0(tag0_valid), .pcie_rq_tag_vld1(tag1_valid),
    .cfg_interrupt_msix_address(msix_address), .cfg_interrupt_msix_data(msix_data), .cfg_interrupt_msix_int(msix),
    .cfg_interrupt_msi_function_number(copies_as), .cfg_interrupt_msi_int(32'd0),
    .cfg_interrupt_msi_sent(sent), .cfg_interrupt_msi_fail(failed)
);
`else
assign {sequence0[5:4], sequence1, sequence1_valid, tag1_valid} = 0;
pcie3_ultrascale_0 block (
    .user_clk(clk), .user_reset(reset), .user_lnk_up(up), .sys_clk(1'b0), .sys_clk_gt(1'b0), .sys_reset(reset_n),
    .s_axis_rq_tdata(rq_data), .s_axis_rq_tkeep(rq_keep), .s_axis_rq_tlast(rq_last), .s_axis_rq_tvalid(rq_valid),
    .s_axis_rq_tuser(rq_user[RQ-1:0]), .s_axis_rq_tready(rq_ready),
    .m_axis_rc_tdata(rc_data), .m_axis_rc_tkeep(rc_keep), .m_axis_rc_tlast(rc_last), .m_axis_rc_tvalid(rc_valid),
    .m_axis_rc_tuser(rc_user_), .m_axis_rc_tready(1'b1),
    .m_axis_cq_tdata(cq_data), .m_axis_cq_tkeep(cq_keep), .m_axis_cq_tlast(cq_last), .m_axis_cq_tvalid(cq_valid),
    .m_axis_cq_tuser(cq_user_), .m_axis_cq_tready(cq_ready), .pcie_cq_np_req(1'b1),
    .s_axis_cc_tdata(cc_data), .s_axis_cc_tkeep(cc_keep), .s_axis_cc_tlast(cc_last), .s_axis_cc_tvalid(cc_valid),
    .s_axis_cc_tuser(cc_user[CC-1:0]), .s_axis_cc_tready(cc_ready),
    .pcie_rq_seq_num(sequence0[3:0]), .pcie_rq_seq_num_vld(sequence0_valid), .pcie_rq_tag_vld(tag0_valid),
    .cfg_interrupt_msix_address(msix_address), .cfg_interrupt_msix_data(msix_data), .cfg_interrupt_msix_int(msix),
    .cfg_interrupt_msi_function_number(4'd0), .cfg_interrupt_msi_int(32'd0),
    .cfg_interrupt_msix_sent(sent), .cfg_interrupt_msix_fail(failed)
);
`endif
endmodule
