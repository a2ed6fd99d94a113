#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Proves the properties of *_properties.svh and formal/link.sv. Shows that each property fails on a broken design.
# "always" is a proof without bound by ABC's PDR. "depth n" is bounded model checking of the first n cycles by ABC's
# bmc3. "induction" is bounded model checking and ABC's temporal induction, without bound as well. A broken design is the source with one edit by sed; bmc3 has to find a counterexample. prove.sh [NAME...] runs
# some checks only.
set -u
cd "$(dirname "$0")/.."
OUT=${OUT:-build/formal}
mkdir -p "$OUT"
failures=0
wanted=" $* "

# model NAME TOP FILES PARAMETERS DEFINE: a flat netlist as AIGER
model() {
    yosys -q -p "read_verilog -formal -sv -D$5 -I. $3; ${4:+chparam $4 $2;} hierarchy -top $2; rename -top $2; setattr -mod -unset keep_hierarchy *;
        prep -top $2 -flatten; memory_map; async2sync; dffunmap; delete -port o:*; opt -full; setundef -undriven -anyseq;
        techmap; opt -fast; dffunmap; aigmap; write_aiger -zinit $OUT/$1.aig" >"$OUT/$1.log" 2>&1
}

# abc NAME COMMAND: prints the output of ABC
abc() {
    yosys-abc -c "read_aiger $OUT/$1.aig; fold; strash; scorr; $2" >"$OUT/$1.log" 2>&1
}

# check NAME TOP FILES PARAMETERS DEFINE DEPTH: DEPTH 0 is a proof without bound by PDR, and "induction" one by induction over 4 cycles
check() {
    name=$1 top=$2 files=$3 parameters=$4 define=$5 depth=$6
    case $wanted in "  " | *" $name "*) ;; *) name= && return ;; esac
    began=$(date +%s)
    if ! model "$name" "$top" "$files" "$parameters" "$define"; then
        result="NO MODEL" failures=1
    elif [ "$depth" = 0 ]; then
        abc "$name" "pdr -T 900"
        if grep -q "Property proved" "$OUT/$name.log"; then result="always: proved"; else result="always: FAILED" failures=1; fi
        depth=24
    elif [ "$depth" = induction ]; then
        abc "$name" "bmc3 -F 8"
        base=$(grep -c "No output asserted in 8 frames" "$OUT/$name.log")
        abc "$name" "orpos; ind -F 4 -C 0"
        if [ "$base" = 1 ] && grep -q "Networks are equivalent" "$OUT/$name.log"; then result="induction: proved"; else result="induction: FAILED" failures=1; fi
        depth=24
    else
        abc "$name" "bmc3 -F $depth"
        if grep -q "No output asserted in $depth frames" "$OUT/$name.log"; then result="depth $depth: holds"; else result="depth $depth: FAILED" failures=1; fi
    fi
    printf '%-14s %s (%s s)\n' "$name" "$result" "$(($(date +%s) - began))"
}

# broken FILE SED WHAT: the check above with this edit must fail
broken() {
    [ -n "$name" ] || return
    began=$(date +%s)
    copy="$OUT/broken_$(basename "$1")"
    sed "$2" "$1" >"$copy"
    if cmp -s "$1" "$copy"; then
        found="THE EDIT CHANGES NOTHING" failures=1
    elif ! model "broken_$name" "$top" "$(echo "$files" | sed "s#$1#$copy#")" "$parameters" "$define"; then
        found="NO MODEL" failures=1
    else
        abc "broken_$name" "bmc3 -F $depth -T 300"
        found=$(sed -n 's/.*was asserted in frame \([0-9]*\).*/found in cycle \1/p' "$OUT/broken_$name.log" | head -1)
        [ -n "$found" ] || { found="NOT FOUND" failures=1; }
    fi
    printf '    broken: %-52s %s (%s s)\n' "$3" "$found" "$(($(date +%s) - began))"
}

check arbiter pcie_dll_arbiter "pcie_dll_crc16.sv pcie_dll_arbiter.sv" "-set DATA_WIDTH 64" PROVE_ARBITER 0
broken pcie_dll_arbiter.sv 's/free = advance \&\& !in_tlp/free = advance/' "a DLLP may begin within a TLP"
broken pcie_dll_arbiter.sv 's/advance = enable \&\& (!phy_valid || phy_ready)/advance = enable/' "a beat does not wait for the physical layer"
broken pcie_dll_arbiter.sv 's/init_request \&\& !nak_request \&\& !ack_request;/init_request;/' "two sources are taken at once"

