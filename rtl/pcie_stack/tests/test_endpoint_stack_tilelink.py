# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The endpoint with TileLink ports, at its frames: a host in Python at the link, a peripheral's registers and its DMA on TileLink."""

import endpoint
import pytest
from endpoint import DEVICE, EVENTS, MSI, WINDOWS, Host
from model import Model, refusal
from root_complex import DECERR, OKAY, SLVERR
from tilelink import ARITHMETIC, GET, INTENT, PUT_FULL
from tilelink_stack import TileLinkBench
from tlps import CA, SC, UR

PARAMETERS = endpoint.BUILDS["plain"] | {"COMPLETION_TIMEOUT": 4000, "PERIPHERAL_TIMEOUT": 300}
PLACE = 0x4001_0000  # of BAR 0 on the bus of the peripheral


class Device(TileLinkBench):
    """The endpoint, its host, registers of the peripheral in `memory`, and its DMA by `ask`."""

    CLIENT, MANAGER, EVENTS = "dma_", "bus_", EVENTS

    def build(self, name, seed):
        self.parameters = endpoint.DEFAULTS | PARAMETERS
        self.beat, self.bus_bytes, self.cpu_bytes = (self.parameters[width] // 8 for width in ("DATA_WIDTH", "BUS_WIDTH", "DMA_WIDTH"))
        return Model("pcie_endpoint_stack_tilelink", f"tilelink/{name}_endpoint", PARAMETERS, ["pcie_*.sv*"], seed)

    def __init__(self, **options):
        super().__init__("plain", **options)
        self.run(lambda: self.cycle and self.out["dl_up"], 6000)
        self.host = Host(self)
        self.host.config_request(0, bytes(4), 0)
        self.host.setup()
        self.host.set_limits(128, 128)

    def observe(self, out):
        pass


@pytest.fixture
def make():
    made = []

    def build(**options):
        made.append(Device(**options))
        return made[-1]

    yield build
    for bench in made:
        bench.close()


@pytest.mark.parametrize("stalls", [0.0, 0.1])
def test_registers_are_read_and_written_in_messages_of_their_size(make, stalls):
    bench = make(seed=6, stalls=stalls)
    for count in (1, 2, 4, 8):
        bench.manager.log.clear()
        at = 0x100 + 2 * count
        bench.host.write(WINDOWS[0] + at, bytes(range(count)))
        assert bench.host.read(WINDOWS[0] + at, count) == bytes(range(count))
        size = count.bit_length() - 1
        assert bench.manager.log == [(PUT_FULL, PLACE + at, size), (GET, PLACE + at, size)]


def test_dma_is_tlps_and_several_messages_are_in_flight(make):
    bench = make()
    data = bytes(range(1, 65))
    assert bench.ask(PUT_FULL, 0x8000_0040, 6, data)[1] == [OKAY]
    assert bench.ask(GET, 0x8000_0040, 6) == (data, [OKAY] * 8)
    assert [(tlp.address, tlp.length, tlp.requester) for tlp in bench.host.requests] == [(0x8000_0040, 16, DEVICE)] * 2
    assert bytes(bench.host.ram[0x8000_0040 + n] for n in range(64)) == data
    bench.host.held, before = [], len(bench.host.requests)
    for source in range(6):
        bench.send(GET, source, 0x8000_0000 + 0x40 * source, 6)
    bench.run(lambda: len(bench.host.requests) == before + 6)
    for part in bench.host.held:
        bench.push("cpl", part)
    bench.run(lambda: len(bench.answers) == 6)
    assert b"".join(part for part, _, _ in bench.answers[1][1]) == data


def test_errors_become_denied_and_corrupt_and_back(make):
    bench = make()
    # DMA: the host refuses it, aborts it.
    for status, response in ((UR, DECERR), (CA, SLVERR)):
        bench.host.status = status
        assert bench.ask(GET, 0x8000_0000, 3)[1] == [response]
    bench.host.status = SC
    assert bench.ask(ARITHMETIC, 0x8000_0000, 2, bytes(4))[1] == [DECERR] and bench.ask(INTENT, 0x8000_0000, 3)[1] == [OKAY]
    # Registers: denied and corrupt.
    for response, status in ((DECERR, UR), (SLVERR, CA)):
        bench.memory.errors = [(PLACE, PLACE + 8, response)]
        assert [part.status for part in bench.host.read_request(WINDOWS[0], 4)[1]] == [status]
    bench.memory.errors = []
    assert bench.host.read(WINDOWS[0], 4) == bench.memory.read(PLACE, 4)


@pytest.mark.parametrize("frozen", [False, True])
def test_silent_peripheral_is_given_up(make, frozen):
    bench = make()
    bench.memory.frozen, bench.memory.silent = frozen, True
    assert [part.status for part in bench.host.read_request(WINDOWS[0], 4)[1]] == [CA]
    assert not bench.events["stall"], "the bridge gives up before the endpoint does"
    bench.memory.frozen = bench.memory.silent = False
    bench.run(bench.quiet, 6000)
    bench.step(20)
    assert bench.host.read(WINDOWS[0], 4) == bench.memory.read(PLACE, 4)


def test_interrupt_line_is_an_msi_after_the_dma_writes_before_it(make):
    bench = make()
    bench.host.config(MSI + 4, 0xFEE0_0000)
    bench.host.config(MSI + 12, 0x4120, 2)
    bench.host.config(MSI + 2, 0x31, 2)
    assert bench.ask(PUT_FULL, 0x8000_0000, 3, bytes(8))[1] == [OKAY]
    bench.values["interrupts"] = 4
    bench.run(lambda: bench.host.interrupts(), 4000)
    assert bench.host.interrupts() == [0x4122] and bench.host.requests[0].address == 0x8000_0000


@pytest.mark.parametrize("parameter, message", [
    ("TX_TLPS=8", "TX_TLPS is 8; expected more than READ_SLOTS, so that DMA reads never hold up completions"),
    ("RX_CPL_DATA=8", "the buffer of completions is too small for READ_SLOTS reads of READ_BYTES"),
])
@pytest.mark.parametrize("top", ["pcie_endpoint_stack", "pcie_endpoint_stack_tilelink"])
def test_illegal_parameter_stops_elaboration_with_a_message(top, parameter, message):
    assert f"pcie_endpoint_stack: {message}" in refusal(top, parameter)
