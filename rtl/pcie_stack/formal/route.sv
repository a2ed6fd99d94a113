// SPDX-License-Identifier: Apache-2.0 OR MIT
// Properties of pcie_switch_route: a TLP has one destination, unless it is a broadcast of the upstream port. It never goes back to the port that received it.
// Header and settings are free.
module route #(
    parameter int PORTS = 3,
    parameter int PORT = 0,
    parameter int STREAM = 0
) (
    input logic clk
);
    `include "pcie_switch.svh"
    (* anyseq *) logic [127:0] header;
    (* anyseq *) logic [6*PORTS-1:0] flags;
    (* anyseq *) logic [16*PORTS-1:0] buses;
    (* anyseq *) logic [24*PORTS-1:0] memory;
    (* anyseq *) logic [88*PORTS-1:0] prefetch;
    logic [PORTS:0] to;
    logic convert, own;
    pcie_switch_route #(
        .PORTS(PORTS),
        .PORT(PORT),
        .STREAM(STREAM)
    ) switch_route (
        .header(header),
        .memory_enable(flags[PORTS-1:0]),
        .bus_master(flags[2*PORTS-1:PORTS]),
        .forward_correctable(flags[3*PORTS-1:2*PORTS]),
        .forward_error(flags[4*PORTS-1:3*PORTS]),
        .atomic_block(flags[5*PORTS-1:4*PORTS]),
        .ari_forwarding(flags[6*PORTS-1:5*PORTS]),
        .secondary_bus(buses[8*PORTS-1:0]),
        .subordinate_bus(buses[16*PORTS-1:8*PORTS]),
        .memory_base(memory[12*PORTS-1:0]),
        .memory_limit(memory[24*PORTS-1:12*PORTS]),
        .prefetch_base(prefetch[44*PORTS-1:0]),
        .prefetch_limit(prefetch[88*PORTS-1:44*PORTS]),
        .to(to),
        .convert(convert),
        .own(own),
        .function_()
    );
    logic f_valid, f_convert, f_own, f_config, f_broadcast;
    logic [PORTS:0] f_to;
    initial f_valid = 1'b0;
    always_ff @(posedge clk) begin
        f_valid <= 1'b1;
        f_to <= to;
        f_convert <= convert;
        f_own <= own;
        f_config <= header[4:1] == 4'b0010;
        f_broadcast <= PORT == 0 && STREAM == STREAM_P && header[4:3] == 2'b10 && header[2:0] == BROADCAST;
        if (f_valid) begin
            assert (!f_to[PORT]);
            assert (f_to != '0 && (f_broadcast ? !f_to[PORTS] : (f_to & (f_to - 1'b1)) == '0));
            if (f_own || f_convert) assert (PORT == 0 && STREAM == STREAM_NP && f_config);
            if (f_own) assert (f_to[PORTS]);
        end
    end
endmodule
