// SPDX-License-Identifier: Apache-2.0 OR MIT
// Accesses of one double-word: the complex's registers, the root port's configuration space, and configuration requests to functions
// below it (PCIe 6.0 §7.2.2, §7.3.3, §2.3.2). One access is in progress at a time.
// Handshake: read_* and write_* stay until their `_done`, which is a pulse with the data. `local_*` is a strobe of one cycle, answered in
// it. send_* is a request to the packetizer, whose completion is `config_done`.
module pcie_root_complex_access #(
    parameter int ECAM_BUSES = 256
) (
    input logic clk,
    input logic rst,

    input logic read_valid,
    input logic read_is_register,
    input logic [25:0] read_word,
    input logic [3:0] read_be,
    output logic read_done,
    input logic write_valid,
    input logic write_is_register,
    input logic [25:0] write_word,
    input logic [3:0] write_be,
    input logic [31:0] write_data,
    output logic write_done,
    output logic [31:0] data,

    input logic link_up,
    input logic enable,
    input logic [7:0] secondary_bus,
    input logic [7:0] subordinate_bus,
    input logic ari_forwarding,
    input logic rrs_visible,            // RRS Software Visibility Enable
    input logic extended_tags,
    input logic [15:0] retry_limit,
    input logic [15:0] retry_interval,  // cycles

    output logic local_register,
    output logic local_config,
    output logic local_write,
    output logic [9:0] local_word,
    output logic [3:0] local_be,
    output logic [31:0] local_data,
    input logic [31:0] register_data,
    input logic [31:0] config_space_data,

    output logic send_valid,
    input logic send_ready,
    output logic send_write,
    output logic send_type1,
    output logic [25:0] send_address,
    output logic [3:0] send_be,
    output logic [7:0] send_tag,
    output logic [31:0] send_data,
    input logic config_done,
    input logic [2:0] config_status,
    input logic [31:0] config_data,

    output logic no_function,
    output logic retry_limit_reached
);
    `include "pcie_root_complex.svh"
    typedef enum logic [2:0] {IDLE, DECODE, SEND, WAIT, PAUSE, DONE} state_t;
    state_t state;

    logic for_write, is_register;
    logic [25:0] word;
    logic [3:0] be;
    logic [31:0] to_write;
    logic [7:0] bus;
    logic own_bus, own_function, on_secondary, on_lower, reachable, sees_retry;
    logic [6:0] generation;
    logic [15:0] retries, pause;

    assign bus = word[25:18] & 8'(ECAM_BUSES - 1);
    assign own_bus = bus == 8'd0;
    assign own_function = own_bus && word[17:10] == 8'd0;
    assign on_secondary = !own_bus && bus == secondary_bus;
    assign on_lower = bus > secondary_bus && bus <= subordinate_bus;
    // Only device 0 is on the link, unless ARI makes the device number a part of the function number.
    assign reachable = link_up && enable && ((on_secondary && (word[17:13] == 5'd0 || ari_forwarding)) || (on_lower && secondary_bus != '0));
    // A read of both bytes of the Vendor ID sees RRS as the Vendor ID 0001h (§2.3.2).
    assign sees_retry = rrs_visible && !for_write && word[9:0] == '0 && be[1:0] == 2'b11;

    assign local_register = state == DECODE && is_register;
    assign local_config = state == DECODE && !is_register && own_function;
    assign local_write = for_write;
    assign local_word = word[9:0];
    assign local_be = be;
    assign local_data = to_write;

    assign send_valid = state == SEND;
    assign send_write = for_write;
    assign send_type1 = !on_secondary;
    assign send_address = {bus, word[17:0]};
    assign send_be = be;
    // Bit 4 (bit 7 of an extended tag) is for configuration requests; the other bits differ from those of the last requests.
    assign send_tag = extended_tags ? {1'b1, generation} : {4'b0001, generation[3:0]};
    assign send_data = to_write;

    assign read_done = state == DONE && !for_write;
    assign write_done = state == DONE && for_write;
    assign no_function = state == DECODE && !is_register && !own_function && !reachable;
    assign retry_limit_reached = state == WAIT && config_done && config_status == STATUS_RRS && !sees_retry && retries >= retry_limit;

    always_ff @(posedge clk)
        if (rst) begin
            state <= IDLE;
            generation <= '0;
        end else
            case (state)
                IDLE: if (read_valid || write_valid) state <= DECODE;
                DECODE: state <= is_register || !reachable ? DONE : SEND;
                SEND: if (send_ready) begin
                    state <= WAIT;
                    generation <= generation + 1'b1;
                end
                WAIT: if (config_done) state <= config_status == STATUS_RRS && !sees_retry && retries < retry_limit ? PAUSE : DONE;
                PAUSE: if (pause >= retry_interval) state <= link_up ? SEND : DONE;
                default: state <= IDLE;
            endcase

    always_ff @(posedge clk) begin
        case (state)
            IDLE: begin
                // A write is taken first: reads come more often.
                for_write <= write_valid;
                is_register <= write_valid ? write_is_register : read_is_register;
                word <= write_valid ? write_word : read_word;
                be <= write_valid ? write_be : read_be;
                to_write <= write_data;
                retries <= '0;
            end
            DECODE: data <= is_register ? register_data : own_function ? config_space_data : '1;
            WAIT: begin
                pause <= '0;
                if (config_done) begin
                    retries <= retries + 1'b1;
                    data <= config_status == STATUS_SC ? config_data : config_status == STATUS_RRS && sees_retry ? 32'hffff_0001 : '1;
                end
            end
            PAUSE: pause <= pause + 1'b1;
            default: ;
        endcase
    end
endmodule
