/** One fact as it is drawn: a dot, the range in which it happened, or a bar that fades where its ends aren't known. */
import type { Item, Placed } from "./lanes.ts";
import { LANE } from "./layout.ts";
import { labelWidth, shortLabel } from "./measure.ts";
import { spokenOf } from "./sentence.ts";

const BAR = 18;
const TOP = (LANE - BAR) / 2;

interface Props {
  readonly placed: Placed & { readonly y: number };
  readonly hue: number;
  readonly width: number;
  readonly tabbable: boolean;
  readonly lit: boolean;
  readonly onFocus: () => void;
  readonly onHover: (over: boolean) => void;
  readonly onOpen: () => void;
}

export function ItemMark({ placed, hue, width, tabbable, lit, onFocus, onHover, onOpen }: Props) {
  const { item, shape, y } = placed;
  return (
    <g
      class={`timeline-item timeline-hue-${hue} ${lit ? "lit" : ""}`}
      transform={`translate(0 ${y})`}
      role="button"
      aria-label={nameOf(item)}
      data-fact={item.fact.id}
      tabIndex={tabbable ? 0 : -1}
      onFocus={onFocus}
      onPointerEnter={() => onHover(true)}
      onPointerLeave={() => onHover(false)}
      onClick={onOpen}
    >
      <rect
        class="timeline-hit"
        x={shape.begin - 3}
        y={1}
        width={shape.end - shape.begin + 6}
        height={LANE - 2}
        rx={5}
      />
      <Mark placed={placed} hue={hue} />
      <text class="timeline-label" aria-hidden="true" x={wordsX(placed, width)} y={LANE / 2}>
        {shortLabel(item.label)}
      </text>
    </g>
  );
}

/** What is heard. It holds what is seen, so that a mark can be asked for by its words, also where those are cut. */
function nameOf({ fact, label }: Item): string {
  const seen = shortLabel(label);
  return seen === label ? spokenOf(fact) : `${seen} ${spokenOf(fact)}`;
}

function Mark({ placed, hue }: { placed: Placed; hue: number }) {
  const { shape, item } = placed;
  const { from, to, solidFrom, solidTo } = shape;
  if (shape.kind === "dot")
    return <circle class="timeline-dot" cx={(from + to) / 2} cy={LANE / 2} r={(to - from) / 2} />;
  if (shape.kind === "range") {
    return <rect class="timeline-range" x={from + 0.5} y={TOP} width={to - from - 1} height={BAR} rx={BAR / 2} />;
  }
  const known = item.span.kind === "interval" ? item.span : null;
  return (
    <>
      <rect fill={`url(#timeline-in-${hue})`} x={from} y={TOP} width={solidFrom - from} height={BAR} />
      <rect class="timeline-bar" x={solidFrom} y={TOP} width={solidTo - solidFrom} height={BAR} />
      <rect fill={`url(#timeline-out-${hue})`} x={solidTo} y={TOP} width={to - solidTo} height={BAR} />
      {known?.start.kind === "date" && <rect class="timeline-edge" x={from} y={TOP} width={3} height={BAR} rx={1.5} />}
      {known?.end.kind === "date" && <rect class="timeline-edge" x={to - 2} y={TOP} width={2} height={BAR} rx={1} />}
    </>
  );
}

/** Words inside a bar that begins before what is shown move along with its visible part. */
function wordsX({ shape, item }: Placed, width: number): number {
  if (!shape.words.inside || shape.from >= 0 || shape.from > width) return shape.words.x;
  return Math.max(shape.words.x, Math.min(6, shape.to - labelWidth(shortLabel(item.label)) - 6));
}

/** The gradients that fading bars are filled with, two for each colour. */
export function Fades({ hues }: { hues: number }) {
  return (
    <defs>
      {Array.from({ length: hues + 1 }, (_, hue) => [
        <linearGradient key={`in ${hue}`} id={`timeline-in-${hue}`}>
          <stop offset="0" class={`timeline-stop timeline-hue-${hue}`} stop-opacity={0} />
          <stop offset="1" class={`timeline-stop timeline-hue-${hue}`} stop-opacity={1} />
        </linearGradient>,
        <linearGradient key={`out ${hue}`} id={`timeline-out-${hue}`}>
          <stop offset="0" class={`timeline-stop timeline-hue-${hue}`} stop-opacity={1} />
          <stop offset="1" class={`timeline-stop timeline-hue-${hue}`} stop-opacity={0} />
        </linearGradient>,
      ])}
    </defs>
  );
}
