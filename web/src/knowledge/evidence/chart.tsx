/** Answers over time as stacked bars. The pointer reads one bar's numbers; the table has them for everybody. */
import { useState } from "preact/hooks";

import type { Bucket } from "../../api/verdicts.ts";
import { count } from "../../i18n/moments.ts";
import { useWidth } from "../use_width.ts";
import { labelled, marksUpTo } from "./axes.ts";
import { partsOf, type Bar } from "./counts.ts";
import { fillOf } from "./swatch.tsx";
import { belowBar, bucketWords } from "./when.ts";
import { words } from "./words.ts";

const HEIGHT = 220;
const TOP = 10;
const BELOW = 26;
const LEFT = 40;
const RIGHT = 16;
const WIDEST = 34;

/** The pixels that a moment below a bar takes, with the room around it. */
const LABEL = 60;

interface Props {
  readonly bars: readonly Bar[];
  readonly bucket: Bucket;
  readonly headline: string;
}

export function Chart({ bars, bucket, headline }: Props) {
  const [frame, setFrame] = useState<HTMLDivElement | null>(null);
  const [pointed, setPointed] = useState<number | null>(null);
  const width = useWidth(frame);
  const bar = bars.find(({ start }) => start === pointed);
  return (
    <>
      <div ref={setFrame} class="verdicts-chart">
        {width > 0 && (
          <svg width={width} height={HEIGHT} role="img" aria-label={words.chart(headline)}>
            <Drawing bars={bars} bucket={bucket} width={width} pointed={bar} onPoint={setPointed} />
          </svg>
        )}
      </div>
      <p class="verdicts-readout soft small">
        {bar === undefined ? `${words.hintPointer}${bucket === "day" ? ` ${words.utcDays}` : ""}` : said(bar, bucket)}
      </p>
    </>
  );
}

/** One bar in words: what there is none of isn't named. */
function said({ start, counts, total }: Bar, bucket: Bucket): string {
  const parts = partsOf(counts).map(({ kind, count: n }) => `${words[kind]}: ${count(n)}`);
  return [bucketWords(start, bucket), total === 0 ? words.noAnswers : words.answerCount(total), ...parts].join(" · ");
}

interface DrawingProps {
  readonly bars: readonly Bar[];
  readonly bucket: Bucket;
  readonly width: number;
  readonly pointed: Bar | undefined;
  readonly onPoint: (start: number | null) => void;
}

function Drawing({ bars, bucket, width, pointed, onPoint }: DrawingProps) {
  const marks = marksUpTo(Math.max(...bars.map(({ total }) => total)));
  const most = marks[marks.length - 1] ?? 1;
  const across = width - LEFT - RIGHT;
  const slot = across / bars.length;
  const thick = Math.min(WIDEST, Math.max(1, slot * 0.74));
  const y = (answers: number): number => TOP + (HEIGHT - TOP - BELOW) * (1 - answers / most);
  const middle = (n: number): number => LEFT + slot * (n + 0.5);
  const starts = bars.map(({ start }) => start);
  return (
    // a finger that is lifted leaves too: what it touched stays to be read
    <g onPointerLeave={(event: PointerEvent) => event.pointerType === "mouse" && onPoint(null)}>
      {marks.map((mark) => (
        <g key={mark} class="verdicts-mark">
          <line x1={LEFT} x2={width - RIGHT} y1={y(mark)} y2={y(mark)} />
          <text x={LEFT - 8} y={y(mark)}>
            {count(mark)}
          </text>
        </g>
      ))}
      {bars.map((bar, n) => (
        <g key={bar.start} onPointerEnter={() => onPoint(bar.start)}>
          <rect
            class={`verdicts-slot ${bar === pointed ? "pointed" : ""}`}
            x={LEFT + slot * n}
            y={TOP}
            width={slot}
            height={HEIGHT - TOP - BELOW}
          />
          {partsOf(bar.counts).map(({ kind, below, count: answers }) => (
            <rect
              key={kind}
              class={`verdicts-part verdicts-${kind}`}
              fill={fillOf(kind)}
              x={middle(n) - thick / 2}
              y={y(below + answers)}
              width={thick}
              height={y(below) - y(below + answers)}
            />
          ))}
        </g>
      ))}
      {labelled(starts, bucket, across / LABEL).map((n) => (
        <text key={n} class="verdicts-when" x={Math.min(middle(n), width - LABEL * 0.4)} y={HEIGHT - 6}>
          {belowBar(starts[n] ?? 0, bucket)}
        </text>
      ))}
    </g>
  );
}
