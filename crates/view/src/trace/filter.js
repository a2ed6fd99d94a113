// SPDX-License-Identifier: Apache-2.0 OR MIT
// The filter language of `riser trace --filter`, over the rows of a store. Never evaluates text as code.
//
//   expression = term, joined by `and`, `or`, `not` and parentheses
//   term       = field operator value, or a field alone: error
//   operators  = = != < <= > >=

const OPERATORS = {
  "=": (a, b) => a === b,
  "!=": (a, b) => a !== b,
  "<": (a, b) => a < b,
  "<=": (a, b) => a <= b,
  ">": (a, b) => a > b,
  ">=": (a, b) => a >= b,
};

/** What is wrong with a filter, and where it is. */
class FilterError extends Error {}

/** The tokens of a filter: words, operators, `and`, `or`, `not` and parentheses. */
function tokensOf(text) {
  const tokens = [];
  const pattern = /\s*(?:([()])|(&&|\|\||!(?!=))|(!=|<=|>=|==|=|<|>)|"([^"]*)"|([A-Za-z0-9_.:+\-/*]+)|(\S))/gy;
  for (let found; (found = pattern.exec(text)); ) {
    const [, paren, sign, operator, quoted, word, odd] = found;
    if (odd) throw new FilterError(`${odd} has no meaning here`);
    if (paren) tokens.push({ kind: paren });
    else if (sign) tokens.push({ kind: { "&&": "and", "||": "or", "!": "not" }[sign] });
    else if (operator) tokens.push({ kind: "operator", text: operator === "==" ? "=" : operator });
    else if (quoted !== undefined) tokens.push({ kind: "quoted", text: quoted });
    else tokens.push(["and", "or", "not"].includes(word) ? { kind: word } : { kind: "word", text: word });
  }
  return tokens;
}

/** Reads the tokens of a filter from left to right: `or` binds least, then `and`, then `not`. */
class FilterParser {
  constructor(text, fields, lift) {
    Object.assign(this, { tokens: tokensOf(text), fields, lift, at: 0 });
  }
  takeWord(word) {
    const found = this.tokens[this.at]?.kind === word;
    if (found) this.at++;
    return found;
  }
  whole() {
    const predicate = this.any();
    const left = this.tokens[this.at];
    if (left) throw new FilterError(`"${left.text ?? left.kind}" stands where and, or was due`);
    return predicate;
  }
  any() {
    let left = this.all();
    while (this.takeWord("or")) left = either(left, this.all());
    return left;
  }
  all() {
    let left = this.one();
    while (this.takeWord("and")) left = both(left, this.one());
    return left;
  }
  one() {
    if (this.takeWord("not")) return neither(this.one());
    if (this.tokens[this.at]?.kind !== "(") return this.term();
    this.at++;
    const inner = this.any();
    if (this.tokens[this.at++]?.kind !== ")") throw new FilterError("a parenthesis is not closed");
    return inner;
  }
  term() {
    const names = Object.keys(this.fields).join(", ");
    const name = this.tokens[this.at++];
    if (name?.kind !== "word") throw new FilterError(`a field is missing: ${names}`);
    const field = this.fields[name.text];
    if (!field) throw new FilterError(`no field "${name.text}": there are ${names}`);
    if (this.tokens[this.at]?.kind !== "operator") return this.lift(flagTerm(field, name.text), name.text);
    const operator = this.tokens[this.at++].text;
    const value = this.tokens[this.at++];
    if (value?.kind !== "word" && value?.kind !== "quoted") throw new FilterError(`${name.text} ${operator} needs a value`);
    if (!field.compare) throw new FilterError(`${name.text} stands alone, without an operator`);
    return this.lift(field.compare(operator, value.text), name.text);
  }
}

const both = (a, b) => (row) => a(row) && b(row);
const either = (a, b) => (row) => a(row) || b(row);
const neither = (a) => (row) => !a(row);

/** Reads a filter: a function from row to true or false. `lift(holds, name)` makes of what a term says of a row
 *  what it says of something larger. Throws a FilterError that says what is legal. */
function parseFilter(text, fields, lift = (holds) => holds) {
  return new FilterParser(text, fields, lift).whole();
}

function flagTerm(field, name) {
  if (!field.flag) throw new FilterError(`${name} needs an operator: ${Object.keys(OPERATORS).join(" ")}`);
  return field.flag;
}

/** The fields of rows in `store`, each with `compare(operator, value)`, a `flag`, or both. Names and meaning are those of
 *  the capture crate: a term holds for a row that has the field. */
