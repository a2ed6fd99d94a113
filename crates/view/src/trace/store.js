// SPDX-License-Identifier: Apache-2.0 OR MIT
// The capture as typed arrays, unpacked from the chunks of columns.rs. Does not access the page.

const KIND = { tlp: 0, dllp: 1, other: 2, bad: 3 };
/** Role of a row in a transaction: request, completion, or none. */
const ROLE = { none: 0, request: 1, partial: 2, complete: 3, unexpected: 4, replay: 5 };
/** Errors of the transaction that ends in a row: bits of `Errors` in the capture crate. */
const ERRORS = { unexpected: 1 << 5, duplicateTag: 1 << 8, byteCount: 1 << 9 };
const ERROR_NAMES = ["no completion", "incomplete", "UR", "CA", "CRS", "unexpected completion", "poisoned", "bad ECRC",
  "duplicate tag", "byte count", "expired"];

/** Returns an empty store for `meta.rows` rows. Times are picoseconds since the first frame. Rows and places count from 0, and -1
 *  stands for none. `response` and `firstData` are set at the request and at its last completion. */
function makeStore(meta) {
  const n = meta.rows;
  return {
    meta,
    count: 0,
    total: n,
    time: new Float64Array(n),
    number: new Float64Array(n),
    kind: new Uint8Array(n),
    host: new Uint8Array(n),
    role: new Uint8Array(n),
    errors: new Uint16Array(n),
    probe: new Uint8Array(n),
    first: new Uint8Array(n),
    dw: [new Uint32Array(n), new Uint32Array(n), new Uint32Array(n), new Uint32Array(n)],
    interface: new Uint16Array(n),
    path: new Uint32Array(n),
    text: new Uint16Array(n),
    length: new Uint32Array(n),
    cut: new Uint32Array(n),
    held: new Uint16Array(n),
    sequence: new Uint16Array(n),
    stamp: new Uint32Array(n),
    place: new Float64Array(n),
    damaged: new Uint8Array(n),
    dropped: new Uint8Array(n),
    ecrc: new Uint8Array(n),
    prefixed: new Uint8Array(n),
    request: new Int32Array(n).fill(-1),
    /** For a forwarded request, the row of its first record. Then, for each such row, the rows on further links. */
    root: new Int32Array(n).fill(-1),
    hops: new Map(),
    firstAnswer: new Int32Array(n).fill(-1),
    lastAnswer: new Int32Array(n).fill(-1),
    response: new Float64Array(n).fill(NaN),
    firstData: new Float64Array(n).fill(NaN),
    rowOf: new Int32Array(n + 1).fill(-1),
    /** Meanings of rows by chunk: UTF-8 text, and the position where the text of each row ends. */
    means: [],
    /** Texts of broken rules, by record number. */
    violations: textsByNumber(meta.violations.list),
    nonPosted: nonPostedBytes(meta.formats),
    end: 0,
  };
}

function textsByNumber(violations) {
  const texts = new Map();
  for (const { number, text } of violations) texts.set(number, [...(texts.get(number) ?? []), text]);
  return texts;
}

/** Returns the rules that a row breaks, as text of `riser trace --check`. */
function violationsOf(store, row) {
  return (store.number[row] > 0 && store.violations.get(store.number[row])) || [];
}

/** 1 for each first byte of a non-posted request. */
function nonPostedBytes(formats) {
  const known = formatsByByte(formats);
  return Uint8Array.from(known, (format) => (format?.class === "NP" ? 1 : 0));
}

/** Reads one column: bytes, varints and signed varints. */
class Column {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }
  byte() {
    return this.bytes[this.at++];
  }
  varint() {
    let byte = this.bytes[this.at++];
    if (byte < 0x80) return byte;
    let value = byte & 0x7f;
    let scale = 128;
    do {
      byte = this.bytes[this.at++];
      value += (byte & 0x7f) * scale;
      scale *= 128;
    } while (byte >= 0x80);
    return value;
  }
  signed() {
    const coded = this.varint();
    return coded % 2 === 0 ? coded / 2 : -(coded + 1) / 2;
  }
}

