// SPDX-License-Identifier: Apache-2.0 OR MIT
// Credits of one VC and type at the receiver (PCIe 6.0 §2.6.1.2): room that the other end may use, CREDITS_ALLOCATED, and when an UpdateFC is due.
// Handshake: `update_taken` takes the UpdateFC of `value`.
module pcie_tl_rx_credits #(
    parameter int HEADERS = 64,
    parameter int DATA = 256,
    parameter int INFINITE = 0
) (
    input logic clk,
    input logic rst,     // the channel is down: credits are those of the empty buffer
    input logic scaled,  // scaled flow control is active

    input logic [8:0] need,
    output logic fits,
    input logic stored,     // a TLP with `need` credits is stored
    input logic discarded,  // ... is discarded: its credits are allocated again
    input logic freed,      // the user has taken a TLP
    input logic [8:0] freed_credits,

    input logic refresh,  // send an UpdateFC without a reason
    input logic repeat_,  // the other end has missed InitFC2: send one even if credits are infinite
    output logic due,
    output logic refreshes,
    input logic update_taken,
    output logic [23:0] init,
    output logic [23:0] value
);
    `include "pcie_tl.svh"
    localparam int HEADER = $clog2(HEADERS + 1);
    localparam int PAYLOAD = $clog2(DATA + 1);
    localparam logic [1:0] HEADER_SCALE = scale_of(HEADERS, 127);
    localparam logic [1:0] DATA_SCALE = scale_of(DATA, 2047);
    localparam int HEADER_SHIFT = shift_of(HEADER_SCALE);
    localparam int DATA_SHIFT = shift_of(DATA_SCALE);
    localparam int HEADERS_SCALED = HEADERS >> HEADER_SHIFT << HEADER_SHIFT;
    localparam int DATA_SCALED = DATA >> DATA_SHIFT << DATA_SHIFT;
    localparam int HEADERS_UNSCALED = HEADERS < 127 ? HEADERS : 127;
    localparam int DATA_UNSCALED = DATA < 2047 ? DATA : 2047;

    logic [HEADER-1:0] header_left;
    logic [PAYLOAD-1:0] data_left;
    logic [11:0] header_allocated;
    logic [15:0] data_allocated;
    assign fits = header_left != '0 && 16'(data_left) >= 16'(need);

    always_ff @(posedge clk)
        if (rst) begin
            header_left <= HEADER'(INFINITE != 0 ? HEADERS : scaled ? HEADERS_SCALED : HEADERS_UNSCALED);
            data_left <= PAYLOAD'(INFINITE != 0 ? DATA : scaled ? DATA_SCALED : DATA_UNSCALED);
            header_allocated <= 12'(scaled ? HEADERS_SCALED : HEADERS_UNSCALED);
            data_allocated <= 16'(scaled ? DATA_SCALED : DATA_UNSCALED);
        end else begin
            header_left <= header_left + HEADER'(freed) - HEADER'(stored);
            data_left <= data_left + (freed ? PAYLOAD'(freed_credits) : '0) - (stored ? PAYLOAD'(need) : '0);
            header_allocated <= header_allocated + 12'(freed) + 12'(discarded);
            data_allocated <= data_allocated + (freed ? 16'(freed_credits) : '0) + (discarded ? 16'(need) : '0);
        end

    logic changed;
    always_ff @(posedge clk)
        if (rst) begin
            changed <= 1'b0;
            refreshes <= 1'b0;
        end else begin
            changed <= (INFINITE == 0 && (freed || discarded)) || (changed && !update_taken);
            refreshes <= (INFINITE == 0 && refresh) || repeat_ || (refreshes && !update_taken);
        end
    assign due = changed || refreshes;

    if (INFINITE != 0) begin : endless
        assign init = {1'b0, scaled, 8'd0, 1'b0, scaled, 12'd0};
        assign value = init;
        logic unused;
        assign unused = &{header_allocated, data_allocated};
    end else begin : limited
        assign init = scaled ? {HEADER_SCALE, 8'(HEADERS_SCALED >> HEADER_SHIFT), DATA_SCALE, 12'(DATA_SCALED >> DATA_SHIFT)} :
                      {2'd0, 8'(HEADERS_UNSCALED), 2'd0, 12'(DATA_UNSCALED)};
        assign value = scaled ? {HEADER_SCALE, 8'(header_allocated >> HEADER_SHIFT), DATA_SCALE, 12'(data_allocated >> DATA_SHIFT)} :
                       {2'd0, header_allocated[7:0], 2'd0, data_allocated[11:0]};
    end
endmodule
