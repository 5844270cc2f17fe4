// How the store is: what needs attention, sizes, what waits, who has it open, its indexes.

import { ask } from "./server.js";
import { bytes, counted, drawn, element, fields, grouped, isShown, moment, quoted, redraw, table } from "./elements.js";

/** Ask how the store is, and draw it. */
export async function drawHealth(region, signal) {
  const health = await ask("health", {}, signal);
  if (isShown(region, health)) return;
  redraw(region, ...[findings(health.findings), sizes(health.sizes), waiting(health), processes(health.processes), index(health.index)].filter(Boolean));
}

function findings(found) {
  const made = found.map((each) => element("li", { class: `finding ${["ok", "note", "warning", "error"].includes(each.level) ? each.level : "note"}` },
    element("strong", { class: "level" }, each.level), element("div", {}, quoted(each.what), each.advice ? quoted(each.advice) : null)));
  return part("What was found", made.length ? element("ul", { class: "list" }, ...made) : element("p", {}, "All is well."));
}

function sizes(found) {
  if (!found.length) return null;
  const most = Math.max(...found.map((each) => each.bytes), 1);
  const bar = (each) => drawn("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", class: "size", "aria-hidden": "true" },
    drawn("rect", { width: 100, height: 8, class: "ground" }), drawn("rect", { width: (100 * each.bytes) / most, height: 8, class: "amount" }));
  return part("Sizes", table("Sizes", ["What", "Size", ""], found.map((each) => [each.name, bytes(each.bytes), bar(each)])));
}

function waiting(health) {
  const due = element("p", {}, health.due ? `${counted(health.due, "retrieval")} ${health.due === 1 ? "waits" : "wait"} for a review.` : "No review is due.");
  if (!health.queue.length) return part("What waits", due, element("p", {}, "No message waits to become an episode."));
  const rows = health.queue.map((each) => [each.scope, each.conversation ?? "", grouped(each.messages), each.oldest ? moment(each.oldest) : ""]);
  return part("What waits", due, table("Messages that wait to become episodes", ["Scope", "Conversation", "Messages", "Oldest"], rows));
}

function processes(found) {
  if (!found.length) return part("Processes", element("p", {}, "No process is known to have it open."));
  return part("Processes", table("Processes that have the store open", ["Process", "Program", "Version", "Since", "Holds"],
    found.map((each) => [each.pid, each.role ?? "", each.version ?? "", each.since ? moment(each.since) : "", (each.holds ?? []).join(", ")])));
}

function index(found) {
  const pairs = Object.entries(found ?? {}).map(([name, value]) => [name.replaceAll("_", " "), told(value)]);
  return pairs.length ? part("Index", fields(pairs)) : null;
}

function told(value) {
  if (typeof value === "number") return grouped(value);
  if (typeof value === "boolean") return value ? "yes" : "no";
  return typeof value === "object" && value !== null ? JSON.stringify(value) : value;
}

function part(heading, ...children) {
  return element("section", {}, element("h3", {}, heading), ...children);
}
