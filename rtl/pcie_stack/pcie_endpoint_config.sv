// SPDX-License-Identifier: Apache-2.0 OR MIT
// The endpoint's configuration space (PCIe 6.0 chapter 7): type 0 header, Power Management, MSI, PCI Express and MSI-X capabilities, AER, and a
// vendor-specific capability with the event counters.
// Handshake: `select` is an access of one cycle, `read_data` is its answer. Errors are pulses.
module pcie_endpoint_config #(
    parameter logic [15:0] VENDOR_ID = 16'h1234,
    parameter logic [15:0] DEVICE_ID = 16'h4550,
    parameter logic [15:0] SUBSYSTEM_VENDOR_ID = 16'h1234,
    parameter logic [15:0] SUBSYSTEM_ID = 16'h4550,
    parameter logic [7:0] REVISION = 8'h00,
    parameter logic [23:0] CLASS_CODE = 24'hff_0000,
    parameter logic [6*64-1:0] SIZES = '0,
    parameter logic [5:0] WIDE = '0,
    parameter logic [5:0] PREFETCHABLE = '0,
    parameter int INTERRUPTS = 1,
    parameter int MSIX_BAR = -1,
    parameter int MAX_PAYLOAD = 256,
    parameter int LINK_SPEED = 3,
    parameter int LINK_WIDTH = 8,
    parameter int COUNTER_WIDTH = 16
) (
    input logic clk,
    input logic rst,
    input logic link_reset,      // the link went down
    input logic function_level_reset,

    input logic select,
    input logic write,
    input logic [9:0] word,
    input logic [3:0] be,
    input logic [31:0] write_data,
    output logic [31:0] read_data,

    input logic [3:0] link_speed,
    input logic [5:0] link_width,
    input logic transactions_pending,
    input logic slot_power_valid,
    input logic [9:0] slot_power,
    input logic [31:0] msi_pending,
    input logic [24*COUNTER_WIDTH-1:0] counts,

    // Errors, as pcie_aer takes them
    input logic [5:0] errors,
    input logic [5:0] advisory_errors,
    input logic has_header,
    input logic [127:0] error_header,
    input logic [31:0] link_uncorrectable,
    input logic [31:0] link_correctable,
    input logic completion_ur,
    input logic completion_ca,
    input logic completion_poisoned,
    input logic signaled_ca,
    output logic message_cor,    // error messages to send, pulses
    output logic message_nonfatal,
    output logic message_fatal,

    output logic [6*32-1:0] bars,
    output logic memory_enable,
    output logic bus_master,
    output logic [2:0] max_payload,
    output logic [2:0] max_read_request,
    output logic extended_tags,
    output logic timed,          // completion timeouts are enabled
    output logic reset_request,  // pulse: Initiate Function Level Reset was written
    output logic msi_enable,
    output logic [63:2] msi_address,
    output logic [15:0] msi_data,
    output logic [2:0] msi_count,
    output logic [31:0] msi_mask,
    output logic msix_enable,
    output logic msix_mask
);
    `include "pcie_endpoint.svh"
    localparam logic [2:0] MPS_SUPPORTED = MAX_PAYLOAD == 128 ? 3'd0 : MAX_PAYLOAD == 256 ? 3'd1 : 3'd2;
    localparam logic [2:0] VECTORS = 3'($clog2(INTERRUPTS));  // log2 of the MSI vectors asked for
    localparam logic MSIX = MSIX_BAR >= 0;
    localparam logic [2:0] BIR = 3'(MSIX_BAR);

    // A register after a write: `mask` has its writable bits.
    function automatic logic [31:0] written(input logic [31:0] old, input logic [31:0] mask, input logic [31:0] lanes, input logic [31:0] value);
        written = (old & ~(mask & lanes)) | (value & mask & lanes);
    endfunction

    logic [31:0] lanes;
    logic [31:16] clears;
    logic writes;
    assign writes = select && write;
    assign lanes = {{8{be[3]}}, {8{be[2]}}, {8{be[1]}}, {8{be[0]}}};
    assign clears = write_data[31:16] & lanes[31:16];

    // ---- registers ----
    logic [31:0] command, cache_line, interrupt_line, power, msi_control, msi_low, msi_high, msi_value, msix_control;
    logic [31:0] device_control, link_control, device_control_2, link_control_2, aer_data;
    logic [15:0] status, device_status;
    logic [9:0] captured_power;
    logic [31:0] bar_read[0:5];
    for (genvar n = 0; n < 6; n++) begin : registers
        localparam logic UPPER = n > 0 && WIDE[n > 0 ? n - 1 : 0];
        localparam logic [63:0] SIZE = UPPER ? SIZES[64*(n > 0 ? n - 1 : 0)+:64] : SIZES[64*n+:64];
        localparam logic [63:0] MASK = SIZE == '0 ? '0 : ~(SIZE - 64'd1);
        localparam logic [31:0] WRITABLE = UPPER ? MASK[63:32] : MASK[31:0];
        localparam logic [31:0] FLAGS = UPPER || SIZE == '0 ? '0 : {28'd0, PREFETCHABLE[n], WIDE[n], 2'b00};
        logic [31:0] value;
        assign bars[32*n+:32] = value;
        assign bar_read[n] = value | FLAGS;
        always_ff @(posedge clk)
            if (rst || link_reset || function_level_reset) value <= '0;
            else if (writes && word == 10'(4 + n)) value <= written(value, WRITABLE, lanes, write_data);
    end

    always_comb
        case (word)
            10'h000: read_data = {DEVICE_ID, VENDOR_ID};
            10'h001: read_data = {status | 16'h0010, command[15:0]};
            10'h002: read_data = {CLASS_CODE, REVISION};
            10'h003: read_data = cache_line;
            10'h004, 10'h005, 10'h006, 10'h007, 10'h008, 10'h009: read_data = bar_read[3'(word - 10'h004)];
            10'h00b: read_data = {SUBSYSTEM_ID, SUBSYSTEM_VENDOR_ID};
            10'h00d: read_data = 32'h0000_0040;
            10'h00f: read_data = interrupt_line;
            10'h010: read_data = 32'h0003_5001;  // Power Management, version 3, no PME
            10'h011: read_data = 32'h0000_0008 | power;
            10'h014: read_data = {7'd0, 1'b1, 1'b1, 3'd0, VECTORS, 1'b0, 16'h7005} | msi_control;  // masks per vector, 64-bit addresses
            10'h015: read_data = msi_low;
            10'h016: read_data = msi_high;
            10'h017: read_data = msi_value;
            10'h018: read_data = msi_mask;
            10'h019: read_data = msi_pending;
            10'h01c: read_data = {16'h0002, MSIX ? 8'hb0 : 8'h00, 8'h10};  // endpoint, version 2
            // Function Level Reset, captured slot power limit, role-based error reporting, 8-bit tags
            10'h01d: read_data = {4'b0001, captured_power, 2'b00, 16'h8020 | 16'(MPS_SUPPORTED)};
            10'h01e: read_data = {device_status | {10'd0, transactions_pending, 5'd0}, device_control[15:0]};
            10'h01f: read_data = 32'h0040_0000 | {22'd0, 6'(LINK_WIDTH), 4'(LINK_SPEED)};  // ASPM optionality, no ASPM
            10'h020: read_data = {6'd0, link_width, link_speed, link_control[15:0]};
            10'h025: read_data = 32'h0000_0010;  // timeouts can be disabled
            10'h026: read_data = device_control_2;
            10'h027: read_data = (32'd2 << LINK_SPEED) - 32'd2;
            10'h028: read_data = link_control_2;
            10'h02c: read_data = MSIX ? {5'd0, 11'(INTERRUPTS - 1), 16'h0011} | msix_control : '0;
            10'h02d: read_data = MSIX ? {29'd0, BIR} : '0;
            10'h02e: read_data = MSIX ? {29'h0000_0100, BIR} : '0;  // pending bits at 0x800
            10'h040: read_data = 32'h1502_0001;  // AER, version 2
            10'h054: read_data = 32'h0001_000b;  // vendor-specific, the last
            10'h055: read_data = 32'h0680_4550;  // 24 counters
            default: read_data = word[9:4] == 6'h04 ? aer_data : counter;
        endcase

    logic [31:0] counter;
    always_comb begin
        counter = '0;
        for (int n = 0; n < 24; n++) if (word == 10'h056 + 10'(n)) counter = 32'(counts[COUNTER_WIDTH*n+:COUNTER_WIDTH]);
    end

    logic power_legal;
    assign power_legal = write_data[1:0] == 2'b00 || write_data[1:0] == 2'b11;
    always_ff @(posedge clk)
        if (rst || link_reset || function_level_reset) begin
            command <= '0;
            cache_line <= '0;
            interrupt_line <= '0;
            power <= '0;
            msi_control <= '0;
            msi_low <= '0;
            msi_high <= '0;
            msi_value <= '0;
            msi_mask <= '0;
            msix_control <= '0;
            device_control_2 <= '0;
            // Reset values of §7.5.3.4: 512 B reads, relaxed ordering, no snoop. Function Level Reset keeps Max_Payload_Size (§6.6.2).
            device_control <= {16'd0, 8'h28, function_level_reset && !rst && !link_reset ? device_control[7:5] : 3'd0, 5'h10};
        end else if (writes)
            case (word)
                10'h001: command <= written(command, 32'h0000_0146, lanes, write_data);
                10'h003: cache_line <= written(cache_line, 32'h0000_00ff, lanes, write_data);
                10'h00f: interrupt_line <= written(interrupt_line, 32'h0000_00ff, lanes, write_data);
                10'h011: if (power_legal) power <= written(power, 32'h0000_0003, lanes, write_data);
                10'h014: msi_control <= written(msi_control, 32'h0071_0000, lanes, write_data);
                10'h015: msi_low <= written(msi_low, 32'hffff_fffc, lanes, write_data);
                10'h016: msi_high <= written(msi_high, '1, lanes, write_data);
                10'h017: msi_value <= written(msi_value, 32'h0000_ffff, lanes, write_data);
                10'h018: msi_mask <= written(msi_mask, 32'((64'd1 << (1 << VECTORS)) - 64'd1), lanes, write_data);
                10'h01e: device_control <= written(device_control, 32'h0000_79ff, lanes, write_data);
                10'h026: device_control_2 <= written(device_control_2, 32'h0000_0010, lanes, write_data);
                10'h02c: msix_control <= written(msix_control, MSIX ? 32'hc000_0000 : '0, lanes, write_data);
                default: ;
            endcase
    always_ff @(posedge clk)
        if (rst || link_reset) begin
            link_control <= '0;
            link_control_2 <= 32'(LINK_SPEED);
            captured_power <= '0;
        end else begin
            if (writes && word == 10'h020) link_control <= written(link_control, 32'h0000_00c8, lanes, write_data);
            if (writes && word == 10'h028) link_control_2 <= written(link_control_2, 32'h0000_000f, lanes, write_data);
            if (slot_power_valid) captured_power <= slot_power;
        end

    assign memory_enable = command[1] && power == '0;  // D3hot answers configuration requests only
    assign bus_master = command[2] && power == '0;
    assign max_payload = device_control[7:5] > MPS_SUPPORTED ? MPS_SUPPORTED : device_control[7:5];
    assign max_read_request = device_control[14:12];
    assign extended_tags = device_control[8];
    assign timed = !device_control_2[4];
    assign reset_request = writes && word == 10'h01e && lanes[15] && write_data[15];
    assign msi_enable = msi_control[16] && !msix_control[31];
    assign msi_address = {msi_high, msi_low[31:2]};
    assign msi_data = msi_value[15:0];
    assign msi_count = msi_control[22:20] > VECTORS ? VECTORS : msi_control[22:20];
    assign msix_enable = msix_control[31];
    assign msix_mask = msix_control[30];

    // ---- errors ----
    logic [3:0] found_kinds;
    pcie_aer aer (
        .clk(clk),
        .rst(rst),
        .writes(writes && word[9:4] == 6'h04),
        .word(word[3:0]),
        .lanes(lanes),
        .write_data(write_data),
        .read_data(aer_data),
        .errors(errors),
        .advisory_errors(advisory_errors),
        .has_header(has_header),
        .error_header(error_header),
        .link_uncorrectable(link_uncorrectable),
        .link_correctable(link_correctable),
        .report(device_control[3:0]),
        .serr_enable(command[8]),
        .found_kinds(found_kinds),
        .message_cor(message_cor),
        .message_nonfatal(message_nonfatal),
        .message_fatal(message_fatal)
    );
    logic [15:0] found;
    always_comb begin
        found = '0;
        found[8] = completion_poisoned && command[6];                              // Master Data Parity Error
        found[11] = signaled_ca;                                                   // Signaled Target Abort
        found[12] = completion_ca;                                                 // Received Target Abort
        found[13] = completion_ur;                                                 // Received Master Abort
        found[14] = (message_nonfatal || message_fatal) && command[8];             // Signaled System Error
        found[15] = errors[ERROR_POISONED];                                        // Detected Parity Error
    end
    always_ff @(posedge clk)
        if (rst || link_reset || function_level_reset) begin
            status <= '0;
            device_status <= '0;
        end else begin
            status <= (status & ~(writes && word == 10'h001 ? clears : '0)) | found;
            device_status <= (device_status & ~(writes && word == 10'h01e ? clears : '0)) | 16'(found_kinds);
        end
endmodule