check acknowledge pcie_dll_acknowledge pcie_dll_acknowledge.sv "" PROVE_ACKNOWLEDGE 0
broken pcie_dll_acknowledge.sv 's/if (bad \&\& !nak_scheduled)/if (bad)/' "a Nak for each bad TLP"
broken pcie_dll_acknowledge.sv "s/count <= 8'(accepted);/count <= '0;/" "a TLP accepted while an Ack leaves is forgotten"

check framer pcie_dll_framer "formal/any_lcrc.sv pcie_dll_framer.sv" "-set DATA_WIDTH 64 -set MAX_ROWS 3" PROVE_FRAMER 0
broken pcie_dll_framer.sv 's/makes \&\& (is_final || !at_limit)/makes/' "an overlong TLP takes more rows"
broken pcie_dll_framer.sv 's/enable \&\& room \&\& may_number \&\& !rewinding/enable \&\& may_number \&\& !rewinding/' "a TLP begins without room"
broken pcie_dll_framer.sv 's/may_number \&\& !rewinding/may_number/' "a TLP follows a nullified one at once"
broken pcie_dll_framer.sv 's/if (is_final \&\& !nullifies) next/if (is_final) next/' "a nullified TLP takes a sequence number"

check receiver pcie_dll_tlp_receiver "formal/any_lcrc.sv pcie_dll_sequence.sv pcie_dll_tlp_receiver.sv" "-set DATA_WIDTH 64" PROVE_TLP_RECEIVER 0
broken pcie_dll_tlp_receiver.sv 's/remains ? held_good : accepted/held_good/' "the verdict belongs to another frame"
broken pcie_dll_tlp_receiver.sv 's/taking <= takes \&\& !frame_eop/taking <= enable/;s/frame_sop ? enable : taking/enable/' "a frame counts whose begin did not"

# The physical layer, with few lanes.
PACKER="pcie_phy_frame_crc.sv pcie_phy_tx_packer.sv"
for mode in 1 0; do
    check "packer_$mode" pcie_phy_tx_packer "$PACKER" "-set DATA_WIDTH 128 -set LANES 8 -set SYMBOLS 1 -set BLOCKS $mode -set SKP_WORDS 6" PROVE_PACKER 0
    broken pcie_phy_tx_packer.sv "s/room = slack <= (PLACE + 1)'(DWORDS)/room = slack <= (PLACE + 1)'(DWORDS + 2)/" "a beat is planned without room"
    broken pcie_phy_tx_packer.sv 's/frame_ends \&\& low \&\& n_frame < missing/frame_ends \&\& n_frame < 1/' "a short frame is not filled up to a word"
    broken pcie_phy_tx_packer.sv "s/at_end = !in_frame \&\& set_word/at_end = set_word/" "idle symbols within a frame"
done

check frames pcie_phy_rx_frames "pcie_phy_queue.sv pcie_phy_rx_frames.sv" "-set DATA_WIDTH 64 -set WORD_BYTES 8 -set DEPTH 4" PROVE_FRAMES "${DEPTH:-12}"
broken pcie_phy_rx_frames.sv 's/write = g_valid \&\& !lossy/write = g_valid/' "words are written to a full queue"
broken pcie_phy_rx_frames.sv 's/stall = late \&\& emits/stall = 0/' "a beat is lost if two leave at once"
broken pcie_phy_rx_frames.sv "s/fill <= full ? total - FILL'(DWORDS) : total;/fill <= total;/" "a beat has double-words of another place"

# Two buffers: one that is small enough for a proof without bound, and one with TLPs of two rows, nullified TLPs and cut-through.
BUFFER="pcie_ram.sv pcie_dll_replay_buffer.sv formal/buffer.sv"
check buffer buffer "$BUFFER" "-set SEQ_BITS 3 -set ROWS 4 -set TLPS 2 -set MAX_ROWS 1 -set CUT_THROUGH 0" PROVE_BUFFER 0
broken pcie_dll_replay_buffer.sv 's/if (moves_back) read_pointer <= tail;/if (moves_back) read_pointer <= free_pointer;/' "a replay begins at the wrong row"
broken pcie_dll_replay_buffer.sv "s/if (moves_back) out_seq <= acked_seq + 1'b1/if (moves_back) out_seq <= acked_seq + 2'd2/" "a replay counts from the wrong TLP"
broken pcie_dll_replay_buffer.sv 's/(replay || behind)/replay/' "acknowledged TLPs are not skipped"
broken pcie_dll_replay_buffer.sv 's/tail <= ends_of_tlps\[purge_seq\]/tail <= write_pointer/' "an Ack frees TLPs that are not acknowledged"

