// SPDX-License-Identifier: Apache-2.0 OR MIT
// cocotb needs a top module; Python does all of the work.
`timescale 1ps/1ps
module empty;
endmodule
