// SPDX-License-Identifier: Apache-2.0 OR MIT
// Initializes flow control of each virtual channel: FC_INIT1 and FC_INIT2 (PCIe 6.0 §3.4.1).
// Handshake: init_request stays until init_taken. The DLLPs of a channel go out in threes (P, NP, Cpl), which are not mixed.
//
// VC0 begins in DL_Init and repeats its DLLPs every REPEAT_CYCLES / 16 cycles. Others begin in DL_Active when they are enabled and repeat
// every REPEAT_CYCLES, one channel after the other: NUM_VCS * REPEAT_CYCLES must be less than 34 us.
module pcie_dll_fc_init #(
    parameter int NUM_VCS = 1,
    parameter int REPEAT_CYCLES = 1024
) (
    input logic clk,
    input logic rst,
    input logic [1:0] state,  // of the link

    input logic [NUM_VCS-1:0] vc_enable,
    input logic [72*NUM_VCS-1:0] init_fc,  // per VC and type, P first: 24 bits as in a DLLP
    input logic [NUM_VCS-1:0] vc_tlp_seen,  // a TLP of this channel arrives
    output logic [NUM_VCS-1:0] vc_init2,    // FC_INIT1 is complete: TLPs of this channel may arrive
    output logic [NUM_VCS-1:0] vc_ready,    // FC_INIT2 is complete

    input logic fc_valid,
    input logic [1:0] fc_kind,
    input logic [1:0] fc_type,
    input logic [2:0] fc_vc,

    output logic init_request,
    output logic [31:0] init_bytes,
    input logic init_taken
);
    `include "pcie_dll.svh"
    localparam int TIMER = $clog2(REPEAT_CYCLES + 1);

    // ---- one channel each ----
    logic [NUM_VCS-1:0] active, sent_init2, moves_on;
    logic [3*NUM_VCS-1:0] got;
    logic sends_last;  // the last of three leaves
    logic [2:0] vc;
    logic [1:0] kind, type_;

    for (genvar n = 0; n < NUM_VCS; n++) begin : channels
        logic here, is_init, may_run;
        assign here = fc_valid && fc_vc == 3'(n);
        assign is_init = fc_kind != FC_UPDATE;
        assign may_run = n == 0 ? state == DL_INIT || state == DL_ACTIVE : state == DL_ACTIVE && vc_enable[n];
        assign moves_on[n] = active[n] && !vc_init2[n] && &got[3*n+:3];
        always_ff @(posedge clk)
            if (rst || !may_run) begin
                active[n] <= 1'b0;
                got[3*n+:3] <= '0;
                vc_init2[n] <= 1'b0;
                sent_init2[n] <= 1'b0;
                vc_ready[n] <= 1'b0;
            end else begin
                active[n] <= 1'b1;
                if (here && is_init) got[3*n+:3] <= got[3*n+:3] | 3'b001 << fc_type;
                if (moves_on[n]) vc_init2[n] <= 1'b1;
                if (sends_last && vc == 3'(n) && kind == FC_INIT2) sent_init2[n] <= 1'b1;
                // Flag FI2. At least three InitFC2 leave first, so that the other end can complete as well.
                if (vc_init2[n] && sent_init2[n] && heard[n]) vc_ready[n] <= 1'b1;
            end
    end
    // FI2 may be set before the three InitFC2 have left.
    logic [NUM_VCS-1:0] heard;
    always_ff @(posedge clk)
        for (int n = 0; n < NUM_VCS; n++)
            if (rst || !vc_init2[n]) heard[n] <= 1'b0;
            else if (vc_tlp_seen[n] || (fc_valid && fc_vc == 3'(n) && fc_kind != FC_INIT1)) heard[n] <= 1'b1;

    // ---- the DLLPs ----
    logic [NUM_VCS-1:0] wants;
    logic sending;
    logic [2:0] next_vc;
    logic [TIMER-1:0] timer;
    assign wants = active & ~vc_ready;
    assign sends_last = init_taken && type_ == 2'd2;

    // The next channel above `vc` that has something to send; if there is none, the lowest.
    always_comb begin
        next_vc = '0;
        for (int n = NUM_VCS - 1; n >= 0; n--) if (wants[n]) next_vc = 3'(n);
        for (int n = NUM_VCS - 1; n >= 0; n--) if (wants[n] && 3'(n) > vc) next_vc = 3'(n);
    end

    always_ff @(posedge clk)
        if (rst || state < DL_INIT) begin
            sending <= 1'b0;
            type_ <= '0;
            vc <= '0;
            kind <= FC_INIT1;
            timer <= '0;
        end else begin
            if (timer != '0) timer <= timer - 1'b1;
            if (sending) begin
                if (init_taken) begin
                    type_ <= type_ == 2'd2 ? 2'd0 : type_ + 2'd1;
                    sending <= type_ != 2'd2;
                    timer <= TIMER'(state == DL_INIT ? REPEAT_CYCLES / 16 : REPEAT_CYCLES);
                end
            end else if (wants != '0 && timer == '0) begin
                sending <= 1'b1;
                vc <= next_vc;
                kind <= vc_init2[next_vc[VC-1:0]] ? FC_INIT2 : FC_INIT1;
            end
            // The first InitFC2 follow immediately.
            if (moves_on != '0) timer <= '0;
        end
    localparam int VC = NUM_VCS > 1 ? $clog2(NUM_VCS) : 1;

    logic [23:0] value;
    always_comb begin
        value = '0;
        for (int n = 0; n < 3 * NUM_VCS; n++) if (vc == 3'(n / 3) && type_ == 2'(n % 3)) value = init_fc[24*n+:24];
    end
    assign init_request = sending;
    assign init_bytes = {value[7:0], value[15:8], value[23:16], kind, type_, 1'b0, vc};
endmodule
