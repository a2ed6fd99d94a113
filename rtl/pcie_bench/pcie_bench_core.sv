// SPDX-License-Identifier: Apache-2.0 OR MIT
// The benchmark device of pcie-bench (SIGCOMM'18, §5.2) for a block with RQ, RC, CQ and CC streams of 256 bits. It uses the
// DMA engine's modules for these streams, and has its own state machine in place of the engine's descriptors and rings.
// The data of reads are counted and dropped; writes carry words of 8 bytes that count up from zero in each transfer.
module pcie_bench_core #(
    parameter int TAGS = 64,       // reads in flight, and transfers in flight: a power of two, at most 64
    parameter int ENTRIES = 1024,  // of the journal: a power of two, at least 1024
    parameter int TICK_PS = 4000,  // period of `clk`
    localparam int DATA_WIDTH = 256,
    localparam int LANES = DATA_WIDTH / 32,
    localparam int NUMBER = 4      // bits of a sequence number on RQ
) (
    input logic clk,
    input logic rst,

    output logic [DATA_WIDTH-1:0] rq_tdata,
    output logic [LANES-1:0] rq_tkeep,
    output logic rq_tlast,
    output logic rq_tvalid,
    input logic rq_tready,
    output logic [3:0] rq_first_be,
    output logic [3:0] rq_last_be,
    output logic [NUMBER-1:0] rq_number,
    input logic rq_back,                       // a sequence number returns
    input logic [NUMBER-1:0] rq_back_number,

    input logic [DATA_WIDTH-1:0] rc_tdata,
    input logic rc_tlast,
    input logic rc_tvalid,
    input logic rc_discontinue,

    input logic [DATA_WIDTH-1:0] cq_tdata,
    input logic cq_tlast,
    input logic cq_tvalid,
    output logic cq_tready,
    input logic [3:0] cq_first_be,
    input logic [3:0] cq_last_be,
    output logic cq_np_req,

    output logic [DATA_WIDTH-1:0] cc_tdata,
    output logic [LANES-1:0] cc_tkeep,
    output logic cc_tlast,
    output logic cc_tvalid,
    input logic cc_tready,

    input logic [2:0] max_payload,             // 128 << n bytes
    input logic [2:0] max_read_request,
    input logic bus_master,
    output logic raise                         // for one cycle: interrupt vector 0
);
    `include "pcie_bench_registers.svh"
    localparam int TAG = $clog2(TAGS);
    localparam int ENTRY = $clog2(ENTRIES);
    localparam logic [1:0] READ = 2'd0, ROWS = 2'd2;  // kinds of requests of dma_engine_transmit
    localparam logic [1:0] INTEGERS = 2'd0;           // its user logic that counts words

    // ---- registers ----
    logic access, access_write, access_done;
    logic [13:0] access_address;
    logic [3:0] access_enables;
    logic [31:0] access_data, access_read;
    logic [7:0] asked, passed;
    logic start, stop, running;
    logic [63:0] window, window_bytes, transfers, warm_up, seed, elapsed, measured;
    logic [31:0] test, size, offset, pattern, path, outstanding;
    logic [1:0] status;
    logic [4:0] error;
    logic journal_read, journal_write;
    logic [ENTRY-1:0] journal_read_entry, journal_entry;
    logic [31:0] journal_read_data, journal_data;

    dma_engine_target #(
        .DATA_WIDTH(DATA_WIDTH),
        .FUNCTIONS(1)
    ) target (
        .clk,
        .rst,
        .cq_tdata,
        .cq_tlast,
        .cq_tvalid,
        .cq_tready,
        .cq_first_be,
        .cq_last_be,
        .np_req(cq_np_req),
        .cc_tdata,
        .cc_tkeep,
        .cc_tlast,
        .cc_tvalid,
        .cc_tready,
        .access,
        .access_write,
        .access_function,
        .access_address,
        .access_enables,
        .access_data,
        .access_done,
        .access_read,
        .asked,
        .passed
    );

    pcie_bench_registers #(
        .ENTRIES(ENTRIES),
        .MOST_OUTSTANDING(TAGS),
        .TICK_PS(TICK_PS)
    ) registers (
        .clk,
        .rst,
        .access,
        .access_write,
        .access_address(access_address[9:0]),
        .access_enables,
        .access_data,
        .access_done,
        .access_read,
        .start,
        .stop,
        .window,
        .test,
        .size,
        .window_bytes,
        .offset,
        .pattern,
        .path,
        .outstanding,
        .transfers,
        .warm_up,
        .seed,
        .running,
        .status,
        .error,
        .elapsed,
        .ended(measured),
        .journal_read,
        .journal_entry(journal_read_entry),
        .journal_data(journal_read_data)
    );

    dma_engine_block_ram #(
        .WIDTH(32),
        .DEPTH(ENTRIES)
    ) journal (
        .clk,
        .write({4{journal_write}}),
        .write_address(journal_entry),
        .write_data(journal_data),
        .read(journal_read),
        .read_address(journal_read_entry),
        .read_data(journal_read_data)
    );

    // ---- the test ----
    logic request, request_reads, taken;
    logic [63:0] request_address;
    logic [12:0] request_bytes, request_position, tag_bytes;
    logic [TAG-1:0] request_tag, tag, ended_tag;
    logic [1:0] tag_offset;
    logic tag_open, ended, failed;
    logic [4:0] failure;

    pcie_bench_run #(
        .TAGS(TAGS),
        .ENTRIES(ENTRIES)
    ) run (
        .clk,
        .rst,
        .start,
        .stop,
        .window,
        .test,
        .size,
        .window_bytes,
        .offset,
        .pattern,
        .path,
        .outstanding,
        .transfers,
        .warm_up,
        .seed,
        .running,
        .status,
        .error,
        .elapsed,
        .measured,
        .raise,
        .bus_master,
        .max_payload,
        .max_read_request,
        .request,
        .request_reads,
        .request_address,
        .request_bytes,
        .request_position,
        .request_tag,
        .taken,
        .writes_passed(asked == passed),
        .tag,
        .tag_open,
        .tag_bytes,
        .tag_offset,
        .ended,
        .ended_tag,
        .failed,
        .failure,
        .journal_write,
        .journal_entry,
        .journal_data
    );

    // ---- requests ----
    logic may_send;
    logic [NUMBER-2:0] number;

    // Reads use the upper half of the numbers, for which no logic waits.
    dma_engine_order #(
        .NUMBER(NUMBER - 1)
    ) order (
        .clk,
        .rst,
        .ask(taken && !request_reads),
        .send(taken && !request_reads),
        .may_send,
        .number,
        .back({1'b0, rq_back && !rq_back_number[NUMBER-1]}),
        .back_numbers({(NUMBER - 1)'(0), rq_back_number[NUMBER-2:0]}),
        .asked,
        .passed
    );

    dma_engine_transmit #(
        .DATA_WIDTH(DATA_WIDTH),
        .NUMBER(NUMBER),
        .PAIR(1),
        .LOOP_ROW(1)
    ) transmit (
        .clk,
        .rst,
        .request,
        .kind(request_reads ? READ : ROWS),
        .logic_kind(INTEGERS),
        .address(request_address),
        .bytes(request_bytes),
        .target(8'd0),
        .tag(8'(request_tag)),
        .pair(1'b0),
        .given(96'(request_position)),
        .taken,
        .loop_read,
        .loop_row,
        .loop_data('0),
        .may_send(may_send || request_reads),
        .number({request_reads, number}),
        .rq_tdata,
        .rq_tkeep,
        .rq_tlast,
        .rq_tvalid,
        .rq_tready,
        .rq_first_be,
        .rq_last_be,
        .rq_number
    );

    // ---- completions: their data are dropped ----
    dma_engine_receive #(
        .DATA_WIDTH(DATA_WIDTH),
        .TAG(TAG),
        .ROW(1)
    ) receive (
        .clk,
        .rst,
        .rc_tdata,
        .rc_tlast,
        .rc_tvalid,
        .rc_discontinue,
        .tag,
        .open(tag_open),
        .place('0),
        .bytes(tag_bytes),
        .offset(tag_offset),
        .write(data_write),
        .write_rows(data_rows),
        .write_data(data),
        .ended,
        .heard,
        .heard_first,
        .failed,
        .ended_tag
    );

    // Reason of a failure, from the first beat of a completion (PG023: Requester Completion Descriptor Fields).
    localparam logic [3:0] TIMED_OUT = 4'd9;
    logic rc_first;
    always_ff @(posedge clk) begin
        if (rst) rc_first <= 1'b1;
        else if (rc_tvalid) rc_first <= rc_tlast;
        if (rc_tvalid && rc_first)
            if (rc_tdata[15:12] == TIMED_OUT) failure <= ERROR_COMPLETION_TIMEOUT;
            else if (rc_tdata[46]) failure <= ERROR_POISONED;
            else if (rc_tdata[45:43] == 3'd1) failure <= ERROR_UNSUPPORTED_REQUEST;
            else if (rc_tdata[45:43] == 3'd4) failure <= ERROR_COMPLETER_ABORT;
            else failure <= ERROR_MALFORMED;
    end

    // Unused outputs of the engine's modules.
    /* verilator lint_off UNUSEDSIGNAL */
    logic access_function, loop_read, heard, heard_first, others;
    logic [1:0] loop_row;
    logic [LANES-1:0] data_write, data_rows;
    logic [DATA_WIDTH-1:0] data;
    assign others = ^{access_address[13:10]};
    /* verilator lint_on UNUSEDSIGNAL */
endmodule
