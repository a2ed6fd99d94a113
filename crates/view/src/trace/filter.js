// SPDX-License-Identifier: Apache-2.0 OR MIT
// The filter language of `riser trace --filter`, for the rows of a store. Text is never evaluated as code.
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

/** An error in a filter, with its place. */
class FilterError extends Error {}

/** Returns the tokens of a filter: words, operators, `and`, `or`, `not` and parentheses. */
function tokensOf(text) {
  const tokens = [];
  const pattern = /\s*(?:([()])|(&&|\|\||!(?!=))|(!=|<=|>=|==|=|<|>)|"([^"]*)"|([A-Za-z0-9_.:+\-/*]+)|(\S))/gy;
  for (let found; (found = pattern.exec(text)); ) {
    const [, paren, sign, operator, quoted, word, odd] = found;
    if (odd) throw new FilterError(`unexpected ${odd}`);
    if (paren) tokens.push({ kind: paren });
    else if (sign) tokens.push({ kind: { "&&": "and", "||": "or", "!": "not" }[sign] });
    else if (operator) tokens.push({ kind: "operator", text: operator === "==" ? "=" : operator });
    else if (quoted !== undefined) tokens.push({ kind: "quoted", text: quoted });
    else tokens.push(["and", "or", "not"].includes(word) ? { kind: word } : { kind: "word", text: word });
  }
  return tokens;
}

/** Parses the tokens of a filter. Precedence from low to high: `or`, `and`, `not`. */
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
    if (left) throw new FilterError(`unexpected "${left.text ?? left.kind}": expected and, or`);
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
    const names = [...this.fields.keys()].join(", ");
    const name = this.tokens[this.at++];
    if (name?.kind !== "word") throw new FilterError(`expected a term with one of ${names}`);
    const field = this.fields.get(name.text);
    if (!field) throw new FilterError(`unknown field "${name.text}": expected one of ${names}`);
    if (this.tokens[this.at]?.kind !== "operator") return this.lift(flagTerm(field), name.text);
    const operator = this.tokens[this.at++].text;
    const value = this.tokens[this.at++];
    if (field.kind === null) throw new FilterError(`${name.text} is a flag: it has no value`);
    if (value?.kind !== "word" && value?.kind !== "quoted") throw new FilterError(`expected a value for ${name.text}: ${field.legal}`);
    return this.lift(comparison(field, operator, value.text), name.text);
  }
}

const both = (a, b) => (row) => a(row) && b(row);
const either = (a, b) => (row) => a(row) || b(row);
const neither = (a) => (row) => !a(row);

/** Parses a filter. Returns a function that tells whether a row passes it. `lift(holds, name)` converts a term for rows to a
 *  term for transactions. Throws a FilterError with the expected text. */
function parseFilter(text, fields, lift = (holds) => holds) {
  return new FilterParser(text, fields, lift).whole();
}

function flagTerm(field) {
  if (!field.is_flag) throw new FilterError(`${field.name} needs a value: expected ${field.legal}`);
  return field.flag;
}

/** Returns the fields of rows in `store` by name: the capture crate's definition (`meta.filter`: `name`, `legal`, `what`, `kind`,
 *  `max`, `words`, `is_flag`), with `of(row)`, its value or undefined if the row does not have it, and `flag(row)`. */
function filterFields(store, headers) {
  const [values, flags] = [rowValues(store, headers), rowFlags(store, headers)];
  return new Map(store.meta.filter.map((field) => [field.name, { ...field, store, headers, of: values[field.name], slot: values.slot, flag: flags[field.name] }]));
}

const KIND_NAMES = ["", "dllp", "other", "error"];

