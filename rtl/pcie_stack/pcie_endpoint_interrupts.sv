// SPDX-License-Identifier: Apache-2.0 OR MIT
// Interrupt lines to MSI or MSI-X, with the MSI-X table and pending bits (PCIe 6.0 §6.1.4). A line that rises becomes one message. A line that is high
// when messages become possible, becomes one as well.
// Handshake: send_* is a request to the packetizer and stays until send_ready or until `allowed` falls. The table is read in the same cycle.
module pcie_endpoint_interrupts #(
    parameter int INTERRUPTS = 1,
    localparam int VECTOR = INTERRUPTS > 1 ? $clog2(INTERRUPTS) : 1,
    localparam int ENTRY = VECTOR + 2
) (
    input logic clk,
    input logic rst,             // also a reset of the function
    input logic [INTERRUPTS-1:0] lines,
    input logic allowed,         // the function may send requests

    input logic msi_enable,
    input logic [63:2] msi_address,
    input logic [15:0] msi_data,
    input logic [2:0] msi_count, // log2 of the vectors that software allocated
    input logic [31:0] msi_mask,
    output logic [31:0] msi_pending,

    input logic msix_enable,
    input logic msix_mask,
    input logic table_write,
    input logic [9:0] table_write_word,
    input logic [3:0] table_write_be,
    input logic [31:0] table_write_data,
    input logic [9:0] table_read_word,
    output logic [31:0] table_read_data,

    output logic send_valid,
    input logic send_ready,
    output logic [61:0] send_address,
    output logic [31:0] send_data,
    output logic lost            // pulse: a line rose, and no message can be sent
);
    localparam logic [9:0] PENDING_WORD = 10'h200;  // 0x800

    // ---- lines ----
    logic [INTERRUPTS-1:0] was, answered, pending, masks, masked, sends;
    logic capable;
    assign capable = msi_enable || msix_enable;
    assign lost = !capable && (lines & ~was) != '0;
    always_ff @(posedge clk)
        if (rst) begin
            was <= '0;
            answered <= '0;
            pending <= '0;
        end else begin
            was <= lines;
            answered <= capable ? lines : '0;
            pending <= capable ? (pending & ~sends) | (lines & ~answered) : '0;
        end

    // With fewer MSI vectors than lines, lines share vectors.
    logic [4:0] shared[0:INTERRUPTS-1];
    always_comb begin
        msi_pending = '0;
        for (int n = 0; n < INTERRUPTS; n++) begin
            shared[n] = 5'(n) & ~(5'h1f << msi_count);
            masked[n] = msix_enable ? msix_mask || masks[n] : msi_mask[shared[n]];
            if (pending[n] && !msix_enable) msi_pending[shared[n]] = 1'b1;
        end
    end

    // ---- the table: four words of an entry are address, upper address, data and control, whose bit 0 is the mask ----
    (* ram_style = "distributed" *) logic [31:0] entries[0:2**ENTRY-1];
    logic [ENTRY-1:0] entry_word;
    logic in_entries;
    assign in_entries = table_read_word < 10'(4 * INTERRUPTS);
    always_ff @(posedge clk)
        if (table_write && table_write_word < 10'(4 * INTERRUPTS))
            for (int n = 0; n < 4; n++) if (table_write_be[n]) entries[table_write_word[ENTRY-1:0]][8*n+:8] <= table_write_data[8*n+:8];
    always_ff @(posedge clk)
        if (rst) masks <= '1;
        else
            for (int n = 0; n < INTERRUPTS; n++)
                if (table_write && table_write_word == 10'(4 * n + 3) && table_write_be[0]) masks[n] <= table_write_data[0];
    always_comb begin
        table_read_data = '0;
        if (in_entries) table_read_data = table_read_word[1:0] == 2'd3 ? {31'd0, masks[table_read_word[2+:VECTOR]]} : entries[table_read_word[ENTRY-1:0]];
        else if (table_read_word == PENDING_WORD && msix_enable) table_read_data = 32'(pending);
    end

    // ---- a message ----
    typedef enum logic [2:0] {IDLE, LOW, HIGH, VALUE, SEND} state_t;
    state_t state;
    logic [VECTOR-1:0] vector, chosen;
    logic found;
    always_comb begin
        found = 1'b0;
        chosen = '0;
        for (int n = INTERRUPTS - 1; n >= 0; n--)
            if (pending[n] && !masked[n]) begin
                found = 1'b1;
                chosen = VECTOR'(n);
            end
    end
    assign entry_word = {vector, state == LOW ? 2'd0 : state == HIGH ? 2'd1 : 2'd2};
    assign send_valid = state == SEND && allowed && capable;
    always_comb
        for (int n = 0; n < INTERRUPTS; n++) sends[n] = send_valid && send_ready && vector == VECTOR'(n);
    always_ff @(posedge clk)
        if (rst || !allowed || !capable) state <= IDLE;
        else
            case (state)
                IDLE: if (found) state <= msix_enable ? LOW : SEND;
                LOW: state <= HIGH;
                HIGH: state <= VALUE;
                VALUE: state <= SEND;
                default: if (send_ready) state <= IDLE;
            endcase
    logic [31:0] entry;
    assign entry = entries[entry_word];
    always_ff @(posedge clk)
        case (state)
            IDLE: begin
                vector <= chosen;
                send_address <= msi_address;
                send_data <= {16'd0, msi_data[15:5], (msi_data[4:0] & (5'h1f << msi_count)) | shared[chosen]};
            end
            LOW: send_address[29:0] <= entry[31:2];
            HIGH: send_address[61:30] <= entry;
            VALUE: send_data <= entry;
            default: ;
        endcase
endmodule
