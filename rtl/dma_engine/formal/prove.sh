#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Proves the properties in *_properties.svh. "always" is an unbounded proof by ABC's PDR. "depth n" is bounded model
# checking of the first n cycles with Yosys' SAT solver, for modules that PDR cannot prove, and for properties under
# BOUNDED. Then each module is broken in one place, and the check must find this fault.
set -u
cd "$(dirname "$0")/.."
OUT=${OUT:-build/formal}
mkdir -p "$OUT"
failures=0

# prepare TOP FILES PARAMETERS READ-OPTIONS: prints the commands that make a flat netlist
prepare() {
    echo "read_verilog $4 -formal -sv -I. $2; chparam $3 $1; hierarchy -top $1; setattr -mod -unset keep_hierarchy *; prep -top $1 -flatten; memory_map; async2sync; "
}

# always TOP FILES PARAMETERS READ-OPTIONS
always() {
    yosys -q -p "$(prepare "$@") dffunmap; delete -port o:*; opt -full; setundef -undriven -anyseq; techmap; opt -fast; dffunmap; aigmap;
        write_aiger -zinit $OUT/$1.aig" >"$OUT/$1.log" 2>&1 || return 1
    yosys-abc -c "read_aiger $OUT/$1.aig; fold; strash; pdr -T 60" >"$OUT/$1.log" 2>&1
    grep -q "Property proved" "$OUT/$1.log"
}

# bounded TOP FILES PARAMETERS READ-OPTIONS DEPTH
bounded() {
    yosys -q -p "$(prepare "$@") opt -full;
        sat -tempinduct -tempinduct-baseonly -prove-asserts -set-assumes -set-def-inputs -set-init-def -seq 1 -maxsteps $5 -verify $1" >"$OUT/$1.log" 2>&1
}

# check TOP FILES PARAMETERS OPTIONS-OF-ALWAYS DEPTH BROKEN-FILE SED: no unbounded proof if its options are `no`
check() {
    began=$(date +%s)
    proved=-
    if [ "$4" != no ]; then
        if always "$1" "$2" "$3" "$4"; then proved=proved; else proved=FAILED failures=1; fi
    fi
    if bounded "$1" "$2" "$3" -DBOUNDED "$5"; then holds=holds; else holds=FAILED failures=1; fi
    sed "$7" "$6" >"$OUT/broken_$6"
    cmp -s "$6" "$OUT/broken_$6" && { echo "$1: the break changes nothing"; failures=1; }
    bounded "$1" "$(echo "$2" | sed "s#$6#$OUT/broken_$6#")" "$3" -DBOUNDED "$5"
    if grep -q "proof did fail" "$OUT/$1.log"; then broken=found; else broken="NOT FOUND" failures=1; fi
    printf '%-20s always: %-7s depth %2s: %-6s broken variant: %s (%s s)\n' "$1" "$proved" "$5" "$holds" "$broken" "$(($(date +%s) - began))"
}

check dma_engine_fifo "dma_engine_ram.sv dma_engine_fifo.sv" "-set WIDTH 2 -set DEPTH 16" -DBOUNDED 20 dma_engine_fifo.sv "s/push && room != '0/push/"
check dma_engine_order dma_engine_order.sv "-set NUMBER 4" "" 20 dma_engine_order.sv 's/2 \*\* NUMBER - 2/2 ** NUMBER - 1/'
check dma_engine_requests "dma_engine_ram.sv dma_engine_fifo.sv dma_engine_requests.sv" "-set HOLD_READS 1 -set WIDTH 2 -set DEPTH 4" "" 12 dma_engine_requests.sv 's/accepted\[1\])/accepted[0])/'
check dma_engine_window "dma_engine_ram.sv dma_engine_window.sv" "-set TAGS 4 -set ROWS 8 -set NOTE 1" "" 10 dma_engine_window.sv 's/head <= head + (TAG + 1).(free)/head <= head + (TAG + 1)'"'"'(step)/'
check dma_engine_target "dma_engine_choose.sv dma_engine_target.sv" "-set FUNCTIONS 2" "" 10 dma_engine_target.sv 's/(may_go || (ticket_taken/((ticket_taken/'
check dma_engine_transmit "dma_engine_rotate.sv dma_engine_choice.sv dma_engine_transmit.sv" "-set LOOP_ROW 2" no 5 dma_engine_transmit.sv 's/advance = !rq_tvalid || rq_tready/advance = 1/'
exit $failures
