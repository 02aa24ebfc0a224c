/** What is drawn of an item, in pixels: what is surely so, what fades because it isn't known, where the words stand. Pure. */
import { xOf, type Scale } from "./scale.ts";
import type { End, Span } from "./span.ts";

/** A dot and the least bar. */
export const DOT = 10;

/** How far a bar fades where its end is open, and where nothing is known. */
export const OPEN_FADE = 26;
export const UNKNOWN_FADE = 44;

/** Between a mark and its words, and at both sides of words inside a bar. */
const WORD_GAP = 6;

/**
 * `dot`: a moment, too short for the scale to show more. `range`: it happened somewhere within. `bar`: it was true
 * from `solidFrom` to `solidTo`, and maybe on to `from` and `to`, where it fades. Words inside a bar are kept in view.
 */
export interface Shape {
  readonly kind: "dot" | "range" | "bar";
  readonly from: number;
  readonly to: number;
  readonly solidFrom: number;
  readonly solidTo: number;
  readonly words: { readonly x: number; readonly inside: boolean };
  /** Where all that is drawn begins and ends, words included. */
  readonly begin: number;
  readonly end: number;
}

/** The words of a mark: how wide they are, and whether they stand before it where there is no room inside. */
export interface Words {
  readonly width: number;
  readonly before: boolean;
}

/** The shape of a span with its words. */
export function shapeOf(span: Span, scale: Scale, today: number, words: Words): Shape {
  return span.kind === "moment" ? moment(span, scale, words) : interval(span.start, span.end, scale, today, words);
}

function moment(span: Extract<Span, { kind: "moment" }>, scale: Scale, words: Words): Shape {
  const from = xOf(scale, span.period.first);
  const to = xOf(scale, span.period.last + 1);
  if (to - from < DOT * 1.6) {
    const middle = (from + to) / 2;
    return marked("dot", { from: middle - DOT / 2, to: middle + DOT / 2 }, words);
  }
  return marked("range", { from, to }, words);
}

function interval(start: End, end: End, scale: Scale, today: number, words: Words): Shape {
  let solidFrom = start.kind === "date" ? xOf(scale, start.period.last) : null;
  let solidTo = end.kind === "date" ? xOf(scale, end.period.first + 1) : null;
  if (end.kind === "open") solidTo = Math.max(xOf(scale, today), solidFrom ?? -Infinity);
  let from = start.kind === "date" ? xOf(scale, start.period.first) : null;
  let to = end.kind === "date" ? xOf(scale, end.period.last + 1) : null;
  // the one end that is known stands for the other, and from there it fades
  solidFrom ??= solidTo ?? 0;
  solidTo ??= solidFrom;
  from ??= Math.min(solidFrom, solidTo) - UNKNOWN_FADE;
  to ??= Math.max(solidFrom, solidTo) + (end.kind === "open" ? OPEN_FADE : UNKNOWN_FADE);
  if (to - from < DOT) to = from + DOT;
  // an imprecise start may lie after an imprecise end: then nothing is sure
  if (solidFrom > solidTo) solidFrom = solidTo = (from + to) / 2;
  return { ...marked("bar", { from, to }, words), solidFrom, solidTo };
}

function marked(kind: Shape["kind"], drawn: { from: number; to: number }, words: Words): Shape {
  const { from, to } = drawn;
  const solid = { kind, from, to, solidFrom: from, solidTo: to };
  if (kind !== "dot" && words.width + 2 * WORD_GAP <= to - from) {
    return { ...solid, words: { x: from + WORD_GAP, inside: true }, begin: from, end: to };
  }
  if (words.before) {
    const x = from - WORD_GAP - words.width;
    return { ...solid, words: { x, inside: false }, begin: x, end: to };
  }
  const x = to + WORD_GAP;
  return { ...solid, words: { x, inside: false }, begin: from, end: x + words.width };
}
