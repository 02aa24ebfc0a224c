/** How each kind of answer is filled: with a colour and a pattern of its own, so that neither is needed for the other. */
import type { Kind } from "./counts.ts";

export function fillOf(kind: Kind): string {
  return `url(#verdicts-${kind})`;
}

/** The patterns; drawn once in a page, used by its bars and its swatches. */
export function Patterns() {
  return (
    <svg class="verdicts-patterns" width={0} height={0} aria-hidden="true" focusable="false">
      <defs>
        <Pattern kind="cited" />
        <Pattern kind="uncited" lines="M-1 1 1 -1M0 6 6 0M5 7 7 5" />
        <Pattern kind="skipped" lines="M1 1.5h2M4 4.5h2" />
        <Pattern kind="none" lines="M0 1.5h6M0 4.5h6" />
        <Pattern kind="failed" lines="M0 0 6 6M0 6 6 0" />
        <Pattern kind="stopped" lines="M3 0v6" />
      </defs>
    </svg>
  );
}

/** Lines on a lighter ground; without lines it is full. */
function Pattern({ kind, lines }: { kind: Kind; lines?: string }) {
  return (
    <pattern id={`verdicts-${kind}`} class={`verdicts-${kind}`} width={6} height={6} patternUnits="userSpaceOnUse">
      <rect class={lines === undefined ? "verdicts-full" : "verdicts-light"} width={6} height={6} />
      {lines !== undefined && <path class="verdicts-lines" d={lines} />}
    </pattern>
  );
}

export function Swatch({ kind }: { kind: Kind }) {
  return (
    <svg class={`verdicts-swatch verdicts-${kind}`} width={18} height={18} aria-hidden="true" focusable="false">
      <rect class="verdicts-part" x={0.5} y={0.5} width={17} height={17} rx={3} fill={fillOf(kind)} />
    </svg>
  );
}
