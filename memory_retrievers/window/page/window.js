// The window: what is chosen, what is shown of it, and the pulse that keeps it true.

import { ask, passes, pause, persistently } from "./server.js";
import { element, grouped, redraw } from "./elements.js";
import { Tree } from "./tree.js";
import { Timeline } from "./timeline.js";
import { Search } from "./search.js";
import { Compare, Slider } from "./time.js";
import { Panel } from "./memory.js";
import { Changes } from "./change.js";
import { drawHealth } from "./health.js";

const PULSE = 1000; // milliseconds between two questions whether something has changed
const PAGE = 100; // memories that are asked for at once
const byId = (id) => document.getElementById(id);

/** What all parts know of each other. */
const page = {
  scope: null,
  asOf: null,
  readOnly: false,
  view: "line",
  say(sentence) {
    byId("said").textContent = sentence;
  },
  open: (memory) => panel.open(memory).then(() => timeline.select(panel.shown)),
  closed: () => timeline.select(null),
  focusList: () => (page.view === "line" && timeline.rows.length ? timeline.focus() : byId("main").focus()),
  focusAct: (action) => (document.querySelector(`#memory [data-key="act ${action}"]`) ?? byId("main")).focus(),
  why: (memory, signal) => search.why(memory, signal),
  acts: (memory, actions) => changes.buttons(memory, actions),
  forgetting: (...message) => changes.forgetting(...message),
  fail: (error) => trouble(error),
  changed,
};

const tree = new Tree(byId("tree"), choose, trouble);
const timeline = new Timeline(byId("list"), page.open, counts);
const search = new Search(byId("search"), byId("hits"), page);
const compare = new Compare(byId("compare"), byId("differences"), page);
const panel = new Panel(byId("memory"), page);
const changes = new Changes(byId("dialog"), byId("undo"), page);
const slider = new Slider(byId("slider"), byId("as-of"), byId("moment"), move);
timeline.failed = trouble;

let ending = new AbortController(); // of what the view asks for
let seen = { version: null, store: null };

/** Tell of an error in a sentence, until the next one or until all is well. */
function trouble(error) {
  if (error === null) {
    byId("trouble").replaceChildren();
    return;
  }
  if (error.name === "AbortError") return;
  const sentence = element("p", { dir: "auto" }, error.message);
  if (byId("trouble").textContent !== error.message) byId("trouble").replaceChildren(sentence);
}

function choose(scope) {
  page.scope = scope;
  byId("scope").textContent = scope;
  seen.version = null;
  search.forget();
  compare.forget();
  panel.close();
  void show();
}

function move(asOf) {
  page.asOf = asOf;
  document.body.classList.toggle("past", asOf !== null);
  if (page.view === "search" && search.asked) void search.run();
  if (page.view === "line") void show();
  else stale.add("line");
}

const stale = new Set(); // views that are to be drawn anew when they are next seen

/** Draw the view that is chosen, anew. */
async function show() {
  ending.abort();
  ending = new AbortController();
  const { signal } = ending;
  stale.delete(page.view);
  try {
    await persistently(() => drawView(signal), trouble, signal);
    if (!signal.aborted) trouble(null);
  } catch (error) {
    if (error.name !== "AbortError") inPlace(error);
  }
}

async function drawView(signal) {
  const { scope } = page;
  const views = {
    line: () => timeline.show(sourceOf(scope)),
    alike: () => changes.duplicates(scope, byId("alike"), signal),
    changes: () => changes.history(scope, byId("changes"), signal),
    health: () => drawHealth(byId("health"), signal),
  };
  if (scope === null && page.view !== "health") return;
  await views[page.view]?.();
}

/** A view that cannot be drawn says why, where it would be. */
function inPlace(error) {
  const region = { alike: "alike", changes: "changes", health: "health" }[page.view];
  if (region) byId(region).replaceChildren(element("p", { class: "notice alarm", "data-waits": "" }, error.message));
  trouble(error);
}

function sourceOf(scope) {
  const { kind, tag, order } = byId("filters").elements;
  const asked = { scope, kind: kind.value, tag: tag.value, oldest_first: order.value === "oldest" ? "true" : "", as_of: page.asOf, limit: PAGE };
  return (cursor) => ask("memories", { ...asked, cursor });
}

/** Tell how much of the time line is there. */
function counts({ loaded, total, above }) {
  const most = Math.max(total, loaded);
  byId("loaded").textContent = loaded ? `${grouped(loaded)} of ${grouped(most)} read so far` : "";
  byId("empty").hidden = loaded > 0 || timeline.source === null;
  const newer = byId("newer");
  newer.hidden = above === 0;
  newer.textContent = `${grouped(above)} new above`;
}

