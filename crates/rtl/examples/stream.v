// SPDX-License-Identifier: Apache-2.0 OR MIT
// Registers connected to riser_tlp_stream, and a copy of 64 B of host memory. Data of 64 to 512 bits; accesses of one
// double-word.
//
//   0x00 identity                          0x10 destination, a multiple of 64 (64 bits)
//   0x04 scratch                           0x18 doorbell: 1 copies, higher numbers copy with an error
//   0x08 source, likewise (64 bits)        0x1c status: [31:16] copies, [1] the read failed, [0] busy
module stream #(parameter WIDTH = 64) (input wire reset_n, output wire alive);
localparam LANES = WIDTH / 32, BEATS = 1024 / WIDTH;
wire clk, reset, up;
wire [WIDTH-1:0] rx_data;
wire rx_last, rx_valid, tx_ready;
wire [7:0] bus;
wire [4:0] device;
wire [2:0] number;
wire [15:0] id = {bus, device, number};
wire msi_enable;
wire [63:0] msi_address;
wire [15:0] msi_data;
assign alive = up;

// ---- a TLP for the design: its first byte in bits 7:0, the header fields in reverse byte order ----
reg [1023:0] in;
reg [4:0] beat;
reg has_in;
function [31:0] swap(input [31:0] word);
    swap = {word[7:0], word[15:8], word[23:16], word[31:24]};
endfunction
wire [31:0] in0 = swap(in[31:0]), in1 = swap(in[63:32]), in2 = swap(in[95:64]);
// Header of four double-words, followed by the data.
wire is_long = in0[29], has_data = in0[30];
wire is_memory = in0[28:24] == 5'b00000, is_completion = in0[28:24] == 5'b01010;
// Bits 6:2 of the address.
wire [4:0] at = is_long ? in[126:122] : in[94:90];
wire [2:0] which = at[2:0];
wire [31:0] written = is_long ? in[159:128] : in[127:96];
// The position of a completion's first double-word, and the number of double-words.
wire [3:0] spot = in2[5:2];
wire [4:0] words_in = has_data ? in0[4:0] : 5'd0;

// ---- registers ----
reg [31:0] scratch;
reg [63:0] source, destination;
reg [2:0] doorbell;
reg [15:0] copies;
reg failed;
reg [31:0] value;

// ---- a TLP of the design ----
reg [1023:0] out;
reg [5:0] words;
reg has_hole;
wire tx_last = words <= LANES;
wire [LANES*4-1:0] tx_keep;
genvar lane;
generate for (lane = 0; lane < LANES; lane = lane + 1) begin : keeps
    assign tx_keep[4*lane +: 4] = {4{words > lane && !(has_hole && lane == 0)}};
end endgenerate