/** Returns the columns of an unpacked chunk, by name. */
function columnsOf(bytes, names) {
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const columns = {};
  let at = names.length * 4;
  names.forEach((name, place) => {
    const length = view.getUint32(place * 4, true);
    columns[name] = new Column(bytes.subarray(at, at + length));
    at += length;
  });
  return columns;
}

/** Adds the rows of an unpacked chunk. */
function addChunk(store, bytes) {
  const columns = columnsOf(bytes, store.meta.columns);
  const from = store.count;
  const to = from + columns.kind.bytes.length;
  readKinds(store, columns, from, to);
  readPlaces(store, columns, from, to);
  readHeaders(store, columns, from, to);
  readStamps(store, columns, from, to);
  readLinks(store, columns, from, to);
  store.means.push(readMeanings(columns.means, to - from));
  store.count = to;
}

function readKinds(store, columns, from, to) {
  let number = 0;
  let time = 0;
  for (let row = from; row < to; row++) {
    const kind = columns.kind.byte();
    store.kind[row] = kind & 3;
    store.host[row] = (kind >> 2) & 1;
    store.damaged[row] = (kind >> 3) & 1;
    store.dropped[row] = (kind >> 4) & 1;
    store.ecrc[row] = (kind >> 5) & 3;
    store.prefixed[row] = kind >> 7;
    store.first[row] = columns.first.byte();
    number += columns.number.signed();
    time += columns.time.signed();
    store.number[row] = number;
    if (number > 0 && number < store.rowOf.length) store.rowOf[number] = row;
    store.time[row] = time;
    if (time > store.end) store.end = time;
  }
}

function readPlaces(store, columns, from, to) {
  for (let row = from; row < to; row++) {
    store.interface[row] = columns.interface.varint();
    store.path[row] = columns.path.varint();
    store.text[row] = columns.text.varint();
    store.held[row] = columns.held.varint();
  }
}

/** Returns the index of the previous header that a header is stored relative to, as in columns.rs. */
function contextOf(kind, first) {
  if (kind === KIND.tlp) return first;
  return kind === KIND.dllp ? 256 + first : 512;
}

function headerDwords(kind, first) {
  if (kind === KIND.tlp) return 3 + ((first >> 5) & 1);
  return kind === KIND.dllp ? 2 : 0;
}

function readHeaders(store, columns, from, to) {
  const last = new Uint32Array(513 * 5);
  const dws = [columns.dw0, columns.dw1, columns.dw2, columns.dw3];
  for (let row = from; row < to; row++) {
    const kind = store.kind[row];
    const first = store.first[row];
    const context = contextOf(kind, first) * 5;
    const count = headerDwords(kind, first);
    for (let i = 0; i < count; i++) {
      last[context + i] += dws[i].signed();
      store.dw[i][row] = last[context + i];
    }
    for (let i = count; i < 4; i++) last[context + i] = 0;
    last[context + 4] += columns.length.signed();
    store.length[row] = last[context + 4];
    store.cut[row] = columns.cut.varint();
  }
}

function readStamps(store, columns, from, to) {
  const sequence = new Uint32Array(store.meta.interfaces.length + 1);
  const stamp = new Uint32Array(store.meta.interfaces.length + 1);
  const place = new Float64Array(store.meta.interfaces.length + 1);
  for (let row = from; row < to; row++) {
    const lane = store.interface[row];
    sequence[lane] += columns.sequence.signed();
    stamp[lane] += columns.stamp.signed();
    place[lane] += columns.place.signed();
    store.place[row] = place[lane] - 1;
    store.sequence[row] = sequence[lane];
    store.stamp[row] = stamp[lane];
  }
}

function readLinks(store, columns, from, to) {
  for (let row = from; row < to; row++) {
    const outcome = columns.outcome.varint();
    const back = columns.back.varint();
    const forwards = columns.forwards.varint();
    const response = columns.response.varint() - 1;
    const waited = columns.waited.varint() - 1;
    store.errors[row] = outcome >> 3;
    store.probe[row] = (outcome >> 2) & 1;
    store.role[row] = roleOf(store, row, outcome, back, response);
    if (forwards > 0) addHop(store, row, store.rowOf[store.number[row] - forwards]);
    if (back > 0) link(store, row, store.rowOf[store.number[row] - back], response, waited);
  }
}

