// SPDX-License-Identifier: Apache-2.0 OR MIT
// One received stream of one port: holds a beat and the route of its TLP.
// Handshake: valid/ready at the entry; at the exit a beat stays until `leaves`. If the link goes down within a TLP, its last beat gets a
// lane that does not fit the header's length, so that the egress port refuses the TLP.
module pcie_switch_stream #(
    parameter int DATA_WIDTH = 256,
    parameter int PORTS = 3,
    parameter int PORT = 0,
    parameter int STREAM = 0,
    localparam int LANE = $clog2(DATA_WIDTH / 32),
    localparam int INDEX = $clog2(PORTS)
) (
    input logic clk,
    input logic rst,
    input logic [PORTS-1:0] memory_enable,
    input logic [PORTS-1:0] bus_master,
    input logic [PORTS-1:0] forward_correctable,
    input logic [PORTS-1:0] forward_error,
    input logic [PORTS-1:0] atomic_block,
    input logic [PORTS-1:0] ari_forwarding,
    input logic [8*PORTS-1:0] secondary_bus,
    input logic [8*PORTS-1:0] subordinate_bus,
    input logic [12*PORTS-1:0] memory_base,
    input logic [12*PORTS-1:0] memory_limit,
    input logic [44*PORTS-1:0] prefetch_base,
    input logic [44*PORTS-1:0] prefetch_limit,
    input logic [PORTS-1:0] active,  // links that can carry TLPs

    input logic in_valid,
    output logic in_ready,
    input logic in_sop,
    input logic in_eop,
    input logic in_cut,
    input logic in_poisoned,
    input logic [LANE-1:0] in_end,
    input logic [DATA_WIDTH-1:0] in_data,
    input logic posted_here,  // a posted TLP is here now, and stays

    output logic valid,
    output logic sop,
    output logic eop,
    output logic poisoned,
    output logic [LANE-1:0] end_,
    output logic [DATA_WIDTH-1:0] data,
    output logic [PORTS:0] to,       // where the TLP goes, if the beat is its first: one bit, or several for a broadcast
    output logic own,
    output logic [INDEX-1:0] function_,
    output logic waits,              // an older posted request of this port is still here
    input logic leaves
);
    logic [PORTS:0] route_to;
    logic route_convert, route_own;
    logic [INDEX-1:0] route_function;
    pcie_switch_route #(
        .PORTS(PORTS),
        .PORT(PORT),
        .STREAM(STREAM)
    ) route (
        .header(in_data[127:0]),
        .memory_enable(memory_enable),
        .bus_master(bus_master),
        .forward_correctable(forward_correctable),
        .forward_error(forward_error),
        .atomic_block(atomic_block),
        .ari_forwarding(ari_forwarding),
        .secondary_bus(secondary_bus),
        .subordinate_bus(subordinate_bus),
        .memory_base(memory_base),
        .memory_limit(memory_limit),
        .prefetch_base(prefetch_base),
        .prefetch_limit(prefetch_limit),
        .to(route_to),
        .convert(route_convert),
        .own(route_own),
        .function_(route_function)
    );

    logic load;
    logic [PORTS:0] wanted;
    logic [LANE-1:0] last_lane, in_last_lane, total;  // lanes are counted modulo those of a beat
    assign in_ready = !valid || leaves;
    assign load = in_valid && in_ready;
    assign total = LANE'(3) + LANE'(in_data[5]) + LANE'(in_data[23]);  // header and digest
    assign in_last_lane = LANE'(total) + (in_data[6] ? LANE'(in_data[31:24]) : '0) - 1'b1;

    // A TLP for a link that is down ends here.
    assign to = {wanted[PORTS] || (wanted[PORTS-1:0] & active) == '0, wanted[PORTS-1:0] & active};

    always_ff @(posedge clk)
        if (rst) begin
            valid <= 1'b0;
            waits <= 1'b0;
        end else begin
            valid <= load || (valid && !leaves);
            waits <= posted_here && (waits || (load && in_sop));
        end
    always_ff @(posedge clk)
        if (load) begin
            sop <= in_sop;
            eop <= in_eop;
            poisoned <= in_poisoned;
            end_ <= in_cut ? ~last_lane : in_end;
            data <= in_data;
            if (in_sop) begin
                wanted <= route_to;
                own <= route_own;
                function_ <= route_function;
                last_lane <= in_last_lane;
                if (route_convert) data[0] <= 1'b0;
            end
        end
endmodule
