/** An answer's text cut where its steps happened. Pure. */
import type { Step } from "../turn/frames.ts";

export type Part = { kind: "text"; start: number; text: string; last: boolean } | { kind: "step"; step: Step };

/** Text and steps in the order of reading; `at` counts UTF-16 units, and so do JavaScript's strings. */
export function segments(content: string, steps: readonly Step[]): Part[] {
  const parts: Part[] = [];
  let from = 0;
  for (const step of [...steps].sort((a, b) => a.at - b.at || a.n - b.n)) {
    const at = Math.min(step.at, content.length);
    if (at > from) parts.push({ kind: "text", start: from, text: content.slice(from, at), last: false });
    parts.push({ kind: "step", step });
    from = Math.max(from, at);
  }
  if (from < content.length) parts.push({ kind: "text", start: from, text: content.slice(from), last: true });
  return parts;
}
