/** Who stands where: facts in groups by what they say, and in a group on as few lanes as keep their words apart. Pure. */
import type { Fact } from "../../api/facts.ts";
import type { Scale } from "./scale.ts";
import { shapeOf, type Shape, type Words } from "./shape.ts";
import { knownDays, spanOf, type Span } from "./span.ts";

/** A fact that can be drawn: seen from one entity, `label` is what stands at the other end. */
export interface Item {
  readonly fact: Fact;
  readonly span: Span;
  readonly label: string;
  /** What is at the other end: the type of an entity, or null for a value. */
  readonly kind: string | null;
  readonly first: number;
  readonly last: number;
}

/** Facts that say the same of the entity, in order of time. `inverse`: the entity is what they are said about. */
export interface Group {
  readonly key: string;
  readonly predicate: string;
  readonly inverse: boolean;
  readonly items: readonly Item[];
}

export interface Placed {
  readonly item: Item;
  readonly lane: number;
  readonly shape: Shape;
}

/** Between what stands on one lane, in pixels. */
const APART = 14;

/** The item of a fact seen from an entity; null where no date of it is known. */
export function itemOf(fact: Fact, entityId: string, today: number): Item | null {
  const span = spanOf(fact.from, fact.to);
  if (span === null) return null;
  const inverse = isInverse(fact, entityId);
  const other = inverse ? fact.subject : fact.object;
  const label = other?.name ?? fact.value ?? "";
  return { fact, span, label, kind: other === null ? null : other.type, ...knownDays(span, today) };
}

/** Whether the entity is the fact's object and not also its subject. */
export function isInverse(fact: Fact, entityId: string): boolean {
  return fact.object?.id === entityId && fact.subject.id !== entityId;
}

/** The items by predicate and direction, the group that begins first at the top. */
export function groupsOf(items: readonly Item[], entityId: string): readonly Group[] {
  const byKey = new Map<string, Item[]>();
  for (const item of [...items].sort((a, b) => a.first - b.first || a.last - b.last)) {
    const key = `${isInverse(item.fact, entityId) ? "<" : ">"}${item.fact.predicate}`;
    const known = byKey.get(key);
    if (known === undefined) byKey.set(key, [item]);
    else known.push(item);
  }
  return [...byKey].map(([key, members]) => ({
    key,
    predicate: key.slice(1),
    inverse: key.startsWith("<"),
    items: members,
  }));
}

/** What the words of an item take: by the label's width, and by where the item stands in the whole of time. */
export type WordsOf = (item: Item) => Words;

/**
 * Each item on the first lane that is free where it and its words stand, in order of time.
 *
 * Where things stand to each other depends on the scale's pixels per day alone, so that moving along the axis
 * changes no lane.
 */
export function placed(items: readonly Item[], scale: Scale, today: number, wordsOf: WordsOf): readonly Placed[] {
  const lanes: { begin: number; end: number }[][] = [];
  return items.map((item) => {
    const shape = shapeOf(item.span, scale, today, wordsOf(item));
    const free = lanes.findIndex((taken) =>
      taken.every(({ begin, end }) => end + APART <= shape.begin || shape.end + APART <= begin),
    );
    const lane = free === -1 ? lanes.length : free;
    (lanes[lane] ??= []).push(shape);
    return { item, lane, shape };
  });
}