check buffer_long buffer "$BUFFER" "-set SEQ_BITS 4 -set ROWS 4 -set TLPS 4 -set MAX_ROWS 2 -set CUT_THROUGH 1" PROVE_BUFFER 13
broken pcie_dll_replay_buffer.sv 's/ROWS - MAX_ROWS - 2/ROWS - 1/' "room is promised that is not there"
broken pcie_dll_replay_buffer.sv 's/moves_back = !in_tlp \&\& (replay || behind)/moves_back = replay || behind/' "a replay cuts the frame that leaves"
broken pcie_dll_replay_buffer.sv 's/else if (CUT_THROUGH != 0 \&\& nullified_out) read_pointer <= commit_pointer;//' "reading goes on after a nullified TLP"

# The whole link: no marked TLP is lost, doubled or out of order.
LINK="pcie_ram.sv pcie_dll_replay_buffer.sv pcie_dll_replay_control.sv pcie_dll_sequence.sv pcie_dll_acknowledge.sv formal/link.sv"
for mode in 1 0; do
    check "link_$mode" link "$LINK" "-set CUT_THROUGH $mode" PROVE_LINK "${DEPTH:-13}"
    broken formal/link.sv 's/assert (f_got_1 \&\& !f_got_2);/assert (0);/' "(reachable: both marked TLPs arrive)"
    broken pcie_dll_replay_control.sv 's/else if (purge) acked_seq <= ack_seq;/else if (purge) acked_seq <= ack_seq + 1;/' "an Ack takes one TLP too many"
    broken pcie_dll_sequence.sv "s/accepted = sound \&\& lag == '0/accepted = sound \&\& lag <= 1/" "a duplicate is accepted"
    broken pcie_dll_sequence.sv "s/accepted = sound \&\& lag == '0/accepted = sound \&\& (lag == '0 || gap)/" "a TLP after a gap is accepted"
done

# The transaction layer.
check tx_credits pcie_tl_tx_credits pcie_tl_tx_credits.sv "" PROVE_TX_CREDITS induction
broken pcie_tl_tx_credits.sv "s/ \&\& (infinite\[0\] || carry)//" "data credits are not looked at"
broken pcie_tl_tx_credits.sv "s/header_left != '0/1'b1/" "header credits are not looked at"
broken pcie_tl_tx_credits.sv 's/updating <= arrived \&\& !(fc_valid \&\& fc_is_update)/updating <= arrived/' "an UpdateFC is mixed with the next one"
broken pcie_tl_tx_credits.sv "s/assign applies = updating \&\& !wrong \&\& header_fits \&\& data_fits/assign applies = updating/" "an illegal UpdateFC is applied"

check order pcie_tl_order "pcie_tl_fifo.sv pcie_tl_order.sv" "-set POSTED 2 -set OTHERS 2" PROVE_ORDER 0
broken pcie_tl_order.sv "s/ || ahead == '0)/)/" "the TLP right after a posted request passes it"
broken pcie_tl_order.sv 's/assign window\[n\] = .*/assign window[n] = 1;/' "any number of relaxed TLPs pass, and a counter wraps"
broken pcie_tl_order.sv 's/waits\[n\] = posted \&\& (.*)/waits[n] = posted/' "an older TLP waits for a younger posted request"

