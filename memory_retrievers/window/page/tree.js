// The scopes as a tree: children are asked for when a scope is opened. Keys as in every tree: arrows, Home, End, Enter.

import { ask } from "./server.js";
import { counted, element, grouped } from "./elements.js";

export class Tree {
  /**
   * @param root the element that has the role of the tree
   * @param chosen is called with a scope when it is chosen
   * @param failed is called with an error of a child list
   */
  constructor(root, chosen, failed) {
    this.root = root;
    this.chosen = chosen;
    this.failed = failed;
    this.items = new Map(); // scope → its element
    this.selected = null;
    this.typed = { text: "", at: 0 };
    root.addEventListener("keydown", (event) => this.#keyed(event));
    root.addEventListener("click", (event) => this.#clicked(event));
    root.addEventListener("focusin", (event) => this.#rove(event.target.closest("[role=treeitem]")));
  }

  /** Draw the first level, and choose the first scope that holds something. */
  async start() {
    await this.#fill(this.root, null, 1);
    let item = this.root.firstElementChild;
    for (let depth = 0; item && depth < 8 && item.dataset.held === "0" && item.hasAttribute("aria-expanded"); depth += 1) {
      await this.expand(item);
      item = item.querySelector("[role=treeitem]") ?? item;
    }
    if (item) this.choose(item);
    return item !== null;
  }

  /** Ask again for whatever is open, and change what has changed; focus and scroll stay. */
  async refresh() {
    await this.#fill(this.root, null, 1);
    for (const [scope, item] of [...this.items]) {
      if (item.isConnected && item.getAttribute("aria-expanded") === "true") await this.#fill(this.#group(item), scope, this.#level(item) + 1);
    }
    if (this.selected === null && this.root.firstElementChild) this.choose(this.root.firstElementChild);
  }

  choose(item) {
    const scope = item.dataset.scope;
    if (scope === undefined) return this.#more(item);
    for (const each of this.items.values()) each.setAttribute("aria-selected", each === item);
    this.selected = scope;
    this.#rove(item);
    this.chosen(scope);
    return undefined;
  }

  async expand(item) {
    if (item.getAttribute("aria-expanded") !== "false") return;
    item.setAttribute("aria-expanded", "true");
    await this.#guarded(() => this.#fill(this.#group(item), item.dataset.scope, this.#level(item) + 1));
  }

  collapse(item) {
    if (item.contains(document.activeElement)) item.focus();
    item.setAttribute("aria-expanded", "false");
  }

  async #guarded(work) {
    try {
      await work();
    } catch (error) {
      this.failed(error);
    }
  }

  /** Fill a list with the children of a scope: as many pages as it showed before, at least one. */
  async #fill(list, under, level) {
    const wanted = Math.max([...list.children].filter((each) => each.dataset.scope !== undefined).length, 1);
    const found = [];
    let cursor = null;
    do {
      const page = await ask("scopes", { under, cursor });
      found.push(...page.scopes);
      cursor = page.cursor;
    } while (cursor && found.length < wanted);
    this.#draw(list, found, cursor, level);
  }

  #draw(list, found, cursor, level) {
    const kept = new Set(found.map((each) => each.scope));
    for (const item of [...list.children]) {
      if (item.dataset.scope === undefined ? !cursor : !kept.has(item.dataset.scope)) this.#drop(item);
    }
    let before = list.firstElementChild;
    for (const each of found) {
      let item = this.items.get(each.scope);
      if (item?.parentElement !== list) {
        item = element("li", { role: "treeitem", "aria-level": level, "aria-selected": false, tabindex: -1 });
        item.dataset.scope = each.scope;
        item.append(element("span", { class: "branch" }));
        this.items.set(each.scope, item);
      }
      if (item === before) before = before.nextElementSibling;
      else list.insertBefore(item, before);
      this.#label(item, each);
    }
    this.#continued(list, cursor, level);
    if (!this.root.querySelector("[tabindex='0']")) this.root.querySelector("[role=treeitem]")?.setAttribute("tabindex", 0);
  }

