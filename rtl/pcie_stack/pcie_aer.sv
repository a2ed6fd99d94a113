// SPDX-License-Identifier: Apache-2.0 OR MIT
// Registers of the Advanced Error Reporting capability that all functions have (PCIe 6.0 §7.8.4), and error signaling (§6.2, Figure 6-2).
// Handshake: `writes` is a write of one cycle, `read_data` belongs to `word` in the same cycle. Errors and messages are pulses.
module pcie_aer (
    input logic clk,
    input logic rst,  // of sticky registers

    input logic writes,
    input logic [3:0] word,  // from the capability's begin
    input logic [31:0] lanes,
    input logic [31:0] write_data,
    output logic [31:0] read_data,  // of words 1 to 10

    // Detected errors, one bit each (ERROR_*), with the header of the TLP if it has one
    input logic [5:0] errors,
    input logic [5:0] advisory_errors,      // of non-posted requests that got an answer, and unexpected completions
    input logic has_header,
    input logic [127:0] error_header,
    input logic [31:0] link_uncorrectable,  // of the lower layers, as in the AER status register
    input logic [31:0] link_correctable,

    input logic [3:0] report,        // reporting enables of Device Control: correctable, non-fatal, fatal, Unsupported Request
    input logic serr_enable,
    output logic [3:0] found_kinds,  // bits of Device Status to set, in the same order
    output logic message_cor,        // error messages to send
    output logic message_nonfatal,
    output logic message_fatal
);
    `include "pcie_root_complex.svh"
    localparam logic [31:0] UNCORRECTABLE = 32'h0017_f010;  // bits that exist: 4, 12 to 18, 20
    localparam logic [31:0] CORRECTABLE = 32'h0000_31c1;    // 0, 6, 7, 8, 12, 13

    function automatic logic [31:0] aer_bits(input logic [5:0] found);
        aer_bits = '0;
        aer_bits[12] = found[ERROR_POISONED];
        aer_bits[14] = found[ERROR_TIMEOUT];
        aer_bits[15] = found[ERROR_ABORT];
        aer_bits[16] = found[ERROR_UNEXPECTED];
        aer_bits[18] = found[ERROR_MALFORMED];
        aer_bits[20] = found[ERROR_UNSUPPORTED];
    endfunction

    logic [31:0] uncorrectable_status, uncorrectable_mask, severity, correctable_status, correctable_mask;
    logic [127:0] header_log;
    logic [4:0] first_error;
    logic [31:0] clears;
    assign clears = write_data & lanes;

    always_comb
        case (word)
            4'd1: read_data = uncorrectable_status;
            4'd2: read_data = uncorrectable_mask;
            4'd3: read_data = severity;
            4'd4: read_data = correctable_status;
            4'd5: read_data = correctable_mask;
            4'd6: read_data = {27'd0, first_error};
            4'd7: read_data = {header_log[7:0], header_log[15:8], header_log[23:16], header_log[31:24]};
            4'd8: read_data = {header_log[39:32], header_log[47:40], header_log[55:48], header_log[63:56]};
            4'd9: read_data = {header_log[71:64], header_log[79:72], header_log[87:80], header_log[95:88]};
            4'd10: read_data = {header_log[103:96], header_log[111:104], header_log[119:112], header_log[127:120]};
            default: read_data = '0;
        endcase

    logic [31:0] plain, maybe_advisory, advisory, found, shown, correctable;
    logic advisory_shown, is_fatal, is_nonfatal, is_correctable, ur_found, ur_shown;
    assign plain = aer_bits(errors) | (link_uncorrectable & UNCORRECTABLE);
    assign maybe_advisory = aer_bits(advisory_errors);
    // An error with severity fatal is never advisory (§6.2.3.2.4).
    assign advisory = maybe_advisory & ~severity;
    assign found = plain | (maybe_advisory & severity);
    assign advisory_shown = !correctable_mask[13];
    assign shown = (found | (advisory_shown ? advisory : '0)) & ~uncorrectable_mask;
    assign correctable = (link_correctable & CORRECTABLE & ~32'h2000) | {18'd0, advisory != '0, 13'd0};
    assign is_fatal = (found & ~uncorrectable_mask & severity) != '0;
    assign is_nonfatal = (found & ~uncorrectable_mask & ~severity) != '0;
    assign is_correctable = (correctable & ~correctable_mask) != '0;
    assign ur_found = found[20] || advisory[20];
    // Unsupported Request Reporting Enable must be set as well, if the error is nothing else.
    assign ur_shown = report[3] || serr_enable;
    assign found_kinds = {ur_found, (found & severity) != '0, (found & ~severity) != '0, correctable != '0};
    assign message_cor = is_correctable && report[0] && (correctable != 32'h2000 || !advisory[20] || ur_shown);
    assign message_nonfatal = is_nonfatal && (report[1] || serr_enable)
        && (!ur_found || ur_shown || (found & ~uncorrectable_mask & ~32'h0010_0000) != '0);
    assign message_fatal = is_fatal && (report[2] || serr_enable);

    logic log_free;
    logic [4:0] lowest;
    assign log_free = (uncorrectable_status & ~uncorrectable_mask) == '0;
    always_comb begin
        lowest = '0;
        for (int n = 31; n >= 0; n--) if (shown[n]) lowest = 5'(n);
    end

    always_ff @(posedge clk)
        if (rst) begin
            uncorrectable_status <= '0;
            uncorrectable_mask <= '0;
            severity <= 32'h0006_2010;
            correctable_status <= '0;
            correctable_mask <= 32'h0000_2000;
            first_error <= '0;
            header_log <= '0;
        end else begin
            uncorrectable_status <= (uncorrectable_status & ~(writes && word == 4'd1 ? clears : '0)) | found | (advisory_shown ? advisory : '0);
            correctable_status <= (correctable_status & ~(writes && word == 4'd4 ? clears : '0)) | correctable;
            if (log_free && shown != '0) begin
                first_error <= lowest;
                header_log <= has_header ? error_header : '0;
            end
            if (writes)
                case (word)
                    4'd2: uncorrectable_mask <= (uncorrectable_mask & ~lanes) | (clears & UNCORRECTABLE);
                    4'd3: severity <= (severity & ~lanes) | (clears & UNCORRECTABLE);
                    4'd5: correctable_mask <= (correctable_mask & ~lanes) | (clears & CORRECTABLE);
                    default: ;
                endcase
        end
endmodule