check rx_buffer rx_buffer "pcie_ram.sv pcie_tl_fifo.sv pcie_tl_queue.sv pcie_tl_reader.sv pcie_tl_rx_stream.sv pcie_tl_rx_credits.sv formal/rx_buffer.sv" "" PROVE_RX_BUFFER "${DEPTH:-12}"
broken formal/rx_buffer.sv 's/assert (f_first_out \&\& !f_second_out);/assert (0);/' "(reachable: both marked TLPs leave)"
broken pcie_tl_rx_credits.sv "s/fits = header_left != '0 \&\& /fits = /" "TLPs are stored without header credits"
broken pcie_tl_rx_credits.sv "s/ + (freed ? PAYLOAD'(freed_credits) : '0)/ + (freed ? PAYLOAD'(1) : '0)/" "each TLP frees a unit of data"
broken pcie_tl_queue.sv 's/write_row = first ? tail : next/write_row = next/' "a TLP follows the rows of a rejected one"
broken pcie_tl_reader.sv 's/pick_ready = !busy || (advance \&\& last)/pick_ready = !busy || advance/' "a TLP is cut by the next one"
broken pcie_tl_reader.sv 's/assign advance = !out_valid || out_ready/assign advance = 1/' "a beat does not wait for the user"
broken pcie_tl_queue.sv "s/if (pop) head_start <= head_end + 1'b1;//" "TLPs are read from the wrong row"
# The root complex: channels of both AXI ports, and tags.
check axi_read pcie_axi_read pcie_axi_read.sv "-set READ_SLOTS 2 -set CPU_ID 1" PROVE_AXI "${RC_DEPTH:-12}"
broken pcie_axi_read.sv 's/may_fill = answering \&\& (!rvalid || rready)/may_fill = answering/' "a beat of R changes while it waits"
broken pcie_axi_read.sv "s/rlast <= beats_left == '0/rlast <= beats_left <= 1/" "RLAST comes a beat early"
broken pcie_axi_read.sv 's/ \&\& !used\[SLOT\];/;/' "a tag is used again while it is outstanding"
broken pcie_axi_read.sv 's/else if (burst_done) answering/else if (0) answering/' "beats come after the burst"

check axi_write pcie_axi_write pcie_axi_write.sv "-set CPU_ID 1 -set MAX_PAYLOAD 128" PROVE_AXI "${RC_DEPTH:-12}"
broken pcie_axi_write.sv "s/beats_left == '1 ? CLOSE : BEAT/CLOSE/" "a response comes before the last beat"
broken pcie_axi_write.sv 's/close = !run_empty \&\& !send_valid/close = !run_empty/' "a request changes while it waits"
broken pcie_axi_write.sv "s/joins = !run_empty \&\& open/joins = !run_empty/;s/ \&\& (word_at\[6:0\] \& block_mask) != '0//" "a request leaves its block"
broken pcie_axi_write.sv 's/if (bvalid \&\& bready) state/if (bvalid) state/' "a response does not wait"

POSTED="pcie_packetizer_align.sv pcie_root_complex_posted.sv"
check rc_posted pcie_root_complex_posted "$POSTED" "-set DATA_WIDTH 128 -set MAX_PAYLOAD 128 -set MAX_BURST 2" PROVE_ROOT_COMPLEX "${RC_DEPTH:-12}"
broken pcie_root_complex_posted.sv "s/ \&\& aw_left == '0 \&\& !full/ \&\& !full/" "a burst of the last TLP is forgotten"
broken pcie_root_complex_posted.sv "s/wlast <= at == '1 || /wlast <= /" "WLAST misses at the end of a block"
broken pcie_packetizer_align.sv 's/ \&\& (!out_valid || out_ready);/;/' "a beat of W changes while it waits"
broken pcie_root_complex_posted.sv "s/fill_loads = stalled \&\& w_left != '0/fill_loads = stalled/" "a bus that was given up gets too many beats"

NONPOSTED="pcie_packetizer_align.sv pcie_packetizer_fence.sv pcie_root_complex_nonposted.sv"
check rc_nonposted pcie_root_complex_nonposted "$NONPOSTED" "-set DATA_WIDTH 128 -set MAX_PAYLOAD 128 -set SLOTS 2" PROVE_ROOT_COMPLEX "${RC_DEPTH:-12}"
broken pcie_root_complex_nonposted.sv 's/if (!busy\[n\]) begin/if (1) begin/' "an ID is used again while it is outstanding"
broken pcie_root_complex_nonposted.sv 's/may_issue = slot_found \&\& (!arvalid || arready)/may_issue = slot_found/' "a beat of AR changes while it waits"
broken pcie_root_complex_nonposted.sv 's/frees = order_pop \&\& o_reads \&\& complete\[o_slot\]/frees = order_pop \&\& o_reads/' "the ID of an abandoned read is free at once"