/** Returns a function for each field that gives its value in a row; undefined if the row does not have the field. */
function rowValues(store, headers) {
  const face = (row) => store.meta.interfaces[store.interface[row] - 1];
  const when = (has, get) => (row) => (has(row) ? get(row) : undefined);
  const tlp = (row) => store.kind[row] === KIND.tlp;
  const ends = (row) => store.role[row] === ROLE.complete;
  return {
    type: (row) => headers.format(row)?.name ?? KIND_NAMES[store.kind[row]],
    tag: when(tlp, headers.tag),
    requester: when(tlp, headers.requester),
    completer: when((row) => tlp(row) && headers.hasCompleter(row), headers.completer),
    status: when(headers.isCompletion, (row) => statusOf(store, headers, row)),
    time: when(ends, (row) => store.response[row]),
    latency: when((row) => ends(row) && store.firstData[row] >= 0, (row) => store.firstData[row]),
    timestamp: when((row) => store.number[row] > 0, (row) => store.time[row]),
    dir: (row) => face(row)?.direction ?? undefined,
    len: when((row) => tlp(row) && hasLength(headers, row), headers.lengthDw),
    bytes: when(tlp, (row) => bytesNamed(headers, row)),
    tc: when(tlp, (row) => (store.dw[0][row] >>> 20) & 7),
    vc: (row) => flowControlOf(store, row)?.vc,
    pasid: when((row) => pasidOf(store, row) >= 0, (row) => pasidOf(store, row)),
    code: when((row) => headers.family(row) === "message", headers.code),
    class: (row) => headers.format(row)?.class ?? flowControlOf(store, row)?.class,
    origin: when(tlp, (row) => (store.host[row] ? "host" : "device")),
    interface: (row) => face(row)?.name,
    link: (row) => face(row)?.link,
    slot: (row) => face(row)?.slot || undefined,
    end: (row) => face(row)?.end ?? undefined,
    number: when((row) => store.number[row] > 0, (row) => store.number[row]),
    dllp: when((row) => store.kind[row] === KIND.dllp, (row) => textOf(store, row).toLowerCase()),
    ecrc: when((row) => store.ecrc[row] > 0, (row) => (store.ecrc[row] === 3 ? "bad" : "good")),
  };
}

/** Returns a function for each flag that tells whether it matches a row. */
function rowFlags(store, headers) {
  const tlp = (row) => store.kind[row] === KIND.tlp;
  return {
    dllp: (row) => store.kind[row] === KIND.dllp,
    tlp,
    request: (row) => tlp(row) && !headers.isCompletion(row),
    completion: headers.isCompletion,
    error: (row) => isError(store, headers, row),
    probe: (row) => store.probe[row] === 1,
    poisoned: headers.poisoned,
    ecrc: (row) => store.ecrc[row] > 0,
    prefix: (row) => store.prefixed[row] === 1,
    damaged: (row) => store.damaged[row] === 1,
    dropped: (row) => store.dropped[row] === 1,
    lost: (row) => isLost(store, row),
    replay: (row) => store.role[row] === ROLE.replay,
  };
}

const isEquality = (operator) => operator === "=" || operator === "!=";

/** Returns a function that compares a field of a row with a value. */
function comparison(field, operator, text) {
  switch (field.kind) {
    case "address":
      return addressTerm(field, operator, text);
    case "link":
      return Number.isNaN(parseNumber(text.split("..")[0])) ? wordTerm(field, operator, text, field.slot) : numberTerm(field, operator, text, parseNumber);
    case "word":
      return wordTerm(field, operator, text, field.of);
    case "id":
      if (!isEquality(operator)) throw notANumber(field);
      return numberTerm(field, operator, text, parseId);
    case "instant":
      return numberTerm(field, operator, text, (time) => sinceStart(field.store, time));
    default:
      return numberTerm(field, operator, text, field.kind === "duration" ? parseDuration : parseNumber);
  }
}

function illegal(field, text) {
  return new FilterError(`"${text}" is not a value of ${field.name}: expected ${field.legal}`);
}

function notANumber(field) {
  return new FilterError(`${field.name} is not a number: expected = or !=`);
}

/** Returns the term of a number field: a comparison, or a range whose end is exclusive. */
function numberTerm(field, operator, text, read) {
  const [from, to, ...more] = text.split("..").map(read);
  const isRange = to !== undefined;
  const wrong = Number.isNaN(from) || from > (field.max ?? Infinity) || (isRange && !(from < to));
  if (wrong || more.length > 0 || (isRange && !isEquality(operator))) throw illegal(field, text);
  const holds = isRange ? (value) => (value >= from && value < to) === (operator === "=") : (value) => OPERATORS[operator](value, from);
  return (row) => {
    const value = field.of(row);
    return value !== undefined && holds(value);
  };
}

