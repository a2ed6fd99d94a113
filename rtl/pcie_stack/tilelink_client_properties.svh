// SPDX-License-Identifier: Apache-2.0 OR MIT
// Properties of pcie_tilelink_client.
// Channel A: a beat stays until it is taken. Opcode, size and mask are legal, and the address is aligned. The beats of a Put follow each other with
// the same control, and their number is that of its size. A source is not used again before its answer.
// AXI4: beats of R and B stay until they are taken. Each burst of reads has its ID and its number of beats. Each burst of writes has one B, after its
// last beat. B comes after the answers of all Puts, unless the bus was given up.
// Assumptions: answers on channel D follow the rules of TileLink; a Put may be answered after its first beat. The AXI4 master is free.
    (* anyseq *) logic f_any;
    logic f_started, f_a_waits, f_r_waits, f_b_waits, f_a_more, f_d_more, f_given_up;
    logic [13:0] f_a_left, f_d_left, f_a_beats, f_d_beats;
    logic [SLOT+SIZE_BITS+67:0] f_a_control;
    logic [DATA_WIDTH+BYTES+SLOT+SIZE_BITS+67:0] f_a;
    logic [2*SLOTS-1:0] f_out;      // sources without an answer
    logic [SIZE_BITS-1:0] f_out_size[0:2*SLOTS-1];
    logic [DATA_WIDTH+ID_BITS+2:0] f_r;
    logic [ID_BITS+1:0] f_b;
    logic [BYTES-1:0] f_lanes;
    logic f_marked, f_answered;
    logic [ID_BITS-1:0] f_id;
    logic [5:0] f_reads, f_ahead, f_writes;
    logic [7:0] f_len, f_beats;
    logic f_open, f_data;
    logic [8:0] f_data_left;
    for (genvar n = 0; n < BYTES; n++) begin : f_each_lane
        assign f_lanes[n] = (BYTE'(n) >> a_size) == (a_address[BYTE-1:0] >> a_size) || 32'(a_size) >= BYTE;
    end
    for (genvar n = 0; n < 14; n++) begin : f_each_bit
        assign f_a_beats[n] = a_opcode != GET && 32'(a_size) > BYTE + n;
        assign f_d_beats[n] = d_opcode == ACCESS_ACK_DATA && 32'(d_size) > BYTE + n;
    end
    initial f_started = 1'b0;
    always_ff @(posedge clk) begin
        f_started <= 1'b1;
        if (!f_started) assume (rst);
        if (rst) begin
            f_a_waits <= 1'b0;
            f_r_waits <= 1'b0;
            f_b_waits <= 1'b0;
            f_a_more <= 1'b0;
            f_d_more <= 1'b0;
            f_out <= '0;
            f_marked <= 1'b0;
            f_answered <= 1'b0;
            f_reads <= '0;
            f_beats <= '0;
            f_writes <= '0;
            f_open <= 1'b0;
            f_data <= 1'b0;
            f_given_up <= 1'b0;
        end else begin
            // Channel A
            if (f_a_waits) assert (a_valid && f_a == {a_opcode == GET ? DATA_WIDTH'(0) : a_data, a_mask, a_opcode, a_size, a_source, a_address});
            f_a_waits <= a_valid && !a_ready;
            if (a_valid) begin
                assert (a_opcode == GET || a_opcode == PUT_FULL || a_opcode == PUT_PARTIAL);
                assert (32'(a_size) <= LONGEST && (a_address[11:0] & ~(12'hfff << a_size)) == '0);
                assert (a_opcode == PUT_PARTIAL ? (a_mask & ~f_lanes) == '0 : a_mask == f_lanes);
                assert (f_a_more ? f_a_control == {a_opcode, a_size, a_source, a_address} : !f_out[a_source]);
                assert (a_source[SLOT] == (a_opcode != GET));
                if (a_ready) begin
                    f_a_more <= (f_a_more ? f_a_left : f_a_beats) != '0;
                    f_a_left <= (f_a_more ? f_a_left : f_a_beats) - 1'b1;
                    if (!f_a_more) begin
                        f_out[a_source] <= 1'b1;
                        f_out_size[a_source] <= a_size;
                    end
                end
            end
            // Channel D
            if (d_valid) begin
                assume (f_out[d_source] && d_opcode == (d_source[SLOT] ? ACCESS_ACK : ACCESS_ACK_DATA) && d_size == f_out_size[d_source]);
                assume (!f_d_more || d_source == source);
                f_d_more <= (f_d_more ? f_d_left : f_d_beats) != '0;
                f_d_left <= (f_d_more ? f_d_left : f_d_beats) - 1'b1;
                if ((f_d_more ? f_d_left : f_d_beats) == '0) f_out[d_source] <= 1'b0;
            end
            if (d_valid) assert (put_answer || get_answer);
            // Channel R, as in axi_read_properties.svh
            if (f_r_waits) assert (s_axi_rvalid && f_r == {s_axi_rid, s_axi_rdata, s_axi_rresp, s_axi_rlast});
            f_r_waits <= s_axi_rvalid && !s_axi_rready;
            f_reads <= f_reads + 6'(s_axi_arvalid && s_axi_arready) - 6'(s_axi_rvalid && s_axi_rready && s_axi_rlast);
            if (s_axi_rvalid) assert (f_reads != '0);
            if (s_axi_arvalid && s_axi_arready && f_any && !f_marked) begin
                f_marked <= 1'b1;
                f_ahead <= f_reads - 6'(s_axi_rvalid && s_axi_rready && s_axi_rlast);
                f_len <= s_axi_arlen;
                f_id <= s_axi_arid;
            end else if (f_marked && f_ahead != '0 && s_axi_rvalid && s_axi_rready && s_axi_rlast) f_ahead <= f_ahead - 1'b1;
            if (f_marked && !f_answered && f_ahead == '0 && s_axi_rvalid) begin
                assert (s_axi_rid == f_id && s_axi_rlast == (f_beats == f_len));
                if (s_axi_rready) f_beats <= f_beats + 1'b1;
                if (s_axi_rready && s_axi_rlast) f_answered <= 1'b1;
            end
            // Channels AW, W and B
            if (f_b_waits) assert (s_axi_bvalid && f_b == {s_axi_bid, s_axi_bresp});
            f_b_waits <= s_axi_bvalid && !s_axi_bready;
            if (s_axi_awvalid && s_axi_awready) begin
                assert (!f_data);
                f_data <= 1'b1;
                f_data_left <= {1'b0, s_axi_awlen};
            end
            if (s_axi_wvalid && s_axi_wready) begin
                assert (f_data);
                f_data_left <= f_data_left - 1'b1;
                if (f_data_left == '0) f_data <= 1'b0;
            end
            f_writes <= f_writes + 6'(s_axi_wvalid && s_axi_wready && f_data_left == '0) - 6'(s_axi_bvalid && s_axi_bready);
            if (s_axi_bvalid) assert (f_writes != '0);
            // With one burst in progress, B comes after all answers.
            if (stalled) f_given_up <= 1'b1;
            if (s_axi_bvalid && f_writes == 6'd1 && !f_data && !f_given_up) assert (f_out[2*SLOTS-1:SLOTS] == '0);
        end
        f_a <= {a_opcode == GET ? DATA_WIDTH'(0) : a_data, a_mask, a_opcode, a_size, a_source, a_address};
        if (a_valid && a_ready) f_a_control <= {a_opcode, a_size, a_source, a_address};
        f_r <= {s_axi_rid, s_axi_rdata, s_axi_rresp, s_axi_rlast};
        f_b <= {s_axi_bid, s_axi_bresp};
    end