# The switch: routes of each port and type, then the core without configuration space.
for port in 0 1; do
    for stream in 0 1 2; do
        check "route_$port$stream" route "pcie_switch_route.sv formal/route.sv" "-set PORT $port -set STREAM $stream" PROVE_SWITCH 0
        case $port$stream in
            00) broken pcie_switch_route.sv "s/to\\[PORTS-1:1\\] = '1;/to = '1;/" "a broadcast also goes back" ;;
            01) broken pcie_switch_route.sv "s/if (!type_\\[0\\]) own = number == '0;/if (!type_[0]) begin own = 1; to[1] = 1; end/" "a configuration request of the switch also goes on" ;;
            12) broken pcie_switch_route.sv 's/n != PORT \&\& claims/claims/;s/PORT == 0 ? claims\[0\] : !claims\[PORT\]/1/' "a completion goes back" ;;
        esac
    done
done
SWITCH="pcie_dll_counters.sv pcie_switch_completer.sv pcie_switch_egress.sv pcie_switch_messages.sv pcie_switch_route.sv pcie_switch_stream.sv formal/any_switch_config.sv pcie_switch_core.sv"
check switch pcie_switch_core "$SWITCH" "-set DATA_WIDTH 128 -set COUNTER_WIDTH 2" PROVE_SWITCH "${DEPTH:-8}"
broken pcie_switch_core.sv "s/assign leaves = forwarded | ended/assign leaves = forwarded/" "a TLP that ends here does not leave"
broken pcie_switch_core.sv 's/busy | ~room_p/~room_p/' "a broadcast begins while a port is busy"
broken pcie_switch_core.sv "s/ \&\& !waits\[s\] \&\& tx_room/ \&\& tx_room/" "a completion passes a posted request"
broken pcie_switch_core.sv "s/ \&\& tx_room\[3\*n+s%3\]//" "a TLP begins without room"
broken pcie_switch_egress.sv 's/busy ? owner \& present/busy ? present \& (~present + 1)/' "TLPs are mixed at a port"
broken pcie_switch_route.sv "s/if (n != PORT \&\& claims\[n\]) begin/if (n != PORT \&\& claims[n]) begin claimed[0] = 1;/;s/                    claimed = '0;$//" "a TLP has two destinations"
broken pcie_switch_stream.sv 's/in_ready = !valid || leaves/in_ready = 1/' "a beat is lost"

# The endpoint: channels of the AXI port to the peripheral.
EP_WRITE="pcie_endpoint_piece.sv pcie_endpoint_write.sv"
check ep_write pcie_endpoint_write "$EP_WRITE" "-set DATA_WIDTH 128 -set MAX_PAYLOAD 128 -set BUS_WIDTH 32" PROVE_ENDPOINT "${EP_DEPTH:-12}"
broken pcie_endpoint_write.sv 's/beat_valid \&\& (!wvalid || wready) \&\& !gives_up/beat_valid \&\& !gives_up/' "a beat of W changes while it waits"
broken pcie_endpoint_write.sv "s/ \&\& (!awvalid || awready) \&\& w_left/ \&\& w_left/" "a beat of AW changes while it waits"
broken pcie_endpoint_write.sv "s/wlast <= w_left == 8'd1/wlast <= w_left <= 8'd2/" "WLAST comes a beat early"
broken pcie_endpoint_write.sv "s/fills = stalled \&\& w_left != '0/fills = stalled/" "a bus that was given up gets too many beats"
broken pcie_endpoint_piece.sv "s/ \&\& (word \& 10'(2 \*\* n - 1)) == '0)/)/" "an access is not aligned to its size"

EP_READ="pcie_packetizer_fence.sv pcie_packetizer_beats.sv pcie_endpoint_piece.sv pcie_endpoint_read.sv"
check ep_read pcie_endpoint_read "$EP_READ" "-set DATA_WIDTH 128 -set MAX_PAYLOAD 32 -set BUS_WIDTH 32" PROVE_ENDPOINT "${EP_DEPTH:-18}"
broken pcie_endpoint_read.sv 's/state == PIECE \&\& !block_done \&\& !given_up;/state == PIECE \&\& !block_done;/' "a read begins while the bus owes an answer"
broken pcie_endpoint_read.sv "s/else if (arready) arvalid/else arvalid/" "AR falls while it waits"
broken pcie_packetizer_beats.sv "s/assign tx_valid = whole != '0;/assign tx_valid = write_row != read_row;/" "a TLP begins before it is complete"
broken pcie_endpoint_piece.sv "s/ \&\& (word \& 10'(2 \*\* n - 1)) == '0)/)/" "an access is not aligned to its size"

