// SPDX-License-Identifier: Apache-2.0 OR MIT
// Stand-ins for primitives of 7-series FPGAs (UG953) and of UltraScale (UG974): their function, without
// delays.
module IBUF (input wire I, output wire O); assign O = I; endmodule
module OBUF (input wire I, output wire O); assign O = I; endmodule
module IBUFDS (input wire I, IB, output wire O); assign O = I; endmodule
module IBUFDS_GTE2 (input wire I, IB, CEB, output wire O, ODIV2); assign O = I; assign ODIV2 = I; endmodule
module IBUFDS_GTE3 #(parameter REFCLK_EN_TX_PATH = 0, REFCLK_HROW_CK_SEL = 0, REFCLK_ICNTL_RX = 0) (
    input wire I, IB, CEB, output wire O, ODIV2); assign O = I; assign ODIV2 = I; endmodule
module IBUFDS_GTE4 #(parameter REFCLK_EN_TX_PATH = 0, REFCLK_HROW_CK_SEL = 0, REFCLK_ICNTL_RX = 0) (
    input wire I, IB, CEB, output wire O, ODIV2); assign O = I; assign ODIV2 = I; endmodule
module BUFG_GT #(parameter SIM_DEVICE = "ULTRASCALE") (
    input wire I, CE, CEMASK, CLR, CLRMASK, input wire [2:0] DIV, output wire O); assign O = I; endmodule
module BUFG (input wire I, output wire O); assign O = I; endmodule
module BUFR (input wire I, CE, CLR, output wire O); assign O = I; endmodule
module BUFH (input wire I, output wire O); assign O = I; endmodule
module BUFGCE (input wire I, CE, output wire O); assign O = I & CE; endmodule
module BUFGCTRL #(parameter INIT_OUT = 0, PRESELECT_I0 = "FALSE", PRESELECT_I1 = "FALSE") (
    input wire I0, I1, S0, S1, CE0, CE1, IGNORE0, IGNORE1, output wire O);
assign O = (S1 & ~S0) ? I1 : I0;
endmodule
module FDCE #(parameter INIT = 1'b0) (input wire C, CE, CLR, D, output reg Q);
initial Q = INIT;
always @(posedge C or posedge CLR) if (CLR) Q <= 1'b0; else if (CE) Q <= D;
endmodule
module FDPE #(parameter INIT = 1'b1) (input wire C, CE, PRE, D, output reg Q);
initial Q = INIT;
always @(posedge C or posedge PRE) if (PRE) Q <= 1'b1; else if (CE) Q <= D;
endmodule
module FDRE #(parameter INIT = 1'b0) (input wire C, CE, R, D, output reg Q);
initial Q = INIT;
always @(posedge C) if (R) Q <= 1'b0; else if (CE) Q <= D;
endmodule
module FDSE #(parameter INIT = 1'b1) (input wire C, CE, S, D, output reg Q);
initial Q = INIT;
always @(posedge C) if (S) Q <= 1'b1; else if (CE) Q <= D;
endmodule
// An output of a clock manager, in kHz.
module riser_clock_of #(parameter real KHZ = 0.0) (output wire O);
assign O = RISER_CLOCK;
endmodule
module MMCME2_ADV #(
    parameter BANDWIDTH = "OPTIMIZED", COMPENSATION = "ZHOLD", STARTUP_WAIT = "FALSE", SS_EN = "FALSE", SS_MODE = "CENTER_HIGH",
    parameter CLKOUT4_CASCADE = "FALSE", CLKFBOUT_USE_FINE_PS = "FALSE", CLKOUT0_USE_FINE_PS = "FALSE",
    parameter CLKOUT1_USE_FINE_PS = "FALSE", CLKOUT2_USE_FINE_PS = "FALSE", CLKOUT3_USE_FINE_PS = "FALSE",
    parameter real CLKIN1_PERIOD = 10.0, CLKIN2_PERIOD = 10.0, CLKFBOUT_MULT_F = 5.0, CLKOUT0_DIVIDE_F = 1.0, REF_JITTER1 = 0.01,
    parameter real REF_JITTER2 = 0.01, CLKFBOUT_PHASE = 0.0, CLKOUT0_PHASE = 0.0, CLKOUT1_PHASE = 0.0, CLKOUT2_PHASE = 0.0,
    parameter real CLKOUT3_PHASE = 0.0, CLKOUT4_PHASE = 0.0, CLKOUT5_PHASE = 0.0, CLKOUT6_PHASE = 0.0,
    parameter real CLKOUT0_DUTY_CYCLE = 0.5, CLKOUT1_DUTY_CYCLE = 0.5, CLKOUT2_DUTY_CYCLE = 0.5, CLKOUT3_DUTY_CYCLE = 0.5,
    parameter integer DIVCLK_DIVIDE = 1, CLKOUT1_DIVIDE = 1, CLKOUT2_DIVIDE = 1, CLKOUT3_DIVIDE = 1, CLKOUT4_DIVIDE = 1,
    parameter integer CLKOUT5_DIVIDE = 1, CLKOUT6_DIVIDE = 1) (
    input wire CLKIN1, CLKIN2, CLKINSEL, CLKFBIN, RST, PWRDWN, DCLK, DEN, DWE, PSCLK, PSEN, PSINCDEC,
    input wire [6:0] DADDR, input wire [15:0] DI, output wire [15:0] DO,
    output wire DRDY, PSDONE, LOCKED, CLKINSTOPPED, CLKFBSTOPPED, CLKFBOUT, CLKFBOUTB,
    output wire CLKOUT0, CLKOUT0B, CLKOUT1, CLKOUT1B, CLKOUT2, CLKOUT2B, CLKOUT3, CLKOUT3B, CLKOUT4, CLKOUT5, CLKOUT6);
localparam real VCO = 1000000.0 / CLKIN1_PERIOD * CLKFBOUT_MULT_F / DIVCLK_DIVIDE;
riser_clock_of #(.KHZ(VCO / CLKOUT0_DIVIDE_F)) clkout0 (CLKOUT0);
riser_clock_of #(.KHZ(VCO / CLKOUT1_DIVIDE)) clkout1 (CLKOUT1);
riser_clock_of #(.KHZ(VCO / CLKOUT2_DIVIDE)) clkout2 (CLKOUT2);
riser_clock_of #(.KHZ(VCO / CLKOUT3_DIVIDE)) clkout3 (CLKOUT3);
riser_clock_of #(.KHZ(VCO / CLKOUT4_DIVIDE)) clkout4 (CLKOUT4);
riser_clock_of #(.KHZ(VCO / CLKOUT5_DIVIDE)) clkout5 (CLKOUT5);
riser_clock_of #(.KHZ(VCO / CLKOUT6_DIVIDE)) clkout6 (CLKOUT6);
assign {CLKOUT0B, CLKOUT1B, CLKOUT2B, CLKOUT3B} = ~{CLKOUT0, CLKOUT1, CLKOUT2, CLKOUT3};
assign CLKFBOUT = CLKIN1;
assign CLKFBOUTB = ~CLKIN1;
assign LOCKED = ~RST & ~PWRDWN;
assign {DO, DRDY, PSDONE, CLKINSTOPPED, CLKFBSTOPPED} = 20'd0;
endmodule
