// SPDX-License-Identifier: Apache-2.0 OR MIT
// Selects the next engine with data to move in one direction. Round robin, with as many shares per turn as the weight.
// Handshake: `engine` is valid while `any`; `spent` reports that the engine has used a share, `over` that it has no
// more work. An engine without work has no turn, and does not accumulate shares.
module dma_engine_turns #(
    parameter int ENGINES = 4,
    localparam int ENGINE = $clog2(ENGINES)
) (
    input logic clk,
    input logic rst,
    input logic [ENGINES-1:0] wants,
    output logic any,
    output logic [ENGINE-1:0] engine,
    input logic [7:0] weight,  // of the engine that `spent`
    input logic [ENGINE-1:0] who,
    input logic spent,
    input logic over
);
    logic [ENGINE-1:0] next;  // the first engine to be considered
    logic [7:0] had;          // shares used in this turn
    logic [ENGINES-1:0] behind;

    always_comb begin
        for (int n = 0; n < ENGINES; n++) behind[n] = wants[n] && ENGINE'(n) >= next;
        any = wants != '0;
        engine = '0;
        for (int n = ENGINES - 1; n >= 0; n--) if (behind == '0 ? wants[n] : behind[n]) engine = ENGINE'(n);
    end

    always_ff @(posedge clk)
        if (rst) begin
            next <= '0;
            had <= '0;
        end else if (over || (spent && (who == next ? had : 8'd0) + 8'd1 >= weight)) begin
            next <= who == ENGINE'(ENGINES - 1) ? '0 : who + 1'b1;
            had <= '0;
        end else if (spent) begin
            next <= who;
            had <= (who == next ? had : 8'd0) + 8'd1;
        end
endmodule
