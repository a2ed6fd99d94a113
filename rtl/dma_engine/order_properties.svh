// SPDX-License-Identifier: Apache-2.0 OR MIT
// Properties of dma_engine_order: only sent requests have passed, and at most as many are in flight as there are numbers. Numbers
// return in order, each once.
    logic f_started;
    initial f_started = 1'b0;
    // Progress after one returned number, and after both. The design looks only at the last one.
    logic [7:0] f_after_first, f_after_second;
    assign f_after_first = back[0] ? passed + 8'(NUMBER'(back_numbers[NUMBER-1:0] - passed[NUMBER-1:0])) : passed;
    assign f_after_second = back[1] ? f_after_first + 8'(NUMBER'(back_numbers[2*NUMBER-1:NUMBER] - f_after_first[NUMBER-1:0])) : f_after_first;
    always_ff @(posedge clk) begin
        f_started <= 1'b1;
        if (!f_started) assume (rst);
        if (!rst) begin
            assume (!send || may_send);
            // A returned number belongs to a request in flight.
            if (back[0]) assume (NUMBER'(back_numbers[NUMBER-1:0] - passed[NUMBER-1:0]) <= NUMBER'(sent - passed));
            if (back[1]) assume (NUMBER'(back_numbers[2*NUMBER-1:NUMBER] - f_after_first[NUMBER-1:0]) <= NUMBER'(sent - f_after_first));
            assert (after == f_after_second);
            assert (8'(sent - passed) <= 8'(2 ** NUMBER - 2));
        end
    end
