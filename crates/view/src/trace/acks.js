// SPDX-License-Identifier: Apache-2.0 OR MIT
// Determines which TLPs an Ack or Nak acknowledges (PCIe 5.0 §3.6), from the places of TLPs in their lane. If the
// capture does not have places, TLPs are counted in order. Does not access the page.

/** Sequence numbers have 12 bits (PCIe 5.0 §3.6.2.1). */
const SEQUENCE_NUMBERS = 4096;

/** Returns whether a row is an Ack or a Nak. */
function isAck(store, row) {
  return store.kind[row] === KIND.dllp && (store.first[row] === 0x00 || isNak(store, row));
}

function isNak(store, row) {
  return store.first[row] === 0x10;
}

/** Unacknowledged TLPs of a lane. */
class Unacked {
  constructor() {
    /** Row and bytes by place. */
    this.waiting = new Map();
    Object.assign(this, { oldest: 0, newest: -1, bytes: 0, acks: 0, shift: 0, placed: false, steps: new Steps() });
  }

  // Without a place in the capture, a TLP gets the next one. A replay has the place of the first transmission.
  send(place, row, bytes, time) {
    this.placed ||= place >= 0;
    const at = place >= 0 ? place : this.newest + 1;
    if (at <= this.newest) return;
    if (this.newest < 0) this.oldest = at;
    this.newest = at;
    this.waiting.set(at, { row, bytes });
    this.bytes += bytes;
    if (this.waiting.size > SEQUENCE_NUMBERS) this.forget(this.waiting.keys().next().value);
    this.steps.add(time, this.bytes);
  }

  // The link came up. Sequence numbers start at 0, and earlier TLPs can no longer be acknowledged.
  restart(time) {
    if (this.newest < 0) return;
    this.waiting.clear();
    Object.assign(this, { oldest: 0, newest: -1, bytes: 0 });
    this.steps.add(time, 0);
  }

  // A TLP can no longer be acknowledged once a later TLP has the same sequence number.
  forget(place) {
    this.bytes -= this.waiting.get(place).bytes;
    this.waiting.delete(place);
  }

  // An Ack or Nak contains the low 12 bits of the place of the last TLP that arrived. If the capture has no places
  // and starts after the link came up, the first Ack is assumed to acknowledge the last TLP before it.
  acknowledge(sequence, time, named) {
    if (this.newest < 0) return;
    const distance = () => (this.newest + this.shift - sequence) & 0xfff;
    if (this.acks++ === 0 && !this.placed && distance() > this.waiting.size) this.shift = sequence - this.newest;
    if (distance() > 2048) return;
    const last = this.newest - distance();
    for (; this.oldest <= last; this.oldest++) {
      const sent = this.waiting.get(this.oldest);
      if (!sent) continue;
      this.forget(this.oldest);
      named(sent.row);
    }
    this.steps.add(time, this.bytes);
  }
}

/** Visits all rows. Calls `named(row, ack)` for each TLP with the first Ack or Nak that acknowledges it, and
 *  `refused(row, nak)` for each TLP that a Nak requests again. Returns the lanes. */
function walkAcks(store, headers, named = () => {}, refused = () => {}) {
  const lanes = new Map();
  const lane = (number) => {
    if (!lanes.has(number)) lanes.set(number, new Unacked());
    return lanes.get(number);
  };
  for (let row = 0; row < store.count; row++) {
    if (store.kind[row] === KIND.tlp) {
      lane(headers.lane.of(row)).send(store.place[row], row, headers.tlpBytes(row), store.time[row]);
    } else if (startsLink(store, row)) {
      const number = headers.lane.of(row);
      for (const each of [number, headers.lane.opposite(number)]) lanes.get(each)?.restart(store.time[row]);
    } else if (isAck(store, row)) {
      const number = headers.lane.opposite(headers.lane.of(row));
      if (number === undefined) continue;
      const other = lane(number);
      other.acknowledge(store.dw[0][row] & 0xfff, store.time[row], (tlp) => named(tlp, row));
      const next = isNak(store, row) && other.waiting.get(other.oldest);
      if (next) refused(next.row, row);
    }
  }
  return lanes;
}

/** Returns the unacknowledged bytes of TLPs on each lane, as steps by lane. */
function unacknowledged(store, headers) {
  return new Map([...walkAcks(store, headers)].filter(([, lane]) => lane.acks > 0));
}