# The TileLink bridges: channels A and D, and the AXI4 channels on the other side.
BRIDGE="pcie_tl_fifo.sv pcie_dll_counters.sv pcie_stack_store.sv pcie_tilelink_timer.sv"
MANAGER="$BRIDGE pcie_tilelink_manager.sv"
SMALL="-set DATA_WIDTH 32 -set MAX_BYTES 8 -set SLOTS 2 -set SIZE_BITS 3 -set TIMEOUT 3 -set COUNTER_WIDTH 1"
check tl_manager pcie_tilelink_manager "$MANAGER" "$SMALL -set SOURCE_BITS 1" PROVE_TILELINK "${TL_DEPTH:-14}"
broken pcie_tilelink_manager.sv 's/fill = sending \&\& (!d_valid || d_ready)/fill = sending/' "a beat of D changes while it waits"
broken pcie_tilelink_manager.sv 's/ || beat == beats_of(current_size);/ || 1;/' "an answer with data has one beat"
broken pcie_tilelink_manager.sv 's/found \&\& (!sending || (fill \&\& final_beat))/found \&\& (!sending || fill)/' "answers are mixed"
broken pcie_tilelink_manager.sv 's/d_source <= is_local ? local_source : /d_source <= /' "an answer has the source of another message"
broken pcie_tilelink_manager.sv 's/opcode == INTENT ? HINT_ACK : //' "a hint gets AccessAck"
broken pcie_tilelink_manager.sv 's/(current_denied || row_corrupt)/row_corrupt/' "denied data are not corrupt"
broken pcie_tilelink_manager.sv 's/(unanswered \& ~answer_slot) | begin_slot/unanswered | begin_slot/' "a message gets two answers"
broken pcie_tilelink_timer.sv 's/owing \&\& (stalled || begins)/begins/' "an ID is used again before the bus has answered"
broken pcie_tilelink_manager.sv 's/assign fits = .*/assign fits = !too_long;/' "an unaligned message goes to the bus"
broken pcie_tilelink_manager.sv 's/ar_pop = ar_valid \&\& (!m_axi_arvalid || m_axi_arready)/ar_pop = ar_valid/' "a beat of AR changes while it waits"
broken pcie_tilelink_manager.sv "s/.in_cut(!needs_bus)/.in_cut(1'b0)/" "data of a refused Put go to the bus"

CLIENT="$BRIDGE pcie_tilelink_client_split.sv pcie_tilelink_client_read.sv pcie_tilelink_client_write.sv pcie_tilelink_client.sv"
check tl_client pcie_tilelink_client "$CLIENT" "$SMALL -set ID_BITS 1" PROVE_TILELINK "${TL_DEPTH:-14}"
broken pcie_tilelink_client.sv 's/a_free = !a_valid || a_ready/a_free = 1/' "a beat of A changes while it waits"
broken pcie_tilelink_client.sv 's/a_free \&\& !in_put \&\& /a_free \&\& /;s/(in_put || !get_valid/(!get_valid/' "a Get within a Put"
broken pcie_tilelink_client_read.sv 's/state == SPLIT \&\& !ring_full \&\& !stalled/state == SPLIT \&\& !stalled/' "a source of a Get is used again before its answer"
broken pcie_tilelink_client_write.sv 's/ \&\& (!piece_ends || !ring_full)//' "a source of a Put is used again before its answer"
broken pcie_tilelink_client_split.sv "s/(address \& ((12'd1 << (BYTE + n)) - 12'd1)) == '0 \&\& //" "a message is not aligned"
broken pcie_tilelink_client_split.sv "s/message_size = 4'(BYTE + n)/message_size = 4'(BYTE)/" "a Put has more beats than its size"
broken pcie_tilelink_client_write.sv 's/piece_full) \&\& wstrb == lanes/piece_full)/' "PutFull without all bytes"
broken pcie_tilelink_client_write.sv 's/wstrb \& lanes/wstrb/' "the mask has bytes outside the message"
broken pcie_tilelink_client_write.sv 's/(fails || !owed\[head\[SLOT-1:0\]\]) \&\& //' "B comes before the answers"
broken pcie_tilelink_client_read.sv "s/rlast <= answer_left == '0/rlast <= answer_left <= 1/" "RLAST comes a beat early"
broken pcie_tilelink_client_read.sv 's/(is_wrong || has_data) \&\& (!rvalid || rready)/(is_wrong || has_data)/' "a beat of R changes while it waits"

