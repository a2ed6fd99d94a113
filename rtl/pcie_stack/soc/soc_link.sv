// SPDX-License-Identifier: Apache-2.0 OR MIT
// The link between two ports. Part n of each vector belongs to end n. With PHYSICAL = 0 the frames of one end are those of the other. With PHYSICAL = 1
// a logical physical layer at each end and the timing model carry them, `latency` cycles each way, one symbol per lane and cycle. There are 1, 2, 4, 8 or 16 lanes,
// the power of two of `width`. A physical layer takes 4 symbols in a cycle or more, so x1 and x2 have it at a clock that is divided by 4 and by 2.
// verilator lint_off PINCONNECTEMPTY
module soc_link #(
    parameter int DATA_WIDTH = 128,
    parameter int PHYSICAL = 0,
    localparam int LANE = $clog2(DATA_WIDTH / 32)
) (
    input logic clk,
    input logic rst,
    input logic enable,
    // verilator lint_off UNUSEDSIGNAL
    input logic [2:0] width,
    input logic [10:0] latency,
    input logic [1:0] retrain_request,
    // verilator lint_on UNUSEDSIGNAL
    output logic [1:0] link_up,
    output logic [1:0] recovery,
    input logic [1:0] tx_valid,
    input logic [1:0] tx_sop,
    input logic [1:0] tx_eop,
    input logic [1:0] tx_dllp,
    input logic [1:0] tx_nullify,
    input logic [2*LANE-1:0] tx_end,
    input logic [2*DATA_WIDTH-1:0] tx_data,
    output logic [1:0] tx_ready,
    output logic [1:0] rx_valid,
    output logic [1:0] rx_sop,
    output logic [1:0] rx_eop,
    output logic [1:0] rx_dllp,
    output logic [1:0] rx_nullify,
    output logic [1:0] rx_error,
    output logic [2*LANE-1:0] rx_end,
    output logic [2*DATA_WIDTH-1:0] rx_data
);
    if (PHYSICAL == 0) begin : joined
        logic up;
        always_ff @(posedge clk) up <= enable && !rst;
        assign link_up = {2{up}};
        assign recovery = '0;
        assign tx_ready = '1;
        assign rx_valid = {tx_valid[0], tx_valid[1]};
        assign rx_sop = {tx_sop[0], tx_sop[1]};
        assign rx_eop = {tx_eop[0], tx_eop[1]};
        assign rx_dllp = {tx_dllp[0], tx_dllp[1]};
        assign rx_nullify = {tx_nullify[0], tx_nullify[1]};
        assign rx_error = '0;
        assign rx_end = {tx_end[0+:LANE], tx_end[LANE+:LANE]};
        assign rx_data = {tx_data[0+:DATA_WIDTH], tx_data[DATA_WIDTH+:DATA_WIDTH]};
    end else begin : lines
        logic [9:0] link_up_of, recovery_of, tx_ready_of, rx_valid_of, rx_sop_of, rx_eop_of, rx_dllp_of, rx_nullify_of, rx_error_of;
        logic [10*LANE-1:0] rx_end_of;
        logic [10*DATA_WIDTH-1:0] rx_data_of;
        assign link_up = link_up_of[2*width+:2];
        assign recovery = recovery_of[2*width+:2];
        assign tx_ready = tx_ready_of[2*width+:2];
        assign rx_valid = rx_valid_of[2*width+:2];
        assign rx_sop = rx_sop_of[2*width+:2];
        assign rx_eop = rx_eop_of[2*width+:2];
        assign rx_dllp = rx_dllp_of[2*width+:2];
        assign rx_nullify = rx_nullify_of[2*width+:2];
        assign rx_error = rx_error_of[2*width+:2];
        assign rx_end = rx_end_of[2*LANE*width+:2*LANE];
        assign rx_data = rx_data_of[2*DATA_WIDTH*width+:2*DATA_WIDTH];
        for (genvar w = 0; w < 5; w++) begin : widths
            localparam int LANES = 1 << w;
            localparam int SYMBOLS = LANES < 4 ? 4 / LANES : 1;
            localparam int LINK = LANES * SYMBOLS;
            // `tick` is set in the cycle before an edge of the divided clock: then the port and the physical layer see the same frame signals.
            logic tick, clock;
            if (SYMBOLS == 1) begin : whole
                assign tick = 1'b1;
                assign clock = clk;
            end else begin : divided
                logic [$clog2(SYMBOLS)-1:0] phase = '0;
                logic gate;
                always_ff @(posedge clk) phase <= phase + 1'b1;
                assign tick = phase == '1;
                always_latch if (!clk) gate = tick;
                assign clock = clk && gate;
            end
            logic [1:0] ready, valid, error;
            assign tx_ready_of[2*w+:2] = ready & {2{tick}};
            assign rx_valid_of[2*w+:2] = valid & {2{tick}};
            assign rx_error_of[2*w+:2] = error & {2{tick}};
            logic [1:0] sent_valid, sent_start, got_valid, got_start;
            logic [LINK-1:0] sent_control[0:1], got_control[0:1];
            logic [8*LINK-1:0] sent_data[0:1], got_data[0:1];
            logic [LANES-1:0] got_bad[0:1];
            for (genvar n = 0; n < 2; n++) begin : ends
                pcie_phy #(
                    .DATA_WIDTH(DATA_WIDTH),
                    .LANES(LANES),
                    .SYMBOLS(SYMBOLS),
                    .GENERATION(3)
                ) phy (
                    .clk(clock),
                    .rst(rst),
                    .enable(enable && width == 3'(w)),
                    .retrain_request(retrain_request[n] && width == 3'(w)),
                    .phy_link_up(link_up_of[2*w+n]),
                    .phy_recovery(recovery_of[2*w+n]),
                    .phy_tx_valid(tx_valid[n] && width == 3'(w)),
                    .phy_tx_sop(tx_sop[n]),
                    .phy_tx_eop(tx_eop[n]),
                    .phy_tx_dllp(tx_dllp[n]),
                    .phy_tx_nullify(tx_nullify[n]),
                    .phy_tx_end(tx_end[LANE*n+:LANE]),
                    .phy_tx_data(tx_data[DATA_WIDTH*n+:DATA_WIDTH]),
                    .phy_tx_ready(ready[n]),
                    .phy_rx_valid(valid[n]),
                    .phy_rx_sop(rx_sop_of[2*w+n]),
                    .phy_rx_eop(rx_eop_of[2*w+n]),
                    .phy_rx_dllp(rx_dllp_of[2*w+n]),
                    .phy_rx_nullify(rx_nullify_of[2*w+n]),
                    .phy_rx_error(error[n]),
                    .phy_rx_end(rx_end_of[LANE*(2*w+n)+:LANE]),
                    .phy_rx_data(rx_data_of[DATA_WIDTH*(2*w+n)+:DATA_WIDTH]),
                    .link_tx_valid(sent_valid[n]),
                    .link_tx_start(sent_start[n]),
                    .link_tx_control(sent_control[n]),
                    .link_tx_data(sent_data[n]),
                    .link_rx_valid(got_valid[n]),
                    .link_rx_start(got_start[n]),
                    .link_rx_bad(got_bad[n]),
                    .link_rx_control(got_control[n]),
                    .link_rx_data(got_data[n]),
                    .phy_state(),
                    .phy_events(),
                    .phy_counts()
                );
                pcie_timing_model #(
                    .LANES(LANES),
                    .SYMBOLS(SYMBOLS),
                    .DEPTH(2048)
                ) line (
                    .clk(clock),
                    .rst(rst),
                    .latency(latency / 11'(SYMBOLS)),
                    .error_rate(32'd0),
                    .drop_rate(32'd0),
                    .mark_errors(1'b0),
                    .seed(64'd1),
                    .in_valid(sent_valid[1-n]),
                    .in_start(sent_start[1-n]),
                    .in_control(sent_control[1-n]),
                    .in_data(sent_data[1-n]),
                    .out_valid(got_valid[n]),
                    .out_start(got_start[n]),
                    .out_bad(got_bad[n]),
                    .out_control(got_control[n]),
                    .out_data(got_data[n]),
                    .event_error(),
                    .event_drop()
                );
            end
        end
    end
endmodule
