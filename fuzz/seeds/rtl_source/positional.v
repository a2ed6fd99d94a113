module top; pcie_7x a (clk, reset); endmodule
