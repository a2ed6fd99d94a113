// SPDX-License-Identifier: Apache-2.0 OR MIT
// Configuration space of one port of the switch (PCIe 6.0 chapter 7): type 1 header, PCI Express and Power Management capabilities, and the error
// signaling of §6.2 for a function without AER.
// Handshake: `select` is an access of one cycle, `read_data` is its answer in the same cycle. Errors and messages are pulses.
module pcie_switch_config #(
    parameter int PORT = 0,  // 0: the upstream port
    parameter logic [15:0] VENDOR_ID = 16'h1234,
    parameter logic [15:0] DEVICE_ID = 16'h5001,
    parameter logic [7:0] REVISION = 8'h00,
    parameter int MAX_PAYLOAD = 512,
    parameter int LINK_SPEED = 3,
    parameter int LINK_WIDTH = 8
) (
    input logic clk,
    input logic rst,  // also while the upstream link is down

    input logic select,
    input logic write,
    input logic [9:0] word,
    input logic [3:0] be,
    input logic [31:0] write_data,
    output logic [31:0] read_data,

    input logic link_up,
    input logic [3:0] link_speed,
    input logic [5:0] link_width,
    input logic [9:0] slot_power,  // of Set_Slot_Power_Limit: scale above value

    // Errors that this port detects
    input logic error_posted_ur,       // a posted request that no port takes
    input logic error_request_ur,      // a non-posted request that got UR
    input logic error_unexpected,      // a completion that no port takes
    input logic error_poisoned,        // a poisoned TLP
    input logic error_malformed,
    input logic error_overflow,
    input logic error_protocol,        // data link protocol error
    input logic error_correctable,     // of the data link layer
    input logic received_error,        // ERR_NONFATAL or ERR_FATAL from the secondary side

    output logic memory_enable,
    output logic bus_master,
    output logic forward_correctable,  // ERR_COR from below passes; other error messages
    output logic forward_error,
    output logic atomic_block,
    output logic ari_forwarding,
    output logic [7:0] secondary_bus,
    output logic [7:0] subordinate_bus,
    output logic [11:0] memory_base,
    output logic [11:0] memory_limit,
    output logic [43:0] prefetch_base,
    output logic [43:0] prefetch_limit,
    output logic secondary_reset,
    output logic link_disable,
    output logic [2:0] max_payload,

    // Error messages to send
    output logic message_correctable,
    output logic message_nonfatal,
    output logic message_fatal
);
    localparam logic [2:0] MPS_SUPPORTED = 3'($clog2(MAX_PAYLOAD) - 7);
    localparam logic DOWN = PORT != 0;

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
    logic [31:0] command, cache_line, bus_numbers, memory_range, prefetch_range, prefetch_base_upper, prefetch_limit_upper, interrupt_line, bridge;
    logic [31:0] device_control, link_control, device_control_2, link_control_2, power;
    logic [15:0] status, secondary_status;
    logic [3:0] device_status;

    always_comb
        case (word)
            10'h000: read_data = {DEVICE_ID, VENDOR_ID};
            10'h001: read_data = {status | 16'h0010, command[15:0]};
            10'h002: read_data = {24'h06_0400, REVISION};
            10'h003: read_data = 32'h0001_0000 | cache_line;
            10'h006: read_data = bus_numbers;
            10'h007: read_data = {secondary_status, 16'h0000};
            10'h008: read_data = memory_range;
            10'h009: read_data = prefetch_range | 32'h0001_0001;
            10'h00a: read_data = prefetch_base_upper;
            10'h00b: read_data = prefetch_limit_upper;
            10'h00d: read_data = 32'h0000_0040;
            10'h00f: read_data = bridge | interrupt_line;
            10'h010: read_data = DOWN ? 32'h0062_8010 : 32'h0052_8010;  // version 2, no slot
            // Role-based error reporting, 8-bit tags; the upstream port has the captured slot power limit.
            10'h011: read_data = {4'd0, DOWN ? 10'd0 : slot_power, 2'd0, 16'h8020 | 16'(MPS_SUPPORTED)};
            10'h012: read_data = {12'd0, device_status, device_control[15:0]};
            // ASPM optionality, no ASPM; a downstream port reports DL_Active.
            10'h013: read_data = {8'(PORT), 1'b0, 1'b1, 1'b0, DOWN, 10'd0, 6'(LINK_WIDTH), 4'(LINK_SPEED)};
            10'h014: read_data = {2'b00, DOWN && link_up, 3'b000, link_width, link_speed, link_control[15:0]};
            10'h019: read_data = {25'd0, 1'b1, DOWN, 5'd0};  // AtomicOp routing, ARI forwarding
            10'h01a: read_data = device_control_2;
            10'h01b: read_data = (32'd2 << LINK_SPEED) - 32'd2;
            10'h01c: read_data = link_control_2;
            10'h020: read_data = 32'h0003_0001;  // Power Management, version 3, no PME, the last
            10'h021: read_data = 32'h0000_0008 | power;
            default: read_data = '0;
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
            interrupt_line <= '0;
            bridge <= '0;
            device_control <= 32'h0000_2810;  // reset values of §7.5.3.4: 512 B reads, relaxed ordering, no snoop
            link_control <= '0;
            device_control_2 <= '0;
            link_control_2 <= 32'(LINK_SPEED);
            power <= '0;
        end else if (writes)
            case (word)
                10'h001: command <= written(command, 32'h0000_0146, lanes, write_data);
                10'h003: cache_line <= written(cache_line, 32'h0000_00ff, lanes, write_data);
                10'h006: bus_numbers <= written(bus_numbers, 32'h00ff_ffff, lanes, write_data);
                10'h008: memory_range <= written(memory_range, 32'hfff0_fff0, lanes, write_data);
                10'h009: prefetch_range <= written(prefetch_range, 32'hfff0_fff0, lanes, write_data);
                10'h00a: prefetch_base_upper <= written(prefetch_base_upper, '1, lanes, write_data);
                10'h00b: prefetch_limit_upper <= written(prefetch_limit_upper, '1, lanes, write_data);
                10'h00f: begin
                    interrupt_line <= written(interrupt_line, 32'h0000_00ff, lanes, write_data);
                    bridge <= written(bridge, 32'h0043_0000, lanes, write_data);
                end
                10'h012: device_control <= written(device_control, 32'h0000_78ff, lanes, write_data);
                10'h014: link_control <= written(link_control, DOWN ? 32'h0000_00d0 : 32'h0000_00c0, lanes, write_data);
                10'h01a: device_control_2 <= written(device_control_2, DOWN ? 32'h0000_00a0 : 32'h0000_0080, lanes, write_data);
                10'h01c: link_control_2 <= written(link_control_2, 32'h0000_000f, lanes, write_data);
                10'h021: if (power_legal) power <= written(power, 32'h0000_0003, lanes, write_data);
                default: ;
            endcase

    assign memory_enable = command[1] && power == '0;  // D3hot forwards configuration requests and completions only
    assign bus_master = command[2] && power == '0;
    assign forward_correctable = bridge[17];
    assign forward_error = bridge[17] && command[8];
    assign atomic_block = device_control_2[7];
    assign ari_forwarding = device_control_2[5];
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

    // ---- errors: Figure 6-2. Advisory errors of a function without AER send no message (§6.2.3.2.4). ----
    logic fatal, nonfatal, advisory, ur_shown;
    assign fatal = error_malformed || error_overflow || error_protocol;
    assign nonfatal = error_posted_ur;
    assign advisory = error_request_ur || error_unexpected || error_poisoned;
    assign ur_shown = device_control[3] || command[8];

    // A downstream port shows errors of its secondary side in Secondary Status.
    logic [15:0] found;
    always_comb begin
        found = '0;
        found[15] = error_poisoned;     // Detected Parity Error
    end
    always_ff @(posedge clk)
        if (rst) begin
            device_status <= '0;
            status <= '0;
            secondary_status <= '0;
            message_correctable <= 1'b0;
            message_nonfatal <= 1'b0;
            message_fatal <= 1'b0;
        end else begin
            device_status <= (device_status & ~(writes && word == 10'h012 ? clears[19:16] : '0))
                | {error_posted_ur || error_request_ur, fatal, nonfatal, error_correctable || advisory};
            status <= (status & ~(writes && word == 10'h001 ? clears[31:16] : '0)) | (DOWN ? '0 : found)
                | {1'b0, (message_nonfatal || message_fatal || (received_error && forward_error)) && command[8], 14'd0};  // Signaled System Error
            secondary_status <= (secondary_status & ~(writes && word == 10'h007 ? clears[31:16] : '0)) | (DOWN ? found : '0)
                | {1'b0, received_error, 14'd0};  // Received System Error
            message_correctable <= error_correctable && device_control[0];
            message_nonfatal <= nonfatal && ur_shown && (device_control[1] || command[8]);
            message_fatal <= fatal && (device_control[2] || command[8]);
        end
endmodule
