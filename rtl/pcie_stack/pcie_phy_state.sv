// SPDX-License-Identifier: Apache-2.0 OR MIT
// Link state of the physical layer: down, up and recovery. There is no training: no detection, no lane numbers, no speed change, no equalization.
// Both ends exchange TS1 and TS2 that carry no settings, as in Recovery.RcvrLock and Recovery.RcvrCfg (PCIe 6.0 §4.2.7.4), and
// begin the data stream. The same handshake brings the link up after reset.
module pcie_phy_state #(
    parameter int TRAIN_CYCLES = 4096,  // an answer must arrive within this time: more than a round trip
    parameter int SETS = 8,             // training sets of each kind to send at least
    parameter int USE_SDS = 1           // 128b/130b: SDS begins the data stream
) (
    input logic clk,
    input logic rst,
    input logic enable,
    input logic retrain,        // go to Recovery
    input logic partner,        // the other end is not in electrical idle
    input logic rx_ts1,         // one cycle per received set
    input logic rx_ts2,
    input logic rx_streaming,   // the receiver follows a data stream
    input logic set_sent,       // a training set or SDS began
    output logic [2:0] state,
    output logic link_up,
    output logic recovery,
    output logic event_recovery,
    output logic event_down,
    output logic event_timeout
);
    `include "pcie_phy.svh"
    localparam int TIMER = $clog2(TRAIN_CYCLES + 1);
    localparam int COUNT = $clog2(SETS + 1);

    logic [TIMER-1:0] timer;
    logic [COUNT-1:0] sets;
    logic [1:0] attempts;
    logic heard, enough, expired, leave, absent;
    logic [4:0] silence;
    assign enough = sets == COUNT'(SETS);
    assign expired = timer == TIMER'(TRAIN_CYCLES);
    assign absent = silence == '1;
    // The other end must see electrical idle for a while, so that both ends forget the same.
    assign leave = state != PHY_DOWN && (!enable || (link_up && absent) || (link_up && event_timeout && attempts == '1));
    assign recovery = link_up && state != PHY_L0;
    assign event_recovery = state == PHY_L0 && !leave && (retrain || rx_ts1 || (expired && !rx_streaming));
    assign event_down = link_up && leave;
    assign event_timeout = expired && (state == PHY_TS1 || state == PHY_TS2 || (state == PHY_L0 && !rx_streaming));

    always_ff @(posedge clk)
        if (rst) begin
            state <= PHY_DOWN;
            link_up <= 1'b0;
            timer <= '0;
            sets <= '0;
            heard <= 1'b0;
            attempts <= '0;
            silence <= '0;
        end else begin
            silence <= partner ? '0 : silence + 5'(!absent);
            if (!expired) timer <= timer + 1'b1;
            if (set_sent && heard && !enough) sets <= sets + 1'b1;
            case (state)
                PHY_DOWN:
                if (enable && expired) begin
                    state <= PHY_TS1;
                    timer <= '0;
                end
                PHY_TS1: begin
                    if (rx_ts1 || rx_ts2) heard <= 1'b1;
                    if (heard && enough) begin
                        state <= PHY_TS2;
                        heard <= 1'b0;
                        sets <= '0;
                        timer <= '0;
                    end else if (expired) begin
                        timer <= '0;
                        attempts <= attempts + 2'(attempts != '1);
                    end
                end
                PHY_TS2: begin
                    if (rx_ts2) heard <= 1'b1;
                    if (heard && enough) begin
                        state <= USE_SDS != 0 ? PHY_SDS : PHY_L0;
                        link_up <= USE_SDS == 0 || link_up;
                        timer <= '0;
                    end else if (expired) begin
                        state <= PHY_TS1;
                        heard <= 1'b0;
                        sets <= '0;
                        timer <= '0;
                    end
                end
                PHY_SDS:
                if (set_sent) begin
                    state <= PHY_L0;
                    link_up <= 1'b1;
                    timer <= '0;
                end
                default: begin
                    if (rx_streaming) begin
                        timer <= '0;
                        attempts <= '0;
                    end
                    if (event_recovery) begin
                        state <= PHY_TS1;
                        heard <= rx_ts1;
                        sets <= '0;
                        timer <= '0;
                    end
                end
            endcase
            if (leave) begin
                state <= PHY_DOWN;
                link_up <= 1'b0;
                timer <= '0;
                heard <= 1'b0;
                sets <= '0;
                attempts <= '0;
            end
        end
endmodule
