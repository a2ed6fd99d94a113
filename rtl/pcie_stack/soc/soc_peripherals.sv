// SPDX-License-Identifier: Apache-2.0 OR MIT
// The small parts of the SoC on one AXI4 slave. The address is the offset in this window. Registers take single beats.
//
// - 0x0000: code that jumps to RAM
// - 0x1000: a UART with the registers of an 8250, which only sends
// - 0x2000: the register that ends the simulation
// - 0x4000: registers of the IOMMU. 0x4000 RW: address of the first page table, and in bit 0 its enable; a write of 8 bytes also forgets all translations.
//   0x4008 R: counts, 16 bits each: walks, no translation, no permission, error in a table. 0x4010 R: address of the latest fault. 0x4018 R: count of translations
module soc_peripherals (
    input logic clk,
    input logic rst,
    input logic awvalid,
    output logic awready,
    input logic [3:0] awid,
    // verilator lint_off UNUSEDSIGNAL
    input logic [15:0] awaddr,
    // verilator lint_on UNUSEDSIGNAL
    input logic wvalid,
    output logic wready,
    // verilator lint_off UNUSEDSIGNAL
    input logic [63:0] wdata,
    // verilator lint_on UNUSEDSIGNAL
    input logic [7:0] wstrb,
    input logic wlast,
    output logic bvalid,
    input logic bready,
    output logic [3:0] bid,
    input logic arvalid,
    output logic arready,
    input logic [3:0] arid,
    input logic [15:0] araddr,
    input logic [7:0] arlen,
    output logic rvalid,
    input logic rready,
    output logic [3:0] rid,
    output logic [63:0] rdata,
    output logic rlast,
    output logic uart_interrupt,
    output logic uart_valid,         // a pulse: the byte that software sends
    output logic [7:0] uart_data,
    output logic finish_valid,       // a pulse: software ends the simulation with this value
    output logic [31:0] finish_value,
    output logic iommu_enable,
    output logic [43:0] iommu_root,
    output logic iommu_flush,
    input logic [79:0] iommu_counts,
    input logic [63:0] iommu_fault
);
    localparam logic [3:0] UART = 4'd1, FINISH = 4'd2, IOMMU = 4'd4;
    // li t0, 1; slli t0, t0, 31; jr t0: a0 and a1 stay.
    localparam logic [63:0] JUMP_0 = {32'h01f2_9293, 32'h0010_0293}, JUMP_1 = {32'h0000_0013, 32'h0002_8067};

    // ---- requests: a write when address and data are there, reads beat by beat ----
    logic write, first, read;
    logic [15:0] r_at;
    logic [7:0] r_left;
    assign write = awvalid && wvalid && !bvalid;
    assign awready = write && wlast;
    assign wready = write;
    assign arready = !rvalid;
    assign read = rvalid && rready;
    assign rlast = r_left == '0;
    always_ff @(posedge clk) begin
        if (write && wlast) begin
            bvalid <= 1'b1;
            bid <= awid;
        end
        if (bvalid && bready) bvalid <= 1'b0;
        if (read) begin
            r_at <= {r_at[15:3], 3'd0} + 16'd8;
            r_left <= r_left - 1'b1;
            if (rlast) rvalid <= 1'b0;
        end
        if (arvalid && arready) begin
            rvalid <= 1'b1;
            r_at <= araddr;
            r_left <= arlen;
            rid <= arid;
        end
        if (write) first <= wlast;
        if (rst) begin
            bvalid <= 1'b0;
            rvalid <= 1'b0;
            first <= 1'b1;
        end
    end

    // ---- UART ----
    logic [7:0] enable, line_control, modem_control, scratch, divisor_low, divisor_high, identification;
    logic uart_write, uart_read, divisor, empty_interrupt;
    // verilator lint_off UNUSEDSIGNAL
    logic [7:0] strobes;  // by register; not all have a use
    // verilator lint_on UNUSEDSIGNAL
    assign divisor = line_control[7];
    assign uart_write = write && first && awaddr[15:12] == UART;
    assign uart_read = read && r_at[15:12] == UART;
    assign strobes = uart_write ? wstrb : 8'd0;
    assign uart_valid = strobes[0] && !divisor;
    assign uart_data = wdata[7:0];
    assign uart_interrupt = empty_interrupt && enable[1];
    assign identification = uart_interrupt ? 8'h02 : 8'h01;
    always_ff @(posedge clk) begin
        // The transmitter is empty again in the next cycle.
        if (uart_valid || strobes[1] && !divisor && wdata[9] && !enable[1]) empty_interrupt <= 1'b1;
        else if (uart_read && r_at[2:0] == 3'd2 && uart_interrupt) empty_interrupt <= 1'b0;
        if (strobes[0] && divisor) divisor_low <= wdata[7:0];
        if (strobes[1] && divisor) divisor_high <= wdata[15:8];
        if (strobes[1] && !divisor) enable <= {4'd0, wdata[11:8]};
        if (strobes[3]) line_control <= wdata[31:24];
        if (strobes[4]) modem_control <= wdata[39:32];
        if (strobes[7]) scratch <= wdata[63:56];
        if (rst) begin
            empty_interrupt <= 1'b0;
            {enable, line_control, modem_control, scratch, divisor_low, divisor_high} <= '0;
        end
    end

    // ---- end of the simulation ----
    assign finish_valid = write && first && awaddr[15:12] == FINISH;
    assign finish_value = wdata[31:0];

    // ---- IOMMU ----
    always_ff @(posedge clk) begin
        iommu_flush <= write && first && awaddr[15:3] == {IOMMU, 9'd0} && &wstrb;
        if (write && first && awaddr[15:3] == {IOMMU, 9'd0} && &wstrb) {iommu_root, iommu_enable} <= {wdata[55:12], wdata[0]};
        if (rst) {iommu_root, iommu_enable, iommu_flush} <= '0;
    end

    always_comb begin
        rdata = '0;
        if (r_at[15:12] == 4'd0) rdata = r_at[11:3] == '0 ? JUMP_0 : JUMP_1;
        // Line status: transmitter empty. Modem status: clear to send, data set ready, carrier.
        if (r_at[15:12] == UART)
            rdata = {scratch, 8'hb0, 8'h60, modem_control, line_control, identification, divisor ? divisor_high : enable, divisor ? divisor_low : 8'd0};
        if (r_at[15:12] == IOMMU)
            unique case (r_at[4:3])
                2'd0: rdata = {8'd0, iommu_root, 11'd0, iommu_enable};
                2'd1: rdata = iommu_counts[79:16];
                2'd2: rdata = iommu_fault;
                default: rdata = 64'(iommu_counts[15:0]);
            endcase
    end
endmodule
