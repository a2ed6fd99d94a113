// SPDX-License-Identifier: Apache-2.0 OR MIT
// Properties of pcie_axi_write. Each burst has one response, after its last beat, which stays until it is taken. A request to the
// packetizer stays until it is taken, has legal byte enables, and does not leave its block.
    logic f_started, f_open, f_waits, f_sends;
    logic [8:0] f_beats;
    logic [7:0] f_len;
    logic [CPU_ID-1:0] f_id;
    logic [79:0] f_request;
    initial f_started = 1'b0;
    always_ff @(posedge clk) begin
        f_started <= 1'b1;
        if (!f_started) assume (rst);
        if (!access_valid) assume (!access_done);
        // Max_Payload_Size does not change during a burst.
        assume (max_payload == 3'd0);
        if (rst) begin
            f_open <= 1'b0;
            f_waits <= 1'b0;
            f_sends <= 1'b0;
        end else begin
            if (awvalid && awready) begin
                assert (!f_open);
                f_open <= 1'b1;
                f_beats <= '0;
                f_len <= awlen;
                f_id <= awid;
            end
            if (wvalid && wready) begin
                assert (f_open && f_beats <= {1'b0, f_len});
                f_beats <= f_beats + 1'b1;
            end
            if (bvalid) begin
                assert (f_open && f_beats == {1'b0, f_len} + 9'd1 && bid == f_id && !send_valid);
                if (bready) f_open <= 1'b0;
            end
            if (f_waits) assert (bvalid);
            f_waits <= bvalid && !bready;
            if (f_sends) assert (send_valid && f_request == {send_address, send_length, send_first_be, send_last_be});
            f_sends <= send_valid && !send_ready;
            if (send_valid) begin
                assert (send_length != '0 && send_first_be != '0 && (send_length == 10'd1) == (send_last_be == '0));
                assert ({5'd0, send_address[4:0]} + send_length <= 10'd32);
            end
        end
        f_request <= {send_address, send_length, send_first_be, send_last_be};
    end
