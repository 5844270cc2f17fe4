// The search, with the options of `retrieve`; each hit with its reasons, and the block that an agent would read.

import { Refused, passes, persistently, send } from "./server.js";
import { button, counted, element, grouped, moment, momentIn, percent, quoted, redraw, shortened, table } from "./elements.js";

const KINDS = ["fact", "episode"];

export class Search {
  /**
   * @param form the form with the options
   * @param results where the hits are drawn
   * @param page what the page is about: `scope`, `asOf`, `open(memory)`, `say(sentence)`
   */
  constructor(form, results, page) {
    this.form = form;
    this.results = results;
    this.page = page;
    this.asked = null; // what was asked last, for "why not that one?"
    this.ending = null;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.run();
    });
    form.addEventListener("reset", () => this.forget());
  }

  describe(about) {
    const choice = this.form.elements.category;
    choice.append(...about.categories.map((category) => element("option", { value: category }, category)));
  }

  forget() {
    this.ending?.abort();
    this.asked = null;
    this.results.replaceChildren();
  }

  /** The request that the form makes; throws a sentence if a field cannot be read. */
  request() {
    const { elements } = this.form;
    const body = { scope: this.page.scope, query: elements.query.value };
    const kinds = KINDS.filter((kind) => elements[kind].checked);
    if (!kinds.length) throw new Error("Choose a kind: facts, episodes or both.");
    if (kinds.length < KINDS.length) body.kinds = kinds;
    if (elements.category.value) body.category = elements.category.value;
    const tags = elements.tags.value.split(",").map((tag) => tag.trim()).filter(Boolean);
    if (tags.length) body.tags = tags;
    for (const name of ["since", "until"]) if (momentIn(elements[name])) body[name] = momentIn(elements[name]);
    if (this.page.asOf) body.as_of = this.page.asOf;
    if (elements.where.value.trim()) body.where = filter(elements.where.value);
    const least = elements.min_relevance.value.trim();
    if (least) body.min_relevance = least === "auto" ? "auto" : number(least, "Minimum relevance");
    for (const [name, label] of [["limit", "Maximum hits"], ["max_tokens", "Maximum tokens"]]) {
      if (elements[name].value.trim()) body[name] = number(elements[name].value, label);
    }
    if (elements.detail.value) body.detail = elements.detail.value;
    if (elements.include_children.checked) body.include_children = true;
    return body;
  }

  /** Ask, and draw what is found; a server that is away is asked again. */
  async run() {
    this.ending?.abort();
    this.ending = new AbortController();
    const { signal } = this.ending;
    this.results.setAttribute("aria-busy", "true");
    try {
      if (this.page.scope === null) throw new Error("Choose a scope first.");
      const body = this.request();
      const found = await persistently(() => send("search", body, signal), (error) => this.#told(error), signal);
      this.asked = body;
      this.#draw(found);
    } catch (error) {
      if (error.name === "AbortError") return;
      this.asked = null;
      this.#told(error);
    }
    this.results.removeAttribute("aria-busy");
  }

  #told(error) {
    this.results.replaceChildren(element("p", { class: "notice alarm" }, error.message));
    this.page.say(error.message);
  }

  #draw(found) {
    const { hits } = found;
    const summary = hits.length
      ? `${counted(hits.length, "hit")} in ${this.asked.scope}; the block has ${counted(found.tokens, "token")}.`
      : "Nothing relevant is remembered: an agent would read nothing.";
    const list = element("ol", { class: "hits" }, ...hits.map((hit, index) => element("li", {}, this.#hit(hit, index))));
    const block = found.block
      ? element("section", { "aria-labelledby": "block-title" },
        element("h3", { id: "block-title" }, `What an agent would read: ${counted(found.tokens, "token")}`), preformatted(found.block))
      : null;
    const how = found.explanation
      ? element("details", {}, element("summary", {}, "How this was found"), preformatted(found.explanation)) : null;
    redraw(this.results, element("p", { class: "strong", dir: "auto" }, summary), list, block, how);
    this.page.say(summary);
  }

  #hit(hit, index) {
    const { memory } = hit;
    const words = shortened(memory.title || memory.text, 300);
    const open = button(words || "(no text)", () => this.page.open(memory), { class: "headline link", dir: "auto", "data-key": `hit ${index}` });
    const figures = element("p", { class: "quiet" },
      `${memory.kind} · `, moment(memory.created_at), ` · relevance ${percent(hit.relevance)} · score ${hit.score.toFixed(3)}`);
    const gauge = element("meter", { min: 0, max: 1, value: hit.relevance, "aria-label": `Relevance of hit ${index + 1}` });
    const stages = element("details", {}, element("summary", {}, "Why it is here"), stageTable(hit.stages, `Stages of hit ${index + 1}`));
    return element("article", { class: "hit" }, element("h3", { class: "plain" }, open), gauge, figures, memory.title ? quoted(shortened(memory.text, 600)) : null, stages);
  }

  /** Why a memory is or is not among the hits of the last search; null if there was no search. */
  async why(memory, signal) {
    if (!this.asked) return null;
    const { query } = this.asked;
    const title = element("h3", { dir: "auto" }, `Why ${memory.scope === this.asked.scope || this.asked.include_children ? "" : "not "}for “${shortened(query, 200)}”?`);
    try {
      const told = await send("why", { ...this.asked, id: memory.id }, signal);
      title.textContent = told.found ? `Found for “${shortened(query, 200)}”` : `Why not for “${shortened(query, 200)}”?`;
      const place = told.found && told.rank ? element("p", {}, `It is hit ${grouped(told.rank)}.`) : null;
      return [title, place, quoted(told.explanation), told.stages?.length ? stageTable(told.stages, "Stages of this memory") : null];
    } catch (error) {
      if (!(error instanceof Refused) && !passes(error)) throw error;
      return [title, element("p", { class: "notice alarm" }, error.message)];
    }
  }
}

function stageTable(stages, caption) {
  const value = (stage) => (Number.isFinite(stage.value) ? Number(stage.value.toFixed(4)) : "–");
  return table(caption, ["Stage", "Value", "Note"], stages.map((stage) => [stage.name, value(stage), stage.note ?? ""]));
}

function preformatted(text) {
  const body = quoted(text);
  body.classList.add("block");
  body.tabIndex = 0;
  return body;
}

function filter(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`The filter is not JSON: ${error.message}`);
  }
}

function number(text, label) {
  const value = Number(text);
  if (!text.trim() || Number.isNaN(value)) throw new Error(`${label} is not a number: “${shortened(text, 40)}”.`);
  return value;
}