function filterFields(store, headers) {
  const tlp = (row) => store.kind[row] === KIND.tlp;
  const face = (row) => store.meta.interfaces[store.interface[row] - 1];
  const flow = (row) => flowControlOf(store, row);
  const dllp = (row) => store.kind[row] === KIND.dllp;
  return {
    type: typeField(store, headers),
    tag: numeric(tlp, headers.tag),
    requester: numeric(tlp, headers.requester, parseId),
    completer: numeric((row) => tlp(row) && headers.hasCompleter(row), headers.completer, parseId),
    addr: addressField(headers),
    status: named(headers.isCompletion, (row) => statusOf(store, headers, row), statusName),
    time: numeric((row) => store.role[row] === ROLE.complete, (row) => store.response[row], parseDuration),
    latency: numeric((row) => store.role[row] === ROLE.complete && store.firstData[row] >= 0, (row) => store.firstData[row], parseDuration),
    timestamp: numeric((row) => store.number[row] > 0, (row) => store.time[row], (text) => sinceStart(store, text)),
    dir: named((row) => face(row)?.direction, (row) => face(row).direction, directionName),
    len: numeric((row) => tlp(row) && hasLength(headers, row), headers.lengthDw),
    bytes: numeric(tlp, (row) => bytesNamed(headers, row)),
    tc: numeric(tlp, (row) => (store.dw[0][row] >>> 20) & 7),
    vc: numeric((row) => flow(row) !== null, (row) => flow(row).vc),
    pasid: numeric((row) => pasidOf(store, row) >= 0, (row) => pasidOf(store, row)),
    code: numeric((row) => headers.family(row) === "message", headers.code),
    class: named((row) => classOf(store, headers, row), (row) => classOf(store, headers, row), flowClassName),
    origin: named(tlp, (row) => (store.host[row] ? "host" : "device"), (text) => oneOf(text, ["host", "device"])),
    interface: named((row) => face(row) !== undefined, (row) => face(row).name, (text) => text),
    link: numeric((row) => face(row) !== undefined, (row) => face(row).link),
    number: numeric((row) => store.number[row] > 0, (row) => store.number[row]),
    dllp: { ...named(dllp, (row) => textOf(store, row).toLowerCase(), (text) => text.toLowerCase()), flag: dllp },
    tlp: { flag: tlp },
    request: { flag: (row) => tlp(row) && !headers.isCompletion(row) },
    completion: { flag: headers.isCompletion },
    error: { flag: (row) => isError(store, headers, row) },
    probe: { flag: (row) => store.probe[row] === 1 },
    poisoned: { flag: headers.poisoned },
    ecrc: { ...named((row) => store.ecrc[row] > 0, (row) => (store.ecrc[row] === 3 ? "bad" : "good"), (text) => oneOf(text, ["good", "bad"])), flag: (row) => store.ecrc[row] > 0 },
    prefix: { flag: (row) => store.prefixed[row] === 1 },
    damaged: { flag: (row) => store.damaged[row] === 1 },
    dropped: { flag: (row) => store.dropped[row] === 1 },
    lost: { flag: (row) => isLost(store, row) },
    replay: { flag: (row) => store.role[row] === ROLE.replay },
  };
}

const isEquality = (operator) => operator === "=" || operator === "!=";

/** A field of numbers: compared, or in a range without its end. */
function numeric(has, get, read = parseNumber) {
  return {
    compare: (operator, text) => {
      const [from, to] = text.split("..").map(read);
      if (Number.isNaN(from) || Number.isNaN(to)) throw new FilterError(`"${text}" is no value of this field`);
      if (to === undefined) return (row) => Boolean(has(row)) && OPERATORS[operator](get(row), from);
      if (!isEquality(operator)) throw new FilterError("a range compares with = and != only");
      return (row) => Boolean(has(row)) && (get(row) >= from && get(row) < to) === (operator === "=");
    },
  };
}

/** A field of names. */
function named(has, get, read) {
  return {
    compare: (operator, text) => {
      if (!isEquality(operator)) throw new FilterError(`names compare with = and != only, not ${operator}`);
      const name = read(text);
      return (row) => Boolean(has(row)) && (get(row) === name) === (operator === "=");
    },
  };
}

function oneOf(text, legal) {
  if (legal.includes(text)) return text;
  throw new FilterError(`"${text}" is none of ${legal.join(", ")}`);
}

