// SPDX-License-Identifier: Apache-2.0 OR MIT
// Fields of a row's header (PCIe 5.0 §2.2, §3.5). Types come from the table of formats in the page's data. Does not
// access the page.

/** Returns the formats by first byte; undefined for unknown types. */
function formatsByByte(formats) {
  const matches = (byte) => (format) =>
    byte >> 5 === format.fmt && (byte & 0x1f & format.type_mask) === format.type_bits;
  return Array.from({ length: 256 }, (_, byte) => formats.find(matches(byte)));
}

/** Returns functions that read the fields of a row's header in `store`. */
function makeHeaders(store) {
  const formats = formatsByByte(store.meta.formats);
  const [dw0, dw1, dw2, dw3] = store.dw;
  const isTlp = (row) => store.kind[row] === KIND.tlp;
  const format = (row) => (isTlp(row) ? formats[store.first[row]] : undefined);
  const family = (row) => format(row)?.family;
  const isCompletion = (row) => family(row) === "completion";
  const four = (row) => (store.first[row] & 0x20) !== 0;
  const idDw = (row) => (isCompletion(row) ? dw2[row] : dw1[row]);
  const lengthDw = (row) => ((dw0[row] - 1) & 0x3ff) + 1;
  const hasData = (row) => format(row)?.has_data === true;
  const hinted = (row) => (dw0[row] & 0x10000) !== 0 && family(row) === "memory";
  const lowMask = (row) => ((family(row) === "memory" || family(row) === "atomic" || family(row) === "io") ? ~3 : ~0);

  const headers = {
    format,
    family,
    lengthDw,
    hasData,
    four,
    requester: (row) => idDw(row) >>> 16,
    tag: (row) => ((idDw(row) >> 8) & 0xff) | ((dw0[row] >> 11) & 0x100) | ((dw0[row] >> 14) & 0x200),
    completer: (row) => (isCompletion(row) ? dw1[row] : dw2[row]) >>> 16,
    hasCompleter: (row) => isCompletion(row) || family(row) === "config",
    status: (row) => (dw1[row] >> 13) & 7,
    byteCount: (row) => ((dw1[row] - 1) & 0xfff) + 1,
    lowerAddress: (row) => dw2[row] & 0x7f,
    firstBe: (row) => (hinted(row) && !hasData(row) ? 0xf : dw1[row] & 0xf),
    lastBe: (row) => (hinted(row) && !hasData(row) ? 0xf : (dw1[row] >> 4) & 0xf),
    register: (row) => dw2[row] & 0xffc,
    code: (row) => dw1[row] & 0xff,
    hasAddress: (row) => ["memory", "io", "atomic"].includes(family(row)),
    addressHigh: (row) => (four(row) ? dw2[row] : 0),
    addressLow: (row) => ((four(row) ? dw3[row] : dw2[row]) & lowMask(row)) >>> 0,
    isCompletion,
    hinted,
    poisoned: (row) => isTlp(row) && (dw0[row] & 0x4000) !== 0,
    payload: (row) => (hasData(row) ? lengthDw(row) * 4 : 0),
    tlpBytes: (row) =>
      (four(row) ? 16 : 12) + (hasData(row) ? lengthDw(row) * 4 : 0) + ((dw0[row] & 0x8000) !== 0 ? 4 : 0),
  };
  headers.typeName = (row) => typeName(store, headers, row);
  headers.className = (row) => className(store, headers, row);
  headers.tint = (row) => tintOf(store, headers, row);
  headers.requestBytes = (row) => requestBytes(headers, row);
  headers.lead = (row) => leadOf(headers, row);
  headers.lane = makeLanes(store);
  return headers;
}

function typeName(store, headers, row) {
  switch (store.kind[row]) {
    case KIND.tlp:
      return headers.format(row).name;
    case KIND.dllp:
      return textOf(store, row);
    case KIND.bad:
      return "error";
    default:
      return "other";
  }
}

/** `P`, `NP`, `Cpl`, `dllp`, `other` or `bad`. */
function className(store, headers, row) {
  switch (store.kind[row]) {
    case KIND.tlp:
      return headers.format(row).class;
    case KIND.dllp:
      return "dllp";
    case KIND.bad:
      return "bad";
    default:
      return "other";
  }
}

