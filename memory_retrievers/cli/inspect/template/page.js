// The page: what the store holds, scope by scope, and the search through it.

const data = JSON.parse(document.getElementById("data").textContent);
const rows = [];

function drawHead() {
  document.getElementById("title").textContent = data.title;
  const within = data.within === null ? "" : ` · only ${data.within} and the scopes below it`;
  document.getElementById("about").textContent = `As of ${minuteOf(data.now)} UTC${within}`;
  const names = [
    ["episodes", data.counts.episodes], ["facts", data.counts.facts], ["no longer valid", data.counts.invalidated_facts],
    ["pending reviews", data.counts.pending_reviews], ["queued messages", data.counts.queued_messages],
    ["scopes", data.scopes.length + data.hidden_scopes],
  ];
  const tiles = names.map(([name, count]) => element("div", {}, element("dt", {}, name), element("dd", {}, count.toLocaleString("en"))));
  document.getElementById("counts").append(...tiles);
  document.getElementById("foot").textContent =
    `Written by memory-retrievers ${data.version}. Times are in UTC. Texts longer than ${data.most_characters.toLocaleString("en")} characters ` +
    `and episodes longer than ${data.most_messages} messages are cut. This file loads nothing and sends nothing.`;
}

function drawMemories() {
  const choice = document.getElementById("scope");
  const groups = document.getElementById("scopes");
  for (const scope of data.scopes) {
    if (!scope.memories.length && !scope.more) continue;
    const list = element("ul", { class: "list" }, ...scope.memories.map((memory) => memoryRow(memory, scope.scope)));
    const held = `${counted(scope.counts.episodes, "episode")}, ${counted(scope.counts.facts, "fact")}`;
    const heading = element("h3", {}, element("bdi", {}, scope.scope), element("span", { class: "quiet" }, held));
    const group = element("section", { class: "group" }, heading);
    if (scope.memories.length) group.append(list);
    if (scope.more) group.append(element("p", { class: "notice" }, more(scope)));
    groups.append(group);
    choice.append(element("option", { value: scope.scope }, scope.scope));
  }
  const hidden = document.getElementById("hidden-scopes");
  hidden.hidden = data.hidden_scopes === 0;
  hidden.textContent = `Not shown: ${counted(data.hidden_scopes, "more scope")}. Name one with --scope.`;
}

function more(scope) {
  const shown = scope.memories.length;
  return shown ? `Only the newest ${shown.toLocaleString("en")} are shown; the scope holds more.` : "This scope's memories are not shown: the page is full. Name it with --scope.";
}

function memoryRow(memory, scope) {
  const row = copyOf("memory-row");
  row.classList.add(memory.kind);
  put(row, ".label", memory.label);
  put(row, ".headline", memory.headline);
  const time = row.querySelector("time");
  time.textContent = memory.ago;
  time.dateTime = memory.at;
  time.title = `${minuteOf(memory.at)} UTC`;
  for (const mark of memory.marks) {
    const over = mark === "no longer valid";
    row.querySelector(".marks").append(element("span", { class: over ? "mark over" : "mark" }, mark));
    if (over) row.classList.add("over-now");
  }
  if (memory.curve) {
    const remembered = element("span", { title: "Retrievability: how well it is remembered now" }, percent(memory.curve.now));
    row.querySelector(".fading").append(sparkline(memory.curve), remembered);
  }
  const body = row.querySelector(".body");
  row.querySelector("details").addEventListener("toggle", () => body.append(...memoryBody(memory)), { once: true });
  rows.push({ row, scope, kind: memory.kind, words: wordsOf(memory, scope) });
  return row;
}

function memoryBody(memory) {
  const parts = [];
  if (memory.text) parts.push(quoted(memory.text));
  if (memory.curve) parts.push(curveFigure(memory));
  if (memory.messages.length) {
    const hidden = memory.hidden_messages ? [element("li", { class: "quiet" }, `and ${counted(memory.hidden_messages, "more message")}`)] : [];
    parts.push(element("ul", { class: "messages" }, ...memory.messages.map(messageItem), ...hidden));
  }
  const fields = memory.fields.flatMap(([name, value]) => [element("dt", {}, name), element("dd", { dir: "auto" }, value)]);
  parts.push(element("dl", { class: "fields" }, ...fields));
  return parts;
}

