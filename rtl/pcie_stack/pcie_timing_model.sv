// SPDX-License-Identifier: Apache-2.0 OR MIT
// The line from one physical layer to another: a queue in which each group of symbols that is sent in a cycle has a token, the cycle in which it
// may leave. It delays by `latency` cycles, 3 to DEPTH - 2. Bit errors and drops come from a seeded generator of shifts and XORs, so that
// the same seed gives the same errors. Synthesizable.
//
// An error inverts one bit, of data or control. A drop replaces all symbols of a cycle by zeros: the receiver sees an interruption that
// does not move the symbols after it. `mark_errors` marks the lanes that were hit, like a receiver that finds code or
// disparity errors of 8b/10b. Change `latency` only while the line is in electrical idle.
module pcie_timing_model #(
    parameter int LANES = 8,
    parameter int SYMBOLS = 4,
    parameter int DEPTH = 512,          // a power of two, more than the latency
    localparam int LINK = LANES * SYMBOLS,
    localparam int ADDRESS = $clog2(DEPTH)
) (
    input logic clk,
    input logic rst,
    input logic [ADDRESS-1:0] latency,
    input logic [31:0] error_rate,      // of 2^32 cycles
    input logic [31:0] drop_rate,
    input logic mark_errors,
    input logic [63:0] seed,            // taken at reset

    input logic in_valid,
    input logic in_start,
    input logic [LINK-1:0] in_control,
    input logic [8*LINK-1:0] in_data,
    output logic out_valid,
    output logic out_start,
    output logic [LANES-1:0] out_bad,
    output logic [LINK-1:0] out_control,
    output logic [8*LINK-1:0] out_data,
    output logic event_error,
    output logic event_drop
);
    if (DEPTH < 8 || 2 ** $clog2(DEPTH) != DEPTH) $error("pcie_timing_model: DEPTH is %0d; expected a power of two, 8 or more", DEPTH);
    if (LANES < 1 || SYMBOLS < 1 || 2 ** $clog2(LINK) != LINK) $error("pcie_timing_model: LANES * SYMBOLS is %0d; expected a power of two", LINK);
    localparam int TOKEN = ADDRESS + 1;
    localparam int WIDTH = TOKEN + 1 + 9 * LINK;
    localparam int CHOICE = LINK > 1 ? $clog2(LINK) : 1;

    // ---- the queue of tokens ----
    logic [TOKEN-1:0] now, due;
    logic [ADDRESS-1:0] in, out;
    logic waits, stored, leaves, queued;
    logic [WIDTH-1:0] words[0:DEPTH-1];
    logic [WIDTH-1:0] front;
    logic [8*LINK-1:0] data;
    logic [LINK-1:0] control;
    logic start;
    // The front word is read ahead.
    assign queued = in != out;
    assign {due, start, control, data} = front;
    // In the cycle of its token or after it.
    logic [TOKEN-1:0] late;
    assign late = now - due;
    assign leaves = waits && !late[TOKEN-1];
    assign stored = queued && (!waits || leaves);
    always_ff @(posedge clk) begin
        if (in_valid) words[in] <= {now + TOKEN'(latency) - 1'b1, in_start, in_control, in_data};
        if (stored) front <= words[out];
    end
    always_ff @(posedge clk)
        if (rst) begin
            now <= '0;
            in <= '0;
            out <= '0;
            waits <= 1'b0;
        end else begin
            now <= now + 1'b1;
            in <= in + ADDRESS'(in_valid);
            out <= out + ADDRESS'(stored);
            waits <= stored || (waits && !leaves);
        end

    // ---- errors ----
    function automatic logic [63:0] scramble(input logic [63:0] from);
        scramble = from ^ (from << 13);
        scramble = scramble ^ (scramble >> 7);
        scramble = scramble ^ (scramble << 17);
    endfunction
    logic [63:0] errors, drops;
    logic hits, drops_it;
    logic [CHOICE-1:0] symbol;
    logic [LINK-1:0] control_flip;
    logic [8*LINK-1:0] data_flip;
    logic [LANES-1:0] lanes_hit;
    assign symbol = errors[32+:CHOICE];
    assign hits = leaves && errors[31:0] < error_rate;
    assign drops_it = leaves && drops[31:0] < drop_rate;
    assign event_error = hits;
    assign event_drop = drops_it;
    always_comb begin
        control_flip = '0;
        data_flip = '0;
        lanes_hit = drops_it ? '1 : '0;
        for (int n = 0; n < LINK; n++)
            if (hits && symbol == CHOICE'(n)) begin
                // One of the nine bits of a symbol; the control bit at half the rate of a data bit.
                if (errors[63:60] == 4'd15) control_flip[n] = 1'b1;
                else data_flip[8*n+:8] = 8'd1 << errors[62:60];
                lanes_hit[n/SYMBOLS] = 1'b1;
            end
    end
    always_ff @(posedge clk)
        if (rst) begin
            // Zero would stay zero.
            errors <= {seed[63:1], 1'b1};
            drops <= {seed[62:0], 1'b1} ^ 64'h9e37_79b9_7f4a_7c14;
            out_valid <= 1'b0;
        end else begin
            errors <= scramble(errors);
            drops <= scramble(drops);
            out_valid <= leaves;
        end
    always_ff @(posedge clk) begin
        out_start <= start;
        out_bad <= mark_errors ? lanes_hit : '0;
        out_control <= drops_it ? '0 : control ^ control_flip;
        out_data <= drops_it ? '0 : data ^ data_flip;
    end
endmodule
