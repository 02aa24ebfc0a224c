/** Groups below each other: which lane of which group is how far down. Pure. */
import { placed, type Group, type Placed, type WordsOf } from "./lanes.ts";
import type { Scale } from "./scale.ts";
import type { Shape } from "./shape.ts";

/** Pixels from one lane to the next. */
export const LANE = 26;
const GROUP_PAD = 4;
const HEADING = 22;

export interface Row {
  readonly group: Group;
  readonly top: number;
  readonly height: number;
  readonly placed: readonly (Placed & { readonly y: number })[];
}

export interface Layout {
  readonly rows: readonly Row[];
  readonly height: number;
}

export interface LayoutOptions {
  readonly today: number;
  readonly wordsOf: WordsOf;
  /** How high a group's name is where it stands beside its lanes; null where it stands above them. */
  readonly nameHeight: ((group: Group) => number) | null;
}

export function layoutOf(
  groups: readonly Group[],
  scale: Scale,
  { today, wordsOf, nameHeight }: LayoutOptions,
): Layout {
  let top = 0;
  const rows = groups.map((group): Row => {
    const first = top + GROUP_PAD + (nameHeight === null ? HEADING : 0);
    const members = placed(group.items, scale, today, wordsOf).map((one) => ({ ...one, y: first + one.lane * LANE }));
    const lanes = 1 + Math.max(0, ...members.filter(({ shape }) => isNear(shape, scale)).map(({ lane }) => lane));
    const height = Math.max(first - top + lanes * LANE + GROUP_PAD, nameHeight?.(group) ?? 0);
    const row = { group, top, height, placed: members };
    top += height;
    return row;
  });
  return { rows, height: top };
}

/** Whether a mark is shown or would be after moving by the width of what is: only such marks keep their lanes free. */
function isNear({ begin, end }: Shape, { width }: Scale): boolean {
  return end > -width && begin < 2 * width;
}
