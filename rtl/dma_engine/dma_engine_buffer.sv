// SPDX-License-Identifier: Apache-2.0 OR MIT
// Holds the data of reads until earlier reads are complete: rows as wide as the stream, in banks of one double-word. A
// write may begin in any bank: double-words that wrap go to the next row. A read returns a whole row, one cycle later.
// Handshake: none. `dma_engine_window` allocates and frees rows.
module dma_engine_buffer #(
    parameter int DATA_WIDTH = 256,
    parameter int ROWS = 512,
    localparam int BANKS = DATA_WIDTH / 32,
    localparam int ADDRESS = $clog2(ROWS)
) (
    input logic clk,
    input logic [BANKS-1:0] write,
    input logic [BANKS*ADDRESS-1:0] write_rows,
    input logic [DATA_WIDTH-1:0] write_data,
    input logic read,
    input logic [ADDRESS-1:0] read_row,
    output logic [DATA_WIDTH-1:0] read_data
);
    for (genvar b = 0; b < BANKS; b++) begin : banks
        dma_engine_block_ram #(
            .WIDTH(32),
            .DEPTH(ROWS)
        ) bank (
            .clk,
            .write({4{write[b]}}),
            .write_address(write_rows[b*ADDRESS+:ADDRESS]),
            .write_data(write_data[32*b+:32]),
            .read,
            .read_address(read_row),
            .read_data(read_data[32*b+:32])
        );
    end
endmodule
