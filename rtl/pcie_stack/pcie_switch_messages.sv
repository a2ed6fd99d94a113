// SPDX-License-Identifier: Apache-2.0 OR MIT
// Messages that the switch makes: INTx of all downstream ports together (PCIe 6.0 §2.2.8.1), error messages of its ports, and PME_TO_Ack when
// all downstream ports have sent theirs (§5.3.3.2.1).
// Handshake: `valid` and `message` stay until `taken`. The rest are pulses and levels.
module pcie_switch_messages #(
    parameter int PORTS = 3
) (
    input logic clk,
    input logic rst,  // also while the upstream link is down
    input logic [PORTS-1:0] active,
    input logic [4*PORTS-1:0] intx_set,    // by port: INTA in bit 0
    input logic [4*PORTS-1:0] intx_clear,
    input logic [PORTS-1:0] error_correctable,
    input logic [PORTS-1:0] error_nonfatal,
    input logic [PORTS-1:0] error_fatal,
    input logic pass_correctable,  // errors of downstream ports pass the upstream port
    input logic pass_error,
    input logic turn_off,          // PME_Turn_Off goes to all active ports
    input logic [PORTS-1:0] acknowledged,
    input logic [15:0] upstream_id,
    input logic [7:0] internal_bus,
    output logic valid,
    output logic [127:0] message,
    input logic taken
);
    `include "pcie_switch.svh"

    // ---- INTx: a downstream port turns the wires by its device number, which is its number less one ----
    logic [4*PORTS-1:0] wires;
    logic [3:0] level, shown;  // of the upstream port; what it has told
    always_comb begin
        level = '0;
        for (int n = 1; n < PORTS; n++) for (int k = 0; k < 4; k++) if (wires[4*n+k]) level[(k+n-1)%4] = 1'b1;
    end
    always_ff @(posedge clk)
        for (int n = 0; n < PORTS; n++)
            if (rst || !active[n] || n == 0) wires[4*n+:4] <= '0;
            else wires[4*n+:4] <= (wires[4*n+:4] | intx_set[4*n+:4]) & ~intx_clear[4*n+:4];

    // ---- what is to be sent: at most one message of each kind waits ----
    logic [PORTS-1:0] correctable, nonfatal, fatal, awaited;
    logic gathering, acknowledges;
    logic [3:0] changed;
    assign changed = level ^ shown;

    logic loads, takes_ack;
    logic [3:0] takes_wire;
    logic [PORTS-1:0] takes_fatal, takes_nonfatal, takes_correctable;
    logic [2:0] routing;
    logic [7:0] code;
    logic [15:0] requester;
    assign loads = !valid || taken;
    always_comb begin
        takes_wire = '0;
        takes_ack = 1'b0;
        takes_fatal = '0;
        takes_nonfatal = '0;
        takes_correctable = '0;
        routing = TO_ROOT;
        code = ERR_COR;
        requester = upstream_id;
        if (changed != '0) begin
            routing = LOCAL;
            for (int k = 3; k >= 0; k--)
                if (changed[k]) begin
                    takes_wire = 4'd1 << k;
                    code = (level[k] ? ASSERT_INTA : DEASSERT_INTA) + 8'(k);
                end
        end else if (acknowledges) begin
            takes_ack = 1'b1;
            routing = GATHERED;
            code = PME_TO_ACK;
        end else begin
            for (int n = PORTS - 1; n >= 0; n--)
                if (fatal[n] || nonfatal[n] || correctable[n]) begin
                    takes_fatal = '0;
                    takes_nonfatal = '0;
                    takes_correctable = '0;
                    takes_fatal[n] = fatal[n];
                    takes_nonfatal[n] = !fatal[n] && nonfatal[n];
                    takes_correctable[n] = !fatal[n] && !nonfatal[n];
                    code = fatal[n] ? ERR_FATAL : nonfatal[n] ? ERR_NONFATAL : ERR_COR;
                    requester = n == 0 ? upstream_id : {internal_bus, 5'(n - 1), 3'd0};
                end
        end
    end

    logic any;
    assign any = changed != '0 || acknowledges || fatal != '0 || nonfatal != '0 || correctable != '0;
    logic [PORTS-1:0] down;
    assign down = {{PORTS - 1{1'b1}}, 1'b0};
    always_ff @(posedge clk)
        if (rst) begin
            valid <= 1'b0;
            shown <= '0;
            correctable <= '0;
            nonfatal <= '0;
            fatal <= '0;
            awaited <= '0;
            gathering <= 1'b0;
            acknowledges <= 1'b0;
        end else begin
            if (loads) begin
                valid <= any;
                shown <= shown ^ takes_wire;
            end
            correctable <= (correctable & ~(loads ? takes_correctable : '0)) | (error_correctable & ~(pass_correctable ? '0 : down));
            nonfatal <= (nonfatal & ~(loads ? takes_nonfatal : '0)) | (error_nonfatal & ~(pass_error ? '0 : down));
            fatal <= (fatal & ~(loads ? takes_fatal : '0)) | (error_fatal & ~(pass_error ? '0 : down));
            awaited <= turn_off ? active & down : awaited & active & ~acknowledged;
            gathering <= turn_off || (gathering && awaited != '0);
            acknowledges <= (acknowledges && !(loads && takes_ack)) || (gathering && !turn_off && awaited == '0);
        end
    always_ff @(posedge clk) if (loads) message <= {64'd0, code, 8'd0, requester[7:0], requester[15:8], 24'd0, 5'b00110, routing};
endmodule
