// SPDX-License-Identifier: Apache-2.0 OR MIT
// Transactions as units of the list: a request with its completions, or a TLP that nothing answers; each TLP with the
// times that it was sent again, and with the Acks and Naks that name it. Never touches the page.

/** Transactions of a store: `rows` (the first of each), and what is known of each. */
function makeUnits(store, headers) {
  const copies = copiesOf(store, headers);
  const mainOf = new Map();
  for (const [main, rows] of copies) for (const row of rows) mainOf.set(row, main);
  const standsFor = (row) => mainOf.get(row) ?? row;
  const acks = new Int32Array(store.count).fill(-1);
  const naks = new Map();
  walkAcks(store, headers, (row, ack) => (acks[standsFor(row)] = ack), (row, nak) => {
    const main = standsFor(row);
    naks.set(main, [...(naks.get(main) ?? []), nak]);
  });
  const sent = (main) => copies.get(main) ?? [main];
  return {
    rows: unitRows(store, standsFor),
    /** The transaction of a TLP, however often it was sent. */
    unitOf: (row) => leaderOf(store, standsFor(row)),
    /** Rows of TLPs on all links, in their order: requests and completions, however often each was sent. */
    tlps: (unit) => rowsOf(store, unit).flatMap(sent),
    /** Whether any of them was sent more than once. */
    isRetried: (unit) => rowsOf(store, unit).some((main) => copies.has(main)),
    /** Whether it is a request without all of its answer. */
    hasFailed: (unit) => store.role[unit] === ROLE.request && !(store.response[unit] >= 0),
    /** The lines below a unit, each with its depth: TLPs, and below each what names it. */
    unfold: (unit) => rowsOf(store, unit).flatMap((main) => linesOf(store, main, sent(main), acks, naks)),
    /** The first Ack or Nak that names a TLP; -1 where none came. */
    ackOf: (main) => acks[main],
  };
}

/** By the TLP that was taken, or else the first, all that were sent in its place: only where these are several. */
function copiesOf(store, headers) {
  const newest = new Map();
  const groups = new Map();
  for (let row = 0; row < store.count; row++) {
    const place = store.place[row];
    const lane = headers.lane.of(row);
    if (startsLink(store, row)) for (const each of [lane, headers.lane.opposite(lane)]) newest.delete(each);
    if (store.kind[row] !== KIND.tlp || place < 0) continue;
    if (!newest.has(lane)) newest.set(lane, new Float64Array(2 * SEQUENCE_NUMBERS).fill(-1));
    const ring = newest.get(lane);
    const at = 2 * (place % SEQUENCE_NUMBERS);
    if (ring[at] !== place) [ring[at], ring[at + 1]] = [place, row];
    else groups.set(ring[at + 1], [...(groups.get(ring[at + 1]) ?? [ring[at + 1]]), row]);
  }
  const main = (rows) => rows.find((row) => store.role[row] !== ROLE.replay && !isLost(store, row)) ?? rows[0];
  return new Map([...groups.values()].map((rows) => [main(rows), rows]));
}

/** The unit that a TLP belongs to. */
function leaderOf(store, row) {
  return rootOf(store, store.request[row] >= 0 ? store.request[row] : row);
}

/** The first row of each transaction, in their order. */
function unitRows(store, standsFor) {
  const rows = new Uint32Array(store.count);
  let count = 0;
  for (let row = 0; row < store.count; row++) {
    if (store.kind[row] === KIND.tlp && standsFor(row) === row && leaderOf(store, row) === row) rows[count++] = row;
  }
  return rows.subarray(0, count);
}

/** A TLP each time that it was sent, with the Nak that asked for it again, and at last its Ack. */
function linesOf(store, main, sent, acks, naks) {
  const asked = [...(naks.get(main) ?? [])];
  const lines = [];
  sent.forEach((row, i) => {
    lines.push({ row, depth: 1 });
    const nak = isLost(store, row) ? asked.shift() : undefined;
    if (nak !== undefined) lines.push({ row: nak, depth: 2 });
    if (i === sent.length - 1 && acks[main] >= 0) lines.push({ row: acks[main], depth: 2 });
  });
  return lines;
}

/** How a transaction went, in a word. */
function unitStatus(store, headers, unit) {
  if (store.role[unit] !== ROLE.request) return statusCell(store, headers, unit);
  const last = store.lastAnswer[unit];
  if (last < 0) return "no answer";
  const status = statusCell(store, headers, last);
  return store.response[unit] >= 0 ? status : "incomplete";
}

// Order.

/** What a column orders rows by: a number, or text; NaN and empty text stand last, whichever way. */
function sortKeys(store, headers, statusAt) {
  const isTlp = (row) => store.kind[row] === KIND.tlp;
  return {
    number: (row) => store.number[row],
    time: (row) => store.time[row],
    way: (row) => headers.lane.of(row),
    link: (row) => linkName(store, row),
    type: (row) => headers.typeName(row),
    requester: (row) => (isTlp(row) ? headers.requester(row) : NaN),
    tag: (row) => (isTlp(row) && hasTag(headers, row) ? headers.tag(row) : NaN),
    info: (row) => (headers.hasAddress(row) ? headers.addressHigh(row) * 2 ** 32 + headers.addressLow(row) : NaN),
    bytes: (row) => Number(bytesOf(headers, row) || NaN),
    status: statusAt,
    latency: (row) => store.response[row],
  };
}

/** `rows` in the order of a column, `down` from the largest; of equals the earlier first. */
function sortedRows(rows, key, down) {
  const values = Array.from(rows, key);
  const isText = values.some((value) => typeof value === "string");
  const ranks = isText ? textRanks(values) : Float64Array.from(values);
  const sign = down ? -1 : 1;
  const places = Uint32Array.from(rows, (_, place) => place);
  places.sort((a, b) => {
    const [left, right] = [ranks[a], ranks[b]];
    if (left === right) return a - b;
    if (Number.isNaN(left) || Number.isNaN(right)) return Number.isNaN(left) - Number.isNaN(right) || a - b;
    return sign * (left - right);
  });
  return places.map((place) => rows[place]);
}

function textRanks(texts) {
  const order = new Map([...new Set(texts)].sort().map((text, rank) => [text, text === "" ? NaN : rank]));
  return Float64Array.from(texts, (text) => order.get(text));
}

/** `since`: of rows in their order, the time since the one before. */
function sinceBefore(store, rows) {
  const since = new Float64Array(store.count).fill(NaN);
  for (let place = 1; place < rows.length; place++) since[rows[place]] = store.time[rows[place]] - store.time[rows[place - 1]];
  return (row) => since[row];
}
