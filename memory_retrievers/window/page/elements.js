// Elements, made of untrusted texts: whatever comes from a store is only ever text or the value of a harmless attribute.

const SVG = "http://www.w3.org/2000/svg";
const LONG = 20_000; // characters of a text that are shown before one asks for all of it

/** An element with attributes and children; a string among the children becomes text. */
export function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** An element of a drawing. */
export function drawn(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** A button that does something; `key` finds it again after the part around it was drawn anew. */
export function button(label, act, attributes = {}) {
  const made = element("button", { type: "button", ...attributes }, label);
  made.addEventListener("click", act);
  return made;
}

/** A text of somebody else: its direction is its own, and it does not reach beyond its element. */
export function quoted(text, name = "p") {
  const whole = String(text ?? "");
  const made = element(name, { class: "text", dir: "auto" });
  if (whole.length <= LONG) {
    made.textContent = whole;
    return made;
  }
  made.textContent = `${whole.slice(0, LONG)}…`;
  const rest = button(`Show all ${grouped(whole.length)} characters`, () => {
    made.textContent = whole;
    made.tabIndex = -1;
    rest.remove();
    made.focus();
  }, { "data-key": "whole" });
  return element("div", {}, made, rest);
}

/** A short form of a text, which does not keep the long one in memory. */
export function shortened(text, most) {
  const whole = String(text ?? "");
  return whole.length <= most ? whole : `${JSON.parse(JSON.stringify(whole.slice(0, most)))}…`;
}

/** Pairs of a name and a value; a value may be an element. Those without a value are left out. */
export function fields(pairs) {
  const given = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  const parts = given.flatMap(([name, value]) => [element("dt", {}, name), element("dd", { dir: value instanceof Node ? null : "auto" }, value instanceof Node ? value : String(value))]);
  return element("dl", { class: "fields" }, ...parts);
}

/** A table with a heading for each column; cells may be elements. */
export function table(caption, headings, rows) {
  const head = element("tr", {}, ...headings.map((heading) => element("th", { scope: "col" }, heading)));
  const body = rows.map((cells) => element("tr", {}, ...cells.map((cell) => element("td", { dir: "auto" }, cell instanceof Node ? cell : String(cell)))));
  const made = element("table", {}, element("caption", { class: "unseen" }, caption), element("thead", {}, head), element("tbody", {}, ...body));
  return element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption, "data-key": `table ${caption}` }, made);
}

/** A list that shows so many of its items, and more when asked. */
export function inSteps(items, made, step = 100) {
  const list = element("ul", { class: "list" });
  const more = button("", grow);
  function grow() {
    const shown = list.childElementCount;
    const added = items.slice(shown, shown + step).map((item) => element("li", {}, made(item)));
    list.append(...added);
    const left = items.length - list.childElementCount;
    more.textContent = `Show more: ${grouped(left)} are left`;
    more.hidden = left === 0;
    if (shown) added[0]?.querySelector("button")?.focus();
  }
  grow();
  return element("div", {}, list, more);
}

/** Put children in the place of those that are there, and leave focus and scroll where they were. */
export function redraw(parent, ...children) {
  const key = parent.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  const top = parent.scrollTop;
  parent.replaceChildren(...children.filter((child) => child !== null && child !== undefined));
  parent.scrollTop = top;
  if (key !== undefined) [...parent.querySelectorAll("[data-key]")].find((each) => each.dataset.key === key)?.focus();
}

/** True if a part shows this answer already; otherwise it is noted that it does from now on. */
export function isShown(region, answer) {
  const told = JSON.stringify(answer);
  if (region.told === told && region.firstElementChild?.dataset.waits === undefined) return true;
  region.told = told;
  return false;
}

export function grouped(number) {
  return Number(number).toLocaleString("en");
}

export function counted(number, name, names = `${name}s`) {
  return `${grouped(number)} ${Number(number) === 1 ? name : names}`;
}

export function percent(share) {
  return `${Math.round(100 * share)} %`;
}

export function bytes(number) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let value = Number(number);
  let unit = 0;
  for (; value >= 1000 && unit < units.length - 1; unit += 1) value /= 1000;
  return `${value.toFixed(unit && value < 10 ? 1 : 0)} ${units[unit]}`;
}

/** "2026-03-01 09:00" of an ISO time in UTC. */
export function minute(iso) {
  return iso ? String(iso).slice(0, 16).replace("T", " ") : "";
}

/** A `<time>` that shows day and minute. */
export function moment(iso, attributes = {}) {
  return element("time", { datetime: iso, title: `${iso}`, ...attributes }, minute(iso));
}

/** What a field for day and time in UTC holds, as ISO 8601; null if it is empty. */
export function momentIn(field) {
  return field.value ? `${field.value}${field.value.length === 16 ? ":00" : ""}Z` : null;
}

/** The value of such a field for a time. */
export function fieldValue(iso) {
  return new Date(iso).toISOString().slice(0, 16);
}
