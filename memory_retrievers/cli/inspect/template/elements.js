"use strict";
// Elements: every text reaches the page as the content of a text node, never as markup.

/** An element with attributes and children; a child that is a string becomes text. */
function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** The same for the parts of a drawing. */
function drawn(name, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** A copy of what a template holds. */
function copyOf(template) {
  return document.getElementById(template).content.firstElementChild.cloneNode(true);
}

function put(node, selector, text) {
  node.querySelector(selector).textContent = text;
}

/** A text of somebody's, with its own direction and its own line breaks. */
function quoted(text) {
  return element("p", { class: "text", dir: "auto" }, text);
}

/** "1 day", "2 days". */
function counted(count, singular, plural = `${singular}s`) {
  return `${count.toLocaleString("en")} ${count === 1 ? singular : plural}`;
}

/** A length of time in days, as a person would say it. */
function daysLong(days) {
  if (days >= 730) return `${Math.round(days / 365)} years`;
  return days >= 9.5 ? `${Math.round(days)} days` : `${Number(days.toFixed(1))} ${days.toFixed(1) === "1.0" ? "day" : "days"}`;
}

function percent(share) {
  return `${Math.round(share * 100)} %`;
}

/** A moment to the minute, in UTC. */
function minuteOf(iso) {
  return `${iso.slice(0, 10)} ${iso.slice(11, 16)}`;
}
