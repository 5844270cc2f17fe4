// One memory beside the list: its text, messages, versions, forgetting curve, what can be done with it, and why it was (not) found.

import { ask, passes, persistently } from "./server.js";
import { button, counted, element, fields, inSteps, moment, percent, quoted, redraw, shortened } from "./elements.js";
import { curveFigure } from "./curve.js";

const MESSAGES = 200; // at a time

export class Panel {
  /**
   * @param panel the element that holds title, body and the button that closes it
   * @param page what the page is about: `open(memory)`, `say(sentence)`, `why(memory, signal)`, `acts(memory, actions)`, `forgetting(memory, actions, message, place)`, `closed()`
   */
  constructor(panel, page) {
    this.panel = panel;
    this.body = panel.querySelector("#memory-body");
    this.title = panel.querySelector("#memory-title");
    this.page = page;
    this.shown = null;
    panel.querySelector("#close").addEventListener("click", () => this.close());
    panel.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !event.defaultPrevented) this.close();
    });
  }

  /** Show a memory, and lead the focus to its title. */
  async open(memory) {
    this.opener = document.activeElement;
    this.ending?.abort();
    this.ending = new AbortController();
    this.shown = { scope: memory.scope, id: memory.id };
    this.last = null;
    this.panel.hidden = false;
    document.body.classList.add("reading");
    this.title.textContent = "…";
    this.body.replaceChildren();
    this.panel.scrollTop = 0;
    this.title.focus();
    await this.refresh();
  }

  /** Ask for it again; nothing is drawn if nothing has changed. */
  async refresh() {
    if (!this.shown) return;
    const { signal } = this.ending;
    const asked = this.shown;
    try {
      const told = await persistently(() => ask("memory", asked, signal), (error) => this.#failed(error), signal);
      const why = await this.page.why(told.memory, signal);
      if (signal.aborted) return;
      const now = JSON.stringify([told.memory, told.versions, told.actions, told.sources, told.derived, told.messages?.length]) + (why ?? []).map((each) => each?.textContent).join();
      if (now === this.last) return;
      this.last = now;
      this.#draw(told, why ?? []);
    } catch (error) {
      if (error.name !== "AbortError") this.#failed(error);
    }
  }

  close() {
    if (!this.shown) return;
    const had = this.panel.contains(document.activeElement) || document.activeElement === document.body;
    this.ending.abort();
    this.shown = null;
    this.panel.hidden = true;
    document.body.classList.remove("reading");
    this.page.closed();
    if (had && this.opener?.isConnected && this.opener.checkVisibility()) this.opener.focus();
    else if (had) this.page.focusList();
  }

  #failed(error) {
    this.last = null;
    this.title.textContent = passes(error) ? "A moment" : "It cannot be shown";
    this.body.replaceChildren(element("p", { class: "notice alarm" }, error.message));
    this.page.say(error.message);
  }

  #draw(told, why) {
    const { memory } = told;
    this.title.textContent = memory.title ? shortened(memory.title, 1000) : { fact: "A fact", episode: "An episode", open: "An open conversation" }[memory.kind] ?? "A memory";
    redraw(this.body,
      this.page.asOf === null ? null : element("p", { class: "quiet" }, "As it is now; its versions show how it was."), quoted(memory.text), this.#marks(memory), this.page.acts(memory, told.actions ?? []),
      why.length ? element("section", { class: "why" }, ...why.filter(Boolean)) : null,
      this.#messages(told, told.messages ?? [], told.hidden_messages ?? 0), this.#versions(told.versions ?? []),
      section("How well it is remembered", curveFigure(told.curve, memory.stability_days)),
      this.#related("Made from", told.sources ?? [], memory), this.#related("Made into", told.derived ?? [], memory), this.#facts(memory));
  }

  #marks(memory) {
    const marks = [memory.kind === "fact" ? memory.category || "fact" : memory.kind === "open" ? "open conversation" : memory.kind];
    if (memory.pinned) marks.push("pinned");
    if (!memory.active) marks.push("no longer valid");
    for (const tag of memory.tags ?? []) marks.push(`#${shortened(tag, 100)}`);
    return element("ul", { class: "marks", "aria-label": "Marks and tags" }, ...marks.map((mark) => element("li", { class: "mark", dir: "auto" }, mark)));
  }

  #messages({ memory, actions }, messages, hidden) {
    if (!messages.length) return null;
    const made = ([place, message]) => element("div", { class: "message" },
      element("b", { dir: "auto" }, message.name ? `${message.role} (${message.name})` : message.role), " ",
      message.at ? moment(message.at, { class: "quiet" }) : null, quoted(message.text), this.page.forgetting(memory, actions ?? [], message, place));
    const rest = hidden ? element("p", { class: "quiet" }, `and ${counted(hidden, "message")} more, which the window does not show`) : null;
    return section(counted(messages.length + hidden, "message"), inSteps([...messages.entries()], made, MESSAGES), rest);
  }

  #versions(versions) {
    if (versions.length < 2) return null;
    const made = (version) => element("div", { class: version.current ? "version current" : "version" }, quoted(version.text), element("p", { class: "quiet" },
      version.valid_from ? "from " : null, version.valid_from ? moment(version.valid_from) : null,
      version.valid_until ? " until " : null, version.valid_until ? moment(version.valid_until) : null,
      version.current ? element("strong", {}, " · current") : null));
    return section(counted(versions.length, "version"), inSteps(versions, made));
  }

  #related(heading, ids, memory) {
    if (!ids.length) return null;
    const made = (id) => button(shortened(id, 200), () => this.page.open({ scope: memory.scope, id }), { class: "link", dir: "auto", "data-key": `${heading} ${id}` });
    return section(heading, inSteps(ids, made));
  }

  #facts(memory) {
    const time = (iso) => (iso ? moment(iso) : null);
    const metadata = Object.keys(memory.metadata ?? {}).length ? quoted(JSON.stringify(memory.metadata, null, 1), "span") : null;
    return section("About it", fields([
      ["Scope", quoted(memory.scope, "span")], ["Id", quoted(memory.id, "span")], ["Created", time(memory.created_at)], ["Changed", time(memory.updated_at)],
      ["Valid from", time(memory.valid_from)], ["Valid until", time(memory.valid_until)], ["Expires", time(memory.expires_at)],
      ["Origin", memory.origin], ["Agent", memory.agent_id], ["Conversation", memory.conversation], ["Summary by", memory.summary_by],
      ["Retrievability", Number.isFinite(memory.retrievability) ? percent(memory.retrievability) : null], ["Metadata", metadata],
    ]));
  }
}

function section(heading, ...children) {
  return element("section", {}, element("h3", {}, heading), ...children);
}