# The IOMMU: translation, and the channels of both AXI ports.
check iommu pcie_iommu "pcie_dll_counters.sv pcie_iommu.sv" "-set DATA_WIDTH 64 -set ID_BITS 1 -set ENTRIES 2 -set LEVELS 2 -set COUNTER_WIDTH 1" PROVE_IOMMU "${IOMMU_DEPTH:-16}"
broken pcie_iommu.sv 's/r_go = s_axi_arvalid \&\& (!enable ||/r_go = s_axi_arvalid \&\& (1 ||/' "a read leaves untranslated"
broken pcie_iommu.sv 's/w_go = s_axi_awvalid \&\& (!enable ||/w_go = s_axi_awvalid \&\& (1 ||/' "a write leaves untranslated"
broken pcie_iommu.sv 's/w_allowed = writable\[n\]/w_allowed = readable[n]/' "a page that may be read is written"
broken pcie_iommu.sv 's/r_allowed = readable\[n\]/r_allowed = 1/' "a page that may not be read is read"
broken pcie_iommu.sv 's/ \&\& !r_outside \&\& !r_failed);/ \&\& !r_failed);/' "an address above the tables is translated"
broken pcie_iommu.sv 's/used\[n\] \&\& tags\[n\] == r_vpn/used[n]/' "a page gets the translation of another"
broken pcie_iommu.sv 's/if (flush || rst) begin/if (rst) begin/' "a flush keeps translations"
broken pcie_iommu.sv 's/if (flush \&\& walk != IDLE) stale/if (0) stale/' "a walk from before a flush fills the TLB"
broken pcie_iommu.sv "s/index = 9'(walk_vpn >> .*/index = walk_vpn[8:0];/" "a walk reads a wrong entry"
broken pcie_iommu.sv 's/illegal = m_axi_rresp != OKAY || /illegal = /' "an error of the memory becomes a translation"
broken pcie_iommu.sv 's/cause == TABLE ? SLVERR : DECERR/DECERR/' "an error in a table gets DECERR"
broken pcie_iommu.sv 's/ \&\& !r_outside \&\& !r_failed);/ \&\& !r_outside);/' "a read that was refused is also forwarded"
broken pcie_iommu.sv "s/r_fault \&\& !r_faulting \&\& reads == '0/r_fault \&\& !r_faulting/" "a refusal passes the answer to an earlier read"
broken pcie_iommu.sv "s/w_fault \&\& !w_dropping \&\& !w_answering \&\& writes == '0/w_fault \&\& !w_dropping \&\& !w_answering/" "a refusal passes the answer to an earlier write"
broken pcie_iommu.sv "s/r_faulting ? r_left == '0/r_faulting ? r_left <= 1/" "RLAST of a refusal comes a beat early"
broken pcie_iommu.sv 's/r_faulting || m_axi_rvalid \&\& !m_axi_rid\[ID_BITS\]/r_faulting || m_axi_rvalid/' "an entry of a table reaches the device"
broken pcie_iommu.sv "s/m_axi_wvalid = s_axi_wvalid \&\& owed != '0/m_axi_wvalid = s_axi_wvalid/" "data of a refused write reach the memory"
broken pcie_iommu.sv "s/owed + 8'(aw_load)/owed + 8'(m_axi_awvalid \&\& m_axi_awready)/" "data wait for AWREADY"
broken pcie_iommu.sv 's/w_dropping \&\& s_axi_wvalid \&\& s_axi_wlast/w_dropping \&\& s_axi_wvalid/' "B of a refusal comes before the last beat"
broken pcie_iommu.sv 's/if (w_answering \&\& s_axi_bready)/if (w_answering)/' "B of a refusal does not wait"
broken pcie_iommu.sv 's/ar_room = !m_axi_arvalid || m_axi_arready/ar_room = 1/' "a beat of AR changes while it waits"
broken pcie_iommu.sv 's/aw_room = !m_axi_awvalid || m_axi_awready/aw_room = 1/' "a beat of AW changes while it waits"
exit $failures
