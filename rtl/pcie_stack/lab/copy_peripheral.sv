// SPDX-License-Identifier: Apache-2.0 OR MIT
// A peripheral on AXI4 as an example: 4 KiB of registers and memory, and a DMA engine that copies host memory. It knows nothing of PCI Express.
//
// | offset | register |
// |---|---|
// | 0x00 | source, a multiple of 8 |
// | 0x08 | target, a multiple of 8 |
// | 0x10 | bytes, a multiple of 8 |
// | 0x18 | bit 0: write 1 to start, reads as busy. Bit 1: done, bit 2: a burst failed; write 1 to clear. the interrupt line is bit 1 |
// | 0x20 to 0xfff | memory |
module copy_peripheral (
    input logic clk,
    input logic rst,

    // Registers
    input logic s_axi_awvalid,
    output logic s_axi_awready,
    input logic [11:3] s_axi_awaddr,
    input logic s_axi_wvalid,
    output logic s_axi_wready,
    input logic [63:0] s_axi_wdata,
    input logic [7:0] s_axi_wstrb,
    input logic s_axi_wlast,
    output logic s_axi_bvalid,
    input logic s_axi_bready,
    input logic s_axi_arvalid,
    output logic s_axi_arready,
    input logic [11:3] s_axi_araddr,
    input logic [7:0] s_axi_arlen,
    output logic s_axi_rvalid,
    input logic s_axi_rready,
    output logic [63:0] s_axi_rdata,
    output logic s_axi_rlast,

    // DMA: bursts of words of 8 bytes
    output logic m_axi_awvalid,
    input logic m_axi_awready,
    output logic [63:0] m_axi_awaddr,
    output logic [7:0] m_axi_awlen,
    output logic m_axi_wvalid,
    input logic m_axi_wready,
    output logic [63:0] m_axi_wdata,
    output logic m_axi_wlast,
    input logic m_axi_bvalid,
    output logic m_axi_bready,
    input logic m_axi_berror,  // SLVERR or DECERR
    output logic m_axi_arvalid,
    input logic m_axi_arready,
    output logic [63:0] m_axi_araddr,
    output logic [7:0] m_axi_arlen,
    input logic m_axi_rvalid,
    output logic m_axi_rready,
    input logic [63:0] m_axi_rdata,
    input logic m_axi_rerror,
    input logic m_axi_rlast,

    output logic done_line  // interrupt
);
    // ---- registers and memory ----
    logic [63:0] words[0:511];
    logic [8:0] write_at, read_at;
    logic writing, reading, answering, start, clear_done, clear_failed;
    logic [7:0] read_left;
    assign s_axi_awready = !writing && !answering;
    assign s_axi_wready = writing;
    assign s_axi_bvalid = answering;
    assign s_axi_arready = !reading;
    assign s_axi_rvalid = reading;
    assign s_axi_rlast = read_left == '0;
    assign s_axi_rdata = read_at == 9'd3 ? {61'd0, failed, done, busy} : words[read_at];
    assign start = s_axi_wvalid && writing && write_at == 9'd3 && s_axi_wstrb[0] && s_axi_wdata[0] && !busy;
    assign clear_done = s_axi_wvalid && writing && write_at == 9'd3 && s_axi_wstrb[0] && s_axi_wdata[1];
    assign clear_failed = s_axi_wvalid && writing && write_at == 9'd3 && s_axi_wstrb[0] && s_axi_wdata[2];
    always_ff @(posedge clk)
        if (rst) begin
            writing <= 1'b0;
            answering <= 1'b0;
            reading <= 1'b0;
        end else begin
            if (s_axi_awvalid && s_axi_awready) writing <= 1'b1;
            else if (s_axi_wvalid && s_axi_wlast) writing <= 1'b0;
            if (writing && s_axi_wvalid && s_axi_wlast) answering <= 1'b1;
            else if (s_axi_bready) answering <= 1'b0;
            if (s_axi_arvalid && s_axi_arready) reading <= 1'b1;
            else if (s_axi_rready && s_axi_rlast) reading <= 1'b0;
        end
    always_ff @(posedge clk) begin
        if (s_axi_awvalid && s_axi_awready) write_at <= s_axi_awaddr;
        else if (writing && s_axi_wvalid) write_at <= write_at + 1'b1;
        if (writing && s_axi_wvalid) for (int n = 0; n < 8; n++) if (s_axi_wstrb[n]) words[write_at][8*n+:8] <= s_axi_wdata[8*n+:8];
        if (s_axi_arvalid && s_axi_arready) begin
            read_at <= s_axi_araddr;
            read_left <= s_axi_arlen;
        end else if (reading && s_axi_rready) begin
            read_at <= read_at + 1'b1;
            read_left <= read_left - 1'b1;
        end
    end

    // ---- the engine: a burst of up to 16 words is read, and then written ----
    typedef enum logic [2:0] {IDLE, NEXT, READ, TAKE, WRITE, GIVE, WAIT} state_t;
    state_t state;
    logic busy, done, failed;
    logic [60:0] source, target, left, room;  // words of 8 bytes
    logic [4:0] count, place;
    logic [63:0] buffer[0:15];
    assign busy = state != IDLE;
    assign done_line = done;
    // A burst stays in a block of 128 bytes at both ends, and so in 4 KiB.
    assign room = 61'd16 - (source[3:0] > target[3:0] ? 61'(source[3:0]) : 61'(target[3:0]));
    assign m_axi_arvalid = state == READ;
    assign m_axi_araddr = {source, 3'd0};
    assign m_axi_arlen = 8'(count) - 8'd1;
    assign m_axi_rready = state == TAKE;
    assign m_axi_awvalid = state == WRITE;
    assign m_axi_awaddr = {target, 3'd0};
    assign m_axi_awlen = 8'(count) - 8'd1;
    assign m_axi_wvalid = state == GIVE;
    assign m_axi_wdata = buffer[place[3:0]];
    assign m_axi_wlast = place == count - 5'd1;
    assign m_axi_bready = state == WAIT;
    always_ff @(posedge clk)
        if (rst) state <= IDLE;
        else
            case (state)
                IDLE: if (start) state <= NEXT;
                NEXT: state <= left == '0 ? IDLE : READ;
                READ: if (m_axi_arready) state <= TAKE;
                TAKE: if (m_axi_rvalid && m_axi_rlast) state <= WRITE;
                WRITE: if (m_axi_awready) state <= GIVE;
                GIVE: if (m_axi_wready && m_axi_wlast) state <= WAIT;
                default: if (m_axi_bvalid) state <= NEXT;
            endcase
    always_ff @(posedge clk)
        if (rst) begin
            done <= 1'b0;
            failed <= 1'b0;
        end else begin
            if (state == NEXT && left == '0) done <= 1'b1;
            else if (clear_done) done <= 1'b0;
            if ((state == TAKE && m_axi_rvalid && m_axi_rerror) || (state == WAIT && m_axi_bvalid && m_axi_berror)) failed <= 1'b1;
            else if (clear_failed) failed <= 1'b0;
        end
    always_ff @(posedge clk)
        case (state)
            IDLE: begin
                source <= words[0][63:3];
                target <= words[1][63:3];
                left <= words[2][63:3];
            end
            NEXT: begin
                count <= left > room ? room[4:0] : left[4:0];
                place <= '0;
            end
            TAKE:
                if (m_axi_rvalid) begin
                    buffer[place[3:0]] <= m_axi_rdata;
                    place <= m_axi_rlast ? '0 : place + 1'b1;
                end
            GIVE: if (m_axi_wready) place <= place + 1'b1;
            WAIT:
                if (m_axi_bvalid) begin
                    source <= source + 61'(count);
                    target <= target + 61'(count);
                    left <= left - 61'(count);
                end
            default: ;
        endcase
endmodule