/** Returns the name of a row's colour: one for each kind of TLP, and `dllp` and `bad`. It is the same in the whole page. */
function tintOf(store, headers, row) {
  const format = headers.format(row);
  if (!format) return store.kind[row] === KIND.bad ? "bad" : "dllp";
  switch (format.family) {
    case "memory":
      if (format.has_data) return format.class === "P" ? "write" : "deferrable";
      return format.name === "MRd" ? "read" : "locked";
    case "config":
      return format.has_data ? "config-write" : "config-read";
    case "completion":
      return format.has_data ? "completion" : "status";
    default:
      return format.family;
  }
}

function textOf(store, row) {
  return store.meta.texts[store.text[row] - 1] ?? "";
}

/** Returns the prefixes of a TLP, eight hexadecimal digits each. */
function prefixesOf(store, row) {
  return store.prefixed[row] ? textOf(store, row).split(" ").filter((word) => /^[0-9a-f]{8}$/.test(word)) : [];
}

/** Returns the name of a message; empty for undefined messages and for other TLPs. */
function messageName(store, headers, row) {
  const last = textOf(store, row).split(" ").pop();
  return headers.family(row) === "message" && !/^([0-9a-f]{8}|prefixes)$/.test(last) ? last : "";
}

/** Returns the number of bytes that a request accesses. For a memory request: from the first to the last enabled byte, or 1
 *  if none is enabled (PCIe 5.0 §2.2.5). For an atomic request: the size of one operand. For others: 4. */
function requestBytes(headers, row) {
  const family = headers.family(row);
  const length = headers.lengthDw(row);
  if (family === "io" || family === "config") return 4;
  if (family === "atomic") return headers.format(row).name === "CAS" ? length * 2 : length * 4;
  if (family !== "memory") return length * 4;
  const [first, last] = [headers.firstBe(row), headers.lastBe(row)];
  if (length === 1) return first === 0 ? 1 : 32 - Math.clz32(first) - leadOf(headers, row);
  return length * 4 - leadOf(headers, row) - (last === 0 ? 3 : Math.clz32(last) - 28);
}

/** Returns the number of bytes in a memory request's first DW before the first enabled byte. */
function leadOf(headers, row) {
  if (headers.family(row) !== "memory") return 0;
  const first = headers.firstBe(row);
  return first === 0 ? 0 : 31 - Math.clz32(first & -first);
}

/** Returns the address of a row as 64 bits. */
function addressOf(headers, row) {
  return (BigInt(headers.addressHigh(row)) << 32n) | BigInt(headers.addressLow(row));
}

function addressText(headers, row) {
  const high = headers.addressHigh(row);
  const low = headers.addressLow(row);
  return high === 0 ? `0x${hex(low, 8)}` : `0x${hex(high, 1)}${hex(low, 8)}`;
}

// A lane is one direction of one link. The name of the interface identifies it, or else source and destination.

/** Returns the lanes of all rows: `list` of { name, link, direction }, `of(row)`, the index of a row's lane, and
 *  `opposite(lane)`, the other direction. */
function makeLanes(store) {
  const known = new Map();
  const list = [];
  const place = (key, lane) => {
    if (!known.has(key)) {
      known.set(key, list.length);
      list.push({ ...lane, key });
    }
    return known.get(key);
  };
  const { interfaces, paths } = store.meta;
  const of = new Map();
  return {
    list,
    of: (row) => {
      const both = store.interface[row] * 65_537 + laneKeyOfPath(store, row);
      let lane = of.get(both);
      if (lane === undefined) {
        lane = place(...laneOf(interfaces[store.interface[row] - 1], paths[store.path[row] - 1]));
        of.set(both, lane);
      }
      return lane;
    },
    opposite: (lane) => known.get(list[lane].back),
  };
}

// Addresses and ports are not needed if the interface has a direction.
function laneKeyOfPath(store, row) {
  return store.meta.interfaces[store.interface[row] - 1]?.direction ? 0 : store.path[row];
}

function laneOf(face, path) {
  if (face?.direction) {
    const way = face.direction === "upstream" ? "up" : "down";
    const other = way === "up" ? "down" : "up";
    const lane = { name: `${face.slot || `link ${face.link}`} ${way}`, direction: way, link: face.link };
    return [`${face.link} ${way}`, { ...lane, back: `${face.link} ${other}` }];
  }
  if (!path) return ["-", { name: face?.name || "unknown", direction: "", link: face?.link ?? 0, back: "" }];
  const link = face?.link ?? 0;
  const key = (from, to) => `${link} ${from} ${to}`;
  const name = `${path.source} → ${path.destination}`;
  const back = key(path.destination, path.source);
  return [key(path.source, path.destination), { name, direction: "", link, back }];
}
