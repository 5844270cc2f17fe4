// The memories of a scope as a time line. However many there are, only the rows in view are elements.

import { element, grouped, minute, shortened } from "./elements.js";

const BEYOND = 8; // rows that are drawn above and below those in view
const AHEAD = 40; // rows left below before more are asked for
const SHOWN = 300; // characters of a memory that a row keeps
const CATCHING_UP = 10; // pages that are read to meet what is known again
const TALLEST = 30_000_000; // pixels: browsers do not lay out much more

const keyOf = (memory) => `${memory.scope}\n${memory.id}`;

export class Timeline {
  /**
   * @param list the element that scrolls and has the role of a list box
   * @param opened is called with `{scope, id}` of a row that is opened
   * @param changed is called whenever more is known: with how many rows are loaded, how many there are, how many are new above
   */
  constructor(list, opened, changed) {
    this.list = list;
    this.opened = opened;
    this.changed = changed;
    this.spacer = element("div", { class: "spacer", role: "presentation" });
    list.append(this.spacer);
    this.nodes = new Map(); // key → element, for the rows in view
    this.clear();
    list.addEventListener("scroll", () => this.#soon(), { passive: true });
    list.addEventListener("keydown", (event) => this.#keyed(event));
    list.addEventListener("click", (event) => this.#clicked(event));
    list.addEventListener("focusin", (event) => this.#activate(event.target.closest("[role=option]")?.dataset.key));
    new ResizeObserver(() => this.#soon()).observe(list);
  }

  clear() {
    this.source = null;
    this.rows = [];
    this.marks = []; // where pages begin: `{cursor, key}`, to ask for them again
    this.next = null;
    this.total = 0;
    this.active = null; // the key of the row that Tab leads to
    this.above = 0;
    this.places = null;
    for (const node of this.nodes.values()) node.remove();
    this.nodes.clear();
    this.list.scrollTop = 0;
    this.loading = null;
  }

  /** Show what a source gives: `source(cursor)` promises `{memories, cursor, total}`, newest first. */
  async show(source) {
    this.clear();
    this.source = source;
    const page = await source(null);
    if (this.source !== source) return;
    this.#begin(page);
    this.#render();
  }

  #begin(page) {
    this.rows = page.memories.map(slim);
    this.places = null;
    this.total = page.total;
    this.next = page.cursor;
    this.marks = [{ cursor: null, key: null }];
    this.active = this.#place(this.active) === undefined ? this.rows[0]?.key ?? null : this.active;
  }

  /** Ask again for the newest rows and for those in view; what one looks at stays where it is. */
  async refresh() {
    const source = this.source;
    if (!source) return;
    let page = await source(null);
    if (this.source !== source) return;
    if (!this.rows.length) {
      this.#begin(page);
      this.#render();
      return;
    }
    const newest = [...page.memories];
    for (let pages = 1; page.cursor && pages < CATCHING_UP && !newest.some((each) => this.#place(keyOf(each)) !== undefined); pages += 1) {
      page = await source(page.cursor);
      newest.push(...page.memories);
    }
    if (this.source !== source) return;
    this.#keepingPlace(() => this.#merge({ ...page, memories: newest }, true));
    const bottom = this.#range().last;
    for (let index = Math.max(this.#range().first, newest.length), pages = 0; index < bottom && pages < 3; pages += 1) {
      const mark = this.marks.findLast((each) => (this.#place(each.key) ?? 0) <= index);
      const seen = await source(mark.cursor);
      if (this.source !== source) return;
      this.#keepingPlace(() => this.#merge(seen, mark.cursor === null));
      const last = this.#place(seen.memories.length ? keyOf(seen.memories.at(-1)) : null);
      if (!seen.cursor || last === undefined) break;
      this.#mark(seen.cursor, this.rows[last + 1]?.key);
      index = last + 1;
    }
  }

  /** Give the focus to the row of Tab. */
  focus() {
    this.#reveal(this.#place(this.active) ?? 0);
  }

  toTop() {
    this.list.scrollTop = 0;
    this.above = 0;
    if (this.rows.length) this.#reveal(0);
  }

  /** Mark the memory that is shown beside the list. */
  select(memory) {
    this.selected = memory ? keyOf(memory) : null;
    for (const [key, node] of this.nodes) node.setAttribute("aria-selected", key === this.selected);
  }

  async #more() {
    if (this.loading || !this.next || this.rows.length * this.#height() > TALLEST) return;
    const { source, next } = this;
    this.loading = next;
    try {
      const page = await source(next);
      if (this.source !== source || this.next !== next) return;
      const added = page.memories.map(slim).filter((row) => this.#place(row.key) === undefined);
      this.#mark(next, added[0]?.key);
      this.rows.push(...added);
      this.places = null;
      this.next = page.cursor;
      this.total = page.total;
    } finally {
      if (this.loading === next) this.loading = null;
    }
    this.#soon();
  }

  #mark(cursor, key) {
    if (key === undefined || this.marks.some((each) => each.cursor === cursor)) return;
    this.marks.push({ cursor, key });
    this.marks.sort((one, other) => (this.#place(one.key) ?? 0) - (this.#place(other.key) ?? 0));
  }

  /** Bring a page, whose rows follow each other, into the rows that are known. */
  #merge(page, fromTop) {
    const fresh = page.memories.map(slim);
    const places = fresh.map((row) => this.#place(row.key));
    const last = places.findLast((place) => place !== undefined);
    this.total = page.total;
    if (last === undefined && page.cursor && fromTop) {
      this.#begin(page); // more was written than is worth catching up with
      return;
    }
    const end = page.cursor ? (last ?? -1) + 1 : this.rows.length;
    const start = fromTop ? 0 : places.find((place) => place !== undefined && place < end) ?? end;
    if (fromTop) this.above += places.filter((place) => place === undefined).length;
    const moved = new Set(places.filter((place) => place !== undefined && (place >= end || place < start)));
    const rest = this.rows.slice(end).filter((_, index) => !moved.has(end + index));
    const head = this.rows.slice(0, start).filter((_, index) => !moved.has(index));
    this.rows = [...head, ...fresh, ...rest];
    if (!page.cursor) this.next = null;
    this.places = null;
    this.marks = this.marks.filter((each) => each.key === null || this.#place(each.key) !== undefined);
  }

  /** Change the rows so that what is in view does not move, unless the newest are in view and nobody is at work. */
  #keepingPlace(change) {
    const height = this.#height();
    const held = this.list.scrollTop > 0 || this.list.contains(document.activeElement);
    const focused = this.list.contains(document.activeElement);
    const known = this.rows;
    const first = Math.floor(this.list.scrollTop / height);
    const offset = this.list.scrollTop - first * height;
    const old = this.#place(this.active);
    change();
    let anchor = known.slice(first).find((row) => this.#place(row.key) !== undefined);
    if (!held) anchor = undefined;
    this.spacer.style.height = `${this.rows.length * height}px`;
    if (anchor) this.list.scrollTop = this.#place(anchor.key) * height + offset;
    if (!held || this.list.scrollTop === 0) this.above = 0;
    if (this.#place(this.active) === undefined) {
      this.active = this.rows[Math.min(old ?? 0, this.rows.length - 1)]?.key ?? null;
      this.#render();
      if (focused) this.nodes.get(this.active)?.focus({ preventScroll: true });
    }
    this.#render();
  }

  #place(key) {
    this.places ??= new Map(this.rows.map((row, index) => [row.key, index]));
    return this.places.get(key);
  }

  #height() {
    return Math.round(4.75 * parseFloat(getComputedStyle(document.documentElement).fontSize));
  }

  #range() {
    const height = this.#height();
    const first = Math.floor(this.list.scrollTop / height);
    return { first, last: Math.min(first + Math.ceil(this.list.clientHeight / height) + 1, this.rows.length) };
  }

  #soon() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.#render();
    });
  }

  #render() {
    const height = this.#height();
    this.spacer.style.height = `${this.rows.length * height}px`;
    const { first, last } = this.#range();
    if (this.list.scrollTop === 0) this.above = 0;
    const wanted = new Set();
    for (let index = Math.max(first - BEYOND, 0); index < Math.min(last + BEYOND, this.rows.length); index += 1) wanted.add(index);
    const active = this.#place(this.active);
    if (active !== undefined) wanted.add(active); // what has the focus stays, wherever it is
    const kept = new Set([...wanted].map((index) => this.rows[index].key));
    for (const [key, node] of this.nodes) {
      if (kept.has(key)) continue;
      node.remove();
      this.nodes.delete(key);
    }
    let before = this.spacer.nextElementSibling;
    for (const index of [...wanted].sort((one, other) => one - other)) {
      const row = this.rows[index];
      const node = this.nodes.get(row.key) ?? this.#made(row.key);
      if (node === before) before = before.nextElementSibling;
      else this.list.insertBefore(node, before);
      this.#draw(node, row, index, height);
    }
    this.list.hidden = this.rows.length === 0;
    this.changed({ loaded: this.rows.length, total: this.total, above: this.above });
    if (this.source && last > this.rows.length - AHEAD) void this.#more().catch((error) => this.failed?.(error));
  }

  #made(key) {
    const node = element("div", { role: "option", class: "row" });
    node.dataset.key = key;
    this.nodes.set(key, node);
    return node;
  }

  #draw(node, row, index, height) {
    node.style.top = `${index * height}px`;
    node.style.height = `${height}px`;
    node.setAttribute("aria-posinset", index + 1);
    node.setAttribute("aria-setsize", Math.max(this.total, this.rows.length));
    node.setAttribute("aria-selected", row.key === this.selected);
    node.setAttribute("tabindex", row.key === this.active ? 0 : -1);
    const day = row.at.slice(0, 10);
    const begins = index === 0 || this.rows[index - 1].at.slice(0, 10) !== day;
    node.classList.toggle("begins", begins);
    if (node.shown === row) return;
    node.shown = row;
    node.classList.toggle("over", !row.active);
    node.classList.remove("fact", "episode", "open");
    node.classList.add(row.kind);
    const marks = row.marks.map((mark) => element("span", { class: "mark" }, mark));
    node.replaceChildren(
      element("span", { class: "when" }, element("time", { datetime: row.at }, minute(row.at))),
      element("span", { class: "kind" }, row.label), ...marks,
      element("span", { class: "headline", dir: "auto" }, row.text),
    );
  }

  #activate(key) {
    if (key === undefined || key === this.active) return;
    this.nodes.get(this.active)?.setAttribute("tabindex", -1);
    this.active = key;
    this.nodes.get(key)?.setAttribute("tabindex", 0);
  }

  #reveal(index) {
    const row = this.rows[index];
    if (!row) return;
    const height = this.#height();
    const top = index * height;
    if (top < this.list.scrollTop) this.list.scrollTop = top;
    if (top + height > this.list.scrollTop + this.list.clientHeight) this.list.scrollTop = top + height - this.list.clientHeight;
    this.#activate(row.key);
    this.#render();
    this.nodes.get(row.key)?.focus({ preventScroll: true });
  }

