// The explained ranking: each memory as a bar of what every stage gave it.

const BAR = { width: 1000, height: 20 };
const FIRST = 5; // so many places of each kind are open from the start

/** Draw why a question is answered as it is. */
function drawRanking(explained) {
  document.getElementById("ranking").hidden = false;
  document.getElementById("question").textContent = explained.query;
  const embedded = explained.embedded === explained.query ? "" : ` Embedded: “${explained.embedded}”.`;
  document.getElementById("asked").textContent =
    `Asked in ${explained.scope}.${embedded} A full bar is a score of 1; what forgetting takes off is pale.`;
  const all = [...explained.semantic, ...explained.episodic];
  const byStages = [...all].sort((one, other) => other.stages.length - one.stages.length);
  const given = new Set(all.flatMap((memory) => memory.stages.filter((stage) => stage.score > 0).map((stage) => stage.name)));
  const stages = [...new Set(byStages.flatMap((memory) => memory.stages.map((stage) => stage.name)))].filter((name) => given.has(name));
  const colours = new Map(stages.map((name, index) => [name, `stage-${index % 10}`]));
  for (const [name, colour] of colours) {
    const swatch = drawn("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" }, drawn("rect", { width: 10, height: 10, rx: 2, class: colour }));
    document.getElementById("legend").append(element("li", {}, swatch, name));
  }
  const places = document.getElementById("places");
  for (const [heading, memories] of [["Facts", explained.semantic], ["Episodes", explained.episodic]]) {
    if (!memories.length) continue;
    places.append(element("h3", {}, heading), placeList(memories, colours));
  }
  if (!all.length) places.append(element("p", { class: "notice" }, "Nothing is returned."));
}

function placeList(memories, colours) {
  const placed = memories.map((memory) => placeRow(memory, colours));
  const list = element("ol", { class: "list" }, ...placed.slice(0, FIRST));
  if (placed.length > FIRST) {
    const others = element("ol", { class: "list", start: FIRST + 1 }, ...placed.slice(FIRST));
    const summary = element("summary", {}, `${placed.length - FIRST} more`);
    list.append(element("li", {}, element("details", { class: "others" }, summary, others)));
  }
  return list;
}

function placeRow(memory, colours) {
  const row = copyOf("place-row");
  row.classList.add(memory.kind);
  put(row, ".label", `${memory.rank}.`);
  put(row, ".headline", memory.text);
  put(row, ".score", memory.score.toFixed(3));
  row.querySelector(".bar").append(bar(memory, colours));
  put(row, ".reasons", reasons(memory));
  const body = row.querySelector(".body");
  row.querySelector("details").addEventListener("toggle", () => body.append(figures(memory)), { once: true });
  return row;
}

function bar(memory, colours) {
  const parts = [drawn("rect", { width: BAR.width, height: BAR.height, class: "bar-ground" })];
  let from = 0;
  for (const stage of memory.stages) {
    if (!(stage.score > 0)) continue;
    const width = stage.share * BAR.width;
    const tip = drawn("title", {}, `${stage.name}: ${stage.score.toFixed(4)}`);
    parts.push(drawn("rect", { x: from, width, height: BAR.height, class: colours.get(stage.name) }, tip));
    from += width;
  }
  const end = memory.score * BAR.width;
  if (from - end > 0.5) {
    parts.push(drawn("rect", { x: end, width: from - end, height: BAR.height, class: "bar-forgotten" }));
    parts.push(drawn("rect", { x: end - 1.5, width: 3, height: BAR.height, class: "bar-end" }));
  }
  const label = `Score ${memory.score.toFixed(3)} of 1, ${memory.score_before_forgetting.toFixed(3)} before forgetting`;
  return drawn("svg", { viewBox: `0 0 ${BAR.width} ${BAR.height}`, preserveAspectRatio: "none", role: "img", "aria-label": label }, ...parts);
}

function reasons(memory) {
  const near = memory.dense_rank === null ? "not among the candidates by vector similarity" : `${ordinal(memory.dense_rank)} by vector similarity`;
  const words = memory.words.length ? `${ordinal(memory.bm25_rank)} by words (${memory.words.join(", ")})` : "no word of the question";
  const fading = memory.kind === "episodic" ? ` · retrievability ${percent(memory.retrievability)}` : "";
  const moved = memory.rank === memory.rank_before_forgetting ? "" : ` · ${ordinal(memory.rank_before_forgetting)} before forgetting`;
  return `${near} (cosine ${memory.cosine.toFixed(2)}) · ${words}${fading}${moved}`;
}

function ordinal(rank) {
  if (rank === null) return "not ranked";
  const last = rank % 100 > 10 && rank % 100 < 14 ? 0 : rank % 10;
  return `${rank}${["th", "st", "nd", "rd"][last] ?? "th"}`;
}

function figures(memory) {
  const rows = memory.stages.map((stage) => [stage.name, stage.rank === null ? "–" : String(stage.rank), stage.score.toFixed(4)]);
  rows.push(["sum", "", memory.fused_score.toFixed(4)]);
  rows.push(["score before forgetting", String(memory.rank_before_forgetting), memory.score_before_forgetting.toFixed(4)]);
  rows.push(["retrievability", "", memory.retrievability.toFixed(4)]);
  rows.push(["score", String(memory.rank), memory.score.toFixed(4)]);
  const cells = ([stage, rank, score]) =>
    element("tr", {}, element("td", {}, stage), element("td", { class: "number" }, rank), element("td", { class: "number" }, score));
  const head = element(
    "tr", {}, element("th", { scope: "col" }, "stage"),
    element("th", { scope: "col", class: "number" }, "rank"), element("th", { scope: "col", class: "number" }, "score"),
  );
  const table = element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows.map(cells)));
  return element("div", { class: "scroll" }, table, element("p", { class: "quiet" }, `id ${memory.id} in ${memory.scope}`));
}
