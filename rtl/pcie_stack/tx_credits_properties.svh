// SPDX-License-Identifier: Apache-2.0 OR MIT
// Properties of pcie_tl_tx_credits: CREDIT_LIMIT and CREDITS_CONSUMED are counted a second time as in PCIe 6.0 §2.6.1.1, and each TLP that is
// granted passes the test of the text: (CREDIT_LIMIT - CUMULATIVE_CREDITS_REQUIRED) mod 2^n <= 2^n / 2. The solver sends any DLLPs and TLPs.
    logic f_started, f_scaled;
    initial f_started = 1'b0;
    logic [15:0] f_limit, f_consumed, f_required, f_mask, f_new;
    logic [11:0] f_headers_limit, f_headers_consumed, f_headers_required, f_headers_mask, f_headers_new;
    logic [23:0] f_value, f_value_before;
    assign f_required = f_consumed + 16'(tlp_credits);
    assign f_headers_required = f_headers_consumed + 12'd1;
    assign f_mask = scale[1:0] == 2'd3 ? 16'hffff : scale[1:0] == 2'd2 ? 16'h3fff : 16'h0fff;
    assign f_headers_mask = scale[3:2] == 2'd3 ? 12'hfff : scale[3:2] == 2'd2 ? 12'h3ff : 12'h0ff;
    assign f_new = scale[1:0] == 2'd3 ? {f_value[11:0], 4'd0} : scale[1:0] == 2'd2 ? {2'd0, f_value[11:0], 2'd0} : {4'd0, f_value[11:0]};
    assign f_headers_new = scale[3:2] == 2'd3 ? {f_value[21:14], 4'd0} : scale[3:2] == 2'd2 ? {2'd0, f_value[21:14], 2'd0} : {4'd0, f_value[21:14]};
    always_ff @(posedge clk) begin
        f_started <= 1'b1;
        if (!f_started) assume (rst);
        // Scaled flow control is decided before the channel starts.
        if (f_started) assume (scaled == f_scaled);
        f_scaled <= scaled;
        f_value <= f_value_before;
        f_value_before <= fc_value;
        if (!rst) begin
            if (begins) begin
                assume (!bad_init);
                f_consumed <= '0;
                f_headers_consumed <= '0;
                f_limit <= units(value_data, value_scale[1:0]);
                f_headers_limit <= 12'(units({4'd0, value_header}, value_scale[3:2]));
            end
            if (grant) begin
                if (!infinite[0]) assert (((f_limit - f_required) & f_mask) <= {1'b0, f_mask[15:1]} + 16'd1);
                if (!infinite[1]) assert (((f_headers_limit - f_headers_required) & f_headers_mask) <= {1'b0, f_headers_mask[11:1]} + 12'd1);
                f_consumed <= f_required;
                f_headers_consumed <= f_headers_required;
            end
            if (applies) begin
                f_limit <= f_new;
                f_headers_limit <= f_headers_new;
            end
            // The module keeps the difference and the fields of the limit.
            if (known) assert (((f_limit ^ units(data_limit, scale[1:0])) & f_mask) == '0);
            if (known) assert (((f_headers_limit ^ 12'(units({4'd0, header_limit}, scale[3:2]))) & f_headers_mask) == '0);
            if (updating) assert (known && f_value[21:14] == header_new && f_value[11:0] == data_new);
            if (updating) assert (header_step == header_new - header_limit && data_step == data_new - data_limit);
            if (arrived) assert (known && f_value_before[21:14] == header_new && f_value_before[11:0] == data_new);
            if (known && !infinite[0]) assert (data_left == ((f_limit - f_consumed) & f_mask) && data_left <= {1'b0, f_mask[15:1]});
            if (known && !infinite[1]) assert (header_left == ((f_headers_limit - f_headers_consumed) & f_headers_mask) && header_left <= {1'b0, f_headers_mask[11:1]});
        end
    end
