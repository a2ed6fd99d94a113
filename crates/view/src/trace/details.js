// SPDX-License-Identifier: Apache-2.0 OR MIT
// Details of the selected row: its frame, all fields of its header, its bytes, and its transaction. Text is never
// used as markup.

/** Minimum width of the panel in CSS pixels for 16 bytes of data per line. */
const WIDE_PX = 540;

/** Shows `row` in `host`. Links call `go(row)` to select another row. Resolves when the data is visible too. */
async function showDetails(host, store, headers, row, go) {
  const sections = [violationsSection(store, row)];
  const data = [];
  if (store.kind[row] === KIND.tlp) {
    const family = headers.format(row);
    sections.push(section(`TLP: ${family.name}`, tlpFields(store, headers, row)));
    sections.push(bytesSection("Header bytes", headerDws(store, row)));
    const width = host.clientWidth >= WIDE_PX ? 16 : 8;
    const request = requestOf(store, row);
    data.push(dataSection(store, headers, row, width), request < 0 ? null : readSection(store, headers, request, width));
    sections.push(data[0]?.section, transactionSection(store, headers, row, go), data[1]?.section);
  } else if (store.kind[row] === KIND.dllp) {
    sections.push(section(`DLLP: ${textOf(store, row)}`, dllpFields(store, row)));
    sections.push(bytesSection("Bytes, without CRC", [store.dw[0][row]]));
  } else {
    sections.push(make("p", "said", textOf(store, row)));
  }
  sections.push(section("Frame", frameFields(store, row)));
  host.replaceChildren(...sections.filter(Boolean));
  await Promise.all(data.map((part) => part?.done));
}

/** Returns the rules that the row breaks. */
function violationsSection(store, row) {
  const items = violationsOf(store, row).map((text) => make("li", "", text));
  return items.length > 0 ? make("section", "broken", make("h3", "", "Rules broken"), make("ul", "", ...items)) : null;
}

function section(title, fields) {
  const table = make("dl", "");
  for (const [name, value] of fields) {
    if (value !== "" && value !== undefined) table.append(make("dt", "", name), make("dd", "", value));
  }
  return make("section", "", make("h3", "", title), table);
}

function bytesSection(title, dws) {
  return make("section", "", make("h3", "", title), make("pre", "bytes", bytesText(dws)));
}

function headerDws(store, row) {
  const count = headerDwords(store.kind[row], store.first[row]);
  return store.dw.slice(0, count).map((dw) => dw[row]);
}

function frameFields(store, row) {
  const face = store.meta.interfaces[store.interface[row] - 1];
  const path = store.meta.paths[store.path[row] - 1];
  const captured = store.length[row] - store.cut[row];
  const timed = store.number[row] > 0 && store.meta.has_times;
  return [
    ["Frame", store.number[row] > 0 ? String(store.number[row]) : "none (fault of the file)"],
    ["Time", timed ? `${timeText(store.time[row], store.meta.digits)} µs` : ""],
    ["Since previous frame", row > 0 && timed ? deltaText(store.time[row] - store.time[row - 1]) : ""],
    [store.meta.is_virtual ? "In the run" : "UTC", timed ? clockText(store, row) : ""],
    ["Link", linkName(store, row)],
    ["Interface", face?.name ?? ""],
    ["", face?.description ?? ""],
    ["VLAN", path?.vlan.join(", ") ?? ""],
    ["From", path ? `${path.source} port ${path.source_port}` : ""],
    ["To", path ? `${path.destination} port ${path.destination_port}` : ""],
    ["NetTLP seq", path ? String(store.sequence[row]) : ""],
    ["NetTLP time", path ? `${store.stamp[row]} (${duration(store.stamp[row] * 6400)})` : ""],
    ["Length", captured < store.length[row] ? `${store.length[row]} B, ${captured} captured` : `${store.length[row]} B`],
  ];
}

