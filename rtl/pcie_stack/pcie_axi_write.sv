// SPDX-License-Identifier: Apache-2.0 OR MIT
// Write channels of the AXI4 slave, one burst at a time, one double-word per cycle. Writes to device memory are collected into runs: a
// run is one memory write request. It has byte enables only as §2.2.5 of PCIe 6.0 allows them, stays in an aligned block of
// Max_Payload_Size, and skips double-words without strobes. Its response is sent when the packetizer has the last run; the response of other
// writes comes after the access.
// Handshake: AXI4; send_* is a request to the packetizer, which takes its data by `data_take`.
module pcie_axi_write #(
    parameter int CPU_WIDTH = 64,
    parameter int CPU_ID = 4,
    parameter int MAX_PAYLOAD = 256,
    localparam int LANES = CPU_WIDTH / 32,
    localparam int LANE = $clog2(LANES)
) (
    input logic clk,
    input logic rst,

    input logic awvalid,
    output logic awready,
    input logic [CPU_ID-1:0] awid,
    input logic [63:0] awaddr,
    input logic [7:0] awlen,
    input logic [2:0] awsize,
    input logic [1:0] awburst,
    input logic wvalid,
    output logic wready,
    input logic [CPU_WIDTH-1:0] wdata,
    input logic [CPU_WIDTH/8-1:0] wstrb,
    input logic wlast,
    output logic bvalid,
    input logic bready,
    output logic [CPU_ID-1:0] bid,
    output logic [1:0] bresp,

    // The address of the burst in progress and its region
    output logic [63:0] address,
    input logic in_registers,
    input logic in_config,
    input logic in_memory,

    input logic [2:0] max_payload,

    output logic send_valid,
    input logic send_ready,
    output logic [61:0] send_address,
    output logic [9:0] send_length,
    output logic [3:0] send_first_be,
    output logic [3:0] send_last_be,
    output logic [31:0] data,
    input logic data_take,

    output logic access_valid,
    output logic access_is_register,
    output logic [25:0] access_word,
    output logic [3:0] access_be,
    output logic [31:0] access_data,
    input logic access_done,

    output logic bad_address,
    output logic bad_burst
);
    `include "pcie_root_complex.svh"
    localparam logic [2:0] SIZE = 3'($clog2(CPU_WIDTH / 8));
    localparam int WORDS = 2 * MAX_PAYLOAD / 4;
    localparam int WORD = $clog2(WORDS);

    // ---- the burst ----
    typedef enum logic [2:0] {IDLE, DECODE, BEAT, WALK, CLOSE, RESPOND} state_t;
    state_t state;
    logic [7:0] beats_left;
    logic [2:0] size;
    logic [1:0] burst, region, new_region;
    logic [7:0] len;
    logic wrong, late_wrong, is_register;
    // verilator lint_off UNUSEDSIGNAL
    logic [15:0] page_end;  // only the carry counts
    // verilator lint_on UNUSEDSIGNAL
    logic [6:0] mask;

    assign awready = state == IDLE;
    assign wready = state == BEAT;
    // A burst that leaves its page is illegal in AXI.
    logic leaves_page;
    assign mask = beat_mask(size);
    assign page_end = (({4'd0, address[11:0]} & ~{9'd0, mask}) + (16'(len) << size)) | {9'd0, mask};
    assign wrong = size > SIZE || (burst != 2'b01 && len != '0) || burst == 2'b11 || (state == DECODE ? page_end[15:12] != '0 : leaves_page);
    assign new_region = wrong ? REGION_NONE : in_registers || in_config ? REGION_SLOW : in_memory ? REGION_MEMORY : REGION_NONE;
    assign bad_burst = (state == DECODE && wrong) || (state == BEAT && wvalid && wlast != (beats_left == '0));
    assign bad_address = state == DECODE && !wrong && new_region == REGION_NONE;

    // ---- the beat ----
    logic [CPU_WIDTH-1:0] beat;
    logic [CPU_WIDTH/8-1:0] strobes;
    logic [LANE-1:0] lane;
    logic [3:0] be;
    logic [31:0] word_data;
    logic [61:0] word_at;
    logic walks, put, takes_word;
    assign be = strobes[4*lane+:4];
    assign word_data = beat[32*lane+:32];
    assign word_at = {address[63:2+LANE], lane};
    assign put = state == WALK && region == REGION_MEMORY && be != '0;
    assign access_valid = state == WALK && region == REGION_SLOW && be != '0;
    assign access_is_register = is_register;
    assign access_word = word_at[25:0];
    assign access_be = be;
    assign access_data = word_data;
    assign walks = state == WALK && (be == '0 || region == REGION_NONE || (region == REGION_MEMORY ? takes_word : access_done));

    logic beat_done;
    assign beat_done = walks && (lane == LANE'(LANES - 1) || region == REGION_NONE);
    always_ff @(posedge clk)
        if (rst) state <= IDLE;
        else
            case (state)
                IDLE: if (awvalid) state <= DECODE;
                DECODE: state <= BEAT;
                BEAT: if (wvalid) state <= WALK;
                WALK: if (beat_done) state <= beats_left == '1 ? CLOSE : BEAT;
                CLOSE: if (run_empty && !send_valid) state <= RESPOND;
                default: if (bvalid && bready) state <= IDLE;
            endcase
    assign bvalid = state == RESPOND;
    assign bresp = wrong || late_wrong ? SLVERR : region == REGION_NONE ? DECERR : OKAY;

    always_ff @(posedge clk)
        case (state)
            IDLE: begin
                bid <= awid;
                address <= awaddr;
                len <= awlen;
                beats_left <= awlen;
                size <= awsize;
                burst <= awburst;
                late_wrong <= 1'b0;
            end
            DECODE: begin
                leaves_page <= page_end[15:12] != '0;
                region <= new_region;
                is_register <= in_registers;
            end
            BEAT: begin
                beat <= wdata;
                strobes <= wstrb;
                lane <= '0;
                if (wvalid) begin
                    if (wlast != (beats_left == '0)) late_wrong <= 1'b1;
                    beats_left <= beats_left - 1'b1;  // all ones after the last beat
                end
            end
            WALK: begin
                if (walks) lane <= lane + 1'b1;
                if (beat_done) address[11:0] <= (address[11:0] | {5'd0, mask}) + 12'd1;
            end
            default: ;
        endcase

    // ---- the run ----
    logic run_empty, open, joins, may_join_low, ends_high, close;
    logic [61:0] run_address, run_next;
    logic [9:0] run_length;
    logic [3:0] run_first_be, run_last_be;
    logic [6:0] block_mask;
    logic [WORD:0] write_word, read_word;
    logic room;

    assign block_mask = 7'(MAX_PAYLOAD / 4 - 1) & (max_payload == 3'd0 ? 7'h1f : max_payload == 3'd1 ? 7'h3f : 7'h7f);
    // The next double-word joins if the byte enables of a run stay contiguous.
    assign may_join_low = be == 4'b1111 || be == 4'b0111 || be == 4'b0011 || be == 4'b0001;
    assign joins = !run_empty && open && may_join_low && word_at == run_next && (word_at[6:0] & block_mask) != '0;
    assign ends_high = run_empty || !joins ? be == 4'b1111 || be == 4'b1110 || be == 4'b1100 || be == 4'b1000 : be == 4'b1111;
    assign room = write_word - read_word != (WORD + 1)'(WORDS);
    // A run is sent when a double-word does not join it, or at the end of the burst.
    assign close = !run_empty && !send_valid && ((put && !joins) || state == CLOSE);
    assign takes_word = room && (run_empty || joins);

    logic enters;
    assign enters = put && takes_word;
    (* ram_style = "distributed" *) logic [31:0] words[0:WORDS-1];
    always_ff @(posedge clk) if (enters) words[write_word[WORD-1:0]] <= word_data;
    assign data = words[read_word[WORD-1:0]];

    always_ff @(posedge clk)
        if (rst) begin
            run_empty <= 1'b1;
            send_valid <= 1'b0;
            write_word <= '0;
            read_word <= '0;
        end else begin
            if (close) run_empty <= 1'b1;
            else if (enters) run_empty <= 1'b0;
            if (close) send_valid <= 1'b1;
            else if (send_ready) send_valid <= 1'b0;
            write_word <= write_word + (WORD + 1)'(enters);
            read_word <= read_word + (WORD + 1)'(data_take);
        end
    always_ff @(posedge clk) begin
        if (enters) begin
            if (run_empty) begin
                run_address <= word_at;
                run_first_be <= be;
            end
            run_length <= run_empty ? 10'd1 : run_length + 1'b1;
            run_last_be <= be;
            run_next <= {word_at[61:7], word_at[6:0] + 7'd1};  // a run stays in its block
            open <= ends_high;
        end
        if (close) begin
            send_address <= run_address;
            send_length <= run_length;
            send_first_be <= run_first_be;
            send_last_be <= run_length == 10'd1 ? 4'd0 : run_last_be;
        end
    end

`ifdef PROVE_AXI
`include "axi_write_properties.svh"
`endif
endmodule
