// SPDX-License-Identifier: Apache-2.0 OR MIT
// Stands in for pcie_switch_config in proofs: settings and messages are any values in each cycle. Each property that holds with this module
// also holds with the real module.
module pcie_switch_config #(
    parameter int PORT = 0,
    parameter logic [15:0] VENDOR_ID = 16'h1234,
    parameter logic [15:0] DEVICE_ID = 16'h5001,
    parameter logic [7:0] REVISION = 8'h00,
    parameter int MAX_PAYLOAD = 512,
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
    input logic [9:0] slot_power,
    input logic error_posted_ur,
    input logic error_request_ur,
    input logic error_unexpected,
    input logic error_poisoned,
    input logic error_malformed,
    input logic error_overflow,
    input logic error_protocol,
    input logic error_correctable,
    input logic received_error,
    output logic memory_enable,
    output logic bus_master,
    output logic forward_correctable,
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
    output logic message_correctable,
    output logic message_nonfatal,
    output logic message_fatal
);
    (* anyseq *) logic [173:0] any;
    assign {read_data, memory_enable, bus_master, forward_correctable, forward_error, atomic_block, ari_forwarding, secondary_bus, subordinate_bus,
        memory_base, memory_limit, prefetch_base, prefetch_limit, secondary_reset, link_disable, max_payload, message_correctable, message_nonfatal,
        message_fatal} = any;
endmodule
