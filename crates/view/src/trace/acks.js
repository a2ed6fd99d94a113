// SPDX-License-Identifier: Apache-2.0 OR MIT
// Which Ack or Nak names which TLP (PCIe 5.0 §3.6), from the places of TLPs in their lane where a capture has them, else
// from their order. Never touches the page.

/** Sequence numbers have 12 bits (PCIe 5.0 §3.6.2.1). */
const SEQUENCE_NUMBERS = 4096;

/** Whether a row is an Ack or a Nak. */
function isAck(store, row) {
  return store.kind[row] === KIND.dllp && (store.first[row] === 0x00 || isNak(store, row));
}

function isNak(store, row) {
  return store.first[row] === 0x10;
}

/** What was sent on a lane and is named by no Ack yet. */
class Unacked {
  constructor() {
    /** Row and bytes by place. */
    this.waiting = new Map();
    Object.assign(this, { oldest: 0, newest: -1, bytes: 0, acks: 0, shift: 0, placed: false, steps: new Steps() });
  }

  // A TLP has the place that the capture gives it, else the next one; a replay has that of the first transmission.
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

  // The link came up: sequence numbers start at 0, and no Ack can come for TLPs that were sent before.
  restart(time) {
    if (this.newest < 0) return;
    this.waiting.clear();
    Object.assign(this, { oldest: 0, newest: -1, bytes: 0 });
    this.steps.add(time, 0);
  }

  // What no sequence number tells from a later TLP is never named.
  forget(place) {
    this.bytes -= this.waiting.get(place).bytes;
    this.waiting.delete(place);
  }

  // An Ack or Nak names the last TLP that arrived by the low 12 bits of its place. Where the capture gives no places, and
  // did not begin with the link, the first Ack is taken to name the last TLP before it.
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

/** Walks all rows; `named(row, ack)` hears which Ack or Nak is the first to name a TLP, `refused(row, nak)` which TLP a Nak
 *  asks for again. Returns the lanes. */
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

/** Bytes of TLPs that were sent on each lane and that no Ack has named yet, as steps by lane. */
function unacknowledged(store, headers) {
  return new Map([...walkAcks(store, headers)].filter(([, lane]) => lane.acks > 0));
}
