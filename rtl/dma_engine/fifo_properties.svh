// SPDX-License-Identifier: Apache-2.0 OR MIT
// Properties of dma_engine_fifo: it never holds more words than it has room for, and each pushed word comes out
// once, in order.
    logic [ADDRESS:0] f_held;
    logic [WIDTH-1:0] f_word;  // an arbitrary constant word to track
    always_ff @(posedge clk) if (rst) f_word <= din;
    logic f_follows;
    logic [ADDRESS:0] f_place;
    logic f_started;
    initial f_started = 1'b0;
    assign f_held = tail - head;

    always_ff @(posedge clk) begin
        f_started <= 1'b1;
        if (!f_started) assume (rst);
        if (rst) f_follows <= 1'b0;
        else begin
            assert (f_held <= (ADDRESS + 1)'(DEPTH));
            assert (room == (ADDRESS + 1)'(DEPTH) - f_held);
            if (f_follows) begin
                assert ((ADDRESS + 1)'(f_place - head) < f_held);
`ifdef BOUNDED
                if (f_place == head) assert (dout == f_word);
`endif
                if (pops && f_place == head) f_follows <= 1'b0;
            end else if (pushes && din == f_word) begin
                f_follows <= 1'b1;
                f_place <= tail;
            end
        end
    end
