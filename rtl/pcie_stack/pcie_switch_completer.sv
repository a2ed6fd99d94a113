// SPDX-License-Identifier: Apache-2.0 OR MIT
// Answers non-posted requests that end at a port: configuration requests of the switch's functions, and UR for all others (PCIe 6.0 §2.2.9, §2.3.1).
// Handshake: takes the beats of a TLP with `present` and `leaves`, then offers one completion of one beat until it is `taken`.
module pcie_switch_completer #(
    parameter int PORTS = 3,
    localparam int INDEX = $clog2(PORTS)
) (
    input logic clk,
    input logic rst,
    input logic active,  // the link can carry the completion

    input logic present,    // a beat is there
    input logic ends_here,  // it is the first of a TLP that ends here
    input logic eop,
    input logic poisoned,
    input logic own,
    input logic [INDEX-1:0] function_,
    input logic [127:0] data,
    output logic leaves,

    // Configuration space
    output logic select,
    output logic write,
    output logic [INDEX-1:0] select_function,
    output logic [9:0] word,
    output logic [3:0] be,
    output logic [31:0] write_data,
    output logic is_type_0,
    output logic [12:0] target,  // bus and device of the request
    input logic [31:0] read_data,

    input logic [15:0] completer_id,
    output logic valid,
    output logic [127:0] completion,
    output logic has_data,
    input logic taken,
    output logic unsupported  // the request gets UR
);
    typedef enum logic [1:0] {IDLE, DRAIN, ACCESS, ANSWER} state_t;
    state_t state;
    logic [127:0] header;
    logic is_own, bad;
    assign leaves = present && (state == DRAIN || (state == IDLE && ends_here));

    // Request
    logic [4:0] type_;
    logic [9:0] field;
    logic is_read, is_atomic;
    assign type_ = header[4:0];
    assign field = {header[17:16], header[31:24]};
    assign is_read = (type_ == 5'b00000 || type_ == 5'b00001) && !header[6];
    assign is_atomic = type_ == 5'b01100 || type_ == 5'b01101 || type_ == 5'b01110;
    assign select = state == ACCESS && is_own && !bad;
    assign write = header[6];
    assign word = {header[83:80], header[95:90]};
    assign be = header[59:56];
    assign write_data = header[127:96];
    assign is_type_0 = !type_[0];
    assign target = {header[71:64], header[79:75]};
    assign unsupported = state == ACCESS && !select;

    // Byte Count and Lower Address as if the request had succeeded.
    function automatic logic [1:0] lead(input logic [3:0] enables);
        lead = enables[0] || enables == '0 ? 2'd0 : enables[1] ? 2'd1 : enables[2] ? 2'd2 : 2'd3;
    endfunction
    function automatic logic [1:0] trail(input logic [3:0] enables);
        trail = enables[3] || enables == '0 ? 2'd0 : enables[2] ? 2'd1 : enables[1] ? 2'd2 : 2'd3;
    endfunction
    logic [3:0] first, last;
    logic [12:0] count, bytes;
    logic [6:2] low;
    assign {last, first} = header[63:56];
    assign bytes = {field == '0, field, 2'b00};
    assign low = header[5] ? header[126:122] : header[94:90];
    always_comb begin
        count = 13'd4;
        if (is_read) count = bytes - 13'(lead(first)) - 13'(trail(field == 10'd1 ? first : last));
        if (is_read && first == '0) count = 13'd1;
        if (is_atomic) count = type_[1] ? bytes >> 1 : bytes;
    end

    logic [31:0] value;
    logic success, with_data;
    assign valid = state == ANSWER;
    assign has_data = with_data;
    assign completion[31:0] = {7'd0, with_data, 2'b00, header[21:20], 4'd0, header[15:10], 2'b00, 1'b0, with_data, 6'b001010};
    assign completion[63:32] = {count[7:0], success ? 3'd0 : 3'd1, 1'b0, count[11:8], completer_id[7:0], completer_id[15:8]};
    assign completion[95:64] = {1'b0, is_read ? {low, lead(first)} : 7'd0, header[55:48], header[47:32]};
    assign completion[127:96] = value;

    always_ff @(posedge clk)
        if (rst || (state == ANSWER && !active)) state <= IDLE;
        else
            case (state)
                IDLE: if (leaves) state <= eop ? ACCESS : DRAIN;
                DRAIN: if (leaves && eop) state <= ACCESS;
                ACCESS: state <= ANSWER;
                ANSWER: if (taken) state <= IDLE;
            endcase
    always_ff @(posedge clk) begin
        if (state == IDLE) begin
            header <= data;
            is_own <= own;
            select_function <= function_;
            bad <= poisoned;
        end
        if (state == ACCESS) begin
            value <= read_data;
            success <= select;
            with_data <= select && !write;
        end
    end
    logic unused;
    assign unused = &{header, count[12]};
endmodule
