# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Prints the LUT of a flat netlist of 7-series cells, in JSON from Yosys: as mapped, and packed in pairs. A LUT6 of the
series is also two LUT5 with the same inputs. Pairs are formed greedily: two LUT with at most five inputs together, which
share at least one or at least two inputs. Inverters before a carry chain take a LUT and are added to packed counts.
LUT of memories are not packed.
"""

import collections
import json
import sys

MEMORIES = {"RAM32M": 4, "RAM64M": 4, "RAM64X1S": 1, "RAM32X1D": 2, "RAM64X1D": 2, "RAM128X1S": 2, "RAM128X1D": 4, "RAM256X1S": 4}
PAIR_INPUTS = 5


def inputs(cell):
    """Returns the nets at the inputs of a LUT or an inverter; constants do not count."""
    return frozenset(bits[0] for port, bits in cell["connections"].items() if port[0] == "I" and isinstance(bits[0], int))


def pairs(luts, least):
    """Returns the number of pairs that share at least `least` inputs; large LUT choose first, the partner with most shared inputs."""
    users = collections.defaultdict(set)
    for number, nets in enumerate(luts):
        for net in nets:
            users[net].add(number)
    free = set(range(len(luts)))
    count = 0
    for number in sorted(free, key=lambda n: (-len(luts[n]), n)):
        if number not in free:
            continue
        near = {other for net in luts[number] for other in users[net] if other in free and other != number}
        fits = [other for other in near if len(luts[number] | luts[other]) <= PAIR_INPUTS and len(luts[number] & luts[other]) >= least]
        if fits:
            free -= {number, max(fits, key=lambda other: (len(luts[number] & luts[other]), len(luts[other]), -other))}
            count += 1
    return count


def main(path):
    modules = json.load(open(path))["modules"]
    cells = next(module for module in modules.values() if module["attributes"].get("top"))["cells"].values()
    luts = [inputs(cell) for cell in cells if cell["type"] in {f"LUT{n}" for n in range(1, 7)}]
    chained = {bit for cell in cells if cell["type"] == "CARRY4" for port in ("S", "DI", "CI", "CYINIT") for bit in cell["connections"][port]}
    inverters = [inputs(cell) for cell in cells if cell["type"] == "INV" and cell["connections"]["O"][0] in chained]
    memories = sum(MEMORIES.get(cell["type"], 0) for cell in cells)
    registers = sum(cell["type"] in ("FDRE", "FDSE", "FDCE", "FDPE") for cell in cells)
    print(f"| uniform cost | {len(luts) + memories} | {registers} |")
    small = [nets for nets in luts + inverters if len(nets) <= PAIR_INPUTS]
    for least, name in ((2, "two"), (1, "one")):
        packed = len(luts) + len(inverters) - pairs(small, least) + memories
        print(f"| uniform cost, pairs that share {name} or more inputs | {packed} | {registers} |")


main(sys.argv[1])
