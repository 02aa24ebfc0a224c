/**
 * Paints growing markdown into an element. Finished blocks become nodes once and are left alone; only the last block
 * is made again when text arrives, so a long answer costs no more per frame than a short one.
 */
import type { Token } from "marked";

import { cut } from "./blocks.ts";
import { citations } from "./citations.ts";
import { html } from "./dialect.ts";
import { safe } from "./sanitise.ts";

export interface Citing {
  /** The numbers that open something, and what a screen reader is told about each. */
  titles: ReadonlyMap<number, string>;
  copyLabel: string;
}

export class Prose {
  readonly #host: HTMLElement;
  readonly #open = document.createElement("div");
  #shown = "";
  #settled = 0;
  #cited = 0;
  #complete = false;

  constructor(host: HTMLElement) {
    this.#host = host;
    this.#open.className = "prose-open";
    host.replaceChildren(this.#open);
  }

  /** Show the text. `complete`: nothing follows, so the last block is finished too. */
  paint(text: string, citing: Citing, { complete }: { complete: boolean }): void {
    const clean = text.includes("\r") ? text.replace(/\r\n?/g, "\n") : text;
    if (clean === this.#shown && complete === this.#complete && citing.titles.size === this.#cited) return;
    if (!clean.startsWith(this.#shown.slice(0, this.#settled))) this.#restart();
    if (citing.titles.size > this.#cited) {
      this.#cited = citing.titles.size;
      cite(this.#host, citing.titles);
    }
    const { settled, length, open } = parsed(clean.slice(this.#settled));
    if (settled.length > 0) this.#open.before(finished(settled, citing));
    this.#settled += length;
    this.#shown = clean;
    this.#complete = complete;
    this.#open.replaceChildren(complete ? finished(open, citing) : rendered(open, citing));
  }

  #restart(): void {
    this.#host.replaceChildren(this.#open);
    this.#settled = 0;
  }
}

function parsed(text: string): ReturnType<typeof cut> {
  try {
    return cut(text);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    // Nested deeper than the parser can follow (thousands of `>`): shown as it was written.
    const raw: Token = { type: "text", raw: text, text, escaped: false };
    return { settled: [], length: 0, open: [raw] };
  }
}

function rendered(blocks: Token[], citing: Citing): DocumentFragment {
  const fragment = safe(html(blocks));
  cite(fragment, citing.titles);
  return fragment;
}

function finished(blocks: Token[], citing: Citing): DocumentFragment {
  const fragment = rendered(blocks, citing);
  for (const pre of fragment.querySelectorAll("pre")) {
    const copy = document.createElement("button");
    copy.type = "button";
    copy.className = "prose-copy button small";
    copy.textContent = citing.copyLabel;
    const frame = document.createElement("div");
    frame.className = "prose-code";
    pre.replaceWith(frame);
    pre.tabIndex = 0; // scrolls sideways, so a keyboard must reach it
    frame.append(pre, copy);
  }
  for (const table of fragment.querySelectorAll("table")) {
    const frame = document.createElement("div");
    frame.className = "prose-table";
    frame.tabIndex = 0;
    table.replaceWith(frame);
    frame.append(table);
  }
  return fragment;
}

/** Make the known numbers in the texts below `root` into buttons; done again, it finds only what is new. */
function cite(root: Node, titles: ReadonlyMap<number, string>): void {
  if (titles.size === 0) return;
  const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT, (node) => {
    if (node.nodeType === Node.TEXT_NODE) return NodeFilter.FILTER_ACCEPT;
    return ["CODE", "PRE", "A", "BUTTON"].includes(node.nodeName) ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_SKIP;
  });
  const texts: Text[] = [];
  while (walk.nextNode()) texts.push(walk.currentNode as Text);
  for (const text of texts) citeIn(text, titles);
}

function citeIn(text: Text, titles: ReadonlyMap<number, string>): void {
  const found = citations(text.data).filter((citation) => citation.numbers.some((n) => titles.has(n)));
  if (found.length === 0) return;
  const parts: (string | Node)[] = [];
  let from = 0;
  for (const { start, end, numbers } of found) {
    parts.push(text.data.slice(from, start));
    for (const n of numbers) parts.push(titles.has(n) ? chip(n, titles.get(n) ?? "") : `[${n}]`);
    from = end;
  }
  parts.push(text.data.slice(from));
  text.replaceWith(...parts.filter((part) => part !== ""));
}

function chip(n: number, title: string): HTMLButtonElement {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "cite";
  button.value = String(n);
  button.textContent = String(n);
  button.setAttribute("aria-label", title);
  return button;
}
