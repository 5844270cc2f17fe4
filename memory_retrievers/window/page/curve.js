// Forgetting curves: how well a memory is remembered from now on.

import { drawn, element, percent } from "./elements.js";

const SIZE = { width: 640, height: 180, left: 48, right: 14, top: 14, bottom: 28 };

/** A curve of `[days from now, retrievability]` with its axes, and the same in words. */
export function curveFigure(points, stability) {
  const known = (points ?? []).filter(([day, value]) => Number.isFinite(day) && Number.isFinite(value));
  if (known.length < 2) return element("p", { class: "quiet" }, "It is not forgotten with time.");
  const { width, height, left, right, top, bottom } = SIZE;
  const first = known[0][0];
  const last = known.at(-1)[0];
  const x = (day) => left + ((width - left - right) * (day - first)) / (last - first || 1);
  const y = (value) => height - bottom - (height - top - bottom) * value;
  const parts = [];
  for (const share of [0, 0.5, 1]) {
    parts.push(drawn("line", { x1: left, x2: width - right, y1: y(share), y2: y(share), class: "line-axis" }));
    parts.push(drawn("text", { x: left - 6, y: y(share) + 4, "text-anchor": "end" }, percent(share)));
  }
  const line = known.map(([day, value], index) => `${index ? "L" : "M"}${x(day).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  parts.push(drawn("path", { d: `${line}L${x(last).toFixed(1)} ${y(0)}L${x(first).toFixed(1)} ${y(0)}Z`, class: "area-curve" }));
  parts.push(drawn("path", { d: line, class: "line-curve" }));
  for (const [day, anchor] of [[first, "start"], [last, "end"]]) {
    parts.push(drawn("text", { x: x(day), y: height - 8, "text-anchor": anchor }, dayInWords(day)));
  }
  if (first < 0 && last > 0) {
    parts.push(drawn("line", { x1: x(0), x2: x(0), y1: y(0), y2: y(1), class: "line-now" }));
    parts.push(drawn("text", { x: x(0), y: height - 8, "text-anchor": "middle" }, "now"));
  }
  const drawing = drawn("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, ...parts);
  return element("figure", {}, drawing, element("figcaption", {}, inWords(known, stability)));
}

/** What the drawing shows, for those who do not see it. */
function inWords(points, stability) {
  const now = points.reduce((best, point) => (Math.abs(point[0]) < Math.abs(best[0]) ? point : best));
  const [day, value] = points.at(-1);
  const stable = Number.isFinite(stability) ? ` Its stability is ${span(stability)}: so long until it is at 90 %.` : "";
  return `Forgetting curve: retrievability ${percent(now[1])} now, ${percent(value)} ${dayInWords(day)} if nobody asks for it.${stable}`;
}

function dayInWords(day) {
  if (Math.abs(day) < 0.5) return "now";
  return day < 0 ? `${span(-day)} ago` : `in ${span(day)}`;
}

function span(days) {
  if (days < 1) return `${Math.max(Math.round(days * 24), 1)} h`;
  if (days < 100) return `${Math.round(days)} days`;
  return days < 730 ? `${Math.round(days / 30.44)} months` : `${Math.round(days / 365.25)} years`;
}
