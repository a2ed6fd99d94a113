// SPDX-License-Identifier: Apache-2.0 OR MIT
// Eight registers, connected to a 7-series block of 64 bits. A write to register 6 stops the design. A write to
// register 7 makes the design send a packet with a wrong Length.
module scratch (input wire sys_clk_p, input wire sys_clk_n, input wire reset_n, output wire alive);
wire clk, reset, up;
wire [63:0] rx_data;
wire [7:0] rx_keep;
wire rx_last, rx_valid;
wire [21:0] rx_user;
wire tx_ready;
reg [63:0] tx_data;
reg [7:0] tx_keep;
reg tx_last, tx_valid;
wire [7:0] bus;
wire [4:0] device;
wire [2:0] function_;
assign alive = up;

localparam IDLE = 0, SECOND = 1, ANSWER = 2, WRONG = 3, END = 4;
reg [2:0] state;
reg [31:0] registers [0:7];
reg is_write;
reg [15:0] requester;
reg [7:0] tag;
reg [2:0] at;

(* keep = "true" *)
pcie_7x #(.LANES(1)) block (
    .user_clk_out(clk), .user_reset_out(reset), .user_lnk_up(up),
    .m_axis_rx_tdata(rx_data), .m_axis_rx_tkeep(rx_keep), .m_axis_rx_tlast(rx_last), .m_axis_rx_tvalid(rx_valid),
    .m_axis_rx_tready(state == IDLE || state == SECOND), .m_axis_rx_tuser(rx_user),
    .s_axis_tx_tdata(tx_data), .s_axis_tx_tkeep(tx_keep), .s_axis_tx_tlast(tx_last), .s_axis_tx_tvalid(tx_valid),
    .s_axis_tx_tready(tx_ready), .s_axis_tx_tuser(4'd0),
    .cfg_bus_number(bus), .cfg_device_number(device), .cfg_function_number(function_),
    .sys_clk(sys_clk_p), .sys_rst_n(reset_n)
);

integer n;
always @(posedge clk) if (reset) begin
    state <= IDLE;
    tx_valid <= 0;
    for (n = 0; n < 8; n = n + 1) registers[n] <= 32'h12345670 + n;
end else case (state)
    IDLE: if (rx_valid) begin
        is_write <= rx_data[30];
        {requester, tag} <= rx_data[63:40];
        state <= SECOND;
    end
    SECOND: if (rx_valid) begin
        at <= rx_data[4:2];
        if (is_write) begin
            registers[rx_data[4:2]] <= {rx_data[39:32], rx_data[47:40], rx_data[55:48], rx_data[63:56]};
            if (rx_data[4:2] == 6) $fatal(1, "register 6");
            state <= rx_data[4:2] == 7 ? WRONG : IDLE;
        end else state <= ANSWER;
    end
    ANSWER: begin
        tx_valid <= 1;
        tx_data <= {bus, device, function_, 16'h0004, 32'h4a000001};
        {tx_keep, tx_last} <= {8'hff, 1'b0};
        if (tx_valid && tx_ready) begin
            tx_data <= {registers[at][7:0], registers[at][15:8], registers[at][23:16], registers[at][31:24],
                requester, tag, 3'd0, at, 2'd0};
            tx_last <= 1;
            state <= END;
        end
    end
    WRONG: begin
        tx_valid <= 1;
        // A write whose Length is two double-words, but which has only one.
        tx_data <= {bus, device, function_, 16'h00ff, 32'h40000002};
        {tx_keep, tx_last} <= {8'hff, 1'b0};
        if (tx_valid && tx_ready) begin
            tx_data <= 64'h0000000000100000;
            tx_last <= 1;
            state <= END;
        end
    end
    default: if (tx_ready) begin
        tx_valid <= 0;
        state <= IDLE;
    end
endcase
endmodule
