// SPDX-License-Identifier: Apache-2.0 OR MIT
// The list of rows. It has only as many elements as fit into the view, and keeps no text of other rows.

const ROW_PX = 22;
/** Maximum height of the scroll area in pixels, which browsers limit. In longer lists, a pixel stands for several rows. */
const MAX_SCROLL_PX = 8_000_000;

/** Makes a list in `host`, whose `.pane` shows rows and whose `.bar` scrolls. `source` has count(), cells(place), kind(place)
 *  and tint(place). */
function makeList(host, source, onSelect) {
  const list = {
    host,
    source,
    pane: host.querySelector(".pane"),
    bar: host.querySelector(".bar"),
    spacer: host.querySelector(".spacer"),
    elements: [],
    top: 0,
    selected: -1,
    scrolling: false,
  };
  list.bar.addEventListener("scroll", () => followBar(list));
  list.pane.addEventListener("wheel", (event) => onWheel(list, event), { passive: false });
  list.pane.addEventListener("click", (event) => {
    const element = event.target.closest(".row");
    if (element) onSelect(Number(element.dataset.place), event.target);
  });
  new ResizeObserver(() => layOut(list)).observe(list.pane);
  addTouch(list);
  return list;
}

function visibleRows(list) {
  return Math.max(1, Math.floor(list.pane.clientHeight / ROW_PX));
}

function lastTop(list) {
  return Math.max(0, list.source.count() - visibleRows(list));
}

/** Updates the list for the number of rows and the size of the view. */
function layOut(list) {
  const height = Math.min(list.source.count() * ROW_PX, MAX_SCROLL_PX);
  list.spacer.style.height = `${Math.max(height, list.pane.clientHeight)}px`;
  list.host.setAttribute("aria-rowcount", String(list.source.count() + 1));
  scrollTo(list, list.top);
}

/** Shows the rows from `top` on. */
function scrollTo(list, top) {
  list.top = Math.min(Math.max(0, Math.round(top)), lastTop(list));
  const room = list.bar.scrollHeight - list.bar.clientHeight;
  list.scrolling = true;
  list.bar.scrollTop = lastTop(list) === 0 ? 0 : (list.top / lastTop(list)) * room;
  paint(list);
}

function followBar(list) {
  if (list.scrolling) {
    list.scrolling = false;
    return;
  }
  const room = list.bar.scrollHeight - list.bar.clientHeight;
  list.top = room <= 0 ? 0 : Math.round((list.bar.scrollTop / room) * lastTop(list));
  paint(list);
}

function onWheel(list, event) {
  if (event.ctrlKey) return;
  event.preventDefault();
  const lines = event.deltaMode === 1 ? event.deltaY : event.deltaY / ROW_PX;
  scrollTo(list, list.top + (Math.abs(lines) < 1 ? Math.sign(lines) : lines));
}

function addTouch(list) {
  let last = 0;
  list.pane.addEventListener("touchstart", (event) => (last = event.touches[0].clientY), { passive: true });
  list.pane.addEventListener("touchmove", (event) => {
    const moved = Math.trunc((last - event.touches[0].clientY) / ROW_PX);
    if (moved === 0) return;
    last -= moved * ROW_PX;
    scrollTo(list, list.top + moved);
  }, { passive: true });
}

/** Selects a place. If it is out of view, scrolls it to the middle. */
function selectPlace(list, place) {
  list.selected = place;
  const rows = visibleRows(list);
  if (place >= 0 && (place < list.top || place >= list.top + rows)) {
    scrollTo(list, place - Math.floor(rows / 2));
  } else {
    paint(list);
  }
}

function rowElement(list, index) {
  if (list.elements[index]) return list.elements[index];
  const element = document.createElement("div");
  element.setAttribute("role", "row");
  element.style.top = `${index * ROW_PX}px`;
  for (const { key: name } of COLUMNS) {
    const cell = document.createElement("span");
    cell.className = name;
    cell.setAttribute("role", "gridcell");
    element.append(cell);
  }
  list.pane.append(element);
  list.elements[index] = element;
  return element;
}

function paint(list) {
  const shown = Math.min(Math.ceil(list.pane.clientHeight / ROW_PX), list.source.count() - list.top);
  for (let index = 0; index < shown; index++) paintRow(list, rowElement(list, index), list.top + index);
  for (let index = Math.max(0, shown); index < list.elements.length; index++) list.elements[index].hidden = true;
}

