// SPDX-License-Identifier: Apache-2.0 OR MIT
// Computes the remaining credits of senders from a capture with DLLPs (PCIe 5.0 §2.6.1, §3.4). They are the credits
// at the tap. A sender has the same credits earlier or later: the difference is the time on the wire. Does not
// access the page.

const FC_KINDS = { 0x40: "InitFC1", 0xc0: "InitFC2", 0x80: "UpdateFC" };
const FC_CLASSES = ["P", "NP", "Cpl"];
/** Shifts of HdrFC and DataFC by HdrScale and DataScale (§3.4.2). */
const SCALE_SHIFTS = [0, 0, 2, 4];

/** Returns the fields of a flow-control DLLP; null for other rows. */
function flowControlOf(store, row) {
  if (store.kind[row] !== KIND.dllp) return null;
  const type = store.first[row];
  const kind = FC_KINDS[type & 0xc0];
  const className = FC_CLASSES[(type >> 4) & 3];
  if (!kind || !className || (type & 8) !== 0) return null;
  const dw = store.dw[0][row];
  const [headerShift, dataShift] = [SCALE_SHIFTS[(dw >>> 22) & 3], SCALE_SHIFTS[(dw >>> 12) & 3]];
  return {
    kind,
    class: className,
    vc: type & 7,
    header: ((dw >>> 14) & 0xff) << headerShift,
    data: (dw & 0xfff) << dataShift,
    headerModulus: 0x100 << headerShift,
    dataModulus: 0x1000 << dataShift,
  };
}

/** Returns whether a DLLP starts flow-control initialization of VC0. A link does this when it comes up; sequence numbers and
 *  credits then restart. */
function startsLink(store, row) {
  const fc = flowControlOf(store, row);
  return fc !== null && fc.kind === "InitFC1" && fc.vc === 0;
}

/** Returns whether there are flow-control DLLPs. */
function hasCredits(store) {
  for (let row = 0; row < store.count; row++) if (flowControlOf(store, row)) return true;
  return false;
}

/** The credits of one class on one lane and virtual channel. */
class Pool {
  constructor(name, lane, className) {
    Object.assign(this, { name, lane, class: className, initialized: false });
    this.header = { limit: 0, used: 0, modulus: 0x100, infinite: false, steps: new Steps() };
    this.data = { limit: 0, used: 0, modulus: 0x1000, infinite: false, steps: new Steps() };
  }
  advertise(fc, time) {
    const init = fc.kind !== "UpdateFC";
    const restarts = fc.kind === "InitFC1" && this.header.used > 0;
    for (const part of ["header", "data"]) {
      const credits = this[part];
      if (restarts) credits.used = 0;
      credits.limit = fc[part];
      credits.modulus = fc[`${part}Modulus`];
      if (init && !this.initialized) credits.infinite = fc[part] === 0;
    }
    this.initialized ||= init;
    this.note(time);
  }
  send(dataUnits, time) {
    this.header.used++;
    this.data.used += dataUnits;
    this.note(time);
  }
  // Same calculation as in a sender: the limit minus the used credits, modulo the field's size (§2.6.1.2).
  note(time) {
    for (const credits of [this.header, this.data]) {
      const left = (credits.limit - credits.used) % credits.modulus;
      if (!credits.infinite) credits.steps.add(time, left < 0 ? left + credits.modulus : left);
    }
  }
}

/** Returns the credits by lane, class and virtual channel: `header` and `data` in units, as steps. */
function creditPools(store, headers) {
  const pools = new Map();
  const channels = new Set();
  const newest = [];
  const pool = (lane, className, vc) => {
    const key = `${lane} ${className} ${vc}`;
    if (!pools.has(key)) pools.set(key, new Pool(vc === 0 ? className : `${className} VC${vc}`, lane, className));
    return pools.get(key);
  };
  for (let row = 0; row < store.count; row++) {
    const fc = flowControlOf(store, row);
    if (fc) {
      const lane = headers.lane.opposite(headers.lane.of(row));
      if (lane === undefined) continue;
      if (startsLink(store, row)) for (const each of [lane, headers.lane.of(row)]) delete newest[each];
      channels.add(fc.vc);
      pool(lane, fc.class, fc.vc).advertise(fc, store.time[row]);
    } else if (store.kind[row] === KIND.tlp && isFirst(store, headers, row, newest)) {
      const vc = channelOf(store, row, channels);
      pool(headers.lane.of(row), headers.className(row), vc).send(Math.ceil(headers.payload(row) / 16), store.time[row]);
    }
  }
  const told = [...pools.values()].filter((p) => p.initialized || p.header.limit > 0 || p.data.limit > 0);
  told.filter((p) => !p.initialized).forEach(anchor);
  return told;
}

// A replay uses no credits. It is recognized by its place in the lane.
function isFirst(store, headers, row, newest) {
  const [lane, place] = [headers.lane.of(row), store.place[row]];
  if (place < 0) return true;
  const first = !(place <= newest[lane]);
  if (first) newest[lane] = place;
  return first;
}

// A capture does not contain the TC/VC map. The channel with the number of the class is used if it exists.
function channelOf(store, row, channels) {
  const tc = (store.dw[0][row] >>> 20) & 7;
  return channels.has(tc) ? tc : 0;
}

// Without InitFC, only changes are known. The maximum value is assumed to be the state without used credits.
function anchor(pool) {
  for (const { steps, modulus } of [pool.header, pool.data]) {
    const values = steps.y;
    for (let i = 1; i < values.length; i++) {
      const change = (((values[i] - values[i - 1]) % modulus) + modulus) % modulus;
      values[i] = values[i - 1] + (change >= modulus / 2 ? change - modulus : change);
    }
    const most = values.reduce((a, b) => Math.max(a, b), -Infinity);
    values.forEach((value, i) => (values[i] = value - most));
  }
}
