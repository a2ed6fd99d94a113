// SPDX-License-Identifier: Apache-2.0 OR MIT
// From TileLink to AXI4: a manager of TL-UL or TL-UH (channels A and D) that is the master of an AXI4 bus. TILELINK.md describes parameters,
// ports and answers. A Put goes to the bus only when its last beat is here, and an answer with data leaves only when its last beat is here.
// So a Put with an error in any beat has no effect, and bursts on D have no pauses.
// Handshake: both buses valid/ready; a_ready does not depend on channel A.
module pcie_tilelink_manager #(
    parameter int DATA_WIDTH = 64,       // of both buses: 32 to 512
    parameter int SOURCE_BITS = 4,
    parameter int SIZE_BITS = 4,         // 2 to 4
    parameter int MAX_BYTES = 64,        // largest message; DATA_WIDTH / 8 makes it TL-UL
    parameter int SLOTS = 8,             // requests on the AXI4 bus: a power of two from 2 to 64
    parameter int TIMEOUT = 100000,      // cycles without progress of the bus; 0: never
    parameter int COUNTER_WIDTH = 16,
    localparam int BYTES = DATA_WIDTH / 8,
    localparam int SLOT = $clog2(SLOTS)
) (
    input logic clk,
    input logic rst,

    // TileLink
    input logic a_valid,
    output logic a_ready,
    input logic [2:0] a_opcode,
    input logic [2:0] a_param,
    input logic [SIZE_BITS-1:0] a_size,
    input logic [SOURCE_BITS-1:0] a_source,
    input logic [63:0] a_address,
    input logic [BYTES-1:0] a_mask,
    input logic [DATA_WIDTH-1:0] a_data,
    input logic a_corrupt,
    output logic d_valid,
    input logic d_ready,
    output logic [2:0] d_opcode,
    output logic [1:0] d_param,
    output logic [SIZE_BITS-1:0] d_size,
    output logic [SOURCE_BITS-1:0] d_source,
    output logic d_sink,
    output logic d_denied,
    output logic [DATA_WIDTH-1:0] d_data,
    output logic d_corrupt,

    // AXI4 master
    output logic m_axi_awvalid,
    input logic m_axi_awready,
    output logic [SLOT-1:0] m_axi_awid,
    output logic [63:0] m_axi_awaddr,
    output logic [7:0] m_axi_awlen,
    output logic [2:0] m_axi_awsize,
    output logic [1:0] m_axi_awburst,
    output logic m_axi_wvalid,
    input logic m_axi_wready,
    output logic [DATA_WIDTH-1:0] m_axi_wdata,
    output logic [BYTES-1:0] m_axi_wstrb,
    output logic m_axi_wlast,
    input logic m_axi_bvalid,
    output logic m_axi_bready,
    input logic [SLOT-1:0] m_axi_bid,
    input logic [1:0] m_axi_bresp,
    output logic m_axi_arvalid,
    input logic m_axi_arready,
    output logic [SLOT-1:0] m_axi_arid,
    output logic [63:0] m_axi_araddr,
    output logic [7:0] m_axi_arlen,
    output logic [2:0] m_axi_arsize,
    output logic [1:0] m_axi_arburst,
    input logic m_axi_rvalid,
    output logic m_axi_rready,
    input logic [SLOT-1:0] m_axi_rid,
    input logic [DATA_WIDTH-1:0] m_axi_rdata,
    input logic [1:0] m_axi_rresp,
    input logic m_axi_rlast,

    output logic [9:0] events,
    output logic [10*COUNTER_WIDTH-1:0] counts
);
    `include "pcie_tilelink.svh"
    localparam int BYTE = $clog2(BYTES);
    localparam int LONGEST = $clog2(MAX_BYTES);
    localparam int BEATS = MAX_BYTES / BYTES;
    localparam int BEAT = BEATS > 1 ? $clog2(BEATS) : 1;
    localparam int COUNT = 14;  // beats of the longest message that a size can name

    if (DATA_WIDTH != 32 && DATA_WIDTH != 64 && DATA_WIDTH != 128 && DATA_WIDTH != 256 && DATA_WIDTH != 512)
        $error("pcie_tilelink_manager: DATA_WIDTH is %0d; expected 32, 64, 128, 256 or 512", DATA_WIDTH);
    if (SOURCE_BITS < 1 || SOURCE_BITS > 16) $error("pcie_tilelink_manager: SOURCE_BITS is %0d; expected 1 to 16", SOURCE_BITS);
    if (SIZE_BITS < 2 || SIZE_BITS > 4) $error("pcie_tilelink_manager: SIZE_BITS is %0d; expected 2 to 4", SIZE_BITS);
    if (MAX_BYTES < BYTES || MAX_BYTES > 4096 || MAX_BYTES > 256 * BYTES || 2 ** $clog2(MAX_BYTES) != MAX_BYTES || $clog2(MAX_BYTES) >= 2 ** SIZE_BITS)
        $error("pcie_tilelink_manager: MAX_BYTES is %0d; expected a power of two from a beat to 256 beats and 4096, which SIZE_BITS can name", MAX_BYTES);
    if (SLOTS < 2 || SLOTS > 64 || 2 ** $clog2(SLOTS) != SLOTS) $error("pcie_tilelink_manager: SLOTS is %0d; expected a power of two from 2 to 64", SLOTS);
    if (COUNTER_WIDTH < 1 || COUNTER_WIDTH > 32) $error("pcie_tilelink_manager: COUNTER_WIDTH is %0d; expected 1 to 32", COUNTER_WIDTH);

    // Beats of a message with data, less one.
    function automatic logic [COUNT-1:0] beats_of(input logic [SIZE_BITS-1:0] size);
        for (int n = 0; n < COUNT; n++) beats_of[n] = 32'(size) > BYTE + n;
    endfunction
    // Lanes of a message that is shorter than a beat; all of a longer one.
    function automatic logic [BYTES-1:0] lanes_of(input logic [SIZE_BITS-1:0] size, input logic [BYTE-1:0] offset);
        for (int n = 0; n < BYTES; n++) lanes_of[n] = (BYTE'(n) >> size) == (offset >> size) || 32'(size) >= BYTE;
    endfunction
    function automatic logic [11:0] offset_mask(input logic [SIZE_BITS-1:0] size);
        for (int n = 0; n < 12; n++) offset_mask[n] = 32'(size) > n;
    endfunction

    // ---- channel A: one beat ----
    logic in_valid, in_take, in_corrupt;
    logic [2:0] in_opcode, in_param;
    logic [SIZE_BITS-1:0] in_size;
    logic [SOURCE_BITS-1:0] in_source;
    logic [63:0] in_address;
    logic [BYTES-1:0] in_mask;
    logic [DATA_WIDTH-1:0] in_data;
    assign a_ready = !in_valid || in_take;
    always_ff @(posedge clk)
        if (rst) in_valid <= 1'b0;
        else if (a_ready) in_valid <= a_valid;
    always_ff @(posedge clk)
        if (a_ready) begin
            {in_opcode, in_param, in_size, in_source, in_address} <= {a_opcode, a_param, a_size, a_source, a_address};
            {in_mask, in_data, in_corrupt} <= {a_mask, a_data, a_corrupt};
        end

    // ---- its message ----
    logic continues;                // a message with more beats to come
    logic [COUNT-1:0] left;         // beats after this one, of such a message
    logic put, is_put, last, fits, stores, changed;
    logic was_malformed, was_corrupt;  // by an earlier beat
    logic malformed, corrupt, too_long, atomic, bad;
    logic [2:0] first_opcode, first_param;
    logic [SIZE_BITS-1:0] first_size;
    logic [SOURCE_BITS-1:0] first_source;
    logic [63:0] first_address;
    logic [2:0] opcode, param;
    logic [SIZE_BITS-1:0] size;
    logic [SOURCE_BITS-1:0] source;
    logic [63:0] address;
    logic [BYTES-1:0] lanes;
    assign {opcode, param, size, source, address} = continues ? {first_opcode, first_param, first_size, first_source, first_address}
        : {in_opcode, in_param, in_size, in_source, in_address};
    assign changed = {opcode, param, size, source, address} != {in_opcode, in_param, in_size, in_source, in_address};
    assign put = !opcode[2];        // Arithmetic and Logical have data as well
    assign is_put = opcode == PUT_FULL || opcode == PUT_PARTIAL;
    assign atomic = opcode == ARITHMETIC || opcode == LOGICAL;
    assign lanes = lanes_of(size, address[BYTE-1:0]);
    assign too_long = 32'(size) > LONGEST;
    assign fits = !too_long && (address[11:0] & offset_mask(size)) == '0;
    assign last = continues ? left == '0 : !put || beats_of(size) == '0;
    assign malformed = was_malformed || changed || (!too_long && !fits) || opcode[2:1] == 2'b11 || ((is_put || opcode == GET) && param != '0)
        || (opcode == PUT_PARTIAL ? (in_mask & ~lanes) != '0 : in_mask != lanes) || (!put && in_corrupt);
    assign corrupt = was_corrupt || (put && in_corrupt);
    assign bad = malformed || too_long || atomic || corrupt;
    // Beats of a Put that may be sent, up to its last one.
    assign stores = is_put && fits;

    always_ff @(posedge clk)
        if (rst) continues <= 1'b0;
        else if (in_valid && in_take) continues <= !last;
    always_ff @(posedge clk) begin
        if (in_valid && in_take) begin
            left <= (continues ? left : beats_of(size)) - 1'b1;
            was_malformed <= malformed && !last;
            was_corrupt <= corrupt && !last;
            if (!continues) {first_opcode, first_param, first_size, first_source, first_address} <= {in_opcode, in_param, in_size, in_source, in_address};
        end
        if (rst) {was_malformed, was_corrupt} <= '0;
    end

    // ---- slots: requests on the bus; and one answer that needs no bus ----
    logic [SLOTS-1:0] owed;         // the bus has not answered
    logic [SLOTS-1:0] unanswered;   // channel D has not answered
    logic [SLOTS-1:0] failed;       // given up
    logic [SLOTS-1:0] denied, reads;
    logic [SIZE_BITS-1:0] slot_size[0:SLOTS-1];
    logic [SOURCE_BITS-1:0] slot_source[0:SLOTS-1];
    logic [BEAT-1:0] arrived[0:SLOTS-1];
    logic local_valid, local_denied;
    logic [2:0] local_opcode;
    logic [SIZE_BITS-1:0] local_size;
    logic [SOURCE_BITS-1:0] local_source;

    logic stalled, stall_begins, in_use, free_found, needs_bus, accepts, store_ready, refuses;
    logic [SLOT-1:0] free;
    // A slot that is given up is free only when the bus owes nothing more: until then, messages need no slot.
    always_comb begin
        in_use = local_valid && local_source == source;
        for (int n = 0; n < SLOTS; n++) if (unanswered[n] && slot_source[n] == source) in_use = 1'b1;
        free = '0;
        free_found = 1'b0;
        for (int n = SLOTS - 1; n >= 0; n--)
            if (!unanswered[n]) begin
                free = SLOT'(n);
                free_found = 1'b1;
            end
    end
    assign needs_bus = !bad && !stalled && opcode != INTENT;
    assign in_take = (!stores || store_ready) && (!last || (!in_use && (needs_bus ? free_found : !local_valid)));
    assign accepts = in_valid && in_take && last && needs_bus;
    assign refuses = in_valid && in_take && last && !needs_bus;

    logic [SLOTS-1:0] begin_slot, answer_slot, bus_slot, drop_slot;
    always_ff @(posedge clk)
        if (rst) begin
            owed <= '0;
            unanswered <= '0;
            failed <= '0;
            local_valid <= 1'b0;
        end else begin
            owed <= (owed & ~bus_slot & ~drop_slot) | begin_slot;
            unanswered <= (unanswered & ~answer_slot) | begin_slot;
            failed <= (failed & ~answer_slot) | (stalled ? unanswered & owed & ~answer_slot & ~bus_slot : '0);
            if (refuses) local_valid <= 1'b1;
            else if (local_answered) local_valid <= 1'b0;
        end
    assign begin_slot = accepts ? SLOTS'(1) << free : '0;
    always_ff @(posedge clk) begin
        if (accepts) begin
            slot_size[free] <= size;
            slot_source[free] <= source;
            reads[free] <= opcode == GET;
        end
        if (refuses) begin
            local_size <= size;
            local_source <= source;
            local_opcode <= opcode == INTENT ? HINT_ACK : atomic || opcode == GET ? ACCESS_ACK_DATA : ACCESS_ACK;
            local_denied <= bad || opcode != INTENT;
        end
    end

    // ---- requests to the bus ----
    localparam int REQUEST = SLOT + SIZE_BITS + 64;
    logic aw_valid, ar_valid, ar_pop;
    logic [SLOT-1:0] aw_slot, ar_slot;
    logic [SIZE_BITS-1:0] aw_size, ar_size;
    logic [63:0] ar_address;
    // verilator lint_off PINCONNECTEMPTY
    pcie_tl_fifo #(
        .WIDTH(REQUEST),
        .DEPTH(SLOTS)
    ) aw_queue (
        .clk(clk),
        .rst(rst),
        .push(accepts && is_put),
        .push_data({free, size, address}),
        .pop(m_axi_awvalid && m_axi_awready),
        .valid(aw_valid),
        .head({aw_slot, aw_size, m_axi_awaddr}),
        .count()
    );
    pcie_tl_fifo #(
        .WIDTH(REQUEST),
        .DEPTH(SLOTS)
    ) ar_queue (
        .clk(clk),
        .rst(rst),
        .push(accepts && !is_put),
        .push_data({free, size, address}),
        .pop(ar_pop),
        .valid(ar_valid),
        .head({ar_slot, ar_size, ar_address}),
        .count()
    );
    // verilator lint_on PINCONNECTEMPTY
    assign m_axi_awvalid = aw_valid;
    assign m_axi_awid = aw_slot;
    assign m_axi_awlen = 8'(beats_of(aw_size));
    assign m_axi_awsize = 32'(aw_size) > BYTE ? 3'(BYTE) : 3'(aw_size);
    assign m_axi_awburst = 2'b01;
    assign m_axi_arburst = 2'b01;
    // Reads that the bus has not been offered are dropped when it is given up.
    assign ar_pop = ar_valid && (!m_axi_arvalid || m_axi_arready);
    assign drop_slot = ar_pop && stalled ? SLOTS'(1) << ar_slot : '0;
    always_ff @(posedge clk)
        if (rst) m_axi_arvalid <= 1'b0;
        else if (ar_pop) m_axi_arvalid <= !stalled;
        else if (m_axi_arready) m_axi_arvalid <= 1'b0;
    always_ff @(posedge clk)
        if (ar_pop && !stalled) begin
            m_axi_arid <= ar_slot;
            m_axi_araddr <= ar_address;
            m_axi_arlen <= 8'(beats_of(ar_size));
            m_axi_arsize <= 32'(ar_size) > BYTE ? 3'(BYTE) : 3'(ar_size);
        end

    // Data of Puts. If the bus is given up, the rest has no strobes.
    logic row_valid, row_pop, row_last;
    logic [BYTES-1:0] row_mask;
    logic [DATA_WIDTH-1:0] row_data;
    // verilator lint_off PINCONNECTEMPTY
    pcie_stack_store #(
        .WIDTH(DATA_WIDTH + BYTES),
        .ROWS(BEATS > 2 ? 2 * BEATS : 4)
    ) store (
        .clk(clk),
        .rst(rst),
        .in_valid(in_valid && in_take && stores),
        .in_ready(store_ready),
        .in_eop(last),
        .in_cut(!needs_bus),
        .in_row({in_mask, in_data}),
        .out_valid(row_valid),
        .out_ready(row_pop),
        .out_eop(row_last),
        .out_row({row_mask, row_data}),
        .tlps()
    );
    // verilator lint_on PINCONNECTEMPTY
    assign row_pop = row_valid && (!m_axi_wvalid || m_axi_wready);
    always_ff @(posedge clk)
        if (rst) m_axi_wvalid <= 1'b0;
        else if (row_pop) m_axi_wvalid <= 1'b1;
        else if (m_axi_wready) m_axi_wvalid <= 1'b0;
    always_ff @(posedge clk)
        if (row_pop) begin
            m_axi_wdata <= row_data;
            m_axi_wstrb <= stalled ? '0 : row_mask;
            m_axi_wlast <= row_last;
        end

    // ---- answers of the bus ----
    logic b_fits, r_fits, r_end, r_done, r_wrong;
    logic [SLOTS-1:0] b_slot, r_slot;
    assign m_axi_bready = 1'b1;
    assign m_axi_rready = 1'b1;
    assign b_fits = m_axi_bvalid && owed[m_axi_bid] && !reads[m_axi_bid];
    assign r_fits = m_axi_rvalid && owed[m_axi_rid] && reads[m_axi_rid];
    assign r_end = COUNT'(arrived[m_axi_rid]) == beats_of(slot_size[m_axi_rid]);
    assign r_done = r_fits && (r_end || m_axi_rlast);
    assign r_wrong = r_fits && r_end != m_axi_rlast;
    assign b_slot = b_fits ? SLOTS'(1) << m_axi_bid : '0;
    assign r_slot = r_fits ? SLOTS'(1) << m_axi_rid : '0;
    assign bus_slot = b_slot | (r_done ? r_slot : '0);
    // DECERR of any beat and a burst of the wrong length deny the whole message. SLVERR makes a beat corrupt.
    (* ram_style = "distributed" *) logic [DATA_WIDTH:0] rows[0:SLOTS*2**BEAT-1];
    always_ff @(posedge clk) if (m_axi_rvalid) rows[{m_axi_rid, arrived[m_axi_rid]}] <= {m_axi_rresp[1], m_axi_rdata};
    always_ff @(posedge clk) begin
        if (accepts) arrived[free] <= '0;
        if (r_fits) arrived[m_axi_rid] <= arrived[m_axi_rid] + 1'b1;
        denied <= (denied & ~begin_slot) | (b_slot & {SLOTS{m_axi_bresp[1]}}) | (r_slot & {SLOTS{m_axi_rresp == DECERR || r_wrong}});
    end
    pcie_tilelink_timer #(
        .TIMEOUT(TIMEOUT)
    ) timer (
        .clk(clk),
        .rst(rst),
        .owing(owed != '0),
        .progress((m_axi_awvalid && m_axi_awready) || (m_axi_wvalid && m_axi_wready) || (m_axi_arvalid && m_axi_arready) || m_axi_bvalid || m_axi_rvalid),
        .stalled(stalled),
        .begins(stall_begins)
    );

    // ---- channel D: one answer after another ----
    logic [SLOTS:0] ready, later;
    logic sending, pick, found, fill, final_beat, local_answered, is_local, current_denied, row_corrupt;
    logic [SLOT:0] chosen, current;
    logic [COUNT-1:0] beat;
    logic [2:0] current_opcode;
    logic [SIZE_BITS-1:0] current_size;
    logic [DATA_WIDTH-1:0] answer_data;
    always_comb begin
        ready = {local_valid, unanswered & (~owed | failed)};
        if (sending) ready[current] = 1'b0;
        // The first one after the current one, or the first of all.
        for (int n = 0; n <= SLOTS; n++) later[n] = ready[n] && n > 32'(current);
        chosen = '0;
        found = 1'b0;
        for (int n = SLOTS; n >= 0; n--)
            if (later != '0 ? later[n] : ready[n]) begin
                chosen = (SLOT + 1)'(n);
                found = 1'b1;
            end
    end
    assign is_local = current == (SLOT + 1)'(SLOTS);
    assign fill = sending && (!d_valid || d_ready);
    assign pick = found && (!sending || (fill && final_beat));
    assign current_opcode = is_local ? local_opcode : reads[current[SLOT-1:0]] ? ACCESS_ACK_DATA : ACCESS_ACK;
    assign current_size = is_local ? local_size : slot_size[current[SLOT-1:0]];
    assign current_denied = is_local ? local_denied : denied[current[SLOT-1:0]] || failed[current[SLOT-1:0]];
    assign {row_corrupt, answer_data} = rows[{current[SLOT-1:0], beat[BEAT-1:0]}];
    assign final_beat = current_opcode != ACCESS_ACK_DATA || beat == beats_of(current_size);
    assign local_answered = fill && final_beat && is_local;
    assign answer_slot = fill && final_beat && !is_local ? SLOTS'(1) << current[SLOT-1:0] : '0;
    assign d_param = '0;
    assign d_sink = 1'b0;
    always_ff @(posedge clk)
        if (rst) begin
            sending <= 1'b0;
            d_valid <= 1'b0;
            current <= '0;
        end else begin
            if (pick) begin
                sending <= 1'b1;
                current <= chosen;
            end else if (fill && final_beat) sending <= 1'b0;
            if (fill) d_valid <= 1'b1;
            else if (d_ready) d_valid <= 1'b0;
        end
    always_ff @(posedge clk) begin
        if (pick) beat <= '0;
        else if (fill) beat <= beat + 1'b1;
        if (fill) begin
            d_opcode <= current_opcode;
            d_size <= current_size;
            d_source <= is_local ? local_source : slot_source[current[SLOT-1:0]];
            d_denied <= current_denied;
            d_data <= current_denied ? '1 : answer_data;
            d_corrupt <= current_opcode == ACCESS_ACK_DATA && (current_denied || row_corrupt);
        end
    end

    // ---- events ----
    logic reported;  // the source of this message, which waits, has been counted
    always_ff @(posedge clk) reported <= !rst && in_valid && !in_take && (reported || (last && in_use));
    always_comb begin
        events = '0;
        events[EVENT_MALFORMED] = refuses && malformed;
        events[EVENT_TOO_LONG] = refuses && !malformed && too_long;
        events[EVENT_ATOMIC] = refuses && !malformed && !too_long && atomic;
        events[EVENT_CORRUPT] = refuses && !malformed && !too_long && !atomic && corrupt;
        events[EVENT_SOURCE] = in_valid && last && in_use && !reported;
        events[EVENT_DECODE] = (b_fits && m_axi_bresp == DECERR) || (r_fits && m_axi_rresp == DECERR);
        events[EVENT_ERROR] = (b_fits && m_axi_bresp == SLVERR) || (r_fits && m_axi_rresp == SLVERR);
        events[EVENT_STALL] = stall_begins;
        events[EVENT_GIVEN_UP] = (refuses && !bad && opcode != INTENT) || (answer_slot & failed) != '0;
        events[EVENT_UNEXPECTED] = (m_axi_bvalid && !b_fits) || (m_axi_rvalid && !r_fits) || r_wrong;
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

`ifdef PROVE_TILELINK
`include "tilelink_manager_properties.svh"
`endif
endmodule