function paintRow(list, element, place) {
  const cells = list.source.cells(place);
  COLUMNS.forEach(({ key: name }, i) => {
    const cell = element.children[i];
    const text = cells[name] ?? "";
    if (cell.textContent !== text) cell.textContent = text;
    if (name === "info" && cell.title !== text) cell.title = text;
  });
  const chosen = place === list.selected;
  element.hidden = false;
  element.dataset.place = String(place);
  element.id = `row-${place}`;
  element.className = `row ${list.source.kind(place)}${chosen ? " selected" : ""}`;
  element.style.setProperty("--kind", `var(--${list.source.tint(place)})`);
  element.setAttribute("aria-rowindex", String(place + 2));
  element.setAttribute("aria-selected", String(chosen));
  if (chosen) list.host.setAttribute("aria-activedescendant", element.id);
}

// Content of a row.

/** Returns the cells of a row of the store. `before` is the row shown above it, or -1. */
function cellsOf(store, headers, row, before) {
  const isTlp = store.kind[row] === KIND.tlp;
  const lane = headers.lane.list[headers.lane.of(row)];
  const inFile = store.number[row] > 0;
  const timed = inFile && store.meta.has_times;
  return {
    number: inFile ? String(store.number[row]) : "",
    time: timed ? timeText(store.time[row], store.meta.digits) : "",
    delta: timed && before >= 0 ? deltaText(store.time[row] - store.time[before]) : "",
    way: { up: "▲", down: "▼" }[lane.direction] ?? "",
    link: linkName(store, row),
    type: headers.typeName(row),
    requester: isTlp ? idText(headers.requester(row)) : "",
    tag: isTlp && hasTag(headers, row) ? `0x${hex(headers.tag(row), 2)}` : "",
    info: infoOf(store, headers, row),
    bytes: bytesOf(headers, row),
    status: isTlp ? statusCell(store, headers, row) : "",
    latency: latencyCell(store, row),
  };
}

/** Returns the name of a row's link: the slot at its end, or its number; empty if the capture names no links. */
function linkName(store, row) {
  const face = store.meta.interfaces[store.interface[row] - 1];
  return face?.slot || (face?.direction ? String(face.link) : "");
}

/** Returns a time difference. A small one has as many digits as latencies. */
function deltaText(ps) {
  return `${ps < 0 ? "-" : "+"}${duration(Math.abs(ps), Math.abs(ps) < PS_PER_US ? 3 : 1)}`;
}

function hasTag(headers, row) {
  return headers.format(row).class !== "P";
}

function bytesOf(headers, row) {
  if (!headers.format(row)) return "";
  const asked = headers.hasAddress(row) ? headers.requestBytes(row) : headers.payload(row);
  return asked > 0 ? String(asked) : "";
}

function statusCell(store, headers, row) {
  if (store.dropped[row]) return "dropped";
  if (store.damaged[row]) return "damaged";
  if (store.ecrc[row] === 3) return "bad ECRC";
  if (headers.poisoned(row)) return "poisoned";
  if (store.role[row] === ROLE.unexpected) return "unexpected";
  if (store.role[row] === ROLE.replay) return "replay";
  return headers.isCompletion(row) ? statusOf(store, headers, row) : "";
}

function latencyCell(store, row) {
  return duration(store.response[row], 3, true);
}

function infoOf(store, headers, row) {
  switch (store.kind[row]) {
    case KIND.tlp:
      return tlpInfo(store, headers, row);
    case KIND.dllp:
      return dllpInfo(store, row);
    default:
      return textOf(store, row);
  }
}

function tlpInfo(store, headers, row) {
  const means = meaningOf(store, row);
  if (headers.hasAddress(row)) return `${addressText(headers, row)}${means && ` ${means}`}`;
  switch (headers.family(row)) {
    case "completion": {
      const request = store.request[row];
      const whose = request >= 0 ? `answers ${store.number[request]}` : "";
      return `${whose}${whose ? ", " : ""}${means || `byte count ${headers.byteCount(row)}`}`;
    }
    case "config":
      return `${idText(headers.completer(row))} ${means || `register 0x${hex(headers.register(row), 3)}`}`;
    default:
      return `${messageName(store, headers, row)} code 0x${hex(headers.code(row), 2)}, routing ${store.first[row] & 7}`.trimStart();
  }
}

function dllpInfo(store, row) {
  const fc = flowControlOf(store, row);
  if (fc) return `${fc.class}, VC ${fc.vc}, header ${fc.header}, data ${fc.data}`;
  return store.first[row] === 0x00 || store.first[row] === 0x10 ? `sequence ${store.dw[0][row] & 0xfff}` : "";
}