/** Returns the time of day, or the time since the start of the run, with a resolution of a picosecond. */
function clockText(store, row) {
  const ps = BigInt(store.meta.start_ps) + BigInt(Math.round(store.time[row]));
  const digits = Math.max(1, store.meta.digits);
  const fraction = (ps % 1_000_000_000_000n).toString().padStart(12, "0").slice(0, digits);
  const seconds = ps / 1_000_000_000_000n;
  if (store.meta.is_virtual) return `${seconds}.${fraction} s`;
  return `${new Date(Number(seconds) * 1000).toISOString().slice(0, 19).replace("T", " ")}.${fraction}`;
}

function tlpFields(store, headers, row) {
  const dw0 = store.dw[0][row];
  const bit = (at) => (dw0 >>> at) & 1;
  return [
    ["Means", meaningOf(store, row)],
    ["Fmt, Type", `${(store.first[row] >> 5).toString(2).padStart(3, "0")}b, ${(store.first[row] & 31).toString(2).padStart(5, "0")}b`],
    ["Class", { P: "posted", NP: "non-posted", Cpl: "completion" }[headers.format(row).class]],
    ["Issued by", store.host[row] ? "host" : "device"],
    ["TC", String((dw0 >>> 20) & 7)],
    ["Attributes", attributes(dw0)],
    ["AT", String((dw0 >>> 10) & 3)],
    ["TH, TD, EP", `${bit(16)}, ${bit(15)}, ${bit(14)}`],
    ["Length", headers.hasData(row) || headers.hasAddress(row) ? `${headers.lengthDw(row)} DW` : ""],
    ["Requester", idText(headers.requester(row))],
    ["Tag", `0x${hex(headers.tag(row), 2)} (${headers.tag(row)})`],
    ...familyFields(store, headers, row),
    ["Data", dataText(store, headers, row)],
    ["ECRC", ["", "good", "", "bad"][store.ecrc[row]] || (bit(15) ? "not captured" : "")],
    ["Place in lane", store.place[row] >= 0 ? `${store.place[row]}, sequence ${store.place[row] % 4096}` : ""],
    ["Prefixes", prefixesOf(store, row).join(" ")],
    ["On the link", [store.damaged[row] && "damaged", store.dropped[row] && "dropped"].filter(Boolean).join(", ")],
  ];
}

function attributes(dw0) {
  const names = [];
  if (dw0 & 0x4_0000) names.push("ID-based ordering");
  if (dw0 & 0x2000) names.push("relaxed ordering");
  if (dw0 & 0x1000) names.push("no snoop");
  return names.join(", ") || "none";
}

function dataText(store, headers, row) {
  const payload = headers.payload(row);
  if (payload === 0) return "";
  return store.held[row] < payload ? `${payload} B, ${store.held[row]} captured` : `${payload} B`;
}

function familyFields(store, headers, row) {
  const enables = (be) => be.toString(2).padStart(4, "0") + "b";
  const both = ["Byte enables", `first ${enables(headers.firstBe(row))}, last ${enables(headers.lastBe(row))}`];
  switch (headers.family(row)) {
    case "memory":
      return [["Address", addressText(headers, row)], both, ["Bytes", String(headers.requestBytes(row))], ["Hint", hintText(store, headers, row)]];
    case "io":
    case "atomic":
      return [["Address", addressText(headers, row)], both];
    case "config":
      return [["Function", idText(headers.completer(row))], ["Register", `0x${hex(headers.register(row), 3)}`], both];
    case "completion":
      return completionFields(store, headers, row);
    default:
      return messageFields(store, headers, row);
  }
}

function hintText(store, headers, row) {
  if (!headers.hinted(row)) return "";
  const steering = headers.hasData(row) ? headers.tag(row) & 0xff : store.dw[1][row] & 0xff;
  const low = headers.four(row) ? store.dw[3][row] : store.dw[2][row];
  return `PH ${low & 3}, ST 0x${hex(steering, 2)}`;
}

