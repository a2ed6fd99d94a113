// SPDX-License-Identifier: Apache-2.0 OR MIT
// An AXI4 burst as TileLink messages: the next message is the longest aligned power of two that begins at the next beat. Beats that are
// narrower than the bus are a message each.
module pcie_tilelink_client_split #(
    parameter int BYTE = 3,         // log2 of the bytes of a beat
    parameter int LONGEST = 6,      // log2 of the longest message
    localparam int BEAT = LONGEST > BYTE ? LONGEST - BYTE : 1
) (
    input logic [11:0] address,     // of the next beat
    input logic [7:0] left,         // beats after it
    input logic [2:0] size,
    output logic [BEAT-1:0] last,   // beats of the message, less one
    output logic [3:0] message_size
);
    always_comb begin
        last = '0;
        message_size = {1'b0, size};
        if (32'(size) == BYTE)
            for (int n = 1; n <= LONGEST - BYTE; n++)
                if ((address & ((12'd1 << (BYTE + n)) - 12'd1)) == '0 && 32'(left) >= 2 ** n - 1) begin
                    last = BEAT'(2 ** n - 1);
                    message_size = 4'(BYTE + n);
                end
    end
endmodule
