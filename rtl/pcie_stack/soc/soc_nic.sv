// SPDX-License-Identifier: Apache-2.0 OR MIT
// A NIC whose cable is looped back, as in the Chipyard study (2022, §6.2): software writes the address of each frame and each buffer, and reads each completion. Registers
// on an AXI4 slave, frames through an AXI4 master, both 64 bits wide. Buffers begin at a multiple of 64 bytes. A frame has 1 to 8 * WORDS bytes.
// The registers:
//
// - 0x00 W: send request, address in bits 47:0, bytes in 63:48
// - 0x08 W: receive request, address in bits 47:0
// - 0x10 R, 32 bits: takes a send completion
// - 0x14 R, 32 bits: takes a receive completion and returns its bytes; 0 if there is none
// - 0x18 R: number of send completions in bits 31:0, of receive completions in 63:32
// - 0x20 R: takes all send completions and returns their number
// - 0x28 R: takes up to four receive completions and returns their bytes in 16 bits each, the oldest in bits 15:0
// - 0x40, 0x48, 0x50 R: cycles with reads in flight, with writes in flight, and with either
// - 0x58 W: maximum number of reads, and of writes, in flight, each of 64 bytes. After reset it is OUTSTANDING, which is also the limit
//
// A request that finds its queue full, or whose frame is empty, is dropped. The reads of the next frame begin before those of the last one have ended.
module soc_nic #(
    parameter int WORDS = 512,       // of 64 bits in the frame buffer; a power of two
    parameter int OUTSTANDING = 16,  // most reads, and writes, of 64 bytes in flight
    localparam int AT = $clog2(WORDS)
) (
    input logic clk,
    input logic rst,
    input logic awvalid,
    output logic awready,
    input logic [3:0] awid,
    input logic [11:0] awaddr,
    input logic wvalid,
    output logic wready,
    input logic [63:0] wdata,
    input logic [7:0] wstrb,
    output logic bvalid,
    input logic bready,
    output logic [3:0] bid,
    input logic arvalid,
    output logic arready,
    input logic [3:0] arid,
    input logic [11:0] araddr,
    input logic [2:0] arsize,
    output logic rvalid,
    input logic rready,
    output logic [3:0] rid,
    output logic [63:0] rdata,

    output logic m_awvalid,
    input logic m_awready,
    output logic [63:0] m_awaddr,
    output logic [7:0] m_awlen,
    output logic m_wvalid,
    input logic m_wready,
    output logic [63:0] m_wdata,
    output logic [7:0] m_wstrb,
    output logic m_wlast,
    input logic m_bvalid,
    output logic m_arvalid,
    input logic m_arready,
    output logic [63:0] m_araddr,
    output logic [7:0] m_arlen,
    input logic m_rvalid,
    input logic [63:0] m_rdata,
    input logic m_rlast
);
    localparam int FLIGHT = $clog2(OUTSTANDING + 1);

    // Beats of the next burst of 64 bytes, minus one, and the bytes after it.
    function automatic logic [7:0] burst(input logic [15:0] bytes);
        burst = bytes > 16'd64 ? 8'd7 : 8'((bytes - 1'b1) >> 3);
    endfunction
    function automatic logic [15:0] after(input logic [15:0] bytes);
        after = bytes > 16'd64 ? bytes - 16'd64 : 16'd0;
    endfunction
    // Bursts of a frame.
    function automatic logic [10:0] bursts(input logic [15:0] bytes);
        bursts = 11'((17'(bytes) + 17'd63) >> 6);
    endfunction

    // ---- registers ----
    logic [63:0] send_queue[0:15];
    logic [47:0] receive_queue[0:15];
    logic [15:0] frame_queue[0:15], completion_queue[0:15];
    logic [4:0] send_in, send_out, receive_in, receive_out, frame_in, frame_whole, frame_out, completion_in, completion_out, sent;
    logic [FLIGHT-1:0] limit;
    logic [63:0] sending_cycles, receiving_cycles, either_cycles;
    logic write, read, send_done, receive_done, take_frame, whole;
    logic [11:0] r_at;
    assign write = awvalid && wvalid && !bvalid;
    assign awready = write;
    assign wready = write;
    assign whole = &wstrb;
    assign arready = !rvalid;
    assign read = rvalid && rready;
    logic [4:0] completions, taken_sent, taken_received;
    logic narrow;
    logic [63:0] oldest;
    assign completions = completion_in - completion_out;
    always_comb begin
        {taken_sent, taken_received} = '0;
        if (read && r_at == 12'h010 && narrow) taken_sent = 5'(sent != '0);
        if (read && r_at == 12'h014 && narrow) taken_received = 5'(completions != '0);
        if (read && r_at == 12'h020) taken_sent = sent;
        if (read && r_at == 12'h028) taken_received = completions > 5'd4 ? 5'd4 : completions;
        for (int n = 0; n < 4; n++) oldest[16*n+:16] = completions > 5'(n) ? completion_queue[completion_out[3:0]+4'(n)] : 16'd0;
    end
    always_comb begin
        unique case (r_at[11:3])
            9'h02: rdata = {16'd0, oldest[15:0], 31'd0, sent != '0};
            9'h03: rdata = {27'd0, completions, 27'd0, sent};
            9'h04: rdata = 64'(sent);
            9'h05: rdata = oldest;
            9'h08: rdata = sending_cycles;
            9'h09: rdata = receiving_cycles;
            9'h0a: rdata = either_cycles;
            default: rdata = '0;
        endcase
    end
    always_ff @(posedge clk) begin
        if (write) begin
            bvalid <= 1'b1;
            bid <= awid;
            if (awaddr == 12'h000 && whole && wdata[63:48] != '0 && send_in - send_out != 5'd16) begin
                send_queue[send_in[3:0]] <= wdata;
                send_in <= send_in + 1'b1;
            end
            if (awaddr == 12'h008 && whole && receive_in - receive_out != 5'd16) begin
                receive_queue[receive_in[3:0]] <= wdata[47:0];
                receive_in <= receive_in + 1'b1;
            end
            if (awaddr == 12'h058 && whole && wdata != '0 && wdata <= 64'(OUTSTANDING)) limit <= wdata[FLIGHT-1:0];
        end
        if (bvalid && bready) bvalid <= 1'b0;
        if (read) rvalid <= 1'b0;
        if (arvalid && arready) begin
            rvalid <= 1'b1;
            r_at <= araddr;
            narrow <= arsize == 3'd2;
            rid <= arid;
        end
        sent <= sent + 5'(send_done) - taken_sent;
        completion_out <= completion_out + taken_received;
        if (rst) begin
            bvalid <= 1'b0;
            rvalid <= 1'b0;
            limit <= FLIGHT'(OUTSTANDING);
            {send_in, receive_in, completion_out, sent} <= '0;
        end
    end

    // ---- send path: memory to buffer; a frame goes to the receive path when it is whole ----
    logic [63:0] buffer[0:WORDS-1];
    logic [AT:0] filled, drained, reserved;
    logic [47:0] s_address;
    logic [15:0] s_left;
    logic [10:0] ended;  // bursts of the oldest frame that is not whole
    logic [FLIGHT-1:0] reads;
    logic s_take, s_issue, s_end;
    // Software takes send completions: at most 15 wait when a frame begins.
    assign s_take = s_left == '0 && send_in != send_out && frame_in - frame_out != 5'd16 && !sent[4];
    assign m_arvalid = s_left != '0 && reads < limit && (AT + 1)'(reserved - drained) <= (AT + 1)'(WORDS - 8);
    assign m_araddr = 64'(s_address);
    assign m_arlen = burst(s_left);
    assign s_issue = m_arvalid && m_arready;
    assign s_end = m_rvalid && m_rlast;
    assign send_done = s_end && ended + 1'b1 == bursts(frame_queue[frame_whole[3:0]]);
    always_ff @(posedge clk) begin
        if (s_take) begin
            s_address <= send_queue[send_out[3:0]][47:0];
            s_left <= send_queue[send_out[3:0]][63:48];
            send_out <= send_out + 1'b1;
            frame_queue[frame_in[3:0]] <= send_queue[send_out[3:0]][63:48];
            frame_in <= frame_in + 1'b1;
        end
        if (s_issue) begin
            s_address <= s_address + 48'd64;
            s_left <= after(s_left);
            reserved <= reserved + (AT + 1)'(m_arlen) + 1'b1;
        end
        reads <= reads + FLIGHT'(s_issue) - FLIGHT'(s_end);
        if (m_rvalid) begin
            buffer[filled[AT-1:0]] <= m_rdata;
            filled <= filled + 1'b1;
        end
        if (s_end) ended <= send_done ? '0 : ended + 1'b1;
        if (send_done) frame_whole <= frame_whole + 1'b1;
        if (rst) {send_out, frame_in, frame_whole, s_left, ended, filled, reserved, reads} <= '0;
    end

    // ---- receive path: buffer to memory ----
    logic receiving, addressed;
    logic [47:0] r_address;
    logic [15:0] r_left, r_bytes;
    logic [2:0] beat;
    logic [FLIGHT-1:0] writes;
    logic [7:0] beats;
    assign beats = burst(r_left);
    assign take_frame = !receiving && frame_whole != frame_out && receive_in != receive_out && !completions[4];
    assign m_awvalid = receiving && r_left != '0 && !addressed && writes < limit;
    assign m_awaddr = 64'(r_address);
    assign m_awlen = beats;
    assign m_wvalid = addressed;
    assign m_wdata = buffer[drained[AT-1:0]];
    assign m_wlast = 8'(beat) == beats;
    assign m_wstrb = m_wlast && r_left <= 16'd64 && r_left[2:0] != '0 ? 8'hff >> (4'd8 - 4'(r_left[2:0])) : 8'hff;
    assign receive_done = receiving && r_left == '0 && writes == '0;
    always_ff @(posedge clk) begin
        if (take_frame) begin
            receiving <= 1'b1;
            r_address <= receive_queue[receive_out[3:0]];
            r_left <= frame_queue[frame_out[3:0]];
            r_bytes <= frame_queue[frame_out[3:0]];
            receive_out <= receive_out + 1'b1;
            frame_out <= frame_out + 1'b1;
        end
        if (m_awvalid && m_awready) begin
            addressed <= 1'b1;
            beat <= '0;
        end
        if (m_wvalid && m_wready) begin
            beat <= beat + 1'b1;
            drained <= drained + 1'b1;
            if (m_wlast) begin
                addressed <= 1'b0;
                r_address <= r_address + 48'd64;
                r_left <= after(r_left);
            end
        end
        writes <= writes + FLIGHT'(m_awvalid && m_awready) - FLIGHT'(m_bvalid);
        if (receive_done) begin
            receiving <= 1'b0;
            completion_queue[completion_in[3:0]] <= r_bytes;
            completion_in <= completion_in + 1'b1;
        end
        if (rst) begin
            receiving <= 1'b0;
            addressed <= 1'b0;
            {receive_out, frame_out, completion_in, drained, writes} <= '0;
        end
    end

    // ---- times ----
    always_ff @(posedge clk) begin
        sending_cycles <= sending_cycles + 64'(reads != '0);
        receiving_cycles <= receiving_cycles + 64'(writes != '0);
        either_cycles <= either_cycles + 64'(reads != '0 || writes != '0);
        if (rst) {sending_cycles, receiving_cycles, either_cycles} <= '0;
    end
endmodule
