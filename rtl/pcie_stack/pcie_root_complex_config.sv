// SPDX-License-Identifier: Apache-2.0 OR MIT
// The root port's configuration space (PCIe 6.0 chapter 7): type 1 header, PCI Express, MSI and Power Management capabilities, AER with the
// root error registers, and the error signaling of §6.2.5 and §6.2.6.
// Handshake: `select` is an access of one cycle, `read_data` is its answer. Errors and messages are pulses.
module pcie_root_complex_config #(
    parameter logic [15:0] VENDOR_ID = 16'h1b36,
    parameter logic [15:0] DEVICE_ID = 16'h000c,
    parameter logic [7:0] REVISION = 8'h00,
    parameter int MAX_PAYLOAD = 256,
    parameter int LINK_SPEED = 3,
    parameter int LINK_WIDTH = 8
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
    input logic transactions_pending,

    // Errors that the root port detects, one bit each (ERROR_*), with the header of the TLP if it has one
    input logic [5:0] errors,
    input logic [5:0] advisory_errors,    // of non-posted requests that got an answer, and unexpected completions
    input logic has_header,
    input logic [127:0] error_header,
    input logic [31:0] link_uncorrectable,  // of the lower layers, as in the AER status register
    input logic [31:0] link_correctable,
    input logic completion_ur,
    input logic completion_ca,
    input logic completion_poisoned,
    input logic signaled_ca,

    input logic message_cor,
    input logic message_nonfatal,
    input logic message_fatal,
    input logic [15:0] message_requester,

    output logic memory_enable,
    output logic bus_master,
    output logic [7:0] secondary_bus,
    output logic [7:0] subordinate_bus,
    output logic [11:0] memory_base,
    output logic [11:0] memory_limit,
    output logic [43:0] prefetch_base,
    output logic [43:0] prefetch_limit,
    output logic secondary_reset,
    output logic link_disable,
    output logic [2:0] max_payload,
    output logic [2:0] max_read_request,
    output logic extended_tags,
    output logic rrs_visible,
    output logic ari_forwarding,

    output logic intx,          // level
    output logic msi_request,   // stays until msi_taken
    output logic [63:0] msi_address,
    output logic [15:0] msi_data,
    input logic msi_taken,
    output logic system_error   // pulse
);
    `include "pcie_root_complex.svh"
    localparam logic [2:0] MPS_SUPPORTED = MAX_PAYLOAD == 128 ? 3'd0 : MAX_PAYLOAD == 256 ? 3'd1 : 3'd2;

    function automatic logic [31:0] bytes_of(input logic [3:0] enables);
        bytes_of = {{8{enables[3]}}, {8{enables[2]}}, {8{enables[1]}}, {8{enables[0]}}};
    endfunction
    // A register after a write: `mask` has its writable bits.
    function automatic logic [31:0] written(input logic [31:0] old, input logic [31:0] mask, input logic [31:0] lanes, input logic [31:0] value);
        written = (old & ~(mask & lanes)) | (value & mask & lanes);
    endfunction

    logic [31:0] lanes, clears;
    logic writes;
    assign writes = select && write;
    assign lanes = bytes_of(be);
    assign clears = write_data & lanes;

    // ---- registers ----
    logic [31:0] command, bus_numbers, memory_range, prefetch_range, prefetch_base_upper, prefetch_limit_upper, bridge;
    logic [31:0] device_control, link_control, root_control, device_control_2, link_control_2, msi_control, power;
    logic [31:0] msi_low, msi_high, msi_value, cache_line;
    logic [31:0] aer_data, root_command, root_status, source;
    logic [15:0] status, secondary_status, device_status;
    logic aer_interrupt;

    always_comb
        case (word)
            10'h000: read_data = {DEVICE_ID, VENDOR_ID};
            10'h001: read_data = {status | 16'h0010 | {12'd0, aer_interrupt && !msi_control[16], 3'd0}, command[15:0]};
            10'h002: read_data = {24'h06_0400, REVISION};
            10'h003: read_data = 32'h0001_0000 | cache_line;
            10'h006: read_data = bus_numbers;
            10'h007: read_data = {secondary_status, 16'h0000};
            10'h008: read_data = memory_range;
            10'h009: read_data = prefetch_range | 32'h0001_0001;
            10'h00a: read_data = prefetch_base_upper;
            10'h00b: read_data = prefetch_limit_upper;
            10'h00d: read_data = 32'h0000_0040;
            10'h00f: read_data = bridge | 32'h0000_0100;
            10'h010: read_data = 32'h0042_8010;  // root port, version 2, no slot
            10'h011: read_data = {16'd0, 16'h8020 | 16'(MPS_SUPPORTED)};  // role-based error reporting, 8-bit tags
            10'h012: read_data = {device_status | {10'd0, transactions_pending, 5'd0}, device_control[15:0]};
            // Port 1, ASPM optionality, reports DL_Active, no ASPM
            10'h013: read_data = 32'h0150_0000 | {22'd0, 6'(LINK_WIDTH), 4'(LINK_SPEED)};
            10'h014: read_data = {2'b00, link_up, 3'b000, link_width, link_speed, link_control[15:0]};
            10'h017: read_data = 32'h0001_0000 | root_control;
            10'h019: read_data = 32'h0000_0020;  // ARI forwarding
            10'h01a: read_data = device_control_2;
            10'h01b: read_data = (32'd2 << LINK_SPEED) - 32'd2;
            10'h01c: read_data = link_control_2;
            10'h020: read_data = 32'h0080_9005 | msi_control;
            10'h021: read_data = msi_low;
            10'h022: read_data = msi_high;
            10'h023: read_data = msi_value;
            10'h024: read_data = 32'h0003_0001;  // Power Management, version 3, no PME
            10'h025: read_data = 32'h0000_0008 | power;
            10'h040: read_data = 32'h0002_0001;  // AER, version 2, the last
            10'h04b: read_data = root_command;
            10'h04c: read_data = root_status;
            10'h04d: read_data = source;
            default: read_data = word[9:4] == 6'h04 ? aer_data : '0;
        endcase

    logic power_legal;
    assign power_legal = write_data[1:0] == 2'b00 || write_data[1:0] == 2'b11;
    always_ff @(posedge clk)
        if (rst) begin
            command <= '0;
            cache_line <= '0;
            bus_numbers <= '0;
            memory_range <= '0;
            prefetch_range <= '0;
            prefetch_base_upper <= '0;
            prefetch_limit_upper <= '0;
            bridge <= '0;
            device_control <= 32'h0000_2810;  // reset values of §7.5.3.4: 512 B reads, relaxed ordering, no snoop
            link_control <= '0;
            root_control <= '0;
            device_control_2 <= '0;
            link_control_2 <= 32'(LINK_SPEED);
            msi_control <= '0;
            msi_low <= '0;
            msi_high <= '0;
            msi_value <= '0;
            power <= '0;
            root_command <= '0;
        end else if (writes)
            case (word)
                10'h001: command <= written(command, 32'h0000_0546, lanes, write_data);
                10'h003: cache_line <= written(cache_line, 32'h0000_00ff, lanes, write_data);
                10'h006: bus_numbers <= written(bus_numbers, 32'h00ff_ffff, lanes, write_data);
                10'h008: memory_range <= written(memory_range, 32'hfff0_fff0, lanes, write_data);
                10'h009: prefetch_range <= written(prefetch_range, 32'hfff0_fff0, lanes, write_data);
                10'h00a: prefetch_base_upper <= written(prefetch_base_upper, '1, lanes, write_data);
                10'h00b: prefetch_limit_upper <= written(prefetch_limit_upper, '1, lanes, write_data);
                10'h00f: bridge <= written(bridge, 32'h0043_00ff, lanes, write_data);
                10'h012: device_control <= written(device_control, 32'h0000_79ff, lanes, write_data);
                10'h014: link_control <= written(link_control, 32'h0000_00d0, lanes, write_data);
                10'h017: root_control <= written(root_control, 32'h0000_0017, lanes, write_data);
                10'h01a: device_control_2 <= written(device_control_2, 32'h0000_0020, lanes, write_data);
                10'h01c: link_control_2 <= written(link_control_2, 32'h0000_000f, lanes, write_data);
                10'h020: msi_control <= written(msi_control, 32'h0001_0000, lanes, write_data);
                10'h021: msi_low <= written(msi_low, 32'hffff_fffc, lanes, write_data);
                10'h022: msi_high <= written(msi_high, '1, lanes, write_data);
                10'h023: msi_value <= written(msi_value, 32'h0000_ffff, lanes, write_data);
                10'h025: if (power_legal) power <= written(power, 32'h0000_0003, lanes, write_data);
                10'h04b: root_command <= written(root_command, 32'h0000_0007, lanes, write_data);
                default: ;
            endcase

    assign memory_enable = command[1];
    assign bus_master = command[2];
    assign secondary_bus = bus_numbers[15:8];
    assign subordinate_bus = bus_numbers[23:16];
    assign memory_base = memory_range[15:4];
    assign memory_limit = memory_range[31:20];
    assign prefetch_base = {prefetch_base_upper, prefetch_range[15:4]};
    assign prefetch_limit = {prefetch_limit_upper, prefetch_range[31:20]};
    assign secondary_reset = bridge[22];
    assign link_disable = link_control[4];
    // The design's largest payload size is the limit.
    assign max_payload = device_control[7:5] > MPS_SUPPORTED ? MPS_SUPPORTED : device_control[7:5];
    assign max_read_request = device_control[14:12];
    assign extended_tags = device_control[8];
    assign rrs_visible = root_control[4];
    assign ari_forwarding = device_control_2[5];

    // ---- errors of this port ----
    logic [3:0] found_kinds;
    logic found_cor, found_nonfatal, found_fatal;
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
        .message_cor(found_cor),
        .message_nonfatal(found_nonfatal),
        .message_fatal(found_fatal)
    );
    always_ff @(posedge clk)
        if (rst) device_status <= '0;
        else device_status <= (device_status & ~(writes && word == 10'h012 ? clears[31:16] : '0)) | 16'(found_kinds);

    // ---- root error registers: messages from below, and errors of this port as if it had sent a message to itself ----
    logic own_cor, own_nonfatal, own_fatal, from_below, cor, nonfatal, fatal;
    logic [15:0] requester;
    // A message from below passes if SERR# Enable of Bridge Control is set (Figure 6-3).
    assign from_below = (message_cor || message_nonfatal || message_fatal) && bridge[17];
    assign cor = from_below ? message_cor : own_cor;
    assign nonfatal = from_below ? message_nonfatal : own_nonfatal;
    assign fatal = from_below ? message_fatal : own_fatal;
    assign requester = from_below ? message_requester : 16'd0;

    always_ff @(posedge clk)
        if (rst) begin
            {own_cor, own_nonfatal, own_fatal} <= '0;
            root_status <= '0;
            source <= '0;
            status <= '0;
            secondary_status <= '0;
            system_error <= 1'b0;
        end else begin
            own_cor <= (own_cor && from_below) || found_cor;
            own_nonfatal <= (own_nonfatal && from_below) || found_nonfatal;
            own_fatal <= (own_fatal && from_below) || found_fatal;
            root_status <= root_status & ~(writes && word == 10'h04c ? clears & 32'h7f : '0);
            if (cor) begin
                root_status[0] <= 1'b1;
                if (root_status[0]) root_status[1] <= 1'b1;
                else source[15:0] <= requester;
            end
            if (nonfatal || fatal) begin
                root_status[2] <= 1'b1;
                if (root_status[2]) root_status[3] <= 1'b1;
                else begin
                    root_status[4] <= fatal;
                    source[31:16] <= requester;
                end
                if (nonfatal) root_status[5] <= 1'b1;
                if (fatal) root_status[6] <= 1'b1;
            end
            system_error <= (cor && root_control[0]) || (nonfatal && root_control[1]) || (fatal && root_control[2]);
            status <= (status & ~(writes && word == 10'h001 ? clears[31:16] : '0)) | {1'b0, (nonfatal || fatal) && command[8], 14'd0};
            secondary_status <= (secondary_status & ~(writes && word == 10'h007 ? clears[31:16] : '0)) | {
                completion_poisoned || errors[ERROR_POISONED], message_nonfatal || message_fatal, completion_ur, completion_ca, signaled_ca, 2'b00,
                completion_poisoned && bridge[16], 8'd0
            };
        end

    // ---- the port's own interrupt ----
    logic raised, was_raised;
    assign aer_interrupt = (root_command[0] && root_status[0]) || (root_command[1] && root_status[5]) || (root_command[2] && root_status[6]);
    assign raised = aer_interrupt && msi_control[16];
    assign intx = aer_interrupt && !msi_control[16] && !command[10];
    assign msi_address = {msi_high, msi_low};
    assign msi_data = msi_value[15:0];
    always_ff @(posedge clk)
        if (rst) begin
            was_raised <= 1'b0;
            msi_request <= 1'b0;
        end else begin
            was_raised <= raised;
            if (raised && !was_raised) msi_request <= 1'b1;
            else if (msi_taken) msi_request <= 1'b0;
        end
endmodule