function completionFields(store, headers, row) {
  return [
    ["Completer", idText(headers.completer(row))],
    ["Status", statusOf(store, headers, row)],
    ["BCM", String((store.dw[1][row] >>> 12) & 1)],
    ["Byte count", String(headers.byteCount(row))],
    ["Lower address", `0x${hex(headers.lowerAddress(row), 2)}`],
  ];
}

function messageFields(store, headers, row) {
  const routings = ["to root complex", "by address", "by ID", "broadcast", "local", "gathered", "reserved", "reserved"];
  return [
    ["Message", messageName(store, headers, row)],
    ["Message code", `0x${hex(headers.code(row), 2)}`],
    ["Routing", routings[store.first[row] & 7]],
    ["Header", bytesText([store.dw[2][row], store.dw[3][row]])],
  ];
}

function dllpFields(store, row) {
  const fc = flowControlOf(store, row);
  const crc = ["CRC", `0x${hex(store.dw[1][row], 4)}`];
  if (!fc) return [["Sequence", dllpInfo(store, row).replace("sequence ", "")], crc];
  return [
    ["Class", fc.class],
    ["Virtual channel", String(fc.vc)],
    ["Header credits", String(fc.header)],
    ["Data credits", `${fc.data} (${fc.data * 16} B)`],
    crc,
  ];
}

/** Returns the request, its completions and their times on each link. */
function transactionSection(store, headers, row, go) {
  const root = rootOf(store, row);
  const request = store.hops.has(root) ? root : transactionOf(store, row);
  if (request < 0) return null;
  const rows = rowsOf(store, request);
  const steps = make("ol", "steps");
  for (const step of rows.slice(0, 200)) steps.append(stepItem(store, headers, step, request, row, go));
  if (rows.length > 200) steps.append(make("li", "", `and ${rows.length - 200} more`));
  const whole = section("Transaction", transactionFields(store, headers, request, answersOf(store, request)));
  whole.append(steps);
  return whole;
}

function transactionFields(store, headers, request, answers) {
  const [response, first] = [store.response[request], store.firstData[request]];
  const bytes = headers.requestBytes(request);
  return [
    ["State", stateOf(store, request, answers)],
    ["Errors", answers.length > 0 ? errorNames(store.errors[answers[answers.length - 1]]) : ""],
    ["Response time", duration(response)],
    ["To first data", duration(first)],
    ["Throughput", response > 0 && headers.hasAddress(request) ? rateText((bytes * 8 * 1e12) / response) : ""],
    ["Completions", String(answers.length)],
    ...legFields(store, request),
  ];
}

function stateOf(store, request, answers) {
  if (store.nonPosted[store.first[request]] === 0) return "posted";
  if (answers.length === 0) return "not answered";
  if (store.probe[answers.at(-1)]) return "bus probe: no such function";
  return store.response[request] >= 0 ? "complete" : "partly answered";
}

/** Returns for each link the time of a transaction from this link to the next one and back. */
function legFields(store, root) {
  if (!store.hops.has(root)) return [];
  return [...legsOf(store, root)].map(([request, ps]) => [`From ${linkName(store, request)} on`, duration(ps)]);
}

function errorNames(bits) {
  return ERROR_NAMES.filter((_, bit) => (bits >> bit) & 1).join(", ");
}

function stepItem(store, headers, step, request, row, go) {
  const time = step === request ? "" : ` +${duration(store.time[step] - store.time[request])}`;
  const payload = headers.payload(step);
  const link = store.hops.has(request) ? ` ${linkName(store, step)}` : "";
  const text = `${store.number[step]} ${headers.typeName(step)}${link}${time}${payload > 0 ? `, ${payload} B` : ""}`;
  const button = make("button", step === row ? "current" : "", text);
  button.type = "button";
  button.addEventListener("click", () => go(step));
  return make("li", "", button);
}