/** Returns the term of a word field: known words in any case, or any text. */
function wordTerm(field, operator, text, of) {
  if (!isEquality(operator)) throw notANumber(field);
  const known = field.words?.find(([word]) => word.toLowerCase() === text.toLowerCase());
  if (field.words && !known) throw illegal(field, text);
  const name = known?.[1] ?? (field.name === "dllp" ? text.toLowerCase() : text);
  return (row) => {
    const value = of(row);
    return value !== undefined && (value === name) === (operator === "=");
  };
}

/** Returns the term of `addr`: requests that access an address or a range. With <, <=, > and >=, compares the address of
 *  their first byte. */
function addressTerm(field, operator, text) {
  const { headers } = field;
  const [from, to] = text.split("..").map(parseBig);
  if (from === undefined) throw illegal(field, text);
  const first = (row) => addressOf(headers, row) + BigInt(headers.lead(row));
  if (!isEquality(operator)) return (row) => headers.hasAddress(row) && OPERATORS[operator](first(row), from);
  const end = to ?? from + 1n;
  const touches = (row) => first(row) < end && first(row) + BigInt(headers.requestBytes(row)) > from;
  return (row) => headers.hasAddress(row) && touches(row) === (operator === "=");
}

function parseNumber(text) {
  return /^(0x[0-9a-f]+|[0-9]+)$/i.test(text) ? Number(text) : NaN;
}

function parseBig(text) {
  return /^(0x[0-9a-f]+|[0-9]+)$/i.test(text) ? BigInt(text) : undefined;
}

/** Returns the 16 bits of a `bus:device.function`; NaN for other text. */
function parseId(text) {
  const parts = /^([0-9a-f]{1,2}):([01]?[0-9a-f])\.([0-7])$/i.exec(text);
  if (!parts) return NaN;
  return (parseInt(parts[1], 16) << 8) | (parseInt(parts[2], 16) << 3) | Number(parts[3]);
}

/** Converts a time in ps since the epoch to a time in ps since the first frame. */
function sinceStart(store, text) {
  const ps = parseDurationBig(text);
  return ps === undefined ? NaN : Number(ps - BigInt(store.meta.start_ps));
}

function statusOf(store, headers, row) {
  return store.meta.statuses[headers.status(row)];
}

function hasLength(headers, row) {
  const family = headers.family(row);
  return family === "completion" || family === "message" ? headers.hasData(row) : true;
}

/** Returns the number of bytes of a request, or the number of data bytes of a completion. */
function bytesNamed(headers, row) {
  const family = headers.family(row);
  return family === "completion" || family === "message" ? headers.payload(row) : headers.requestBytes(row);
}

/** Returns the PASID in the prefixes of a TLP; -1 if there is none. */
function pasidOf(store, row) {
  const prefix = prefixesOf(store, row).find((text) => text.startsWith("91"));
  return prefix ? parseInt(prefix, 16) & 0xf_ffff : -1;
}

/** Returns whether a row is an error: unreadable, lost, failed, poisoned, or with an error in its transaction. Bus probes are
 *  not errors. */
function isError(store, headers, row) {
  if (store.kind[row] === KIND.bad || isLost(store, row)) return true;
  if (store.kind[row] !== KIND.tlp) return false;
  if (store.errors[row] & (ERRORS.unexpected | ERRORS.byteCount | ERRORS.duplicateTag)) return true;
  if (headers.poisoned(row) || store.ecrc[row] === 3) return true;
  return isAnswer(store, row) && store.probe[row] === 0 && headers.status(row) !== 0;
}

/** Returns the loaded rows that satisfy a predicate. */
function rowsWhere(store, predicate) {
  const rows = new Uint32Array(store.count);
  let count = 0;
  for (let row = 0; row < store.count; row++) {
    if (predicate(row)) rows[count++] = row;
  }
  return rows.subarray(0, count);
}
