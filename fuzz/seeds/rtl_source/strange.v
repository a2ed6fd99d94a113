`define X pcie_7x
/* pcie_7x a (.b(c)); */ // pcie_7x d (.e(f));
(* keep *) pcie_7x #(.LANES(4), .NAME("a;)(\"")) \odd.name[0] (
    .user_clk_out ( clk[{1'b0, n}] ), .rx_np_ok(), `ifdef Y .x(1) `endif
    .m_axis_rx_tdata({a, {b, c}})
);
