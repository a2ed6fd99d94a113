// SPDX-License-Identifier: Apache-2.0 OR MIT
// Properties of pcie_dll_framer: a TLP has at most MAX_ROWS rows; it begins only if there was room; with cut-through nothing follows a nullified TLP
// until the replay buffer has dropped it; and NEXT_TRANSMIT_SEQ counts TLPs that are not nullified.
    logic f_started, f_blocked, f_room, f_room_earlier;
    initial f_started = 1'b0;
    logic [ROW:0] f_rows;
    logic [11:0] f_numbered;
    always_ff @(posedge clk) begin
        f_started <= 1'b1;
        if (!f_started) assume (rst);
        assume (!rewound || f_blocked);
        f_room <= room && may_number;
        f_room_earlier <= f_room;
        if (rst || !enable) begin
            f_rows <= '0;
            f_blocked <= 1'b0;
            f_numbered <= '0;
        end else begin
            if (rewound) f_blocked <= 1'b0;
            if (row_valid) begin
                assert (f_rows < (ROW + 1)'(MAX_ROWS));
                if (f_rows == '0) assert (f_room_earlier);
                if (CUT_THROUGH != 0) assert (!f_blocked);
                f_rows <= row_last ? '0 : f_rows + 1'b1;
                if (row_last && row_nullified && CUT_THROUGH != 0) f_blocked <= 1'b1;
                if (row_last && !row_nullified) f_numbered <= f_numbered + 1'b1;
            end
            // Two rows may be on their way.
            assert (12'(next_transmit_seq - f_numbered) <= 12'd2);
        end
    end
