// SPDX-License-Identifier: Apache-2.0 OR MIT
// What cocotb wants to have a top: all of the work is in Python.
`timescale 1ps/1ps
module empty;
endmodule
