// Changes to memories: each is asked for in a dialog, those that lose something say what, and what can be undone is offered to be.

import { ask, send } from "./server.js";
import { button, counted, element, inSteps, isShown, moment, percent, quoted, redraw, shortened } from "./elements.js";

/** What each act is called, and what its dialog asks. */
const ACTS = {
  correct: { label: "Correct", title: "Correct the text", note: "The text is corrected in place: there is no new version.", field: "text" },
  update: { label: "Update", title: "Update to a new version", note: "The text until now is kept as an earlier version.", field: "text" },
  tag: { label: "Tags", title: "Tags", note: "One tag on each line.", field: "tags" },
  pin: { label: "Pin" },
  unpin: { label: "Unpin" },
  invalidate: { label: "Invalidate", title: "Mark as no longer valid", note: "It is kept, and found for moments at which it was valid.", confirm: "Invalidate" },
  merge: { label: "Merge", title: "Merge with another memory", note: "This memory stays; the other one is forgotten, and this one gets its tags, metadata and sources.", field: "other", preview: "deleted", confirm: "Merge" },
  move: { label: "Move", title: "Move to another scope", note: "It moves with its versions and associations.", field: "to", preview: "moved", confirm: "Move" },
  forget: { label: "Forget", title: "Forget this memory", note: "It is deleted permanently.", preview: "deleted", confirm: "Forget" },
  forget_message: { label: "Forget", title: "Forget this message", note: "It is deleted permanently; title and summary are made again from the other messages. What was learned from it stays.", confirm: "Forget", ofMessage: true },
};
const FIELDS = { text: "Text", tags: "Tags", other: "Id of the other memory", to: "Scope" };

export class Changes {
  /**
   * @param dialog the `<dialog>` that all of them share
   * @param undo where an undo is offered
   * @param page what the page is about: `readOnly`, `say(sentence)`, `changed(act, memory, answer)`
   */
  constructor(dialog, undo, page) {
    this.dialog = dialog;
    this.offer = undo;
    this.page = page;
    dialog.addEventListener("close", () => {
      if (!dialog.open) dialog.replaceChildren();
      if (document.activeElement === document.body) this.page.focusAct(this.action); // what was drawn anew meanwhile lost it
    });
  }

  /** The buttons for what can be done with a memory. */
  buttons(memory, actions) {
    const known = actions.filter((action) => action in ACTS && !ACTS[action].ofMessage);
    if (this.page.readOnly || !known.length) return null;
    const made = known.map((action) => button(ACTS[action].label, () => this.begin(action, memory), { "data-key": `act ${action}`, class: action === "forget" ? "danger" : null }));
    return element("div", { class: "acts", role: "group", "aria-label": "Change this memory" }, ...made);
  }

  /** The button that forgets one message of a memory, at a place; none where that cannot be. */
  forgetting(memory, actions, message, place) {
    if (this.page.readOnly || !actions.includes("forget_message")) return null;
    const about = { scope: memory.scope, id: memory.id, text: message.text, also: { place, text: message.text } };
    return button("Forget it", () => this.begin("forget_message", about), { "data-key": `forget message ${place}`, class: "danger", "aria-label": `Forget it: ${shortened(message.text, 80)}` });
  }

  /** Begin an act: at once, or with its dialog; `given` fills its field in. */
  begin(action, memory, given = undefined) {
    const act = ACTS[action];
    if (!act.title) return this.#do(action, memory, {}, () => {});
    const values = { text: memory.text, tags: (memory.tags ?? []).join("\n"), other: "", to: memory.scope };
    return this.#ask(action, memory, given ?? values[act.field] ?? "", given !== undefined);
  }

