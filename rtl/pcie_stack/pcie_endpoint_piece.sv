// SPDX-License-Identifier: Apache-2.0 OR MIT
// The next bus access of a request: the largest block of enabled bytes at its current double-word that is a power of two in size and aligned to it.
// Handshake: none; combinational.
module pcie_endpoint_piece #(
    parameter int MAX_PAYLOAD = 256,
    localparam int MOST = $clog2(MAX_PAYLOAD / 4)  // log2 of the double-words of the largest access
) (
    input logic [9:0] word,         // the current double-word, in its page
    input logic [10:0] left,        // double-words of the request, with the current one
    input logic [3:0] be,           // bytes of the current double-word that are not done
    input logic last_full,          // all bytes of the last double-word are enabled
    output logic [1:0] offset,      // first byte of the access
    output logic [3:0] size,        // log2 of its bytes
    output logic [3:0] bytes,       // bytes of the current double-word in it
    output logic [7:0] words        // double-words that the access reaches
);
    logic [10:0] full;
    logic [3:0] exponent;
    // The last double-word joins only if it is enabled as a whole; the current one is, if `be` is all ones.
    assign full = left == 11'd1 || last_full ? left : left - 11'd1;
    always_comb begin
        exponent = '0;
        for (int n = 1; n <= MOST; n++) if (full >= 11'(2 ** n) && (word & 10'(2 ** n - 1)) == '0) exponent = 4'(n);
    end
    always_comb begin
        words = 8'd1;
        if (be == 4'b1111) begin
            offset = 2'd0;
            size = exponent + 4'd2;
            bytes = 4'b1111;
            words = 8'd1 << exponent;
        end else if (be[1:0] == 2'b11) begin
            offset = 2'd0;
            size = 4'd1;
            bytes = 4'b0011;
        end else if (be[1:0] == 2'b00 && be[3:2] == 2'b11) begin
            offset = 2'd2;
            size = 4'd1;
            bytes = 4'b1100;
        end else begin
            offset = be[0] ? 2'd0 : be[1] ? 2'd1 : be[2] ? 2'd2 : 2'd3;
            size = 4'd0;
            bytes = 4'd1 << offset;
        end
    end
endmodule
