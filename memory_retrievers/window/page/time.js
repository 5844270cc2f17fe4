// Time: the moment that the page shows, and what changed between two.

import { ask, persistently } from "./server.js";
import { button, counted, element, fieldValue, inSteps, minute, moment, momentIn, quoted, shortened } from "./elements.js";

const MINUTE = 60_000;
const STEPS = [[3 * 24 * 60 * MINUTE, 24 * 60 * MINUTE], [3 * 60 * MINUTE, 60 * MINUTE], [0, MINUTE]]; // span from, width of a step

/** The slider through time; the last step is now, and what is shown there is live. */
export class Slider {
  /**
   * @param range the slider
   * @param field the field for day and time, for those who know the moment
   * @param told where the moment is told in words
   * @param moved is called with an ISO time, or null for now
   */
  constructor(range, field, told, moved) {
    this.range = range;
    this.field = field;
    this.told = told;
    this.moved = moved;
    this.asOf = null;
    range.addEventListener("input", () => this.#describe(this.#chosen()));
    range.addEventListener("change", () => this.set(this.#chosen()));
    field.addEventListener("change", () => this.set(momentIn(field)));
  }

  /** Lay the slider out between two times. */
  span(earliest, now) {
    this.first = Date.parse(earliest ?? now);
    this.last = Math.max(Date.parse(now), this.first);
    this.step = STEPS.find(([from]) => this.last - this.first > from)?.[1] ?? MINUTE;
    this.range.max = Math.max(Math.ceil((this.last - this.first) / this.step), 1);
    this.range.disabled = earliest === null;
    this.field.min = fieldValue(this.first);
    this.set(this.asOf, true);
  }

  /** Show a moment; null is now. */
  set(asOf, quietly = false) {
    const before = this.asOf;
    this.asOf = asOf !== null && Date.parse(asOf) < this.last ? asOf : null;
    const steps = this.asOf === null ? this.range.max : Math.round((Date.parse(this.asOf) - this.first) / this.step);
    this.range.value = Math.min(Math.max(steps, 0), this.range.max);
    this.field.value = this.asOf === null ? "" : fieldValue(this.asOf);
    this.#describe(this.asOf);
    if (!quietly && before !== this.asOf) this.moved(this.asOf);
  }

  #chosen() {
    if (Number(this.range.value) >= Number(this.range.max)) return null;
    const at = this.first + Number(this.range.value) * this.step;
    const end = this.step > MINUTE ? Math.ceil(at / this.step) * this.step + this.step - 1000 : at; // the end of that day
    return new Date(Math.min(end, this.last - 1000)).toISOString();
  }

  #describe(asOf) {
    const words = asOf === null ? "now" : `${minute(asOf)} UTC`;
    this.told.textContent = words;
    this.range.setAttribute("aria-valuetext", words);
  }
}

/** What a scope knew at one moment and not at another. */
export class Compare {
  constructor(form, results, page) {
    this.form = form;
    this.results = results;
    this.page = page;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.run();
    });
  }

  /** Propose the last week. */
  propose(now) {
    const { since, until } = this.form.elements;
    if (!since.value) since.value = fieldValue(Date.parse(now) - 7 * 24 * 60 * MINUTE);
    if (!until.value) until.value = fieldValue(Date.parse(now) + MINUTE);
  }

  async run() {
    this.ending?.abort();
    this.ending = new AbortController();
    const { signal } = this.ending;
    const { since, until } = this.form.elements;
    this.results.setAttribute("aria-busy", "true");
    try {
      if (this.page.scope === null) throw new Error("Choose a scope first.");
      if (!since.value || !until.value) throw new Error("Both moments are needed: the day and the time of each.");
      const asked = { scope: this.page.scope, since: momentIn(since), until: momentIn(until) };
      this.#draw(await persistently(() => ask("diff", asked, signal), (error) => this.#told(error), signal));
    } catch (error) {
      if (error.name === "AbortError") return;
      this.#told(error);
    }
    this.results.removeAttribute("aria-busy");
  }

  forget() {
    this.ending?.abort();
    this.results.replaceChildren();
  }

  #told(error) {
    this.results.replaceChildren(element("p", { class: "notice alarm" }, error.message));
    this.page.say(error.message);
  }

  #draw(found) {
    const summary = `${counted(found.new.length, "memory", "memories")} new, ${found.changed.length} changed, ${found.gone.length} gone.`;
    const parts = [element("p", { class: "strong" }, summary)];
    if (found.complete === false) parts.push(element("p", { class: "notice" }, "There is more than is shown: choose moments that are nearer to each other."));
    const plain = (memory) => this.#line(memory, memory.title || memory.text);
    for (const [heading, memories, made] of [["New", found.new, plain], ["Changed", found.changed, (each) => this.#change(each)], ["Gone", found.gone, plain]]) {
      if (memories.length) parts.push(element("section", {}, element("h3", {}, `${heading} (${memories.length})`), inSteps(memories, made)));
    }
    this.results.replaceChildren(...parts);
    this.page.say(summary);
  }

  #line(memory, text) {
    const open = button(shortened(text, 400) || "(no text)", () => this.page.open(memory), { class: "headline link", dir: "auto" });
    return element("div", {}, open, element("p", { class: "quiet" }, `${memory.kind} · `, moment(memory.created_at)));
  }

  #change({ memory, before, after, at }) {
    const was = element("del", {}, quoted(shortened(before, 2000), "span"));
    const is = element("ins", {}, quoted(shortened(after, 2000), "span"));
    const open = button("Open", () => this.page.open(memory), { "aria-label": `Open: ${shortened(after, 100)}` });
    return element("div", { class: "change" }, element("p", {}, was), element("p", {}, is), element("p", { class: "quiet" }, moment(at)), open);
  }
}
