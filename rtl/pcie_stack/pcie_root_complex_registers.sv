// SPDX-License-Identifier: Apache-2.0 OR MIT
// The register window of the root complex: settings, interrupt status, MSI vectors, INTx wires and event counters. ROOT_COMPLEX.md has the table.
// Handshake: `select` is an access of one cycle, `read_data` is its answer. Events, vectors and messages are pulses.
module pcie_root_complex_registers #(
    parameter int COUNTER_WIDTH = 16,
    parameter int COMPLETION_TIMEOUT = 2500000,
    parameter int BUS_TIMEOUT = 100000
) (
    input logic clk,
    input logic rst,

    input logic select,
    input logic write,
    input logic [9:0] word,
    input logic [3:0] be,
    input logic [31:0] write_data,
    output logic [31:0] read_data,

    input logic link_up,
    input logic [3:0] link_speed,
    input logic [5:0] link_width,
    input logic reads_stalled,
    input logic writes_stalled,
    input logic [7:0] cpu_reads,   // outstanding
    input logic [7:0] dma_reads,
    input logic [7:0] dma_writes,
    input logic [23:0] events,
    input logic system_error,

    input logic msi_valid,
    input logic [31:0] msi_data,
    output logic msi_bad,          // no vector has this number
    input logic [3:0] intx_set,
    input logic [3:0] intx_clear,
    input logic port_intx,         // INTA of the root port

    output logic enable,
    output logic errors_as_ones,
    output logic [31:0] completion_timeout,
    output logic [15:0] retry_limit,
    output logic [15:0] retry_interval,
    output logic [31:0] bus_timeout,
    output logic msi_enable,
    output logic [63:2] msi_address,
    output logic [31:0] msi_pending,
    output logic [31:0] msi_pulse,
    output logic msi_interrupt,
    output logic [3:0] intx,
    output logic event_interrupt
);
    `include "pcie_root_complex.svh"

    function automatic logic [31:0] written(input logic [31:0] old, input logic [3:0] enables, input logic [31:0] value);
        for (int n = 0; n < 4; n++) written[8*n+:8] = enables[n] ? value[8*n+:8] : old[8*n+:8];
    endfunction
    logic writes;
    logic [31:0] clears;
    assign writes = select && write;
    assign clears = written('0, be, write_data);

    logic [31:0] control, retry, msi_low, msi_high, msi_control, msi_mask, interrupt_status, interrupt_mask;
    logic [3:0] wires;
    assign enable = control[0];
    assign errors_as_ones = control[1];
    assign {retry_interval, retry_limit} = retry;
    assign msi_enable = msi_control[0];
    assign msi_address = {msi_high, msi_low[31:2]};

    logic [EVENTS*COUNTER_WIDTH-1:0] counts;
    logic [31:0] counted[0:31];
    for (genvar n = 0; n < 32; n++) begin : counters
        if (n < EVENTS) begin : counter
            always_ff @(posedge clk)
                if (rst) counts[n*COUNTER_WIDTH+:COUNTER_WIDTH] <= '0;
                else if (events[n] && counts[n*COUNTER_WIDTH+:COUNTER_WIDTH] != '1)
                    counts[n*COUNTER_WIDTH+:COUNTER_WIDTH] <= counts[n*COUNTER_WIDTH+:COUNTER_WIDTH] + 1'b1;
            assign counted[n] = 32'(counts[n*COUNTER_WIDTH+:COUNTER_WIDTH]);
        end else begin : none
            assign counted[n] = '0;
        end
    end

    always_comb
        if (word[9:5] == 5'd1) read_data = counted[word[4:0]];
        else
            case (word)
                10'h000: read_data = 32'h5243_0001;
                10'h001: read_data = control;
                10'h002: read_data = {dma_writes, dma_reads, cpu_reads, 5'd0, writes_stalled, reads_stalled, link_up};
                10'h003: read_data = interrupt_status;
                10'h004: read_data = interrupt_mask;
                10'h005: read_data = completion_timeout;
                10'h006: read_data = retry;
                10'h007: read_data = bus_timeout;
                10'h008: read_data = msi_low;
                10'h009: read_data = msi_high;
                10'h00a: read_data = msi_control;
                10'h00b: read_data = msi_pending;
                10'h00c: read_data = msi_mask;
                10'h00d: read_data = {28'd0, intx};
                10'h00e: read_data = {22'd0, link_width, link_speed};
                default: read_data = '0;
            endcase

    always_ff @(posedge clk)
        if (rst) begin
            control <= '0;
            interrupt_mask <= '0;
            completion_timeout <= 32'(COMPLETION_TIMEOUT);
            retry <= 32'h0100_1000;  // 4096 retries, 256 cycles apart
            bus_timeout <= 32'(BUS_TIMEOUT);
            msi_low <= '0;
            msi_high <= '0;
            msi_control <= '0;
            msi_mask <= '0;
        end else if (writes)
            case (word)
                10'h001: control <= written(control, be, write_data) & 32'h3;
                10'h004: interrupt_mask <= written(interrupt_mask, be, write_data) & 32'h81ff_ffff;
                10'h005: completion_timeout <= written(completion_timeout, be, write_data);
                10'h006: retry <= written(retry, be, write_data);
                10'h007: bus_timeout <= written(bus_timeout, be, write_data);
                10'h008: msi_low <= written(msi_low, be, write_data) & ~32'h3;
                10'h009: msi_high <= written(msi_high, be, write_data);
                10'h00a: msi_control <= written(msi_control, be, write_data) & 32'h1;
                10'h00c: msi_mask <= written(msi_mask, be, write_data);
                default: ;
            endcase

    // ---- interrupts ----
    logic vector;
    logic [31:0] vectors;
    assign msi_bad = msi_valid && msi_data[31:5] != '0;
    assign vector = msi_valid && !msi_bad;
    assign vectors = vector ? 32'd1 << msi_data[4:0] : '0;
    assign msi_interrupt = (msi_pending & msi_mask) != '0;
    // The wires of the link fall when the link goes down (§2.2.8.1).
    assign intx = wires | {3'd0, port_intx};
    assign event_interrupt = (interrupt_status & interrupt_mask) != '0;

    always_ff @(posedge clk)
        if (rst) begin
            interrupt_status <= '0;
            msi_pending <= '0;
            msi_pulse <= '0;
            wires <= '0;
        end else begin
            // Bit 31 is the system error, bit 24 a change of the link.
            interrupt_status <= (interrupt_status & ~(writes && word == 10'h003 ? clears : '0)) | {system_error, 6'd0, link_up != was_up, events};
            msi_pending <= (msi_pending & ~(writes && word == 10'h00b ? clears : '0)) | vectors;
            msi_pulse <= vectors;
            wires <= link_up ? (wires & ~intx_clear) | intx_set : '0;
        end
    logic was_up;
    always_ff @(posedge clk) was_up <= link_up && !rst;
endmodule
