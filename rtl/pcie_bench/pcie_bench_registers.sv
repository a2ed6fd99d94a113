// SPDX-License-Identifier: Apache-2.0 OR MIT
// The registers of the benchmark device (registers/pcie_bench.rdl).
// Handshake: `access` stays until `access_done`, which comes a cycle later, with `access_read`. `start` and `stop` are
// set for one cycle. Settings do not change while `running`.
module pcie_bench_registers #(
    parameter int ENTRIES = 1024,  // of the journal: a power of two, at least 512
    parameter int MOST_OUTSTANDING = 64,
    parameter int TICK_PS = 4000,
    localparam int ENTRY = $clog2(ENTRIES)
) (
    input logic clk,
    input logic rst,

    input logic access,
    input logic access_write,
    input logic [9:0] access_address,  // of a double-word
    input logic [3:0] access_enables,
    input logic [31:0] access_data,
    output logic access_done,
    output logic [31:0] access_read,

    output logic start,
    output logic stop,
    output logic [63:0] window,
    output logic [31:0] test,
    output logic [31:0] size,
    output logic [63:0] window_bytes,
    output logic [31:0] offset,
    output logic [31:0] pattern,
    output logic [31:0] path,
    output logic [31:0] outstanding,
    output logic [63:0] transfers,
    output logic [63:0] warm_up,
    output logic [63:0] seed,

    input logic running,
    input logic [1:0] status,
    input logic [4:0] error,
    input logic [63:0] elapsed,
    input logic [63:0] ended,

    output logic journal_read,
    output logic [ENTRY-1:0] journal_entry,
    input logic [31:0] journal_data
);
    `include "pcie_bench_registers.svh"
    // Settings by number of double-word. Those that are not settings stay unused.
    localparam int WORDS = 32;
    localparam logic [9:0] JOURNAL = R_JOURNAL[11:2];
    localparam logic [WORDS-1:0] SETTINGS = 32'h040f_ffc3;  // WINDOW, TEST to SEED, and PAGE
    logic [31:0] words[0:WORDS-1];
    logic [31:0] page, value, merged;
    logic [4:0] word;
    logic writes, in_words, in_journal, journal_answers;

    /* verilator lint_off UNUSEDSIGNAL */
    function automatic logic [4:0] place(input logic [15:0] at);
        place = at[6:2];
    endfunction
    /* verilator lint_on UNUSEDSIGNAL */
    function automatic logic [63:0] wide(input logic [31:0] low, input logic [31:0] high);
        wide = {high, low};
    endfunction
    assign window = wide(words[place(R_WINDOW)], words[place(R_WINDOW + 16'd4)]);
    assign test = words[place(R_TEST)];
    assign size = words[place(R_SIZE)];
    assign window_bytes = wide(words[place(R_WINDOW_BYTES)], words[place(R_WINDOW_BYTES + 16'd4)]);
    assign offset = words[place(R_OFFSET)];
    assign pattern = words[place(R_PATTERN)];
    assign path = words[place(R_PATH)];
    assign outstanding = words[place(R_OUTSTANDING)];
    assign transfers = wide(words[place(R_TRANSFERS)], words[place(R_TRANSFERS + 16'd4)]);
    assign warm_up = wide(words[place(R_WARM_UP)], words[place(R_WARM_UP + 16'd4)]);
    assign seed = wide(words[place(R_SEED)], words[place(R_SEED + 16'd4)]);
    assign page = words[place(R_PAGE)];

    assign word = access_address[4:0];
    assign in_words = access_address < 10'(WORDS);
    assign in_journal = access_address >= JOURNAL;
    assign writes = access && access_write && !access_done && in_words;
    always_comb
        for (int b = 0; b < 4; b++) merged[8*b+:8] = access_enables[b] ? access_data[8*b+:8] : words[word][8*b+:8];
    assign start = writes && access_address == R_CONTROL[11:2] && access_enables[0] && access_data[R_CONTROL_START_LOW];
    assign stop = writes && access_address == R_CONTROL[11:2] && access_enables[0] && access_data[R_CONTROL_STOP_LOW];

    always_ff @(posedge clk)
        if (rst) begin
            for (int w = 0; w < WORDS; w++) words[w] <= '0;
            words[place(R_SIZE)] <= 32'd64;
            words[place(R_WINDOW_BYTES)] <= 32'd8192;
            words[place(R_PATTERN)] <= 32'(PATTERN_RANDOM);
            words[place(R_OUTSTANDING)] <= 32'd32;
            words[place(R_TRANSFERS)] <= 32'd1000;
            words[place(R_WARM_UP)] <= 32'd100;
            words[place(R_SEED)] <= 32'd1;
        end else if (writes && SETTINGS[word] && !running) words[word] <= merged;

    // ---- reads ----
    assign journal_read = 1'b1;
    assign journal_entry = {page[ENTRY-10:0], access_address[8:0]};
    always_comb
        if (!in_words) value = '0;
        else
            case ({access_address, 2'b00})
                R_STATUS[11:0]: value = 32'(status);
                R_ERROR[11:0]: value = 32'(error);
                R_VERSION[11:0]: value = R_VERSION_VALUE;
                R_TICK[11:0]: value = 32'(TICK_PS);
                R_ENTRIES[11:0]: value = 32'(ENTRIES);
                R_ELAPSED[11:0]: value = elapsed[31:0];
                R_ELAPSED[11:0] + 12'd4: value = elapsed[63:32];
                R_ENDED[11:0]: value = ended[31:0];
                R_ENDED[11:0] + 12'd4: value = ended[63:32];
                R_MOST_OUTSTANDING[11:0]: value = 32'(MOST_OUTSTANDING);
                default: value = words[word];
            endcase

    logic [31:0] answer;
    always_ff @(posedge clk) begin
        access_done <= access && !access_done && !rst;
        journal_answers <= in_journal && page < 32'(ENTRIES / 512);
        answer <= value;
    end
    assign access_read = journal_answers ? journal_data : answer;
endmodule