/** A change was made here: show it at once, and do not wait for the pulse. */
function changed(action, memory, answer) {
  trouble(null);
  const gone = action === "forget" || action === "move" || (action === "forget_message" && !answer.memory);
  if (gone && panel.shown?.id === memory?.id) panel.close();
  if (action === "merge" && panel.shown) void page.open(answer.memory ?? memory);
  void refresh();
}

/** Bring everything that is shown up to date, without moving it. */
async function refresh() {
  try {
    await refreshTree();
    if (page.view === "line" && page.asOf === null && page.scope !== null) await timeline.refresh();
    else stale.add("line");
    if (page.view === "changes" || page.view === "health" || page.view === "alike") await drawView(ending.signal);
    await panel.refresh();
  } catch (error) {
    if (error.name === "AbortError") return;
    seen = { version: null, store: null }; // the next pulse tries again
    if (!passes(error)) trouble(error);
  }
}

async function refreshTree() {
  await tree.refresh();
  byId("no-scopes").hidden = tree.items.size > 0;
}

/** Once a second, while somebody looks: has something changed? */
async function beat() {
  let lost = false;
  for (let beats = 1; ; beats += 1) {
    await pause(PULSE);
    if (document.hidden) continue;
    try {
      const told = await ask("pulse", { scope: page.scope });
      if (lost) {
        trouble(null);
        seen = { version: null, store: null };
        if (page.view !== "line" && page.view !== "search") void show();
      }
      lost = false;
      live("live");
      const { version, store } = seen;
      seen = told;
      if (told.version !== version) await refresh();
      else if (told.store !== store) await refreshTree(); // other scopes
      if (page.view === "health" && beats % 3 === 0) await drawView(ending.signal); // processes come and go
    } catch (error) {
      if (error.status === 404) continue; // the scope was forgotten: the tree tells
      lost = true;
      live(error.status === 401 ? "signed out" : "no answer");
      trouble(error);
    }
  }
}

function live(word) {
  if (byId("live").textContent !== word) byId("live").textContent = word;
  byId("live").classList.toggle("on", word === "live");
}

/** Choose a view; its tab has the focus only if it had before. */
function look(view) {
  page.view = view;
  for (const tab of byId("tabs").children) {
    const chosen = tab.id === `tab-${view}`;
    tab.setAttribute("aria-selected", chosen);
    tab.tabIndex = chosen ? 0 : -1;
    byId(tab.getAttribute("aria-controls")).hidden = !chosen;
  }
  if (["alike", "changes", "health"].includes(view) || stale.has(view)) {
    const region = { alike: "alike", changes: "changes", health: "health" }[view];
    if (region) redraw(byId(region), element("p", { class: "quiet", "data-waits": "" }, "A moment …"));
    void show();
  }
}

function listen() {
  byId("tabs").addEventListener("click", (event) => {
    const tab = event.target.closest("[role=tab]");
    if (tab) look(tab.id.slice(4));
  });
  byId("tabs").addEventListener("keydown", (event) => {
    const tabs = [...byId("tabs").children];
    const at = tabs.indexOf(event.target);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const tab = tabs[(to + tabs.length) % tabs.length];
    look(tab.id.slice(4));
    tab.focus();
  });
  byId("filters").addEventListener("change", () => void show());
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("newer").addEventListener("click", () => timeline.toTop());
  byId("to-now").addEventListener("click", () => slider.set(null));
}

/** Show what the store is; asked again until the server answers. */
async function start() {
  listen();
  for (;;) {
    try {
      const about = await persistently(() => ask("about"), trouble);
      document.title = `${about.title} – memory`;
      byId("title").textContent = about.title;
      byId("about").textContent = [about.backend, about.embedder, about.root ? `only ${about.root} and the scopes below it` : "", `version ${about.version}`].filter(Boolean).join(" · ");
      page.readOnly = about.read_only;
      byId("read-only").hidden = !about.read_only;
      search.describe(about);
      slider.span(about.earliest, about.now);
      compare.propose(about.now);
      const any = await persistently(() => tree.start(), trouble);
      byId("no-scopes").hidden = any;
      trouble(null);
      break;
    } catch (error) {
      live(error.status === 401 ? "signed out" : "cannot be opened");
      trouble(error);
      await pause(PULSE);
    }
  }
  live("live");
  await beat();
}

void start();
