// SPDX-License-Identifier: Apache-2.0 OR MIT
// Collects the double-words of TLPs into beats. A TLP is offered when it is complete, so that it never pauses between beats.
// Handshake: a double-word is taken if `put` and `ready` are set. tx_* is the stream of TLPs; a beat stays until tx_ready.
module pcie_packetizer_beats #(
    parameter int DATA_WIDTH = 256,
    parameter int MAX_PAYLOAD = 256,
    localparam int LANES = DATA_WIDTH / 32,
    localparam int LANE = $clog2(LANES)
) (
    input logic clk,
    input logic rst,

    input logic put,
    output logic ready,
    input logic [31:0] word,    // byte 0 in bits 7:0
    input logic last,           // of its TLP
    input logic posted,         // the TLP is a memory write

    output logic tx_valid,
    input logic tx_ready,
    output logic tx_sop,
    output logic tx_eop,
    output logic [LANE-1:0] tx_end,
    output logic [DATA_WIDTH-1:0] tx_data,
    output logic tx_posted      // with tx_eop: `posted` of the TLP
);
    localparam int BEATS = (MAX_PAYLOAD + 16 + DATA_WIDTH / 8 - 1) / (DATA_WIDTH / 8);
    localparam int ROWS = 2 ** $clog2(2 * BEATS);
    localparam int ROW = $clog2(ROWS);

    logic [DATA_WIDTH-1:0] beat, filled;
    logic [LANE-1:0] lane;
    logic first, takes, beat_done;
    logic [ROW:0] write_row, read_row;
    logic [ROW:0] whole;  // TLPs that are complete
    assign ready = write_row - read_row != (ROW + 1)'(ROWS);
    assign takes = put && ready;
    assign beat_done = takes && (last || lane == LANE'(LANES - 1));
    always_comb begin
        // By comparison: for a variable part Yosys shifts the whole beat.
        for (int n = 0; n < LANES; n++) filled[32*n+:32] = lane == LANE'(n) ? word : beat[32*n+:32];
    end

    (* ram_style = "distributed" *) logic [DATA_WIDTH+LANE+2:0] rows[0:ROWS-1];
    always_ff @(posedge clk) begin
        if (takes) beat <= filled;
        if (beat_done) rows[write_row[ROW-1:0]] <= {posted, first, last, lane, filled};
    end
    assign {tx_posted, tx_sop, tx_eop, tx_end, tx_data} = rows[read_row[ROW-1:0]];
    assign tx_valid = whole != '0;

    logic enters, leaves;
    assign enters = beat_done && last;
    assign leaves = tx_valid && tx_ready && tx_eop;
    always_ff @(posedge clk)
        if (rst) begin
            lane <= '0;
            first <= 1'b1;
            write_row <= '0;
            read_row <= '0;
            whole <= '0;
        end else begin
            if (takes) lane <= last ? '0 : lane + 1'b1;
            if (beat_done) begin
                first <= last;
                write_row <= write_row + 1'b1;
            end
            if (tx_valid && tx_ready) read_row <= read_row + 1'b1;
            whole <= whole + (ROW + 1)'(enters) - (ROW + 1)'(leaves);
        end
endmodule