function messageItem(message) {
  const at = message.at === null ? "" : ` ${minuteOf(message.at)}`;
  return element("li", {}, element("b", { dir: "auto" }, message.role), element("span", { class: "quiet" }, at), quoted(message.content));
}

function drawWaiting() {
  const queues = document.getElementById("queues");
  for (const scope of data.scopes) {
    if (scope.queue.length) {
      const heading = `${counted(scope.counts.queued_messages, "message")} waiting to become an episode`;
      queues.append(headed(scope.scope, heading), element("ul", { class: "list" }, ...scope.queue.map((message) => padded(messageItem(message)))));
      queues.append(...rest(scope.counts.queued_messages, scope.queue.length, "message"));
    }
    if (scope.reviews.length) {
      const heading = `${counted(scope.counts.pending_reviews, "retrieval")} waiting for a review`;
      queues.append(headed(scope.scope, heading), element("ul", { class: "list" }, ...scope.reviews.map(reviewItem)));
      queues.append(...rest(scope.counts.pending_reviews, scope.reviews.length, "retrieval"));
    }
  }
  document.getElementById("waiting").hidden = !queues.childElementCount;
}

function headed(scope, text) {
  return element("h3", {}, element("bdi", {}, scope), element("span", { class: "quiet" }, text));
}

function padded(item) {
  item.classList.add("padded");
  return item;
}

function rest(count, shown, name) {
  return count > shown ? [element("p", { class: "notice" }, `and ${counted(count - shown, `more ${name}`)}`)] : [];
}

function reviewItem(review) {
  const about = `${review.ago} · returned ${review.memories.join(", ")}`;
  return element("li", { class: "padded" }, element("span", { dir: "auto" }, review.query), element("p", { class: "quiet" }, about));
}

function drawCharacters() {
  const casts = document.getElementById("casts");
  for (const scope of data.scopes.filter((each) => each.characters.length)) {
    const head = ["name", "feels", "felt before, oldest first", "knows of"].map((name) => element("th", { scope: "col" }, name));
    const lines = scope.characters.map((state) =>
      element(
        "tr", {}, element("td", { dir: "auto" }, state.name), element("td", { dir: "auto" }, `${state.emotion} (${state.intensity} of 10)`),
        element("td", { dir: "auto" }, state.shifts.slice(0, -1).join(", ") || "–"), element("td", {}, counted(state.knows, "event")),
      ),
    );
    const table = element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...lines));
    casts.append(headed(scope.scope, counted(scope.characters.length, "character")), element("div", { class: "notice scroll" }, table));
  }
  document.getElementById("characters").hidden = !casts.childElementCount;
}

// Search: a memory is shown if every word stands somewhere in it.

function folded(text) {
  return text.normalize("NFKC").toLowerCase();
}

function wordsOf(memory, scope) {
  const said = memory.messages.flatMap((message) => [message.role, message.content]);
  return folded([scope, memory.label, memory.headline, memory.text, ...memory.marks, ...said, ...memory.fields.flat()].join("\n"));
}

function filterMemories() {
  const words = folded(document.getElementById("search").value).split(/\s+/).filter(Boolean);
  const kind = document.getElementById("kind").value;
  const scope = document.getElementById("scope").value;
  let found = 0;
  for (const each of rows) {
    const matches = (!kind || each.kind === kind) && (!scope || each.scope === scope) && words.every((word) => each.words.includes(word));
    each.row.hidden = !matches;
    found += matches;
  }
  const filtered = words.length > 0 || kind !== "" || scope !== "";
  for (const group of document.querySelectorAll(".group")) group.hidden = filtered && !group.querySelector(".memory:not([hidden])");
  document.getElementById("found").textContent = `${found.toLocaleString("en")} of ${rows.length.toLocaleString("en")} shown`;
  document.getElementById("nothing").hidden = found > 0 || !filtered;
}

drawHead();
if (data.explained) drawRanking(data.explained);
drawMemories();
drawWaiting();
drawCharacters();
filterMemories();
for (const id of ["search", "kind", "scope"]) document.getElementById(id).addEventListener("input", filterMemories);
document.getElementById("controls").addEventListener("submit", (event) => event.preventDefault());
