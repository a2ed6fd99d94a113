// SPDX-License-Identifier: Apache-2.0 OR MIT
// Properties of pcie_dll_arbiter: frames are never mixed, a DLLP is one beat of two double-words, a beat stays until it is taken, one source is
// taken at a time, and each beat of a TLP that is taken leaves once. It has no assumption but the reset.
    logic f_started, f_within, f_stays, f_owes_tlp, f_owes_dllp;
    initial f_started = 1'b0;
    logic [DATA_WIDTH-1:0] f_data;
    logic [LANE-1:0] f_end;
    logic [3:0] f_marks;
    always_ff @(posedge clk) begin
        f_started <= 1'b1;
        if (!f_started) assume (rst);
        if (rst || !enable) begin
            f_within <= 1'b0;
            f_stays <= 1'b0;
            f_owes_tlp <= 1'b0;
            f_owes_dllp <= 1'b0;
        end else begin
            assert ($onehot0({nak_taken, ack_taken, init_taken, feature_taken, update_taken, other_taken, tlp_take}));
            if (phy_valid) begin
                assert (phy_sop == !f_within);
                if (f_within) assert (!phy_dllp);
                if (phy_dllp) assert (phy_sop && phy_eop && phy_end == LANE'(1) && !phy_nullify);
                if (phy_ready) f_within <= !phy_eop;
            end
            if (f_stays) begin
                assert (phy_valid && phy_end == f_end && {phy_sop, phy_eop, phy_dllp, phy_nullify} == f_marks);
                assert (phy_data == f_data);
            end
            if (f_owes_tlp) assert (phy_valid && !phy_dllp);
            if (f_owes_dllp) assert (phy_valid && phy_dllp);
            f_stays <= phy_valid && !phy_ready;
            f_owes_tlp <= tlp_take;
            f_owes_dllp <= nak_taken || ack_taken || init_taken || feature_taken || update_taken || other_taken;
        end
        f_data <= phy_data;
        f_end <= phy_end;
        f_marks <= {phy_sop, phy_eop, phy_dllp, phy_nullify};
    end
