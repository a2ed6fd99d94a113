// SPDX-License-Identifier: Apache-2.0 OR MIT
// Decides where a TLP of one stream of one port goes (PCIe 6.0 §2.2.4, §2.2.8, §7.3.3). Combinational.
//
// `to` has a bit per port; port 0 is the upstream port. Bit PORTS: the TLP ends at the port that received it. A broadcast has a bit for each
// downstream port; every other TLP has one bit.
module pcie_switch_route #(
    parameter int PORTS = 3,
    parameter int PORT = 0,    // the port that received the TLP
    parameter int STREAM = 0,  // STREAM_P, STREAM_NP or STREAM_CPL
    localparam int INDEX = $clog2(PORTS)
) (
    input logic [127:0] header,  // byte 0 in bits 7:0

    // Settings of each port
    input logic [PORTS-1:0] memory_enable,
    input logic [PORTS-1:0] bus_master,
    input logic [PORTS-1:0] forward_correctable,  // ERR_COR from below passes the port; other error messages
    input logic [PORTS-1:0] forward_error,
    input logic [PORTS-1:0] atomic_block,
    input logic [PORTS-1:0] ari_forwarding,
    input logic [8*PORTS-1:0] secondary_bus,
    input logic [8*PORTS-1:0] subordinate_bus,
    input logic [12*PORTS-1:0] memory_base,
    input logic [12*PORTS-1:0] memory_limit,
    input logic [44*PORTS-1:0] prefetch_base,
    input logic [44*PORTS-1:0] prefetch_limit,

    output logic [PORTS:0] to,
    output logic convert,             // a configuration request of type 1 becomes type 0
    output logic own,                 // a configuration request of a function of the switch
    output logic [INDEX-1:0] function_  // the function: that of port n is n
);
    `include "pcie_switch.svh"
    logic [4:0] type_;
    logic four;
    assign type_ = header[4:0];
    assign four = header[5];

    // ---- fields ----
    logic [63:20] address;
    logic [7:0] bus, code;
    logic [4:0] device;
    logic [2:0] number;
    assign address = four ? {header[71:64], header[79:72], header[87:80], header[95:88], header[103:96], header[111:108]}
                          : {32'd0, header[71:64], header[79:76]};
    assign bus = header[71:64];
    assign device = header[79:75];
    assign number = header[74:72];
    assign code = header[63:56];

    // ---- what each port claims from its primary side ----
    logic [PORTS-1:0] hit, in_range;
    always_comb
        for (int n = 0; n < PORTS; n++) begin
            hit[n] = memory_enable[n] && ((address[63:32] == '0 && address[31:20] >= memory_base[12*n+:12] && address[31:20] <= memory_limit[12*n+:12])
                || (address >= prefetch_base[44*n+:44] && address <= prefetch_limit[44*n+:44]));
            in_range[n] = secondary_bus[8*n+:8] != '0 && bus >= secondary_bus[8*n+:8] && bus <= subordinate_bus[8*n+:8];
        end

    // One bit: the first downstream port, except this one, that claims the TLP; the upstream port if it may go up; or its end here.
    function automatic logic [PORTS:0] claimed(input logic [PORTS-1:0] claims, input logic up);
        claimed = '0;
        claimed[PORTS] = 1'b1;
        if (PORT == 0 ? claims[0] : !claims[PORT]) begin
            for (int n = PORTS - 1; n >= 1; n--)
                if (n != PORT && claims[n]) begin
                    claimed = '0;
                    claimed[n] = 1'b1;
                end
            if (claimed[PORTS] && PORT != 0 && !claims[0] && up) begin
                claimed[PORTS] = 1'b0;
                claimed[0] = 1'b1;
            end
        end
    endfunction

    function automatic logic [PORTS:0] ends_here();
        ends_here = '0;
        ends_here[PORTS] = 1'b1;
    endfunction

    logic is_memory, is_atomic, is_config, is_message;
    logic [PORTS:0] by_address, by_id;
    assign is_memory = type_ == 5'b00000;
    assign is_atomic = type_ == 5'b01100 || type_ == 5'b01101 || type_ == 5'b01110;
    assign is_config = type_[4:1] == 4'b0010;
    assign is_message = type_[4:3] == 2'b10;
    assign by_address = PORT == 0 || bus_master[PORT] ? claimed(hit, bus_master[0]) : ends_here();
    assign by_id = claimed(in_range, 1'b1);

    always_comb begin
        to = ends_here();
        convert = 1'b0;
        own = 1'b0;
        function_ = '0;
        if (STREAM == STREAM_CPL) to = by_id;
        else if (STREAM == STREAM_P) begin
            if (is_memory) to = by_address;
            else if (is_message)
                case (type_[2:0])
                    TO_ROOT:
                        if (PORT != 0 && (code == ERR_COR ? forward_correctable[PORT] && forward_correctable[0] :
                                          (code != ERR_NONFATAL && code != ERR_FATAL) || (forward_error[PORT] && forward_error[0]))) begin
                            to = '0;
                            to[0] = 1'b1;
                        end
                    BY_ADDRESS: to = by_address;
                    BY_ID: to = by_id;
                    BROADCAST:
                        if (PORT == 0) begin
                            to = '0;
                            to[PORTS-1:1] = '1;
                        end
                    default: ;
                endcase
        end else if (is_memory) to = by_address;
        else if (is_atomic) begin
            if ((by_address[PORTS-1:0] & atomic_block) == '0) to = by_address;
        end else if (is_config && PORT == 0) begin
            if (!type_[0]) own = number == '0;
            else if (secondary_bus[7:0] != '0 && bus == secondary_bus[7:0]) begin
                own = number == '0 && device < 5'(PORTS - 1);
                function_ = INDEX'(device) + 1'b1;
            end else begin
                to = by_id;
                for (int n = 1; n < PORTS; n++)
                    if (by_id[n] && bus == secondary_bus[8*n+:8]) begin
                        convert = 1'b1;
                        // Without ARI Forwarding a link has device 0 only.
                        if (device != '0 && !ari_forwarding[n]) to = ends_here();
                    end
            end
        end
    end
    logic unused;
    assign unused = &{header, four, code, ari_forwarding, atomic_block, is_memory, is_atomic, is_config, is_message, device, number, by_address, forward_correctable,
        forward_error, bus_master};
endmodule