  #ask(action, memory, value, fixed) {
    const act = ACTS[action];
    const failed = element("p", { class: "notice alarm", role: "alert", hidden: true });
    const goes = element("div", { "aria-live": "polite" });
    const field = act.field ? this.#field(act.field, value, fixed) : null;
    const save = element("button", { type: "submit", class: action.startsWith("forget") ? "danger" : "main" }, act.preview ? `What will be ${act.preview}?` : act.confirm ?? "Save");
    const form = element("form", {}, element("h2", { id: "dialog-title" }, act.title), element("p", { class: "quiet" }, act.note),
      quoted(shortened(memory.title || memory.text, 300)), field, goes, failed,
      element("p", { class: "acts" }, button("Cancel", () => this.dialog.close()), save));
    let previewed = null;
    const tell = (error) => {
      failed.textContent = error.message;
      failed.hidden = false;
    };
    field?.addEventListener("input", () => {
      previewed = null;
      if (act.preview) save.textContent = `What will be ${act.preview}?`;
      goes.replaceChildren();
    });
    const preview = async () => {
      const body = this.#body(act, form);
      const told = await send("preview", { action, scope: memory.scope, id: memory.id, ...body });
      goes.replaceChildren(goings(act, told));
      previewed = JSON.stringify(body);
      save.textContent = act.confirm;
    };
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      failed.hidden = true;
      save.disabled = true;
      try {
        const body = this.#body(act, form);
        if (act.preview && previewed !== JSON.stringify(body)) await preview();
        else await this.#do(action, memory, body, () => this.dialog.close());
      } catch (error) {
        tell(error);
      }
      save.disabled = false;
    });
    this.action = action;
    this.dialog.replaceChildren(form);
    this.dialog.showModal();
    if (act.preview && (!act.field || fixed)) preview().catch(tell);
    (fixed ? null : form.querySelector("textarea, input"))?.focus();
  }

  #field(name, value, fixed) {
    const long = name === "text" || name === "tags";
    const field = element(long ? "textarea" : "input", { name, id: "dialog-field", dir: "auto", rows: long ? 6 : null, autocomplete: "off", readonly: fixed, spellcheck: long ? null : "false" });
    field.value = value;
    return element("label", { for: "dialog-field" }, FIELDS[name], field);
  }

  #body(act, form) {
    if (!act.field) return {};
    const { value } = form.elements[act.field];
    return { [act.field]: act.field === "tags" ? value.split("\n").map((tag) => tag.trim()).filter(Boolean) : value };
  }

  async #do(action, memory, body, close) {
    try {
      const answer = await send("act", { action, scope: memory.scope, id: memory.id, ...memory.also, ...body });
      close();
      this.#offerUndo(answer, ACTS[action].label);
      this.page.changed(action, memory, answer);
    } catch (error) {
      if (this.dialog.open) throw error;
      this.page.fail(error);
    }
  }

  #offerUndo(answer, label) {
    const note = answer.note || `${label}: done.`;
    this.page.say(note);
    const undo = answer.undoable ? button("Undo", () => this.undo(answer.change), { "data-key": "undo" }) : null;
    const hide = button("Hide", () => {
      this.offer.replaceChildren();
      this.page.focusList();
    }, { "aria-label": "Hide this notice" });
    this.offer.replaceChildren(element("span", { dir: "auto" }, shortened(note, 300)), ...[undo, hide].filter(Boolean));
  }

  /** Undo a change; what cannot be undone any more is told. */
  async undo(change) {
    const had = this.offer.contains(document.activeElement);
    try {
      const answer = await send("undo", { change });
      this.offer.replaceChildren(element("span", { dir: "auto" }, shortened(answer.note || "Undone.", 300)));
      this.page.say(answer.note || "Undone.");
      this.page.changed("undo", answer.memory, answer);
      if (had) this.page.focusList();
    } catch (error) {
      this.page.fail(error);
    }
  }

  /** The pairs of memories that say nearly the same. */
  async duplicates(scope, region, signal) {
    const { pairs, compared } = await ask("duplicates", { scope }, signal);
    if (isShown(region, [scope, pairs])) return;
    const words = pairs.length ? `${counted(pairs.length, "pair")} that say nearly the same` : "No two facts of this scope say nearly the same.";
    redraw(region, element("p", { class: "strong" }, words), element("p", { class: "quiet" }, `Of the newest ${counted(compared, "fact")}.`),
      pairs.length ? inSteps(pairs, (pair) => this.#pair(pair), 50) : null);
  }

  #pair({ first, second, similarity }) {
    const side = (keep, other, words) => element("div", { class: "side" },
      button(shortened(keep.title || keep.text, 300) || "(no text)", () => this.page.open(keep), { class: "headline link", dir: "auto", "data-key": `alike ${keep.id}` }),
      element("p", { class: "quiet" }, moment(keep.created_at)),
      this.page.readOnly ? null : button(`Keep the ${words}`, () => this.begin("merge", keep, other.id), { "data-key": `keep ${keep.id}` }));
    return element("div", { class: "pair" }, element("p", { class: "quiet" }, `${percent(similarity)} similar`), element("div", { class: "sides" }, side(first, second, "first"), side(second, first, "second")));
  }

  /** What was changed in a scope, newest first, with an undo where there is one. */
  async history(scope, region, signal) {
    const { changes } = await ask("changes", { scope, limit: 200 }, signal);
    if (isShown(region, [scope, changes])) return;
    if (!changes.length) {
      redraw(region, element("p", { class: "notice" }, "Nothing has been changed by hand here."));
      return;
    }
    const made = (each) => element("div", { class: "change" },
      element("p", {}, element("strong", {}, each.action), " ", moment(each.at, { class: "quiet" }), element("span", { class: "quiet", dir: "auto" }, ` by ${each.who}`)),
      element("p", {}, button(shortened(each.text || each.id, 300), () => this.page.open(each), { class: "headline link", dir: "auto", "data-key": `changed ${each.change}` })),
      each.undoable && !this.page.readOnly ? button("Undo", () => this.undo(each.change), { "aria-label": `Undo: ${each.action}, ${shortened(each.text || each.id, 80)}`, "data-key": `undo ${each.change}` }) : null);
    redraw(region, inSteps(changes, made));
  }
}

function goings(act, told) {
  const named = ({ what, count }) => (count === 1 ? what.replace(/(ie)?s\b/, (_, y) => (y ? "y" : "")) : what);
  const items = told.goes.map((each) => element("li", { dir: "auto" }, element("strong", {}, String(each.count)), ` ${named(each)}`));
  return element("div", { class: "notice" }, element("p", { class: "strong" }, items.length ? `This will be ${act.preview}:` : `Nothing will be ${act.preview}.`), element("ul", {}, ...items), told.note ? quoted(told.note) : null);
}
