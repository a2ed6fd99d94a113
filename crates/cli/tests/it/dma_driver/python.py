# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Uses riser_dma.py in a guest. Each printed line is a result."""

import array
import errno
import mmap
import sys

sys.path.insert(0, "/share")
import riser_dma as r


def integers(first: int, count: int) -> bytes:
    return array.array("Q", range(first, first + count)).tobytes()


with r.Dma("/dev/riser_dma0") as dma:
    print("engines", dma.info().h2d_engines, dma.info().d2h_engines)
    for direction in (r.D2H, r.H2D):
        dma.configure(direction, logic=r.INTEGERS, seed=7)
    data = dma.receive(0, 65536)
    print("received", data == integers(7, 8192))
    dma.send(0, bytes(data[:8192]))
    dma.send(0, array.array("Q", range(7 + 1024, 7 + 8192)))
    print("sent", dma.pending(r.H2D).moved)
    try:
        dma.send(0, bytes(data))
    except OSError as error:
        print("found", error.errno == errno.EBADMSG)
    print("id", hex(dma.read_register(0)))
    dma.configure(r.D2H, logic=r.INTEGERS, seed=1)
    memory = mmap.mmap(-1, 1 << 20)
    handle = dma.register(memory)
    batch = dma.batch(64)
    put = [batch.submit(r.D2H, 0, n * 4096, 4096, n, handle, irq=n == 63) for n in range(65)]
    print("put", put == [True] * 64 + [False], batch.enter(wait=64))
    done = batch.take()
    print("taken", [c.user_data for c in done] == list(range(64)), {(c.result, c.moved, c.code) for c in done})
    print("batch", memory[: 64 * 4096] == integers(1, 64 * 512))
    dma.release(handle)
with r.Dma("/dev/riser_dma0", polling=True) as dma:
    dma.configure(r.D2H, logic=r.PLAIN)
    print("zeros", dma.receive(0, 100) == bytes(100))
