// SPDX-License-Identifier: Apache-2.0 OR MIT
// Properties of pcie_dll_replay_buffer, proved in formal/buffer.sv: it never holds more rows than it has, and its pointers keep their order.
    always_ff @(posedge clk)
        if (!rst) begin
            assert (used <= (ADDRESS + 1)'(ROWS));
            assert ((ADDRESS + 1)'(tail - free_pointer) <= used);
            assert ((ADDRESS + 1)'(read_pointer - free_pointer) <= used);
            assert ((ADDRESS + 1)'(commit_pointer - free_pointer) <= used);
        end
