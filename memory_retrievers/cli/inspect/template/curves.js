// Forgetting curves. Their points come with the data; here they are only drawn.

const CURVE = { width: 640, height: 190, left: 44, right: 14, top: 22, bottom: 26 };

/** A small curve for a line of the list: what was is filled, what comes is a line. */
function sparkline(curve) {
  const first = curve.points[0][0];
  const x = (day) => (100 * (day - first)) / (curve.ahead - first);
  const y = (value) => 27 - 24 * value;
  return drawn(
    "svg",
    { viewBox: "0 0 100 30", preserveAspectRatio: "none", "aria-hidden": "true" },
    drawn("path", { d: areaBelow(curve, x, y), class: "area-past" }),
    drawn("path", { d: path(curve.points, x, y), class: "line-curve" }),
    drawn("line", { x1: x(0), x2: x(0), y1: 2, y2: 28, class: "line-now" }),
  );
}

/** The whole curve with its axes, when the episode was made, its last review, and now. */
function curveFigure(memory) {
  const curve = memory.curve;
  const { width, height, left, right, top, bottom } = CURVE;
  const first = Math.min(curve.created, curve.points[0][0]);
  const x = (day) => left + ((width - left - right) * (day - first)) / (curve.ahead - first);
  const y = (value) => height - bottom - (height - top - bottom) * value;
  const parts = [];
  for (const share of [0, 0.5, 1]) {
    parts.push(drawn("line", { x1: left, x2: width - right, y1: y(share), y2: y(share), class: "line-axis" }));
    parts.push(drawn("text", { x: left - 6, y: y(share) + 4, "text-anchor": "end" }, percent(share)));
  }
  if (curve.reviewed !== null) {
    const at = x(curve.reviewed);
    parts.push(drawn("rect", { x: left, y: y(1), width: at - left, height: y(0) - y(1), class: "area-unknown" }));
    parts.push(drawn("line", { x1: at, x2: at, y1: y(0), y2: y(1) - 6, class: "line-review" }));
    parts.push(drawn("text", { x: at, y: y(1) - 9, class: "review", ...anchored(at, x(0)) }, "last review"));
  }
  const now = x(0);
  parts.push(drawn("path", { d: areaBelow(curve, x, y), class: "area-past" }));
  parts.push(drawn("path", { d: path(curve.points, x, y), class: "line-curve" }));
  parts.push(drawn("line", { x1: now, x2: now, y1: y(0), y2: y(1), class: "line-now" }));
  parts.push(drawn("circle", { cx: now, cy: y(curve.now), r: 5, class: "dot" }));
  parts.push(drawn("text", { x: now + 9, y: y(curve.now) - 8, class: "strong" }, percent(curve.now))); // above it is room
  if (now - left > 110) parts.push(drawn("text", { x: left, y: height - 8 }, `${daysLong(-first)} ago`));
  parts.push(drawn("text", { x: now, y: height - 8, "text-anchor": now - left < 12 ? "start" : "middle" }, "now"));
  parts.push(drawn("text", { x: width - right, y: height - 8, "text-anchor": "end" }, `in ${daysLong(curve.ahead)}`));
  const drawing = drawn("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, ...parts);
  return element("figure", {}, drawing, element("figcaption", {}, curveInWords(memory)));
}

/** What the drawing shows, for those who do not see it. */
function curveInWords(memory) {
  const curve = memory.curve;
  if (!memory.fades) return "Forgetting curve: this episode never fades.";
  const reviewed = curve.reviewed === null ? "Never reviewed." : `Last reviewed ${daysLong(-curve.reviewed)} ago; how it stood before is not kept.`;
  return `Forgetting curve: retrievability ${percent(curve.now)} now, ${percent(curve.later)} in ${daysLong(curve.ahead)}. ${reviewed}`;
}

/** Where a label of a line stands, so that it stays clear of the edges. */
function anchored(at, now) {
  return { "text-anchor": at - CURVE.left < 40 ? "start" : now - at < 70 ? "end" : "middle" };
}

function path(points, x, y) {
  return points.map(([day, value], index) => `${index ? "L" : "M"}${x(day).toFixed(2)} ${y(value).toFixed(2)}`).join("");
}

/** The area below the curve up to now. */
function areaBelow(curve, x, y) {
  const past = curve.points.filter(([day]) => day <= 0);
  const [begin, end] = [past[0][0], past[past.length - 1][0]];
  return `${path(past, x, y)}L${x(end).toFixed(2)} ${y(0).toFixed(2)}L${x(begin).toFixed(2)} ${y(0).toFixed(2)}Z`;
}