localparam IDLE = 0, READ = 1, AGAIN = 2, WAIT = 3, WRITE = 4, INTERRUPT = 5;
reg [2:0] state;
reg [511:0] data;
reg [4:0] got;
wire [63:0] target = state == WRITE ? destination + (doorbell == 2 ? 64'hfe0 : 64'd0) : state == INTERRUPT ? msi_address : source;
// Addresses below 4 GiB have headers of three double-words.
wire is_far = target[63:32] != 0;
wire is_write = state == WRITE || state == INTERRUPT;
wire [9:0] length = state == INTERRUPT ? 10'd1 : state == WRITE && doorbell == 3 ? 10'd17 : 10'd16;
wire [31:0] out0 = {1'b0, is_write, is_far, 5'd0, 14'd0, length};
wire [31:0] out1 = {id, doorbell == 5 ? 8'hfe : 8'h00, state == INTERRUPT ? 8'h0f : 8'hff};
wire [127:0] header = {swap(target[31:0]), is_far ? swap(target[63:32]) : swap(target[31:0]), swap(out1), swap(out0)};
wire [511:0] payload = state == INTERRUPT ? {496'd0, msi_data} : data;
wire [639:0] request = is_far ? {payload, header} : {32'd0, payload, header[95:0]};
wire [5:0] request_words = (is_far ? 6'd4 : 6'd3) + (state == INTERRUPT ? 6'd1 : state == WRITE ? 6'd16 : 6'd0);

always @* case (which)
    0: value = 32'h0715_0001;
    1: value = scratch;
    2: value = source[31:0];
    3: value = source[63:32];
    4: value = destination[31:0];
    5: value = destination[63:32];
    6: value = 0;
    default: value = {copies, 14'd0, failed, state != IDLE};
endcase

integer k;
always @(posedge clk) if (reset) begin
    {has_in, beat, words, has_hole, state, scratch, source, destination, doorbell, copies, failed, got} <= 0;
end else begin
    if (rx_valid && !has_in) begin
        if (beat < BEATS) in[beat * WIDTH +: WIDTH] <= rx_data;
        beat <= rx_last ? 0 : beat < BEATS ? beat + 1 : beat;
        has_in <= rx_last;
    end
    if (words != 0) begin
        if (tx_ready) begin
            out <= out >> WIDTH;
            words <= tx_last ? 0 : words - LANES;
        end
    end else if (has_in) begin
        has_in <= 0;
        if (is_memory && has_data) case (which)
            1: scratch <= written;
            2: source[31:0] <= written;
            3: source[63:32] <= written;
            4: destination[31:0] <= written;
            5: destination[63:32] <= written;
            6: if (state == IDLE) begin
                doorbell <= written[2:0];
                {failed, got} <= 0;
                state <= written[2:0] == 2 || written[2:0] == 3 || written[2:0] == 6 ? WRITE : READ;
            end
            default: ;
        endcase
        if (is_memory && !has_data) begin
            // A completion with one double-word of data, and the class, attributes and tag of its request.
            out[127:0] <= {value, swap({in1[31:8], 1'b0, at, 2'b00}), swap({id, 16'd4}),
                swap({8'h4a, in0[23:18], 4'd0, in0[13:12], 2'd0, 10'd1})};
            {has_hole, words} <= 4;
        end
        if (is_completion && state == WAIT) begin
            for (k = 0; k < 16; k = k + 1) begin
                if (k >= spot && k < spot + words_in) data[32 * k +: 32] <= in[96 + 32 * (k - spot) +: 32];
            end
            got <= got + words_in;
            failed <= in1[15:13] != 0;
            if (in1[15:13] != 0) state <= IDLE;
            else if (got + words_in >= 16) state <= WRITE;
        end
    end else if (state != IDLE && state != WAIT) begin
        if (state != INTERRUPT || msi_enable) begin
            out[639:0] <= request;
            {has_hole, words} <= {doorbell == 6 && state == WRITE, request_words};
        end
        case (state)
            // Number 4 reads twice with one tag.
            READ: state <= doorbell == 4 ? AGAIN : WAIT;
            AGAIN: state <= WAIT;
            WRITE: state <= doorbell == 1 ? INTERRUPT : IDLE;
            default: state <= IDLE;
        endcase
        if (state == INTERRUPT) copies <= copies + 1;
    end
end

riser_tlp_stream block (
    .user_clk(clk), .user_reset(reset), .user_lnk_up(up), .sys_rst_n(reset_n),
    .m_axis_rx_tdata(rx_data), .m_axis_rx_tlast(rx_last), .m_axis_rx_tvalid(rx_valid), .m_axis_rx_tready(!has_in),
    .s_axis_tx_tdata(out[WIDTH-1:0]), .s_axis_tx_tkeep(tx_keep), .s_axis_tx_tlast(tx_last), .s_axis_tx_tvalid(words != 0),
    .s_axis_tx_tready(tx_ready),
    .cfg_bus_number(bus), .cfg_device_number(device), .cfg_function_number(number),
    .cfg_msi_enable(msi_enable), .cfg_msi_address(msi_address), .cfg_msi_data(msi_data)
);
endmodule
