/** What a timeline draws and what part of time it shows: made of the facts, the width, and where the reader moved. */
import { useMemo, useState } from "preact/hooks";

import type { Fact } from "../../api/facts.ts";
import { today as todayOf } from "./dates.ts";
import { huesOf, type Hues } from "./hues.ts";
import { groupsOf, itemOf, type Group, type Item, type WordsOf } from "./lanes.ts";
import { layoutOf, type Layout } from "./layout.ts";
import { labelWidth, shortLabel } from "./measure.ts";
import { groupName } from "./sentence.ts";
import { boundsOf, panned, xOf, zoomed, type Bounds, type Scale } from "./scale.ts";
import { UNKNOWN_FADE } from "./shape.ts";

const GUTTER = 176;

/** Between the groups' names and the drawing. */
export const NAME_GAP = 12;

/** Narrower than this, the groups' names stand above their lanes. */
const NARROW = 620;

export interface Moves {
  readonly show: (window: Bounds) => void;
  readonly whole: () => void;
  /** A factor of 2 halves the days, around a day that stays where it is; the middle where none is given. */
  readonly zoom: (factor: number, around?: number) => void;
  /** By a share of what is shown. */
  readonly pan: (share: number) => void;
  /** Brings a fact into what is shown. */
  readonly reveal: (factId: string) => void;
}

export interface Arrangement {
  readonly today: number;
  readonly items: readonly Item[];
  readonly hues: Hues;
  readonly bounds: Bounds;
  readonly window: Bounds;
  readonly isWhole: boolean;
  /** The pixels that the groups' names take at the left; 0 where they stand above. */
  readonly gutter: number;
  readonly scale: Scale;
  readonly layout: Layout;
  readonly moves: Moves;
}

export function useArrangement(
  facts: readonly Fact[],
  entity: { id: string; name: string },
  width: number,
): Arrangement {
  const today = useMemo(() => todayOf(), []);
  const items = useMemo(
    () => facts.map((fact) => itemOf(fact, entity.id, today)).filter((item) => item !== null),
    [facts],
  );
  const groups = useMemo(() => groupsOf(items, entity.id), [items]);
  const bounds = useMemo(() => boundsOf(items, today), [items]);
  const hues = useMemo(() => huesOf(items), [items]);
  const [wanted, setWanted] = useState<Bounds | null>(null);

  const window = wanted ?? bounds;
  const gutter = width < NARROW ? 0 : GUTTER;
  const scale: Scale = { ...window, width: Math.max(width - gutter, 1) };
  const layout = useMemo(() => {
    const nameHeight =
      gutter === 0 ? null : (group: Group) => heightOf(groupName(group, entity.name), gutter - NAME_GAP);
    return layoutOf(groups, scale, { today, wordsOf: wordsIn({ ...bounds, width: scale.width }), nameHeight });
  }, [groups, window.from, window.to, width]);

  const moves = movesOf(items, window, bounds, setWanted);
  return { today, items, hues, bounds, window, isWhole: wanted === null, gutter, scale, layout, moves };
}

function movesOf(
  items: readonly Item[],
  window: Bounds,
  bounds: Bounds,
  setWanted: (window: Bounds | null) => void,
): Moves {
  const middle = (window.from + window.to) / 2;
  const pan = (share: number): void => setWanted(panned(window, share, bounds));
  return {
    show: setWanted,
    whole: () => setWanted(null),
    zoom: (factor, around = middle) => setWanted(zoomed(window, factor, around, bounds)),
    pan,
    reveal: (factId) => {
      const item = items.find(({ fact }) => fact.id === factId);
      if (item === undefined) return;
      const day = item.last < window.from ? item.last : item.first > window.to ? item.first : null;
      if (day !== null) pan((day - middle) / (window.to - window.from));
    },
  };
}

/** Words stand before a mark where, with all of time in view, they would run out at the right. */
function wordsIn(whole: Scale): WordsOf {
  return (item) => {
    const width = labelWidth(shortLabel(item.label));
    return { width, before: xOf(whole, item.last + 1) + UNKNOWN_FADE + 12 + width > whole.width };
  };
}

/** The height of a group's name of two lines, with the room around it; a line fits anyway. */
function heightOf(name: string, width: number): number {
  return labelWidth(name) * 1.1 > width ? 44 : 0;
}
