/** Markdown that grows: which of its blocks are finished, so that each is rendered once. Pure. */
import type { Token } from "marked";

import { tokens } from "./dialect.ts";

export interface Cut {
  /** Blocks that no later text can change. */
  settled: Token[];
  /** How much of the text they are, in UTF-16 units. */
  length: number;
  /** The last block: what follows may still become part of it. */
  open: Token[];
}

/** The text's blocks. Only the last one can change when text is added; blank lines behind it belong to it. */
export function cut(text: string): Cut {
  const all = tokens(text);
  let last = all.length - 1;
  while (last > 0 && all[last]?.type === "space") last -= 1;
  const settled = all.slice(0, Math.max(0, last));
  const length = settled.reduce((sum, token) => sum + token.raw.length, 0);
  return { settled, length, open: all.slice(settled.length) };
}
