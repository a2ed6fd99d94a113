// SPDX-License-Identifier: Apache-2.0 OR MIT
// The switch without its ports: routing, arbitration, configuration space, completions and messages.
// Handshake: the user interface of pcie_tl, seen from the user; README.md. Part n of each vector is port n, and port 0 is the upstream port. Stream
// 3n + t of the rx vectors is type t of port n: P, NP, Cpl.
//
// Each received stream holds one beat with its route. Each egress port takes whole TLPs from the streams, and only of types that have room there, so that
// no type waits for another one in front of a port.
module pcie_switch_core #(
    parameter int DOWNSTREAM = 2,
    parameter int DATA_WIDTH = 256,
    parameter int MAX_PAYLOAD = 512,
    parameter logic [15:0] VENDOR_ID = 16'h1234,
    parameter logic [15:0] UPSTREAM_ID = 16'h5001,
    parameter logic [15:0] DOWNSTREAM_ID = 16'h5002,
    parameter logic [7:0] REVISION = 8'h00,
    parameter int LINK_SPEED = 3,
    parameter int LINK_WIDTH = 8,
    parameter int COUNTER_WIDTH = 16,
    // An illegal number stops elaboration before it has made many ports.
    localparam int PORTS = DOWNSTREAM < 1 || DOWNSTREAM > 31 ? 2 : DOWNSTREAM + 1,
    localparam int STREAMS = 3 * PORTS,
    localparam int LANE = DATA_WIDTH > 32 ? $clog2(DATA_WIDTH / 32) : 1
) (
    input logic clk,
    input logic rst,

    input logic [STREAMS-1:0] rx_valid,
    output logic [STREAMS-1:0] rx_ready,
    input logic [STREAMS-1:0] rx_sop,
    input logic [STREAMS-1:0] rx_eop,
    input logic [STREAMS-1:0] rx_cut,
    input logic [STREAMS-1:0] rx_poisoned,
    input logic [LANE*STREAMS-1:0] rx_end,
    input logic [DATA_WIDTH*STREAMS-1:0] rx_data,

    output logic [PORTS-1:0] tx_valid,
    output logic [PORTS-1:0] tx_sop,
    output logic [PORTS-1:0] tx_eop,
    output logic [LANE*PORTS-1:0] tx_end,
    output logic [DATA_WIDTH*PORTS-1:0] tx_data,
    input logic [STREAMS-1:0] tx_room,  // the port takes a TLP of this type without a stall

    input logic [PORTS-1:0] active,  // DL_Active
    input logic [PORTS-1:0] link_up, // DL_Up
    input logic [4*PORTS-1:0] link_speed,
    input logic [6*PORTS-1:0] link_width,
    input logic [PORTS-1:0] malformed,
    input logic [PORTS-1:0] overflow,
    input logic [PORTS-1:0] protocol_error,
    input logic [PORTS-1:0] link_correctable,

    output logic [3*PORTS-1:0] max_payload,
    output logic [PORTS-1:0] hot_reset,
    output logic [PORTS-1:0] link_disable,
    output logic [6*PORTS-1:0] events,
    output logic [6*PORTS*COUNTER_WIDTH-1:0] counts
);
    `include "pcie_switch.svh"
    localparam int INDEX = $clog2(PORTS);
    localparam int SOURCES = STREAMS + 2;  // of an egress port: streams, completions and messages of the switch

    if (DOWNSTREAM < 1 || DOWNSTREAM > 31) $error("pcie_switch: DOWNSTREAM is %0d; expected 1 to 31", DOWNSTREAM);
    if (DATA_WIDTH != 128 && DATA_WIDTH != 256 && DATA_WIDTH != 512) $error("pcie_switch: DATA_WIDTH is %0d; expected 128, 256 or 512", DATA_WIDTH);
    if (MAX_PAYLOAD < 128 || MAX_PAYLOAD > 4096 || 2 ** $clog2(MAX_PAYLOAD) != MAX_PAYLOAD)
        $error("pcie_switch: MAX_PAYLOAD is %0d; expected a power of two from 128 to 4096", MAX_PAYLOAD);
    if (LINK_SPEED < 1 || LINK_SPEED > 5) $error("pcie_switch: LINK_SPEED is %0d; expected 1 to 5", LINK_SPEED);
    if (LINK_WIDTH != 1 && LINK_WIDTH != 2 && LINK_WIDTH != 4 && LINK_WIDTH != 8 && LINK_WIDTH != 16)
        $error("pcie_switch: LINK_WIDTH is %0d; expected 1, 2, 4, 8 or 16", LINK_WIDTH);

    // The switch is as after reset until the upstream link is up (§2.9.1).
    logic quiet;
    always_ff @(posedge clk) quiet <= rst || !link_up[0];

    // ---- settings ----
    logic [PORTS-1:0] memory_enable, bus_master, forward_correctable, forward_error, atomic_block, ari_forwarding, secondary_reset;
    logic [8*PORTS-1:0] secondary_bus, subordinate_bus;
    logic [12*PORTS-1:0] memory_base, memory_limit;
    logic [44*PORTS-1:0] prefetch_base, prefetch_limit;
    logic [12:0] own_id;  // captured bus and device of the upstream port
    logic [16*PORTS-1:0] ids;
    for (genvar n = 0; n < PORTS; n++) begin : identities
        assign ids[16*n+:16] = n == 0 ? {own_id, 3'd0} : {secondary_bus[7:0], 5'(n - 1), 3'd0};
        assign hot_reset[n] = n != 0 && (quiet || secondary_reset[0] || secondary_reset[n]);
    end

    // ---- received streams ----
    logic [STREAMS-1:0] valid, sop, eop, poisoned, own, waits, leaves, ends_here;
    logic [LANE*STREAMS-1:0] lanes;
    logic [DATA_WIDTH*STREAMS-1:0] data;
    logic [(PORTS+1)*STREAMS-1:0] to;
    logic [INDEX*STREAMS-1:0] functions;
    for (genvar s = 0; s < STREAMS; s++) begin : streams
        localparam int P = 3 * (s / 3);  // the posted stream of this port
        pcie_switch_stream #(
            .DATA_WIDTH(DATA_WIDTH),
            .PORTS(PORTS),
            .PORT(s / 3),
            .STREAM(s % 3)
        ) stream (
            .clk(clk),
            .rst(rst),
            .memory_enable(memory_enable),
            .bus_master(bus_master),
            .forward_correctable(forward_correctable),
            .forward_error(forward_error),
            .atomic_block(atomic_block),
            .ari_forwarding(ari_forwarding),
            .secondary_bus(secondary_bus),
            .subordinate_bus(subordinate_bus),
            .memory_base(memory_base),
            .memory_limit(memory_limit),
            .prefetch_base(prefetch_base),
            .prefetch_limit(prefetch_limit),
            .active(active),
            .in_valid(rx_valid[s]),
            .in_ready(rx_ready[s]),
            .in_sop(rx_sop[s]),
            .in_eop(rx_eop[s]),
            .in_cut(rx_cut[s]),
            .in_poisoned(rx_poisoned[s]),
            .in_end(rx_end[LANE*s+:LANE]),
            .in_data(rx_data[DATA_WIDTH*s+:DATA_WIDTH]),
            .posted_here(s != P && valid[P] && !(leaves[P] && eop[P])),
            .valid(valid[s]),
            .sop(sop[s]),
            .eop(eop[s]),
            .poisoned(poisoned[s]),
            .end_(lanes[LANE*s+:LANE]),
            .data(data[DATA_WIDTH*s+:DATA_WIDTH]),
            .to(to[(PORTS+1)*s+:PORTS+1]),
            .own(own[s]),
            .function_(functions[INDEX*s+:INDEX]),
            .waits(waits[s]),
            .leaves(leaves[s])
        );
        assign ends_here[s] = valid[s] && sop[s] && to[(PORTS+1)*s+PORTS] && !waits[s];
    end

    // ---- egress ports ----
    logic [SOURCES*PORTS-1:0] taken;
    logic [PORTS-1:0] answers, answer_data, busy;
    logic [128*PORTS-1:0] completions;
    logic message_valid;
    logic [127:0] message;

    // A broadcast begins when all its ports are free and have room. Until then they begin nothing else.
    logic several, begins;
    logic [PORTS-1:0] targets, room_p;
    for (genvar n = 0; n < PORTS; n++) begin : rooms
        assign room_p[n] = tx_room[3*n];
    end
    assign targets = to[PORTS-1:0];
    assign several = valid[0] && sop[0] && (targets & (targets - 1'b1)) != '0;
    assign begins = several && (targets & (busy | ~room_p)) == '0;

    for (genvar n = 0; n < PORTS; n++) begin : egress
        logic [SOURCES-1:0] request, present, ends, chosen;
        always_comb begin
            request = '0;
            present = '0;
            ends = '1;
            for (int s = 0; s < STREAMS; s++) begin
                present[s] = valid[s] && s / 3 != n;
                ends[s] = eop[s];
                request[s] = present[s] && sop[s] && to[(PORTS+1)*s+n] && !waits[s] && tx_room[3*n+s%3] && !(s == 0 && several);
            end
            present[STREAMS] = answers[n];
            request[STREAMS] = answers[n] && tx_room[3*n+2] && active[n];
            present[STREAMS+1] = n == 0 && message_valid;
            request[STREAMS+1] = n == 0 && message_valid && tx_room[3*n] && active[n];
        end
        pcie_switch_egress #(
            .SOURCES(SOURCES)
        ) arbiter (
            .clk(clk),
            .rst(rst),
            .request(request),
            .present(present),
            .eop(ends),
            .hold(several && targets[n]),
            .broadcast(begins && targets[n]),
            .busy(busy[n]),
            .taken(chosen)
        );
        assign taken[SOURCES*n+:SOURCES] = chosen;

        logic [DATA_WIDTH-1:0] beat;
        logic [LANE-1:0] lane;
        always_comb begin
            beat = '0;
            lane = '0;
            for (int s = 0; s < STREAMS; s++)
                if (s / 3 != n) begin
                    beat |= data[DATA_WIDTH*s+:DATA_WIDTH] & {DATA_WIDTH{chosen[s]}};
                    lane |= lanes[LANE*s+:LANE] & {LANE{chosen[s]}};
                end
            beat[127:0] |= completions[128*n+:128] & {128{chosen[STREAMS]}};
            lane |= LANE'(answer_data[n] ? 3 : 2) & {LANE{chosen[STREAMS]}};
            if (n == 0) begin
                beat[127:0] |= message & {128{chosen[STREAMS+1]}};
                lane |= LANE'(3) & {LANE{chosen[STREAMS+1]}};
            end
        end
        assign tx_valid[n] = chosen != '0;
        assign tx_sop[n] = !busy[n];
        assign tx_eop[n] = (chosen & ends) != '0;
        assign tx_end[LANE*n+:LANE] = lane;
        assign tx_data[DATA_WIDTH*n+:DATA_WIDTH] = beat;
    end

    // ---- TLPs that end here ----
    logic [PORTS-1:0] drains_p, drains_cpl, select, config_write, type_0;
    logic [INDEX*PORTS-1:0] select_function;
    logic [10*PORTS-1:0] config_word;
    logic [4*PORTS-1:0] config_be;
    logic [32*PORTS-1:0] config_data, read_data;
    logic [13*PORTS-1:0] config_target;
    logic [31:0] read_value;
    logic [STREAMS-1:0] forwarded, ended;
    always_comb begin
        forwarded = '0;
        for (int n = 0; n < PORTS; n++) forwarded |= taken[SOURCES*n+:STREAMS];
        // Requests of configuration space come from the upstream port only.
        read_value = '0;
        for (int n = 0; n < PORTS; n++) if (select_function[INDEX-1:0] == INDEX'(n)) read_value = read_data[32*n+:32];
    end
    assign leaves = forwarded | ended;

    logic [PORTS-1:0] posted_ur, request_ur, unexpected, is_message, system_error, marked;
    logic [PORTS-1:0] acknowledged, nonfatal, fatal, correctable;
    logic [4*PORTS-1:0] intx_set, intx_clear;
    logic [9:0] slot_power;
    logic turn_off;
    for (genvar n = 0; n < PORTS; n++) begin : ports
        localparam int P = 3 * n;
        // Posted requests and completions that end here are taken at once.
        logic starts, finishes;
        logic [7:0] code;
        logic [2:0] routing;
        logic message_here, silent;
        assign starts = ends_here[P];
        assign code = data[DATA_WIDTH*P+56+:8];
        assign routing = data[DATA_WIDTH*P+:3];
        assign message_here = data[DATA_WIDTH*P+3+:2] == 2'b10;
        assign ended[P] = valid[P] && (ends_here[P] || drains_p[n]);
        assign finishes = ends_here[P+2] && !drains_cpl[n];
        assign ended[P+2] = valid[P+2] && (ends_here[P+2] || drains_cpl[n]);
        always_ff @(posedge clk)
            if (rst) begin
                drains_p[n] <= 1'b0;
                drains_cpl[n] <= 1'b0;
            end else begin
                if (ended[P]) drains_p[n] <= !eop[P];
                if (ended[P+2]) drains_cpl[n] <= !eop[P+2];
            end

        // Messages that end here and are no error: some act, a port may ignore the others (§2.2.8.6, §2.2.8.7).
        logic is_wire, is_power;
        assign is_wire = n != 0 && routing == LOCAL && code[7:3] == ASSERT_INTA[7:3];
        assign is_power = n == 0 && routing == LOCAL && code == SET_SLOT_POWER_LIMIT;
        always_comb begin
            silent = is_wire || is_power;
            if (routing == LOCAL && (code == VENDOR_TYPE_1 || code[7:4] == 4'h4 || (code == PM_ACTIVE_STATE_NAK && n == 0))) silent = 1'b1;
            if (routing == BROADCAST && n == 0) silent = 1'b1;
            if (routing == GATHERED && n != 0 && code == PME_TO_ACK) silent = 1'b1;
            if (routing == TO_ROOT && n != 0) silent = 1'b1;
        end
        assign is_message[n] = starts && message_here;
        assign posted_ur[n] = starts && !(message_here && silent);
        assign unexpected[n] = finishes;
        assign intx_set[4*n+:4] = starts && message_here && is_wire && !code[2] ? 4'd1 << code[1:0] : '0;
        assign intx_clear[4*n+:4] = starts && message_here && is_wire && code[2] ? 4'd1 << code[1:0] : '0;
        assign acknowledged[n] = starts && message_here && routing == GATHERED && code == PME_TO_ACK;
        assign system_error[n] = n == 0 ? (nonfatal & ~PORTS'(1)) != '0 || (fatal & ~PORTS'(1)) != '0 :
            valid[P] && leaves[P] && sop[P] && message_here && routing == TO_ROOT && (code == ERR_NONFATAL || code == ERR_FATAL);
        assign marked[n] = (rx_valid[P+:3] & rx_ready[P+:3] & rx_sop[P+:3] & rx_poisoned[P+:3]) != '0;
        if (n == 0) begin : upstream
            assign turn_off = valid[P] && leaves[P] && sop[P] && message_here && routing == BROADCAST && code == PME_TURN_OFF;
            // The data follow the header of 16 bytes.
            logic power_here;
            logic [9:0] power;
            if (DATA_WIDTH > 128) begin : same_beat
                assign power_here = starts && message_here && is_power;
                assign power = data[DATA_WIDTH*P+128+:10];
            end else begin : next_beat
                logic expected;
                always_ff @(posedge clk) if (ended[P]) expected <= starts && message_here && is_power;
                assign power_here = expected && ended[P] && drains_p[n];
                assign power = data[9:0];
            end
            always_ff @(posedge clk)
                if (quiet) slot_power <= '0;
                else if (power_here) slot_power <= power;
        end

        pcie_switch_completer #(
            .PORTS(PORTS)
        ) completer (
            .clk(clk),
            .rst(rst),
            .active(active[n]),
            .present(valid[P+1]),
            .ends_here(ends_here[P+1]),
            .eop(eop[P+1]),
            .poisoned(poisoned[P+1]),
            .own(own[P+1]),
            .function_(functions[INDEX*(P+1)+:INDEX]),
            .data(data[DATA_WIDTH*(P+1)+:128]),
            .leaves(ended[P+1]),
            .select(select[n]),
            .write(config_write[n]),
            .select_function(select_function[INDEX*n+:INDEX]),
            .word(config_word[10*n+:10]),
            .be(config_be[4*n+:4]),
            .write_data(config_data[32*n+:32]),
            .is_type_0(type_0[n]),
            .target(config_target[13*n+:13]),
            .read_data(read_value),
            .completer_id(ids[16*n+:16]),
            .valid(answers[n]),
            .completion(completions[128*n+:128]),
            .has_data(answer_data[n]),
            .taken(taken[SOURCES*n+STREAMS]),
            .unsupported(request_ur[n])
        );

        pcie_switch_config #(
            .PORT(n),
            .VENDOR_ID(VENDOR_ID),
            .DEVICE_ID(n == 0 ? UPSTREAM_ID : DOWNSTREAM_ID),
            .REVISION(REVISION),
            .MAX_PAYLOAD(MAX_PAYLOAD),
            .LINK_SPEED(LINK_SPEED),
            .LINK_WIDTH(LINK_WIDTH)
        ) config_space (
            .clk(clk),
            .rst(quiet),
            .select(select[0] && select_function[INDEX-1:0] == INDEX'(n)),
            .write(config_write[0]),
            .word(config_word[9:0]),
            .be(config_be[3:0]),
            .write_data(config_data[31:0]),
            .read_data(read_data[32*n+:32]),
            .link_up(link_up[n]),
            .link_speed(link_speed[4*n+:4]),
            .link_width(link_width[6*n+:6]),
            .slot_power(slot_power),
            .error_posted_ur(posted_ur[n]),
            .error_request_ur(request_ur[n]),
            .error_unexpected(unexpected[n]),
            .error_poisoned(marked[n]),
            .error_malformed(malformed[n]),
            .error_overflow(overflow[n]),
            .error_protocol(protocol_error[n]),
            .error_correctable(link_correctable[n]),
            .received_error(system_error[n]),
            .memory_enable(memory_enable[n]),
            .bus_master(bus_master[n]),
            .forward_correctable(forward_correctable[n]),
            .forward_error(forward_error[n]),
            .atomic_block(atomic_block[n]),
            .ari_forwarding(ari_forwarding[n]),
            .secondary_bus(secondary_bus[8*n+:8]),
            .subordinate_bus(subordinate_bus[8*n+:8]),
            .memory_base(memory_base[12*n+:12]),
            .memory_limit(memory_limit[12*n+:12]),
            .prefetch_base(prefetch_base[44*n+:44]),
            .prefetch_limit(prefetch_limit[44*n+:44]),
            .secondary_reset(secondary_reset[n]),
            .link_disable(link_disable[n]),
            .max_payload(max_payload[3*n+:3]),
            .message_correctable(correctable[n]),
            .message_nonfatal(nonfatal[n]),
            .message_fatal(fatal[n])
        );

        assign events[6*n+:6] = {marked[n], is_message[n], select[n], unexpected[n], request_ur[n], posted_ur[n]};
    end

    always_ff @(posedge clk)
        if (quiet) own_id <= '0;
        else if (select[0] && type_0[0] && config_write[0]) own_id <= config_target[12:0];

    pcie_switch_messages #(
        .PORTS(PORTS)
    ) messages (
        .clk(clk),
        .rst(quiet),
        .active(active),
        .intx_set(intx_set),
        .intx_clear(intx_clear),
        .error_correctable(correctable),
        .error_nonfatal(nonfatal),
        .error_fatal(fatal),
        .pass_correctable(forward_correctable[0]),
        .pass_error(forward_error[0]),
        .turn_off(turn_off),
        .acknowledged(acknowledged),
        .upstream_id(ids[15:0]),
        .internal_bus(secondary_bus[7:0]),
        .valid(message_valid),
        .message(message),
        .taken(taken[STREAMS+1])
    );

    pcie_dll_counters #(
        .NUMBER(SWITCH_EVENTS * PORTS),
        .WIDTH(COUNTER_WIDTH)
    ) counters (
        .clk(clk),
        .rst(rst),
        .events(events),
        .counts(counts)
    );
    logic unused;
    assign unused = &{select_function, config_write, config_word, config_be, config_data, type_0, config_target, functions, taken};

`ifdef PROVE_SWITCH
`include "switch_properties.svh"
`endif
endmodule
