// SPDX-License-Identifier: Apache-2.0 OR MIT
// Properties of pcie_dll_tlp_receiver: TLPs that leave have a begin and an end, and each accepted frame makes exactly one TLP that is good. The
// physical layer gives whole frames: a begin, an end, and all beats but the last are full. `enable` and `clear` are as in the top.
    logic f_started, f_in_frame, f_in_tlp;
    initial f_started = 1'b0;
    logic [2:0] f_owed;
    always_ff @(posedge clk) begin
        f_started <= 1'b1;
        if (!f_started) assume (rst);
        assume (!clear);
        assume (!frame_valid || frame_sop == !f_in_frame);
        if (rst) begin
            f_in_frame <= 1'b0;
            f_in_tlp <= 1'b0;
            f_owed <= '0;
        end else begin
            if (frame_valid) f_in_frame <= !frame_eop;
            if (tlp_valid) begin
                assert (tlp_sop == !f_in_tlp);
                f_in_tlp <= !tlp_eop;
                if (tlp_eop && tlp_good) assert (f_owed != '0);
            end
            f_owed <= f_owed + 3'(accepted) - 3'(tlp_valid && tlp_eop && tlp_good);
            assert (f_owed <= 3'd2);
            assert ($onehot0({accepted, duplicate, gap, bad_lcrc, receiver_error, nullified}));
        end
    end
