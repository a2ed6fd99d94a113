// SPDX-License-Identifier: Apache-2.0 OR MIT
// Properties of pcie_tilelink_manager.
// Channel D: a beat stays until it is taken. The beats of an answer follow each other, and their number is that of its size. Each message has one
// answer, after its last beat, with its source, its size and the opcode that belongs to it. Denied data are corrupt.
// AXI4: requests stay until they are taken. An ID is not used again before its answer. Addresses are aligned. Each burst of W has its length.
// Assumptions: a client does not use a source again before its answer, and continues a message that it has begun. All else on A is free, also
// illegal messages. The bus takes W after AW, and answers requests that it has taken, in any form and order.
    logic f_started, f_d_waits, f_ar_waits, f_aw_waits, f_w_waits;
    logic [SOURCE_BITS-1:0] f_source;
    logic [2:0] f_opcode;
    logic [SIZE_BITS-1:0] f_size;
    logic [COUNT-1:0] f_a_left, f_d_left;
    logic f_a_more, f_d_more;
    logic [2**SOURCE_BITS-1:0] f_out;
    logic [SIZE_BITS+SOURCE_BITS+3:0] f_d_control;
    logic [DATA_WIDTH+SIZE_BITS+SOURCE_BITS+4:0] f_d;
    logic [SLOT+78:0] f_ar, f_aw;
    logic [DATA_WIDTH+BYTES:0] f_w;
    logic [2:0] f_out_opcode[0:2**SOURCE_BITS-1];
    logic [SIZE_BITS-1:0] f_out_size[0:2**SOURCE_BITS-1];
    logic [SLOTS-1:0] f_read, f_write;
    logic [2:0] f_wanted;
    logic [7:0] f_lens[0:SLOTS-1];
    logic [SLOT:0] f_aws, f_ws;     // bursts begun on AW, and complete on W
    logic [7:0] f_beats;
    logic f_a_last, f_a, f_d_final;
    assign f_a = a_valid && a_ready;
    assign f_a_last = f_a_more ? f_a_left == '0 : a_opcode[2] || beats_of(a_size) == '0;
    assign f_d_final = f_d_more ? f_d_left == '0 : d_opcode != ACCESS_ACK_DATA || beats_of(d_size) == '0;
    assign f_wanted = f_out_opcode[d_source] == INTENT ? HINT_ACK
        : f_out_opcode[d_source] == GET || f_out_opcode[d_source][2:1] == 2'b01 ? ACCESS_ACK_DATA : ACCESS_ACK;
    initial f_started = 1'b0;
    always_ff @(posedge clk) begin
        f_started <= 1'b1;
        if (!f_started) assume (rst);
        if (rst) begin
            f_d_waits <= 1'b0;
            f_ar_waits <= 1'b0;
            f_aw_waits <= 1'b0;
            f_w_waits <= 1'b0;
            f_a_more <= 1'b0;
            f_d_more <= 1'b0;
            f_out <= '0;
            f_read <= '0;
            f_write <= '0;
            f_aws <= '0;
            f_ws <= '0;
            f_beats <= '0;
        end else begin
            // Channel A
            if (a_valid && f_a_more) assume (a_opcode == f_opcode && a_size == f_size && a_source == f_source);
            if (a_valid && !f_a_more) assume (!f_out[a_source]);
            if (f_a) begin
                f_a_more <= !f_a_last;
                f_a_left <= (f_a_more ? f_a_left : beats_of(a_size)) - 1'b1;
                f_opcode <= a_opcode;
                f_size <= a_size;
                f_source <= a_source;
                f_out_opcode[a_source] <= a_opcode;
                f_out_size[a_source] <= a_size;
            end
            // Channel D
            if (f_d_waits) assert (d_valid && f_d == {d_opcode, d_size, d_source, d_denied, d_data, d_corrupt});
            f_d_waits <= d_valid && !d_ready;
            if (d_valid) begin
                assert (f_out[d_source] && d_opcode == f_wanted && d_size == f_out_size[d_source]);
                assert (!f_d_more || f_d_control == {d_opcode, d_size, d_source, d_denied});
                assert (d_opcode == ACCESS_ACK_DATA ? !d_denied || d_corrupt : !d_corrupt);
                if (d_ready) begin
                    f_d_more <= !f_d_final;
                    f_d_left <= (f_d_more ? f_d_left : beats_of(d_size)) - 1'b1;
                end
            end
            // The answer of a message may begin only after its last beat.
            if (f_a && f_a_last) f_out[a_source] <= 1'b1;
            if (d_valid && d_ready && f_d_final) f_out[d_source] <= 1'b0;
            // AXI4
            if (f_ar_waits) assert (m_axi_arvalid && f_ar == {m_axi_arid, m_axi_araddr, m_axi_arlen, m_axi_arsize, 4'd0});
            if (f_aw_waits) assert (m_axi_awvalid && f_aw == {m_axi_awid, m_axi_awaddr, m_axi_awlen, m_axi_awsize, 4'd0});
            if (f_w_waits) assert (m_axi_wvalid && f_w == {m_axi_wdata, m_axi_wstrb, m_axi_wlast});
            f_ar_waits <= m_axi_arvalid && !m_axi_arready;
            f_aw_waits <= m_axi_awvalid && !m_axi_awready;
            f_w_waits <= m_axi_wvalid && !m_axi_wready;
            if (m_axi_arvalid) begin
                assert (!f_read[m_axi_arid] && !f_write[m_axi_arid]);
                assert ((m_axi_araddr[BYTE-1:0] & ~({BYTE{1'b1}} << m_axi_arsize)) == '0 && m_axi_arlen < 8'(BEATS));
                assert (((m_axi_araddr[11:0] >> BYTE) & 12'(m_axi_arlen)) == '0);
            end
            if (m_axi_awvalid) begin
                assert (!f_read[m_axi_awid] && !f_write[m_axi_awid]);
                assert ((m_axi_awaddr[BYTE-1:0] & ~({BYTE{1'b1}} << m_axi_awsize)) == '0 && m_axi_awlen < 8'(BEATS));
                assert (((m_axi_awaddr[11:0] >> BYTE) & 12'(m_axi_awlen)) == '0);
            end
            if (m_axi_arvalid && m_axi_arready) f_read[m_axi_arid] <= 1'b1;
            if (m_axi_awvalid && m_axi_awready) begin
                f_write[m_axi_awid] <= 1'b1;
                f_lens[f_aws[SLOT-1:0]] <= m_axi_awlen;
                f_aws <= f_aws + 1'b1;
            end
            if (m_axi_rvalid && r_done) f_read[m_axi_rid] <= 1'b0;
            if (b_fits) f_write[m_axi_bid] <= 1'b0;
            // Data come after the address here, and the response after the data.
            if (f_aws == f_ws) assume (!m_axi_wready);
            if (m_axi_bvalid) assume (f_write[m_axi_bid] && f_aws == f_ws);
            if (m_axi_rvalid) assume (f_read[m_axi_rid]);
            if (m_axi_wvalid && m_axi_wready) begin
                assert (m_axi_wlast == (f_beats == f_lens[f_ws[SLOT-1:0]]));
                f_beats <= m_axi_wlast ? '0 : f_beats + 1'b1;
                if (m_axi_wlast) f_ws <= f_ws + 1'b1;
            end
        end
        f_d <= {d_opcode, d_size, d_source, d_denied, d_data, d_corrupt};
        if (d_valid && d_ready) f_d_control <= {d_opcode, d_size, d_source, d_denied};
        f_ar <= {m_axi_arid, m_axi_araddr, m_axi_arlen, m_axi_arsize, 4'd0};
        f_aw <= {m_axi_awid, m_axi_awaddr, m_axi_awlen, m_axi_awsize, 4'd0};
        f_w <= {m_axi_wdata, m_axi_wstrb, m_axi_wlast};
    end