  #keyed(event) {
    const at = this.#place(this.active);
    if (at === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
    const page = Math.max(Math.floor(this.list.clientHeight / this.#height()) - 1, 1);
    const last = this.rows.length - 1;
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: last }[event.key];
    if (to !== undefined) this.#reveal(Math.min(Math.max(to, 0), last));
    else if (event.key === "Enter" || event.key === " ") this.opened(this.rows[at]);
    else return;
    event.preventDefault();
  }

  #clicked(event) {
    const key = event.target.closest("[role=option]")?.dataset.key;
    const at = this.#place(key);
    if (at === undefined) return;
    this.#activate(key);
    this.nodes.get(key)?.focus({ preventScroll: true });
    this.opened(this.rows[at]);
  }
}

/** What a row keeps of a memory. */
function slim(memory) {
  const marks = [];
  if (memory.pinned) marks.push("pinned");
  if (!memory.active) marks.push("no longer valid");
  if (memory.versions > 1) marks.push(`${grouped(memory.versions)} versions`);
  const text = memory.title ? `${shortened(memory.title, SHOWN)} — ${shortened(memory.text, SHOWN)}` : shortened(memory.text, SHOWN);
  const label = { fact: memory.category || "fact", open: "open conversation" }[memory.kind] ?? memory.kind;
  return {
    key: keyOf(memory), scope: memory.scope, id: memory.id, kind: memory.kind, active: memory.active,
    at: String(memory.created_at), text, label, marks: [...marks, ...(memory.tags ?? []).slice(0, 3).map((tag) => `#${shortened(tag, 40)}`)],
  };
}