/** Returns the positions where the text of each row begins and ends. */
function readMeanings(column, rows) {
  const [begins, ends] = [new Uint32Array(rows), new Uint32Array(rows)];
  for (let i = 0; i < rows; i++) {
    const length = column.varint();
    begins[i] = column.at;
    column.at += length;
    ends[i] = column.at;
  }
  return { bytes: column.bytes, begins, ends };
}

const utf8 = new TextDecoder();

/** Returns the meaning of a row; empty if it is unknown. */
function meaningOf(store, row) {
  const rows = store.means[0].begins.length;
  const chunk = store.means[Math.floor(row / rows)];
  const i = row % rows;
  return chunk.begins[i] === chunk.ends[i] ? "" : utf8.decode(chunk.bytes.subarray(chunk.begins[i], chunk.ends[i]));
}

function roleOf(store, row, outcome, back, response) {
  if (outcome & 1) return ROLE.replay;
  if (store.kind[row] !== KIND.tlp || !(outcome & 2)) return ROLE.none;
  if (back > 0) return response >= 0 ? ROLE.complete : ROLE.partial;
  if ((outcome >> 3) & ERRORS.unexpected) return ROLE.unexpected;
  return store.nonPosted[store.first[row]] ? ROLE.request : ROLE.none;
}

/** Links a request on a further link to its first record. */
function addHop(store, row, root) {
  if (root < 0) return;
  store.root[row] = root;
  store.hops.set(root, [...(store.hops.get(root) ?? []), row]);
}

/** Links a completion to its request. The last completion also sets the times of the transaction. */
function link(store, row, request, response, waited) {
  if (request < 0) return;
  store.request[row] = request;
  if (store.firstAnswer[request] < 0) store.firstAnswer[request] = row;
  store.lastAnswer[request] = row;
  if (response < 0) return;
  store.response[row] = store.response[request] = response;
  if (waited >= 0) store.firstData[row] = store.firstData[request] = response - waited;
}

/** Returns the request of a completion on the same link. For a request, returns the row itself; for other rows, -1. */
function requestOf(store, row) {
  return store.role[row] === ROLE.request ? row : store.request[row];
}

/** Returns the first record of a request, on any link. */
function rootOf(store, request) {
  return store.root[request] >= 0 ? store.root[request] : request;
}

/** Returns the first record of the request of a row's transaction; -1 for rows without a transaction. */
function transactionOf(store, row) {
  const request = requestOf(store, row);
  return request < 0 ? -1 : rootOf(store, request);
}

/** Returns the records of a request on its links, in order of time. */
function linksOf(store, root) {
  return [root, ...(store.hops.get(root) ?? [])];
}

/** Returns the rows of a transaction: the request on each link, and its completions there. */
function rowsOf(store, root) {
  return linksOf(store, root).flatMap((request) => [request, ...answersOf(store, request)]).sort((a, b) => a - b);
}

/** Returns for the request on each link, by row, the picoseconds to the next link and back. On the last link, returns the time
 *  until the completion. Without a completion, returns only the time to the next link. NaN if unknown. */
function legsOf(store, root) {
  const links = linksOf(store, root);
  return new Map(links.map((request, i) => {
    const next = links[i + 1];
    if (store.nonPosted[store.first[root]] === 0) return [request, next === undefined ? NaN : store.time[next] - store.time[request]];
    return [request, store.response[request] - (next === undefined ? 0 : store.response[next])];
  }));
}

/** Returns whether a row is a completion that its receiver accepted. */
function isAnswer(store, row) {
  return [ROLE.partial, ROLE.complete, ROLE.unexpected].includes(store.role[row]);
}

/** Returns whether a row did not reach its receiver intact. */
function isLost(store, row) {
  return (store.damaged[row] | store.dropped[row]) !== 0;
}

/** Returns the completions of a request, in order. */
function answersOf(store, request) {
  const rows = [];
  const from = store.firstAnswer[request];
  for (let row = from; from >= 0 && row <= store.lastAnswer[request]; row++) {
    if (store.request[row] === request) rows.push(row);
  }
  return rows;
}
