// SPDX-License-Identifier: Apache-2.0 OR MIT
// Properties of pcie_dll_acknowledge: no Nak without a bad TLP that is the first since the last accepted one, and an Ack or a Nak is asked for in
// time after each accepted TLP. Each request is taken only while it stands, and a TLP has one verdict.
    localparam logic [15:0] F_LIMIT = 16'd3;
    logic f_started, f_flag;
    initial f_started = 1'b0;
    logic [7:0] f_due;
    logic [15:0] f_wait;
    always_ff @(posedge clk) begin
        f_started <= 1'b1;
        if (!f_started) assume (rst);
        assume (ack_latency_limit == F_LIMIT);
        assume (!ack_taken || (ack_request && !nak_request));
        assume (!nak_taken || nak_request);
        assume ($onehot0({accepted, duplicate, bad}));
        if (rst || clear) begin
            f_flag <= 1'b0;
            f_due <= '0;
            f_wait <= '0;
        end else begin
            f_flag <= bad || (f_flag && !accepted);
            // Several first bad TLPs may share one Nak.
            if (bad && !f_flag) f_due <= 8'd1;
            else if (nak_taken) f_due <= '0;
            if (nak_taken) assert (f_due != '0);
            if (accepted && (f_wait == '0 || ack_taken || nak_taken)) f_wait <= 16'd1;
            else if (ack_taken || nak_taken) f_wait <= '0;
            else if (f_wait != '0 && f_wait != '1) f_wait <= f_wait + 1'b1;
            if (f_wait > F_LIMIT + 16'd1) assert (ack_request || nak_request);
        end
    end
