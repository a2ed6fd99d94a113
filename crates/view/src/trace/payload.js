// SPDX-License-Identifier: Apache-2.0 OR MIT
// The data bytes of TLPs in the page (payload.rs). Finds the bytes of a row, unpacks them, and shows them as
// hexadecimal numbers and text.

/** Maximum number of unpacked blocks that are kept. */
const MAX_BLOCKS = 4;
const blocks = new Map();

/** Returns the index in `payloads` of the share for a row's data; -1 before the first. */
function shareAt(store, row) {
  const { payloads } = store.meta;
  let at = payloads.length - 1;
  while (at >= 0 && payloads[at].row > row) at--;
  return at;
}

/** Returns the number of a row's data bytes in the page. */
function keptBytes(store, row) {
  const at = shareAt(store, row);
  return at < 0 ? 0 : Math.min(store.held[row], store.meta.payloads[at].bytes);
}

/** Returns a promise of the bytes of a block. */
function blockAt(at) {
  if (!blocks.has(at)) {
    const packed = document.querySelectorAll("script.payload")[at].textContent;
    blocks.set(at, inflated(packed).arrayBuffer().then((buffer) => new Uint8Array(buffer)));
    if (blocks.size > MAX_BLOCKS) blocks.delete(blocks.keys().next().value);
  }
  return blocks.get(at);
}

/** Returns a promise of a row's data bytes in the page. */
async function payloadOf(store, row) {
  const kept = keptBytes(store, row);
  if (kept === 0) return new Uint8Array(0);
  const at = shareAt(store, row);
  let offset = 0;
  for (let before = store.meta.payloads[at].row; before < row; before++) offset += Math.min(store.held[before], store.meta.payloads[at].bytes);
  return (await blockAt(at)).subarray(offset, offset + kept);
}

/** Returns the first and the last enabled byte of a TLP's data, and the position of the first byte: an address for a
 *  request, otherwise an offset. Only one or two DWs can have disabled bytes between them (PCIe 5.0 §2.2.5). */
function placeOfData(headers, row) {
  const length = headers.payload(row);
  const enables = (at) => {
    if (!["memory", "io", "config"].includes(headers.family(row))) return true;
    const [first, last] = [headers.firstBe(row), headers.lastBe(row)];
    if (at < 4) return ((first >> at) & 1) === 1;
    return at < length - 4 || ((last >> (at - length + 4)) & 1) === 1;
  };
  const base = headers.hasAddress(row) ? addressOf(headers, row) : BigInt(headers.family(row) === "config" ? headers.register(row) : 0);
  return { base, enables };
}

/** Returns the bytes of all completions of a memory read, in the order of addresses: { bytes, known, base }; null for other
 *  requests. */
async function dataOfRead(store, headers, request) {
  if (headers.family(request) !== "memory" || headers.hasData(request)) return null;
  const size = headers.requestBytes(request);
  const [bytes, known] = [new Uint8Array(size), new Uint8Array(size)];
  for (const row of answersOf(store, request)) {
    const skipped = headers.lowerAddress(row) & 3;
    const data = (await payloadOf(store, row)).subarray(skipped, skipped + headers.byteCount(row));
    const at = size - headers.byteCount(row);
    if (at < 0 || at + data.length > size) continue;
    bytes.set(data, at);
    known.fill(1, at, at + data.length);
  }
  return { bytes, known, base: addressOf(headers, request) + BigInt(headers.lead(request)) };
}

/** Formats lines of `width` bytes: position, hexadecimal numbers, text. Bytes for which `shown(i)` is false are grey. `known` is
 *  1 for known bytes. */
function dumpOf(bytes, base, width, shown = () => true, known = null) {
  const pre = make("pre", "dump");
  const digits = Math.max(4, (base + BigInt(bytes.length)).toString(16).length);
  for (let at = 0; at < bytes.length; at += width) {
    const places = Array.from({ length: Math.min(width, bytes.length - at) }, (_, i) => at + i);
    const missing = Array.from({ length: width - places.length }, (_, i) => places.length + i);
    const isKnown = (i) => !known || known[i] === 1;
    const cell = (i, text) => (shown(i) ? text : make("span", "off", text));
    pre.append(make("span", "at", (base + BigInt(at)).toString(16).padStart(digits, "0")), "  ");
    for (const i of places) pre.append(cell(i, isKnown(i) ? hex(bytes[i], 2) : "··"), i % 4 === 3 ? "  " : " ");
    pre.append(...missing.map((i) => (i % 4 === 3 ? "    " : "   ")), ...places.map((i) => cell(i, isKnown(i) ? textOfByte(bytes[i]) : "·")), "\n");
  }
  return pre;
}

/** Returns a byte as ASCII; a dot if it is not printable. */
function textOfByte(byte) {
  return byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : ".";
}

/** Returns a text about missing data of a TLP, with the reason; empty if no data is missing. */
function lackOfData(store, headers, row) {
  const [whole, held, kept] = [headers.payload(row), store.held[row], keptBytes(store, row)];
  if (kept === whole) return "";
  if (kept === held) return held === 0 ? `None of ${whole} B was captured.` : `The first ${held} of ${whole} B; the others were not captured.`;
  const part = kept === 0 ? `None of ${held} B is` : `The first ${kept} of ${held} B are`;
  return `${part} in this page, which keeps 6 MiB of packed data; riser trace -x shows all.`;
}

/** Returns an element that shows the data of a TLP when it is unpacked; null for a TLP without data. */
function dataSection(store, headers, row, width) {
  if (headers.payload(row) === 0) return null;
  const { base, enables } = placeOfData(headers, row);
  const section = make("section", "data", make("h3", "", "Data"));
  section.append(make("p", "said", lackOfData(store, headers, row)));
  const done = payloadOf(store, row).then((bytes) => section.append(dumpOf(bytes, base, width, enables)));
  return { section, done };
}

/** Returns an element with the data of a read; null for other requests, and if one completion has all data. */
function readSection(store, headers, request, width) {
  if (headers.family(request) !== "memory" || headers.hasData(request) || store.firstAnswer[request] < 0) return null;
  const section = make("section", "data", make("h3", "", "Data of the read"));
  const done = dataOfRead(store, headers, request).then(({ bytes, known, base }) => {
    const brought = known.reduce((sum, is) => sum + is, 0);
    if (brought < bytes.length) section.append(make("p", "said", `${brought} of ${bytes.length} B are in this page.`));
    if (brought > 0) section.append(dumpOf(bytes, base, width, () => true, known));
  });
  return { section, done };
}
