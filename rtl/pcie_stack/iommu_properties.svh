// SPDX-License-Identifier: Apache-2.0 OR MIT
// Properties of pcie_iommu, for a bus of 64 bits, two IDs and two levels of tables. f_vpn is any page.
// Translation: a request of f_vpn is forwarded only with the page and the permission that the latest walk since the last flush found in the tables. A request above the
// tables is never forwarded. A refusal has a cause: address, permission, or a walk that failed. While the IOMMU is off, addresses stay.
// AXI: beats of AR, AW, W, R and B stay until they are taken. A marked burst of reads gets its number of beats and RLAST once, from the memory or, if it is refused, as
// errors. The data of a marked burst of writes are offered to the memory at once, or dropped if it is refused. B comes once, after the data. Requests of one ID are
// answered in order.
// Assumptions: both sides follow the rules of AXI; the memory answers IDs in any order; `enable` and `root` stay.
    (* anyconst *) logic [VPN-1:0] f_vpn;
    (* anyconst *) logic [43:0] f_root;
    (* anyconst *) logic f_enable;
    (* anyconst *) logic [ID_BITS-1:0] f_id;  // of the marked bursts
    (* anyseq *) logic f_any_read, f_any_write;
    localparam int F_AR = ID_BITS + 77, F_R = ID_BITS + DATA_WIDTH + 3, F_W = DATA_WIDTH + BYTES + 1;
    logic f_started;

    // ---- handshakes ----
    logic f_ar, f_aw, f_w, f_r, f_b, f_m_ar, f_m_aw, f_m_w, f_m_r, f_m_b, f_walk_ar, f_walk_r;
    logic [F_AR-1:0] f_s_ar_beat, f_s_aw_beat;
    logic [F_AR:0] f_m_ar_beat;
    logic [F_AR-1:0] f_m_aw_beat;
    assign f_ar = s_axi_arvalid && s_axi_arready;
    assign f_aw = s_axi_awvalid && s_axi_awready;
    assign f_w = s_axi_wvalid && s_axi_wready;
    assign f_r = s_axi_rvalid && s_axi_rready;
    assign f_b = s_axi_bvalid && s_axi_bready;
    assign f_m_ar = m_axi_arvalid && m_axi_arready && !m_axi_arid[ID_BITS];
    assign f_m_aw = m_axi_awvalid && m_axi_awready;
    assign f_m_w = m_axi_wvalid && m_axi_wready;
    assign f_m_r = m_axi_rvalid && m_axi_rready && !m_axi_rid[ID_BITS];
    assign f_m_b = m_axi_bvalid && m_axi_bready;
    assign f_walk_ar = m_axi_arvalid && m_axi_arready && m_axi_arid[ID_BITS];
    assign f_walk_r = m_axi_rvalid && m_axi_rready && m_axi_rid[ID_BITS];
    assign f_s_ar_beat = {s_axi_arid, s_axi_araddr, s_axi_arlen, s_axi_arsize, s_axi_arburst};
    assign f_s_aw_beat = {s_axi_awid, s_axi_awaddr, s_axi_awlen, s_axi_awsize, s_axi_awburst};
    assign f_m_ar_beat = {m_axi_arid, m_axi_araddr, m_axi_arlen, m_axi_arsize, m_axi_arburst};
    assign f_m_aw_beat = {m_axi_awid, m_axi_awaddr, m_axi_awlen, m_axi_awsize, m_axi_awburst};

    // ---- walks of f_vpn, as the memory sees them ----
    logic f_walk_out, f_lower, f_stale, f_chain, f_loaded, f_may_read, f_may_write, f_on_path, f_is_leaf, f_is_illegal;
    logic [63:0] f_walk_at;
    logic [43:0] f_table, f_page;
    assign f_on_path = f_lower ? f_chain && f_walk_at == {8'd0, f_table, f_vpn[8:0], 3'd0} : f_walk_at == {8'd0, f_root, f_vpn[17:9], 3'd0};
    assign f_is_leaf = m_axi_rdata[3:1] != '0;
    assign f_is_illegal = m_axi_rresp != OKAY || m_axi_rdata[0] && (m_axi_rdata[2:1] == 2'b10 || f_is_leaf != f_lower);
    logic f_found, f_fails_unmapped, f_fails_table;
    assign f_found = f_walk_r && f_on_path && !f_stale && !flush && !f_is_illegal && m_axi_rdata[0];
    assign f_fails_unmapped = f_walk_r && f_on_path && !f_is_illegal && !m_axi_rdata[0];
    assign f_fails_table = f_walk_r && f_on_path && f_is_illegal;
    always_ff @(posedge clk) begin
        if (events[1]) {f_lower, f_chain, f_stale} <= '0;
        if (f_walk_ar) {f_walk_out, f_walk_at} <= {1'b1, m_axi_araddr};
        if (f_walk_r) begin
            f_walk_out <= 1'b0;
            f_lower <= 1'b1;
            f_chain <= f_found && !f_lower;
            f_table <= m_axi_rdata[53:10];
        end
        if (f_found && f_lower) {f_loaded, f_page, f_may_read, f_may_write} <= {1'b1, m_axi_rdata[53:10], m_axi_rdata[1], m_axi_rdata[2]};
        if (flush) {f_loaded, f_stale} <= 2'b01;
        if (rst) {f_walk_out, f_loaded, f_chain, f_lower} <= '0;
    end

    // ---- what was known when a request was taken ----
    logic f_ar_taken, f_aw_taken, f_was_loaded, f_was_read, f_was_write;
    logic f_ar_unmapped, f_ar_table, f_aw_unmapped, f_aw_table, f_ar_was_unmapped, f_ar_was_table, f_aw_was_unmapped, f_aw_was_table;
    logic [F_AR-1:0] f_ar_beat, f_aw_beat;
    logic [43:0] f_was_page;
    logic [63:0] f_ar_address, f_aw_address;
    logic f_ar_forwarded, f_aw_forwarded, f_ar_here, f_aw_here, f_ar_outside, f_aw_outside;
    assign f_ar_address = f_ar_beat[13+:64];
    assign f_aw_address = f_aw_beat[13+:64];
    assign f_ar_outside = f_ar_address[63:12+VPN] != '0;
    assign f_aw_outside = f_aw_address[63:12+VPN] != '0;
    assign f_ar_here = !f_ar_outside && f_ar_address[12+:VPN] == f_vpn;
    assign f_aw_here = !f_aw_outside && f_aw_address[12+:VPN] == f_vpn;
    assign f_ar_forwarded = m_axi_arvalid && !m_axi_arid[ID_BITS];
    assign f_aw_forwarded = m_axi_awvalid;
    always_ff @(posedge clk) begin
        {f_ar_taken, f_aw_taken} <= {f_ar, f_aw};
        {f_ar_beat, f_aw_beat} <= {f_s_ar_beat, f_s_aw_beat};
        {f_was_loaded, f_was_read, f_was_write, f_was_page} <= {f_loaded, f_may_read, f_may_write, f_page};
        {f_ar_was_unmapped, f_ar_was_table, f_aw_was_unmapped, f_aw_was_table} <= {f_ar_unmapped, f_ar_table, f_aw_unmapped, f_aw_table};
        // Failed walks while a request waits
        f_ar_unmapped <= !f_ar && !flush && (f_ar_unmapped || f_fails_unmapped);
        f_ar_table <= !f_ar && !flush && (f_ar_table || f_fails_table);
        f_aw_unmapped <= !f_aw && !flush && (f_aw_unmapped || f_fails_unmapped);
        f_aw_table <= !f_aw && !flush && (f_aw_table || f_fails_table);
        if (rst) {f_ar_taken, f_aw_taken, f_ar_unmapped, f_ar_table, f_aw_unmapped, f_aw_table} <= '0;
    end

    // ---- bursts in progress ----
    // Bursts of f_id and of both IDs without their last answer; bursts that wait for data; bursts whose data the memory has and has not answered
    logic [3:0] f_reads, f_m_reads, f_m_all_reads, f_writes, f_m_writes, f_m_all_writes, f_owed, f_m_done;
    logic f_r_last, f_m_r_last;
    assign f_r_last = f_r && s_axi_rlast && s_axi_rid == f_id;
    assign f_m_r_last = f_m_r && m_axi_rlast && m_axi_rid == {1'b0, f_id};
    always_ff @(posedge clk) begin
        f_reads <= f_reads + 4'(f_ar && s_axi_arid == f_id) - 4'(f_r_last);
        f_m_reads <= f_m_reads + 4'(f_m_ar && m_axi_arid == {1'b0, f_id}) - 4'(f_m_r_last);
        f_m_all_reads <= f_m_all_reads + 4'(f_m_ar) - 4'(f_m_r && m_axi_rlast);
        f_writes <= f_writes + 4'(f_aw && s_axi_awid == f_id) - 4'(f_b && s_axi_bid == f_id);
        f_m_writes <= f_m_writes + 4'(f_m_aw && m_axi_awid == f_id) - 4'(f_m_b && m_axi_bid == f_id);
        f_m_all_writes <= f_m_all_writes + 4'(f_m_aw) - 4'(f_m_b);
        f_owed <= f_owed + 4'(f_aw) - 4'(f_w && s_axi_wlast);
        f_m_done <= f_m_done + 4'(f_m_w && m_axi_wlast) - 4'(f_m_b);
        if (rst) {f_reads, f_m_reads, f_m_all_reads, f_writes, f_m_writes, f_m_all_writes, f_owed, f_m_done} <= '0;
    end

    // ---- a marked burst of reads, on both sides ----
    logic f_r_marked, f_r_decided, f_r_refusal, f_r_refused, f_r_answered, f_m_r_marked, f_r_now, f_m_r_now;
    logic [7:0] f_r_len, f_r_beats, f_m_r_beats;
    logic [3:0] f_r_ahead, f_m_r_ahead;
    assign f_r_refused = f_r_decided ? f_r_refusal : !f_ar_forwarded;
    assign f_r_now = f_r_marked && !f_r_answered && f_r_ahead == '0 && s_axi_rvalid && s_axi_rid == f_id;
    assign f_m_r_now = f_m_r_marked && !f_r_answered && f_m_r_ahead == '0 && m_axi_rvalid && m_axi_rid == {1'b0, f_id};
    always_ff @(posedge clk) begin
        if (f_ar && f_any_read && s_axi_arid == f_id && !f_r_marked) begin
            {f_r_marked, f_r_len} <= {1'b1, s_axi_arlen};
            f_r_ahead <= f_reads - 4'(f_r_last);
        end else if (f_r_ahead != '0 && f_r_last) f_r_ahead <= f_r_ahead - 1'b1;
        if (f_r_marked) {f_r_decided, f_r_refusal} <= {1'b1, f_r_refused};
        if (f_r_marked && !f_m_r_marked && !f_r_refused && f_m_ar) begin
            f_m_r_marked <= 1'b1;
            f_m_r_ahead <= f_m_reads - 4'(f_m_r_last);
        end else if (f_m_r_ahead != '0 && f_m_r_last) f_m_r_ahead <= f_m_r_ahead - 1'b1;
        if (f_m_r_now && m_axi_rready) f_m_r_beats <= f_m_r_beats + 1'b1;
        if (f_r_now && s_axi_rready) begin
            f_r_beats <= f_r_beats + 1'b1;
            f_r_answered <= s_axi_rlast;
        end
        if (rst) {f_r_marked, f_r_decided, f_r_answered, f_m_r_marked, f_r_beats, f_m_r_beats, f_r_ahead, f_m_r_ahead} <= '0;
    end

    // ---- a marked burst of writes ----
    logic f_w_marked, f_w_decided, f_w_refusal, f_w_refused, f_w_done, f_w_answered, f_w_now, f_b_now;
    logic [3:0] f_w_ahead, f_b_ahead;
    assign f_w_refused = f_w_decided ? f_w_refusal : !f_aw_forwarded;
    assign f_w_now = f_w_marked && !f_w_done && f_w_ahead == '0;
    assign f_b_now = f_w_marked && !f_w_answered && f_b_ahead == '0 && s_axi_bvalid && s_axi_bid == f_id;
    always_ff @(posedge clk) begin
        if (f_aw && f_any_write && s_axi_awid == f_id && !f_w_marked) begin
            f_w_marked <= 1'b1;
            f_w_ahead <= f_owed - 4'(f_w && s_axi_wlast);
            f_b_ahead <= f_writes - 4'(f_b && s_axi_bid == f_id);
        end else begin
            if (f_w_ahead != '0 && f_w && s_axi_wlast) f_w_ahead <= f_w_ahead - 1'b1;
            if (f_b_ahead != '0 && f_b && s_axi_bid == f_id) f_b_ahead <= f_b_ahead - 1'b1;
        end
        if (f_w_marked) {f_w_decided, f_w_refusal} <= {1'b1, f_w_refused};
        if (f_w_now && f_w && s_axi_wlast) f_w_done <= 1'b1;
        if (f_b_now && s_axi_bready) f_w_answered <= 1'b1;
        if (rst) {f_w_marked, f_w_decided, f_w_done, f_w_answered, f_w_ahead, f_b_ahead} <= '0;
    end

    // ---- assumptions and assertions ----
    logic f_s_ar_waits, f_s_aw_waits, f_s_w_waits, f_m_r_waits, f_m_b_waits, f_m_ar_waits, f_m_aw_waits, f_m_w_waits, f_r_waits, f_b_waits;
    logic [F_AR-1:0] f_m_aw_kept;
    logic [F_AR:0] f_m_ar_kept;
    logic [F_W-1:0] f_w_kept, f_m_w_kept;
    logic [F_R:0] f_m_r_kept;
    logic [F_R-1:0] f_r_kept;
    logic [ID_BITS+1:0] f_b_kept, f_m_b_kept;
    initial f_started = 1'b0;
    always_ff @(posedge clk) begin
        f_started <= 1'b1;
        if (!f_started) assume (rst);
        assume (enable == f_enable && root == f_root);
        if (f_s_ar_waits) assume (s_axi_arvalid && f_s_ar_beat == f_ar_beat);
        if (f_s_aw_waits) assume (s_axi_awvalid && f_s_aw_beat == f_aw_beat);
        if (f_s_w_waits) assume (s_axi_wvalid && {s_axi_wdata, s_axi_wstrb, s_axi_wlast} == f_w_kept);
        if (f_m_r_waits) assume (m_axi_rvalid && {m_axi_rid, m_axi_rdata, m_axi_rresp, m_axi_rlast} == f_m_r_kept);
        if (f_m_b_waits) assume (m_axi_bvalid && {m_axi_bid, m_axi_bresp} == f_m_b_kept);
        if (m_axi_rvalid) assume (m_axi_rid[ID_BITS] ? m_axi_rid[ID_BITS-1:0] == '0 && m_axi_rlast && f_walk_out : m_axi_rid[ID_BITS-1:0] == f_id ? f_m_reads != '0 : f_m_all_reads != f_m_reads);
        if (f_m_r_now) assume (m_axi_rlast == (f_m_r_beats == f_r_len));
        if (m_axi_bvalid) assume (f_m_done != '0 && (m_axi_bid == f_id ? f_m_writes != '0 : f_m_all_writes != f_m_writes));
        if (m_axi_bvalid && f_w_marked && !f_w_answered && f_b_ahead == '0 && m_axi_bid == f_id) assume (f_w_done);
        if (!rst && f_started) begin
            // Channels
            if (f_m_ar_waits) assert (m_axi_arvalid && f_m_ar_beat == f_m_ar_kept);
            if (f_m_aw_waits) assert (m_axi_awvalid && f_m_aw_beat == f_m_aw_kept);
            if (f_m_w_waits) assert (m_axi_wvalid && {m_axi_wdata, m_axi_wstrb, m_axi_wlast} == f_m_w_kept);
            if (f_r_waits) assert (s_axi_rvalid && {s_axi_rid, s_axi_rdata, s_axi_rresp, s_axi_rlast} == f_r_kept);
            if (f_b_waits) assert (s_axi_bvalid && {s_axi_bid, s_axi_bresp} == f_b_kept);
            if (s_axi_rvalid && s_axi_rid == f_id) assert (f_reads != '0);
            if (s_axi_bvalid && s_axi_bid == f_id) assert (f_writes != '0);
            if (f_w) assert (f_owed != '0);
            // Translation
            if (f_ar_taken && f_ar_forwarded) begin
                assert (m_axi_arid[ID_BITS-1:0] == f_ar_beat[77+:ID_BITS] && f_m_ar_beat[12:0] == f_ar_beat[12:0] && m_axi_araddr[11:0] == f_ar_address[11:0]);
                if (!enable) assert (m_axi_araddr == f_ar_address);
                else assert (!f_ar_outside);
                if (enable && f_ar_here) assert (f_was_loaded && f_was_read && m_axi_araddr[63:12] == {8'd0, f_was_page});
            end
            if (f_aw_taken && f_aw_forwarded) begin
                assert (m_axi_awid == f_aw_beat[77+:ID_BITS] && f_m_aw_beat[12:0] == f_aw_beat[12:0] && m_axi_awaddr[11:0] == f_aw_address[11:0]);
                if (!enable) assert (m_axi_awaddr == f_aw_address);
                else assert (!f_aw_outside);
                if (enable && f_aw_here) assert (f_was_loaded && f_was_write && m_axi_awaddr[63:12] == {8'd0, f_was_page});
            end
            if (f_ar_taken && !f_ar_forwarded) begin
                assert (enable);
                if (f_ar_outside) assert (r_resp == DECERR);
                if (f_ar_here) assert (r_resp == SLVERR ? f_ar_was_table : f_ar_was_unmapped || f_was_loaded && !f_was_read);
            end
            if (f_aw_taken && !f_aw_forwarded) begin
                assert (enable);
                if (f_aw_outside) assert (w_resp == DECERR);
                if (f_aw_here) assert (w_resp == SLVERR ? f_aw_was_table : f_aw_was_unmapped || f_was_loaded && !f_was_write);
            end
            // The marked bursts
            if (f_r_now) begin
                assert (s_axi_rlast == (f_r_beats == f_r_len));
                if (f_r_refused) assert (s_axi_rresp[1] && s_axi_rdata == '1);
                else assert (f_m_r_now && {s_axi_rdata, s_axi_rresp} == {m_axi_rdata, m_axi_rresp});
            end
            if (f_w_now) begin
                if (f_w_refused) assert (!m_axi_wvalid);
                else assert (m_axi_wvalid == s_axi_wvalid && s_axi_wready == m_axi_wready && {m_axi_wdata, m_axi_wstrb, m_axi_wlast} == {s_axi_wdata, s_axi_wstrb, s_axi_wlast});
            end
            if (f_b_now) begin
                assert (f_w_done);
                if (f_w_refused) assert (s_axi_bresp[1]);
                else assert (m_axi_bvalid && {s_axi_bid, s_axi_bresp} == {m_axi_bid, m_axi_bresp});
            end
        end
        {f_s_ar_waits, f_s_aw_waits, f_s_w_waits} <= {s_axi_arvalid && !s_axi_arready, s_axi_awvalid && !s_axi_awready, s_axi_wvalid && !s_axi_wready};
        {f_m_r_waits, f_m_b_waits} <= {m_axi_rvalid && !m_axi_rready, m_axi_bvalid && !m_axi_bready};
        {f_m_ar_waits, f_m_aw_waits, f_m_w_waits} <= {m_axi_arvalid && !m_axi_arready, m_axi_awvalid && !m_axi_awready, m_axi_wvalid && !m_axi_wready};
        {f_r_waits, f_b_waits} <= {s_axi_rvalid && !s_axi_rready, s_axi_bvalid && !s_axi_bready};
        if (rst) begin
            {f_s_ar_waits, f_s_aw_waits, f_s_w_waits, f_m_r_waits, f_m_b_waits, f_m_ar_waits, f_m_aw_waits, f_m_w_waits, f_r_waits, f_b_waits} <= '0;
        end
        f_w_kept <= {s_axi_wdata, s_axi_wstrb, s_axi_wlast};
        f_m_r_kept <= {m_axi_rid, m_axi_rdata, m_axi_rresp, m_axi_rlast};
        f_m_b_kept <= {m_axi_bid, m_axi_bresp};
        f_m_ar_kept <= f_m_ar_beat;
        f_m_aw_kept <= f_m_aw_beat;
        f_m_w_kept <= {m_axi_wdata, m_axi_wstrb, m_axi_wlast};
        f_r_kept <= {s_axi_rid, s_axi_rdata, s_axi_rresp, s_axi_rlast};
        f_b_kept <= {s_axi_bid, s_axi_bresp};
    end
