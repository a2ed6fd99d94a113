// SPDX-License-Identifier: Apache-2.0 OR MIT
// Transactions as units of the list: a request with its completions, or a posted TLP. Replays, Acks and Naks belong to
// their TLP. Does not access the page.

/** Returns the transactions of a store: `rows` has the first row of each. The functions take such a row. */
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
    /** Returns the transaction of a TLP or of a replay. */
    unitOf: (row) => leaderOf(store, standsFor(row)),
    /** Returns the rows of the TLPs on all links, in order: requests and completions, with replays. */
    tlps: (unit) => rowsOf(store, unit).flatMap(sent),
    /** Returns whether a TLP was sent more than once. */
    isRetried: (unit) => rowsOf(store, unit).some((main) => copies.has(main)),
    /** Returns whether it is a request without all completions. */
    hasFailed: (unit) => store.role[unit] === ROLE.request && !(store.response[unit] >= 0),
    /** Returns the lines below a transaction with their depths: TLPs, and below each TLP its Acks and Naks. */
    unfold: (unit) => rowsOf(store, unit).flatMap((main) => linesOf(store, main, sent(main), acks, naks)),
    /** Returns the first Ack or Nak that acknowledges a TLP; -1 without one. */
    ackOf: (main) => acks[main],
  };
}

/** Returns all transmissions of each TLP that was sent several times. The key is the accepted transmission, or else the first. */
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

/** Returns the unit of a TLP. */
function leaderOf(store, row) {
  return rootOf(store, store.request[row] >= 0 ? store.request[row] : row);
}

/** Returns the first row of each transaction, in order. */
function unitRows(store, standsFor) {
  const rows = new Uint32Array(store.count);
  let count = 0;
  for (let row = 0; row < store.count; row++) {
    if (store.kind[row] === KIND.tlp && standsFor(row) === row && leaderOf(store, row) === row) rows[count++] = row;
  }
  return rows.subarray(0, count);
}

/** Returns the lines of a TLP: each transmission, each Nak that requested it again, and finally its Ack. */
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

/** Returns the status of a transaction as a word. */
function unitStatus(store, headers, unit) {
  if (store.role[unit] !== ROLE.request) return statusCell(store, headers, unit);
  const last = store.lastAnswer[unit];
  if (last < 0) return "no answer";
  const status = statusCell(store, headers, last);
  return store.response[unit] >= 0 ? status : "incomplete";
}

// Order.

/** Returns the sort key of each column: a number or text. NaN and empty text come last in both directions. */
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

/** Returns `rows` sorted by a column, in descending order with `down`. Equal rows stay in order of time. */
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

/** Returns the sort key of `since`: the time since the previous one of `rows`. */
function sinceBefore(store, rows) {
  const since = new Float64Array(store.count).fill(NaN);
  for (let place = 1; place < rows.length; place++) since[rows[place]] = store.time[rows[place]] - store.time[rows[place - 1]];
  return (row) => since[row];
}
