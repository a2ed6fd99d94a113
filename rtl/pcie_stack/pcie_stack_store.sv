// SPDX-License-Identifier: Apache-2.0 OR MIT
// Passes on whole TLPs: a TLP leaves only when its last beat is here. One that the link's failure has cut is dropped, so that no part of
// it reaches memory.
module pcie_stack_store #(
    parameter int WIDTH = 265,  // of a beat with its marks
    parameter int ROWS = 32,    // a power of two: room for a longest TLP, and more for full rate
    localparam int PTR = $clog2(ROWS)
) (
    input logic clk,
    input logic rst,
    input logic in_valid,
    output logic in_ready,
    input logic in_eop,
    input logic in_cut,  // with in_eop: drop this TLP
    input logic [WIDTH-1:0] in_row,
    output logic out_valid,
    input logic out_ready,
    output logic out_eop,
    output logic [WIDTH-1:0] out_row,
    output logic [PTR:0] tlps  // whole TLPs here
);
    (* ram_style = "distributed" *) logic [WIDTH:0] rows[0:ROWS-1];
    logic [PTR:0] write, whole, read;
    logic takes, enters, leaves;
    assign in_ready = write - read != (PTR + 1)'(ROWS);
    assign takes = in_valid && in_ready;
    assign out_valid = read != whole;
    assign {out_eop, out_row} = rows[read[PTR-1:0]];
    assign enters = takes && in_eop && !in_cut;
    assign leaves = out_valid && out_ready && out_eop;

    always_ff @(posedge clk) if (takes) rows[write[PTR-1:0]] <= {in_eop, in_row};
    always_ff @(posedge clk)
        if (rst) begin
            write <= '0;
            whole <= '0;
            read <= '0;
            tlps <= '0;
        end else begin
            if (takes) write <= in_eop && in_cut ? whole : write + 1'b1;
            if (enters) whole <= write + 1'b1;
            if (out_valid && out_ready) read <= read + 1'b1;
            tlps <= tlps + (PTR + 1)'(enters) - (PTR + 1)'(leaves);
        end
endmodule