/** `type`: of a TLP, whatever its case; else dllp, other or error. */
function typeField(store, headers) {
  const others = { dllp: KIND.dllp, other: KIND.other, error: KIND.bad };
  const names = new Set(store.meta.formats.map((format) => format.name.toLowerCase()));
  return {
    compare: (operator, text) => {
      if (!isEquality(operator)) throw new FilterError(`names compare with = and != only, not ${operator}`);
      const name = text.toLowerCase();
      const kind = others[text];
      if (kind === undefined && !names.has(name)) throw new FilterError(`"${text}" is no type: ${[...names].join(", ")}, dllp, other, error`);
      const is = (row) => (kind === undefined ? headers.format(row)?.name.toLowerCase() === name : store.kind[row] === kind);
      return (row) => is(row) === (operator === "=");
    },
  };
}

/** `addr`: requests that touch an address or a range of them; with < and others, their first byte. */
function addressField(headers) {
  return {
    compare: (operator, text) => {
      const [from, to] = text.split("..").map(parseBig);
      if (from === undefined) throw new FilterError(`"${text}" is no address: 0x1000, or 0x1000..0x2000`);
      const first = (row) => addressOf(headers, row) + BigInt(headers.lead(row));
      if (!isEquality(operator)) return (row) => headers.hasAddress(row) && OPERATORS[operator](first(row), from);
      const end = to ?? from + 1n;
      const touches = (row) => first(row) < end && first(row) + BigInt(headers.requestBytes(row)) > from;
      return (row) => headers.hasAddress(row) && touches(row) === (operator === "=");
    },
  };
}

function parseNumber(text) {
  return /^(0x[0-9a-f]+|[0-9]+)$/i.test(text) ? Number(text) : NaN;
}

function parseBig(text) {
  return /^(0x[0-9a-f]+|[0-9]+)$/i.test(text) ? BigInt(text) : undefined;
}

/** The 16 bits of a `bus:device.function`. */
function parseId(text) {
  const parts = /^([0-9a-f]{1,2}):([01]?[0-9a-f])\.([0-7])$/i.exec(text);
  if (!parts) throw new FilterError(`"${text}" is no bus:device.function such as 01:00.0`);
  return (parseInt(parts[1], 16) << 8) | (parseInt(parts[2], 16) << 3) | Number(parts[3]);
}

/** What a time since the epoch is since the first frame, ps. */
function sinceStart(store, text) {
  const ps = parseDurationBig(text);
  return ps === undefined ? NaN : Number(ps - BigInt(store.meta.start_ps));
}

function statusOf(store, headers, row) {
  return store.meta.statuses[headers.status(row)];
}

function statusName(text) {
  const upper = text.toUpperCase();
  return oneOf(upper === "SUCCESS" ? "SC" : upper, ["SC", "UR", "CRS", "CA"]);
}

function directionName(text) {
  const names = { up: "upstream", down: "downstream" };
  return oneOf(names[text] ?? text, ["upstream", "downstream"]);
}

function flowClassName(text) {
  const names = { p: "P", posted: "P", np: "NP", nonposted: "NP", cpl: "Cpl", completion: "Cpl" };
  return oneOf(names[text.toLowerCase()] ?? text, ["P", "NP", "Cpl"]);
}

/** The flow-control class of a TLP or of a flow-control DLLP. */
function classOf(store, headers, row) {
  return headers.format(row)?.class ?? flowControlOf(store, row)?.class;
}

function hasLength(headers, row) {
  const family = headers.family(row);
  return family === "completion" || family === "message" ? headers.hasData(row) : true;
}

/** Bytes that a request names; data of a completion. */
function bytesNamed(headers, row) {
  const family = headers.family(row);
  return family === "completion" || family === "message" ? headers.payload(row) : headers.requestBytes(row);
}

/** The PASID among the prefixes of a TLP; -1 where there is none. */
function pasidOf(store, row) {
  const prefix = prefixesOf(store, row).find((text) => text.startsWith("91"));
  return prefix ? parseInt(prefix, 16) & 0xf_ffff : -1;
}

/** What cannot be read, was lost or failed, is poisoned, or is not what its transaction expects; no bus probe. */
function isError(store, headers, row) {
  if (store.kind[row] === KIND.bad || isLost(store, row)) return true;
  if (store.kind[row] !== KIND.tlp) return false;
  if (store.errors[row] & (ERRORS.unexpected | ERRORS.byteCount | ERRORS.duplicateTag)) return true;
  if (headers.poisoned(row) || store.ecrc[row] === 3) return true;
  return isAnswer(store, row) && store.probe[row] === 0 && headers.status(row) !== 0;
}

/** Rows that a predicate takes, among those loaded. */
function rowsWhere(store, predicate) {
  const rows = new Uint32Array(store.count);
  let count = 0;
  for (let row = 0; row < store.count; row++) {
    if (predicate(row)) rows[count++] = row;
  }
  return rows.subarray(0, count);
}