  /** The last item of a list that has more. */
  #continued(list, cursor, level) {
    if (!cursor) return;
    const item = [...list.children].find((each) => each.dataset.scope === undefined)
      ?? element("li", { role: "treeitem", "aria-level": level, tabindex: -1 }, element("span", { class: "branch" }, "More scopes …"));
    item.dataset.cursor = cursor;
    if (list.lastElementChild !== item) list.append(item);
  }

  async #more(item) {
    const list = item.parentElement;
    const parent = list.closest("[role=treeitem]");
    await this.#guarded(async () => {
      const page = await ask("scopes", { under: parent?.dataset.scope, cursor: item.dataset.cursor });
      const first = page.scopes[0]?.scope;
      const found = [...list.children].flatMap((each) => (each.dataset.scope === undefined ? [] : [each.told]));
      this.#draw(list, [...found, ...page.scopes], page.cursor, this.#level(item));
      this.items.get(first)?.focus();
    });
  }

  #label(item, each) {
    item.told = each;
    const held = each.facts + each.episodes + each.open;
    item.dataset.held = held;
    const parts = [counted(each.facts, "fact"), counted(each.episodes, "episode")];
    if (each.open) parts.push(counted(each.open, "open conversation"));
    if (each.below) parts.push(counted(each.below, "scope") + " below");
    const words = `${each.name}: ${parts.join(", ")}`;
    if (item.getAttribute("aria-label") !== words) {
      item.setAttribute("aria-label", words);
      const name = element("span", { class: "name", dir: "auto" }, each.name);
      const row = item.firstElementChild;
      row.replaceChildren(name, element("span", { class: "count" }, grouped(held)));
      row.title = `${each.scope}\n${parts.join(", ")}`;
    }
    if (each.below && !item.hasAttribute("aria-expanded")) item.setAttribute("aria-expanded", "false");
    if (!each.below) item.removeAttribute("aria-expanded");
  }

  #drop(item) {
    if (item.contains(document.activeElement)) (item.previousElementSibling ?? item.parentElement.closest("[role=treeitem]"))?.focus();
    for (const gone of [item, ...item.querySelectorAll("[role=treeitem]")]) this.items.delete(gone.dataset.scope);
    if (item.dataset.scope === this.selected) this.selected = null;
    item.remove();
  }

  #group(item) {
    let group = item.querySelector(":scope > [role=group]");
    if (!group) {
      group = element("ul", { role: "group" });
      item.append(group);
    }
    return group;
  }

  #level(item) {
    return Number(item.getAttribute("aria-level"));
  }

  #rove(item) {
    if (!item) return;
    for (const each of this.root.querySelectorAll("[tabindex='0']")) each.setAttribute("tabindex", -1);
    item.setAttribute("tabindex", 0);
  }

  #clicked(event) {
    const item = event.target.closest("[role=treeitem]");
    if (!item) return;
    item.focus();
    const arrow = event.offsetX < 22 && event.target.classList.contains("branch") && item.hasAttribute("aria-expanded");
    if (!arrow) this.choose(item);
    if (item.getAttribute("aria-expanded") === "true" && arrow) this.collapse(item);
    else void this.expand(item);
  }

  #keyed(event) {
    const item = event.target.closest("[role=treeitem]");
    if (!item || event.ctrlKey || event.altKey || event.metaKey) return;
    const seen = [...this.root.querySelectorAll("[role=treeitem]")].filter((each) => !each.parentElement.closest("[aria-expanded=false]"));
    const at = seen.indexOf(item);
    const open = item.getAttribute("aria-expanded");
    const moves = {
      ArrowDown: () => seen[at + 1]?.focus(),
      ArrowUp: () => seen[at - 1]?.focus(),
      Home: () => seen[0].focus(),
      End: () => seen.at(-1).focus(),
      ArrowRight: () => (open === "true" ? item.querySelector("[role=treeitem]")?.focus() : void this.expand(item)),
      ArrowLeft: () => (open === "true" ? this.collapse(item) : item.parentElement.closest("[role=treeitem]")?.focus()),
      Enter: () => this.choose(item),
      " ": () => this.choose(item),
    };
    const move = moves[event.key] ?? (event.key.length === 1 ? () => this.#type(event.key, seen, at) : null);
    if (!move) return;
    event.preventDefault();
    move();
  }

  /** Letters lead to the next scope whose name begins with them. */
  #type(letter, seen, at) {
    const again = performance.now() - this.typed.at < 700;
    this.typed = { text: (again ? this.typed.text : "") + letter.toLowerCase(), at: performance.now() };
    const order = [...seen.slice(at + (again ? 0 : 1)), ...seen.slice(0, at + 1)];
    order.find((each) => each.told?.name.toLowerCase().startsWith(this.typed.text))?.focus();
  }
}
