// SPDX-License-Identifier: Apache-2.0 OR MIT
// Runs a test of pcie-bench (SIGCOMM'18, §4 and §5.2): checks the settings, generates the requests, and measures. There
// is no queue: each request goes directly to the transmit module of the DMA engine, up to one per cycle.
//
// A transfer is a read, a write, or a write and then a read of the same address. It consists of requests that end at
// multiples of Max_Payload_Size or Max_Read_Request_Size. A write ends when its last beat is accepted for RQ, a read when
// all its data have arrived. The load stays constant until the last measured transfer has ended.
//
// Handshake: `start` and `stop` are set for one cycle. `taken` accepts `request`. `tag_*` return the read of a tag.
// `raise` is set for one cycle when a test ends.
module pcie_bench_run #(
    parameter int TAGS = 64,       // reads in flight, and transfers in flight: a power of two, at most 256
    parameter int ENTRIES = 1024,  // of the journal
    localparam int TAG = $clog2(TAGS),
    localparam int ENTRY = $clog2(ENTRIES)
) (
    input logic clk,
    input logic rst,

    input logic start,
    input logic stop,
    input logic [63:0] window,
    input logic [31:0] test,
    input logic [31:0] size,
    input logic [63:0] window_bytes,
    input logic [31:0] offset,
    input logic [31:0] pattern,
    input logic [31:0] path,
    input logic [31:0] outstanding,
    input logic [63:0] transfers,
    input logic [63:0] warm_up,
    input logic [63:0] seed,

    output logic running,
    output logic [1:0] status,
    output logic [4:0] error,
    output logic [63:0] elapsed,
    output logic [63:0] measured,
    output logic raise,

    input logic bus_master,
    input logic [2:0] max_payload,  // 128 << n bytes
    input logic [2:0] max_read_request,

    output logic request,
    output logic request_reads,
    output logic [63:0] request_address,
    output logic [12:0] request_bytes,
    output logic [12:0] request_position,  // of its first byte in its transfer
    output logic [TAG-1:0] request_tag,
    input logic taken,
    input logic writes_passed,             // no completion can pass the writes so far

    input logic [TAG-1:0] tag,
    output logic tag_open,
    output logic [12:0] tag_bytes,
    output logic [1:0] tag_offset,
    input logic ended,
    input logic [TAG-1:0] ended_tag,
    input logic failed,
    input logic [4:0] failure,

    output logic journal_write,
    output logic [ENTRY-1:0] journal_entry,
    output logic [31:0] journal_data
);
    `include "pcie_bench_registers.svh"
    localparam logic [1:0] CHECKS = 2'd1, RUNS = 2'd2, ENDS = 2'd3;
    logic [1:0] phase;  // 0: no test

    // ---- settings ----
    logic is_latency, reads_too, writes_first;
    logic [12:0] unit_bytes;  // before rounding
    logic [6:0] unit;         // in cache lines
    logic [64:0] beyond;      // first address after the window
    logic [64:0] all;         // transfers to end
    logic wraps, is_power;
    logic [4:0] complaint;

    assign is_latency = test == 32'(TEST_LAT_RD) || test == 32'(TEST_LAT_WRRD);
    assign unit_bytes = size[12:0] + offset[12:0];
    assign unit = 7'((unit_bytes + 13'd63) >> 6);
    assign beyond = {1'b0, window} + {1'b0, window_bytes};
    assign wraps = beyond[64] && beyond[63:0] != '0;
    assign all = {1'b0, warm_up} + {1'b0, transfers};
    assign is_power = (window_bytes & (window_bytes - 64'd1)) == '0;
    always_comb
        if (!bus_master) complaint = ERROR_BUS_MASTER_DISABLED;
        else if (test > 32'(TEST_BW_RDWR)) complaint = ERROR_TEST;
        else if (path > 32'(PATH_COMMAND)) complaint = ERROR_PATH;
        else if (size == '0 || size > 32'd4096 || (path == 32'(PATH_COMMAND) && size > 32'd128)) complaint = ERROR_SIZE;
        else if (offset > 32'd63) complaint = ERROR_OFFSET;
        else if (unit_bytes > 13'd4096) complaint = ERROR_SIZE;
        else if (!is_power || window_bytes < {51'd0, unit, 6'd0} || window_bytes[63:39] != '0) complaint = ERROR_WINDOW_BYTES;
        else if (window_bytes[38] && window_bytes[37:0] != '0) complaint = ERROR_WINDOW_BYTES;
        else if (window[11:0] != '0 || wraps) complaint = ERROR_WINDOW;
        else if (pattern > 32'(PATTERN_RANDOM)) complaint = ERROR_PATTERN;
        else if (outstanding == '0 || outstanding > 32'(TAGS)) complaint = ERROR_OUTSTANDING;
        else if (transfers == '0 || all[64] || (is_latency && transfers > 64'h100_0000)) complaint = ERROR_TRANSFERS;
        else complaint = ERROR_NONE;

    // ---- addresses ----
    logic addresses_ready, begins;
    logic [37:0] unit_offset;
    pcie_bench_addresses addresses (
        .clk,
        .rst,
        .load(phase == CHECKS),
        .random(pattern[0]),
        .seed,
        .unit,
        .window_bytes(window_bytes[38:0]),
        .ready(addresses_ready),
        .step(begins),
        .offset(unit_offset)
    );

    // ---- the transfer that is issued ----
    logic issues;          // requests of a transfer are not issued yet
    logic reads, then_reads, waits;
    logic is_odd;          // number of the next transfer
    logic [63:0] address, first_address;
    logic [12:0] left;
    logic [12:0] most, to_boundary, bytes;
    logic last, goes;      // the request is the last one of its direction; the transfer is issued as a whole
    logic [TAG:0] in_flight, limit;
    logic [63:0] cycle, started;

    assign writes_first = test == 32'(TEST_BW_WR) || test == 32'(TEST_LAT_WRRD) || (test == 32'(TEST_BW_RDWR) && is_odd);
    assign reads_too = test == 32'(TEST_LAT_WRRD);
    assign limit = is_latency ? (TAG + 1)'(1) : outstanding[TAG:0];
    assign begins = phase == RUNS && addresses_ready && !over && error == ERROR_NONE && (!issues || goes) &&
                    (in_flight < limit || (goes && !reads && in_flight == limit));
    assign most = 13'd128 << (reads ? max_read_request : max_payload);
    assign to_boundary = most - (address[12:0] & (most - 13'd1));
    assign last = left <= to_boundary;
    assign bytes = last ? left : to_boundary;
    assign goes = taken && last && !then_reads;

    assign request = issues && !waits && (!reads || !tags_full);
    assign request_reads = reads;
    assign request_address = address;
    assign request_bytes = bytes;
    assign request_position = size[12:0] - left;
    assign request_tag = free_tag;

    always_ff @(posedge clk)
        if (rst) begin
            issues <= 1'b0;
            waits <= 1'b0;
        end else begin
            if (begins) issues <= 1'b1;
            else if (goes) issues <= 1'b0;
            if (taken && last && then_reads) waits <= path == 32'(PATH_DMA);
            else if (writes_passed) waits <= 1'b0;
        end
    always_ff @(posedge clk) begin
        cycle <= rst ? '0 : cycle + 1'b1;
        if (phase == CHECKS) is_odd <= 1'b0;
        if (begins) begin
            is_odd <= !is_odd;
            address <= window + 64'(unit_offset) + 64'(offset[5:0]);
            first_address <= window + 64'(unit_offset) + 64'(offset[5:0]);
            left <= size[12:0];
            reads <= !writes_first;
            then_reads <= reads_too;
            slot <= free_slot;
            started <= cycle;
        end else if (taken && last) begin
            address <= first_address;
            left <= size[12:0];
            reads <= 1'b1;
            then_reads <= 1'b0;
        end else if (taken) begin
            address <= address + 64'(bytes);
            left <= left - bytes;
        end
    end

    // ---- reads in flight: by tag, and by transfer ----
    logic [TAGS-1:0] tag_busy, slot_busy;
    logic [TAG-1:0] free_tag, free_slot, slot, ended_slot;
    logic tags_full, read_taken, read_ends;
    logic [5:0] pending[0:TAGS-1];  // requests of a transfer: at most 33
    logic [5:0] pending_next;

    function automatic logic [TAG-1:0] lowest(input logic [TAGS-1:0] busy);
        lowest = '0;
        for (int n = TAGS - 1; n >= 0; n--) if (!busy[n]) lowest = TAG'(n);
    endfunction
    assign free_tag = lowest(tag_busy);
    assign free_slot = lowest(slot_busy);
    assign tags_full = &tag_busy;
    assign tag_open = tag_busy[tag];
    assign read_taken = taken && reads;
    assign pending_next = pending[ended_slot] - 6'd1 + 6'(read_taken && slot == ended_slot);
    // Requests that are not issued yet belong to the transfer, too.
    assign read_ends = ended && pending_next == 6'd0 && !(issues && reads && slot == ended_slot && !(taken && last));

    dma_engine_ram #(
        .WIDTH(15),
        .DEPTH(TAGS)
    ) shapes (
        .clk,
        .write(read_taken),
        .write_address(free_tag),
        .write_data({bytes, address[1:0]}),
        .read_address(tag),
        .read_data({tag_bytes, tag_offset})
    );
    dma_engine_ram #(
        .WIDTH(TAG),
        .DEPTH(TAGS)
    ) slots (
        .clk,
        .write(read_taken),
        .write_address(free_tag),
        .write_data(slot),
        .read_address(ended_tag),
        .read_data(ended_slot)
    );

    always_ff @(posedge clk)
        if (rst) begin
            tag_busy <= '0;
            slot_busy <= '0;
            for (int n = 0; n < TAGS; n++) pending[n] <= '0;
        end else begin
            if (read_taken) begin
                tag_busy[free_tag] <= 1'b1;
                pending[slot] <= pending[slot] + 6'd1;
            end
            if (ended) begin
                tag_busy[ended_tag] <= 1'b0;
                pending[ended_slot] <= pending_next;
            end
            if (begins) slot_busy[free_slot] <= !writes_first || reads_too;
            if (read_ends) slot_busy[ended_slot] <= 1'b0;
        end

    // ---- ends of transfers ----
    logic write_ends, over, measures;
    logic [1:0] ends;
    logic [64:0] count, count_next;

    assign write_ends = goes && !reads;
    assign ends = 2'(write_ends) + 2'(read_ends);
    assign count_next = count + 65'(ends);
    always_ff @(posedge clk)
        if (rst || phase == CHECKS) begin
            in_flight <= '0;
            count <= '0;
            over <= 1'b0;
        end else begin
            in_flight <= in_flight + (TAG + 1)'(begins) - (TAG + 1)'(ends);
            count <= count_next;
            if (count_next >= all) over <= 1'b1;
        end

    // ---- times and journal ----
    logic [63:0] measure_start, latency;
    assign measures = phase == RUNS && count >= {1'b0, warm_up} && !over;
    assign latency = cycle - started;
    assign journal_write = is_latency && measures && ends != 2'd0 && measured < 64'(ENTRIES);
    assign journal_entry = measured[ENTRY-1:0];
    assign journal_data = latency[63:32] == '0 ? latency[31:0] : '1;
    always_ff @(posedge clk)
        if (rst || phase == CHECKS || !addresses_ready) begin
            measure_start <= cycle;
            elapsed <= '0;
            measured <= '0;
        end else if (phase == RUNS && !over) begin
            if (count < {1'b0, warm_up} && count_next >= {1'b0, warm_up}) measure_start <= cycle;
            if (count_next > {1'b0, warm_up} && ends != 2'd0) begin
                measured <= count_next >= all ? transfers : 64'(count_next - {1'b0, warm_up});
                elapsed <= cycle - (count < {1'b0, warm_up} ? cycle : measure_start);
            end
        end

    // ---- the test ----
    logic at_rest, busy;  // START was written again; reported at the end, because an error ends a test
    assign at_rest = in_flight == '0 && !issues;
    assign running = phase != 2'd0;
    always_ff @(posedge clk)
        if (!running) busy <= 1'b0;
        else if (start) busy <= 1'b1;
    always_ff @(posedge clk) begin
        raise <= 1'b0;
        if (rst) begin
            phase <= 2'd0;
            status <= STATUS_IDLE;
            error <= ERROR_NONE;
        end else begin
            if (running && error == ERROR_NONE) begin
                if (failed) error <= failure;
                else if (stop) error <= ERROR_STOPPED;
            end
            case (phase)
                CHECKS: begin
                    error <= complaint;
                    phase <= complaint == ERROR_NONE ? RUNS : ENDS;
                end
                RUNS: if (over || error != ERROR_NONE) phase <= ENDS;
                ENDS:
                if (at_rest) begin
                    phase <= 2'd0;
                    raise <= 1'b1;
                    status <= error == ERROR_NONE && !busy ? STATUS_DONE : STATUS_FAILED;
                    if (error == ERROR_NONE && busy) error <= ERROR_BUSY;
                end
                default:
                if (start) begin
                    phase <= CHECKS;
                    status <= STATUS_RUNNING;
                    error <= ERROR_NONE;
                end
            endcase
        end
    end
endmodule
