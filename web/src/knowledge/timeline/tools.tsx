/** What stands around the drawing: buttons for what the pointer does, what the colours mean, what has no date. */
import type { Fact } from "../../api/facts.ts";
import { visible } from "../../text/visible.ts";
import type { Arrangement } from "./arrangement.ts";
import type { Hues } from "./hues.ts";
import { sentenceOf } from "./sentence.ts";
import { words } from "./words.ts";

export function Tools({ isWhole, moves }: Arrangement) {
  const deeds = [
    { sign: "+", name: words.zoomIn, act: () => moves.zoom(1.6), off: false },
    { sign: "−", name: words.zoomOut, act: () => moves.zoom(1 / 1.6), off: isWhole },
    { sign: "←", name: words.earlier, act: () => moves.pan(-0.5), off: isWhole },
    { sign: "→", name: words.later, act: () => moves.pan(0.5), off: isWhole },
  ];
  return (
    <div class="timeline-tools" role="group" aria-label={words.tools}>
      {deeds.map(({ sign, name, act, off }) => (
        <button
          key={sign}
          type="button"
          class="button small"
          aria-label={name}
          title={name}
          disabled={off}
          onClick={act}
        >
          {sign}
        </button>
      ))}
      <button type="button" class="button small" disabled={isWhole} onClick={moves.whole}>
        {words.whole}
      </button>
      <span class="soft small timeline-hint">{words.hint}</span>
    </div>
  );
}

export function Legend({ hues }: { hues: Hues }) {
  return (
    <ul class="timeline-legend small" aria-label={words.legend}>
      {hues.named.map((kind, n) => (
        <li key={kind}>
          <span class={`timeline-swatch timeline-hue-${n + 1}`} aria-hidden="true" /> {visible(kind)}
        </li>
      ))}
      {hues.others && (
        <li>
          <span class="timeline-swatch timeline-hue-0" aria-hidden="true" /> {words.others}
        </li>
      )}
    </ul>
  );
}

export function Undated({ facts }: { facts: readonly Fact[] }) {
  if (facts.length === 0) return null;
  return (
    <p class="small">
      <span class="soft">{words.undated}:</span> {facts.map(sentenceOf).join(" · ")}
    </p>
  );
}
