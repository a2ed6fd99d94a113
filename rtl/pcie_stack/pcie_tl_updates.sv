// SPDX-License-Identifier: Apache-2.0 OR MIT
// Sends UpdateFC DLLPs (PCIe 6.0 §2.6.1.2): one type after the other, if due. An UpdateFC that has been due for `latency_limit` cycles is urgent. Every
// `period` cycles all types are refreshed; 0: never.
// Handshake: `fc_valid` stays until `fc_ready`. The value may still rise while it waits.
module pcie_tl_updates #(
    parameter int NUM_VCS = 1
) (
    input logic clk,
    input logic rst,  // also while the link is not in DL_Active
    input logic [15:0] latency_limit,
    input logic [23:0] period,

    input logic [3*NUM_VCS-1:0] due,
    input logic [3*NUM_VCS-1:0] refreshes,
    input logic [72*NUM_VCS-1:0] values,
    output logic refresh,
    output logic [3*NUM_VCS-1:0] taken,

    output logic fc_valid,
    output logic fc_urgent,
    output logic [1:0] fc_type,
    output logic [2:0] fc_vc,
    output logic [23:0] fc_value,
    input logic fc_ready
);
    localparam int ALL = 3 * NUM_VCS;
    logic [4:0] turn;  // the type that is sent, or looked at
    logic [15:0] age;  // of the oldest UpdateFC that is due, while any is
    logic [23:0] clock;
    logic here, here_refreshes, all_taken;

    always_comb begin
        here = 1'b0;
        here_refreshes = 1'b0;
        fc_value = '0;
        fc_type = '0;
        fc_vc = '0;
        taken = '0;
        for (int n = 0; n < ALL; n++)
            if (turn == 5'(n)) begin
                here = due[n];
                here_refreshes = refreshes[n];
                fc_value = values[24*n+:24];
                fc_type = 2'(n % 3);
                fc_vc = 3'(n / 3);
                taken[n] = fc_valid && fc_ready;
            end
        all_taken = (due & ~taken) == '0;
    end
    assign fc_valid = here;
    assign fc_urgent = here_refreshes || age >= latency_limit;
    assign refresh = clock == '0 && period != '0;

    always_ff @(posedge clk)
        if (rst) begin
            turn <= '0;
            age <= '0;
            clock <= '1;
        end else begin
            if (!here || fc_ready) turn <= turn == 5'(ALL - 1) ? '0 : turn + 1'b1;
            if (all_taken) age <= '0;
            else if (age != '1) age <= age + 1'b1;
            clock <= clock == '0 || clock > period ? period : clock - 1'b1;
        end
endmodule
