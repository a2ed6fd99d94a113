// SPDX-License-Identifier: Apache-2.0 OR MIT
// Decodes the first double-word of a TLP (PCIe 6.0 §2.2.1): class, length and credits. Combinational.
module pcie_tl_header (
    input logic [31:0] word,  // byte 0 in bits 7:0
    output logic is_defined,  // Fmt and Type are of a TLP without prefixes
    output logic [1:0] kind,  // TYPE_P, TYPE_NP or TYPE_CPL
    output logic four,        // a header of four double-words
    output logic has_data,
    output logic [10:0] length,   // Length, 1 to 1024
    output logic [11:0] dwords,   // of the whole TLP
    output logic [8:0] credits,   // data credits
    output logic relaxed          // may pass posted requests (Table 2-40, C2b and D2b)
);
    `include "pcie_tl.svh"
    logic [2:0] fmt;
    logic [4:0] type_;
    logic memory, locked, io, config_, deferrable, message, completion, atomic;
    assign {fmt, type_} = word[7:0];
    assign four = fmt[0];
    assign has_data = fmt[1];

    assign memory = type_ == 5'b00000;
    assign locked = type_ == 5'b00001 && !has_data;
    assign io = type_ == 5'b00010 && !four;
    assign config_ = type_[4:1] == 4'b0010 && !four;
    assign deferrable = type_ == 5'b11011 && has_data;
    assign message = type_[4:3] == 2'b10 && four;
    assign completion = type_[4:1] == 4'b0101 && !four;
    assign atomic = (type_[4:1] == 4'b0110 || type_ == 5'b01110) && has_data;
    assign is_defined = !fmt[2] && (memory || locked || io || config_ || deferrable || message || completion || atomic);
    assign kind = completion ? TYPE_CPL : message || (memory && has_data) ? TYPE_P : TYPE_NP;

    logic [9:0] field;
    assign field = {word[17:16], word[31:24]};
    assign length = {field == '0, field};
    assign dwords = 12'd3 + 12'(four) + 12'(word[23]) + (has_data ? 12'(length) : 12'd0);
    assign credits = has_data ? 9'((length + 11'd3) >> 2) : 9'd0;
    assign relaxed = word[21] && (completion || has_data);
    // The byte of Tag, IDO and TC has no part in this.
    logic unused;
    assign unused = &{word[22], word[20:18], word[15:8]};
endmodule
