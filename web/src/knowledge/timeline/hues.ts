/** Colours by what stands at the other end of a fact: the most frequent types get one each. Pure. */
import type { Item } from "./lanes.ts";

/** How many colours there are beside the one for everything else. */
export const HUES = 5;

export interface Hues {
  /** The colour's number of a type, 1 to HUES; 0 for values and for types beyond them. */
  readonly of: (kind: string | null) => number;
  /** The types that have a colour of their own, the most frequent first. */
  readonly named: readonly string[];
  readonly others: boolean;
}

export function huesOf(items: readonly Item[]): Hues {
  const counts = new Map<string, number>();
  for (const { kind } of items) if (kind !== null && kind !== "") counts.set(kind, (counts.get(kind) ?? 0) + 1);
  const named = [...counts]
    .sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0]))
    .map(([kind]) => kind)
    .slice(0, HUES);
  const of = (kind: string | null): number => (kind === null ? 0 : named.indexOf(kind) + 1);
  return { of, named, others: items.some(({ kind }) => of(kind) === 0) };
}
