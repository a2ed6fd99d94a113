// SPDX-License-Identifier: Apache-2.0 OR MIT
// Posted requests from the link. Memory writes become bursts on the write channels of the AXI4 master, in order and with one ID. MSIs and
// messages become pulses, after all earlier writes have their responses (PCIe 6.0 Table 2-42).
// A bus that makes no progress for `bus_timeout` cycles is given up: further writes are dropped until it has answered all bursts. The data
// that remain of a burst are then written without strobes.
// Handshake: rx_* is a stream of whole TLPs; AXI4.
module pcie_root_complex_posted #(
    parameter int DATA_WIDTH = 256,
    parameter int MAX_PAYLOAD = 256,
    parameter int MAX_BURST = 16,
    localparam int LANES = DATA_WIDTH / 32,
    localparam int LANE = $clog2(LANES)
) (
    input logic clk,
    input logic rst,

    input logic rx_valid,
    output logic rx_ready,
    input logic rx_sop,
    input logic rx_eop,
    input logic [DATA_WIDTH-1:0] rx_data,
    input logic rx_poisoned,

    output logic [63:0] address,  // of the request that is examined
    input logic in_windows,       // it is no address of memory
    input logic bus_master,       // the root port forwards requests
    input logic msi_enable,
    input logic [63:2] msi_address,
    input logic [31:0] bus_timeout,

    output logic awvalid,
    input logic awready,
    output logic [63:0] awaddr,
    output logic [7:0] awlen,
    output logic wvalid,
    input logic wready,
    output logic [DATA_WIDTH-1:0] wdata,
    output logic [DATA_WIDTH/8-1:0] wstrb,
    output logic wlast,
    input logic bvalid,
    input logic berror,         // SLVERR or DECERR

    output logic [1:0] waits,   // TLPs that are here and not counted in `begun`
    output logic leaves,        // one of them is counted or dropped in this cycle
    output logic [7:0] begun,   // bursts, with those of this cycle
    output logic [7:0] done,    // responses
    output logic stalled,

    output logic msi_valid,     // pulse
    output logic [31:0] msi_data,
    output logic message_valid, // pulse
    output logic [7:0] message_code,
    output logic [15:0] requester,

    output logic [23:0] events,
    output logic [5:0] errors,
    output logic [127:0] error_header
);
    `include "pcie_root_complex.svh"
    localparam int BYTE = $clog2(DATA_WIDTH / 8);  // bits of an address within a word
    localparam int COUNT = $clog2(MAX_PAYLOAD * 8 / DATA_WIDTH + 2) + 1;
    localparam int BLOCK = $clog2(MAX_BURST);      // a burst stays in an aligned block of MAX_BURST words

    // ---- first stage: a beat and the fields of its header ----
    // verilator lint_off UNUSEDSIGNAL
    logic [31:0] h0, h1, h2, h3;  // the fields that are not checked have no user
    // verilator lint_on UNUSEDSIGNAL
    assign h0 = {rx_data[7:0], rx_data[15:8], rx_data[23:16], rx_data[31:24]};
    assign h1 = {rx_data[39:32], rx_data[47:40], rx_data[55:48], rx_data[63:56]};
    assign h2 = {rx_data[71:64], rx_data[79:72], rx_data[87:80], rx_data[95:88]};
    assign h3 = {rx_data[103:96], rx_data[111:104], rx_data[119:112], rx_data[127:120]};

    logic raw_valid, raw_sop, raw_eop, raw_poisoned, raw_take;
    logic [DATA_WIDTH-1:0] raw;
    logic raw_write, raw_message, raw_marked, raw_wide;
    logic [9:0] raw_length;
    logic [7:0] raw_bes;
    assign rx_ready = !raw_valid || raw_take;
    always_ff @(posedge clk)
        if (rst) raw_valid <= 1'b0;
        else if (rx_ready) raw_valid <= rx_valid;
    always_ff @(posedge clk)
        if (rx_valid && rx_ready) begin
            raw_sop <= rx_sop;
            raw_eop <= rx_eop;
            raw_poisoned <= rx_eop && rx_poisoned;
            raw <= rx_data;
            if (rx_sop) begin
                raw_write <= !h0[31] && h0[30] && h0[28:24] == 5'd0;
                raw_message <= !h0[31] && h0[29] && h0[28:27] == 2'b10;
                raw_wide <= h0[29];
                raw_marked <= h0[14];
                raw_length <= h0[9:0];
                raw_bes <= h1[7:0];
                address <= h0[29] ? {h2, h3[31:2], 2'd0} : {32'd0, h2[31:2], 2'd0};
            end
        end

    // ---- second stage: the verdict, and where the data go ----
    logic beat_valid, beat_sop, beat_eop, beat_poisoned, beat_take;
    logic [DATA_WIDTH-1:0] beat;
    logic is_message, is_msi, is_data, malformed, unsupported, marked, one_word, wide;
    logic [3:0] first_be, last_be;
    logic [63:BYTE] first_word;
    logic [LANE-1:0] first_lane, last_lane, shift;
    logic skip;
    logic [COUNT-1:0] words_in, words_out;
    logic [7:0] bursts;

    // verilator lint_off UNUSEDSIGNAL
    logic [10:0] raw_last;  // last double-word in the page; only the carry counts
    logic [9:0] in_span, out_span;
    // verilator lint_on UNUSEDSIGNAL
    logic raw_one, raw_malformed, raw_msi, raw_unsupported;
    logic [2:0] header_words;
    logic [10:0] block_span;
    assign raw_one = raw_length == 10'd1;
    assign raw_last = {1'b0, address[11:2]} + 11'(raw_length) - 11'd1;
    assign raw_malformed = raw_write && (raw_length == '0 || raw_length > 10'(MAX_PAYLOAD / 4) || raw_last[10]
        || (raw_one ? raw_bes[7:4] != '0 : raw_bes[3:0] == '0 || raw_bes[7:4] == '0));
    assign raw_msi = raw_write && bus_master && msi_enable && address[63:2] == msi_address;
    assign raw_unsupported = raw_write ? !bus_master || (in_windows && !raw_msi) : !raw_message;
    // Lanes of the stream to lanes of the bus: the first word may begin before or after the TLP's first beat.
    assign header_words = raw_wide ? 3'd4 : 3'd3;
    assign in_span = 10'(header_words) + raw_length - 10'd1;
    assign out_span = 10'(address[2+:LANE]) + raw_length - 10'd1;
    assign block_span = 11'(address[BYTE+:BLOCK]) + 11'(out_span[9:LANE]);

    assign raw_take = !beat_valid || beat_take;
    always_ff @(posedge clk)
        if (rst) beat_valid <= 1'b0;
        else if (raw_take) beat_valid <= raw_valid;
    always_ff @(posedge clk)
        if (raw_valid && raw_take) begin
            beat_sop <= raw_sop;
            beat_eop <= raw_eop;
            beat_poisoned <= raw_poisoned;
            beat <= raw;
            if (raw_sop) begin
                is_message <= raw_message;
                is_msi <= raw_msi;
                is_data <= raw_write && !raw_msi && !raw_malformed && !raw_unsupported && !raw_marked;
                malformed <= raw_malformed;
                unsupported <= raw_unsupported;
                marked <= raw_marked;
                one_word <= raw_one;
                wide <= raw_wide;
                {last_be, first_be} <= raw_bes;
                message_code <= raw_bes;
                requester <= {raw[39:32], raw[47:40]};
                first_word <= address[63:BYTE];
                first_lane <= address[2+:LANE];
                last_lane <= out_span[LANE-1:0];
                shift <= address[2+:LANE] - LANE'(header_words);
                skip <= 5'(address[2+:LANE]) < 5'(header_words);
                words_in <= COUNT'(in_span[9:LANE]) + COUNT'(1);
                words_out <= COUNT'(out_span[9:LANE]) + COUNT'(1);
                bursts <= 8'(block_span >> BLOCK) + 8'd1;
                error_header <= raw[127:0];
            end
        end

    // ---- flow of a TLP ----
    typedef enum logic [1:0] {HEADER, BODY, DRAIN, VECTOR} state_t;
    state_t state;
    logic begins, sends, starts, pulses, skips, quiet, full, align_ready, align_take, more_data, vector_later;
    logic [COUNT-1:0] body_left, aw_left;
    assign begins = state == HEADER && beat_valid && beat_sop;
    assign sends = begins && is_data && !stalled && aw_left == '0 && !full;
    assign starts = sends && align_ready;
    assign quiet = stalled || begun_kept == done;
    assign pulses = begins && (is_message || is_msi);
    assign skips = state == HEADER && beat_valid && (!beat_sop || (!is_message && !is_msi && (!is_data || stalled)));
    assign beat_take = beat_valid && (state == HEADER ? align_take || skips || (pulses && quiet) : state == BODY ? align_take || stalled : 1'b1);
    // After its payload a TLP may have a digest.
    assign more_data = (state == BODY ? body_left : words_in) > COUNT'(1);
    // The data of an MSI are in the next beat if the header fills this one.
    assign vector_later = LANES == 4 && wide;

    always_ff @(posedge clk)
        if (rst) state <= HEADER;
        else if (beat_take) begin
            if (beat_eop) state <= HEADER;
            else if (starts || (state == BODY && !stalled)) state <= more_data ? BODY : DRAIN;
            else state <= begins && is_msi && vector_later ? VECTOR : DRAIN;
        end
    always_ff @(posedge clk) if (beat_take) body_left <= (state == BODY ? body_left : words_in) - COUNT'(1);

    // ---- write addresses: one burst for each aligned block ----
    logic [63:BYTE] aw_word;
    logic [COUNT-1:0] aw_now;
    logic [BLOCK:0] block_left;
    logic aw_loads;
    assign block_left = (BLOCK + 1)'(MAX_BURST) - {1'b0, aw_word[BYTE+:BLOCK]};
    assign aw_now = 16'(aw_left) > 16'(block_left) ? COUNT'(block_left) : aw_left;
    assign aw_loads = aw_left != '0 && (!awvalid || awready);
    always_ff @(posedge clk)
        if (rst) begin
            awvalid <= 1'b0;
            aw_left <= '0;
        end else begin
            if (aw_loads) awvalid <= 1'b1;
            else if (awready) awvalid <= 1'b0;
            if (starts) aw_left <= words_out;
            else if (aw_loads) aw_left <= aw_left - aw_now;
        end
    always_ff @(posedge clk) begin
        if (starts) aw_word <= first_word;
        else if (aw_loads) aw_word[11:BYTE] <= aw_word[11:BYTE] + (12 - BYTE)'(aw_now);  // a TLP stays in its page
        if (aw_loads) begin
            awaddr <= {aw_word, BYTE'(0)};
            awlen <= 8'(aw_now) - 8'd1;
        end
    end

    // ---- counts of bursts ----
    logic [7:0] begun_kept, in_flight;
    assign begun = starts ? begun_kept + bursts : begun_kept;
    assign in_flight = begun_kept - done;
    assign full = in_flight >= 8'd64;
    always_ff @(posedge clk)
        if (rst) begin
            begun_kept <= '0;
            done <= '0;
        end else begin
            begun_kept <= begun;
            if (bvalid) done <= done + 1'b1;
        end
    // A TLP that is offered counts: it came before what is offered on the other streams.
    assign waits = 2'(rx_valid && rx_sop) + 2'(raw_valid && raw_sop) + 2'(begins);
    assign leaves = begins && beat_take;

    // ---- write data ----
    logic step, step_first, step_last, single, data_valid;
    logic [LANE-1:0] from, to;
    logic [3:0] be_first, be_last;
    logic [BLOCK-1:0] start_block, block_at, at;
    pcie_packetizer_align #(
        .LANES(LANES),
        .COUNT(COUNT),
        .CONTEXT(2 * LANE + 8 + BLOCK + 1)
    ) align (
        .clk(clk),
        .rst(rst),
        .cancel(stalled),
        .command_valid(sends),
        .command_ready(align_ready),
        .command_shift(shift),
        .command_skip(skip),
        .command_in(words_in),
        .command_out(words_out),
        .command_context({first_lane, last_lane, first_be, last_be, first_word[BYTE+:BLOCK], one_word}),
        .in_valid(beat_valid && (state == BODY || sends)),
        .in_take(align_take),
        .in_data(beat),
        .step(step),
        .step_first(step_first),
        .step_last(step_last),
        .step_context({from, to, be_first, be_last, start_block, single}),
        .out_valid(data_valid),
        .out_ready(wready),
        .out_data(wdata)
    );

    logic [LANES*4-1:0] strobes;
    always_comb
        for (int n = 0; n < LANES; n++) begin
            strobes[4*n+:4] = 4'hf;
            if (step_first && LANE'(n) < from) strobes[4*n+:4] = 4'd0;
            if (step_last && LANE'(n) > to) strobes[4*n+:4] = 4'd0;
            if (step_last && LANE'(n) == to && !single) strobes[4*n+:4] = be_last;
            if (step_first && LANE'(n) == from) strobes[4*n+:4] = be_first;
        end

    // After the bus was given up, words without strobes complete the bursts.
    logic fill_valid, fill_loads;
    logic [COUNT-1:0] w_left;
    assign wvalid = data_valid || fill_valid;
    assign fill_loads = stalled && w_left != '0 && (!wvalid || wready);
    assign at = step && step_first ? start_block : block_at;
    always_ff @(posedge clk)
        if (rst) begin
            w_left <= '0;
            fill_valid <= 1'b0;
        end else begin
            if (starts) w_left <= words_out - COUNT'(step);
            else if (step || fill_loads) w_left <= w_left - COUNT'(1);
            if (fill_loads) fill_valid <= 1'b1;
            else if (wready) fill_valid <= 1'b0;
        end
    always_ff @(posedge clk) begin
        if (starts && !step) block_at <= first_word[BYTE+:BLOCK];
        else if (step || fill_loads) block_at <= at + 1'b1;
        if (step || fill_loads) begin
            wstrb <= step ? strobes : '0;
            wlast <= at == '1 || (step ? step_last : w_left == COUNT'(1));
        end
    end

    // ---- a bus that stalls ----
    logic [31:0] idle;
    logic stalls;
    assign stalls = !stalled && idle >= bus_timeout && begun_kept != done && !starts;
    always_ff @(posedge clk)
        if (rst) begin
            idle <= '0;
            stalled <= 1'b0;
        end else begin
            if ((awvalid && awready) || (wvalid && wready) || bvalid || begun_kept == done) idle <= '0;
            else if (idle < bus_timeout) idle <= idle + 1'b1;
            if (begun_kept == done) stalled <= 1'b0;
            else if (stalls) stalled <= 1'b1;
        end

    // ---- MSI, messages, events ----
    logic examined, vector_here, vector_fits, refused;
    localparam int WIDE_LANE = LANES == 4 ? 0 : 4;
    assign examined = begins && beat_take;
    assign vector_here = state == VECTOR ? beat_take : examined && is_msi && !vector_later;
    assign vector_fits = one_word && !malformed && !marked && !beat_poisoned;
    assign refused = malformed || unsupported || marked;
    assign msi_valid = vector_here && vector_fits && !stalled;
    assign msi_data = wide ? beat[32*WIDE_LANE+:32] : beat[127:96];
    assign message_valid = examined && is_message;
    always_comb begin
        events = '0;
        events[EVENT_MALFORMED] = examined && !unsupported && malformed;
        events[EVENT_POSTED_UR] = examined && unsupported;
        events[EVENT_POSTED_POISONED] = (examined && !unsupported && !malformed && marked && !is_message) || (beat_take && beat_poisoned && is_data);
        events[EVENT_STALL_DROP] = stalled && ((examined && !is_message && !refused) || (state == BODY && beat_take));
        events[EVENT_MSI] = msi_valid;
        events[EVENT_MSI_BAD] = vector_here && !vector_fits;
        events[EVENT_WRITE_ERROR] = bvalid && berror;
        events[EVENT_STALL] = stalls;
        errors = '0;
        errors[ERROR_MALFORMED] = events[EVENT_MALFORMED];
        errors[ERROR_UNSUPPORTED] = events[EVENT_POSTED_UR];
        errors[ERROR_POISONED] = events[EVENT_POSTED_POISONED];
    end

`ifdef PROVE_ROOT_COMPLEX
`include "root_complex_posted_properties.svh"
`endif
endmodule
