/** The drawing itself: the axis, the groups, the marks; moved by dragging, zoomed by the wheel, walked by the arrow keys. */
import { useEffect, useRef } from "preact/hooks";

import { NAME_GAP, type Arrangement, type Moves } from "./arrangement.ts";
import { tickWords } from "./date_words.ts";
import { HUES } from "./hues.ts";
import { Fades, ItemMark } from "./item.tsx";
import type { Row } from "./layout.ts";
import { dayAt, ticksOf, xOf, type Scale } from "./scale.ts";
import { groupName } from "./sentence.ts";
import { walked } from "./walk.ts";
import { words } from "./words.ts";

const AXIS = 30;
const TICK_GAP = 72;

export interface PlotProps extends Arrangement {
  readonly name: string;
  /** The fact that is looked at, if any. */
  readonly lit: string | null;
  readonly onLight: (factId: string | null) => void;
  readonly onOpen: (factId: string) => void;
  readonly onClose: () => void;
}

export function Plot(props: PlotProps) {
  const { name, layout, scale, hues, gutter, lit, today } = props;
  const svg = useRef<SVGSVGElement>(null);
  const drag = useDrag(scale, props.moves);
  useWheel(svg, scale, props.moves);
  const marks = layout.rows.flatMap((row) => row.placed);
  const tabbable = marks.find(({ item }) => item.fact.id === lit) ?? marks[0];

  return (
    <div class="timeline-plot">
      <Axis scale={scale} gutter={gutter} today={today} />
      <div class="timeline-body" style={{ height: `${layout.height}px` }}>
        {layout.rows.map((row) => (
          <GroupName key={row.group.key} row={row} name={name} gutter={gutter} />
        ))}
        <svg
          ref={svg}
          class={`timeline-svg ${drag.dragging ? "dragging" : ""}`}
          style={{ left: `${gutter}px` }}
          width={scale.width}
          height={layout.height}
          role="group"
          aria-label={words.plot(name, marks.length)}
          onKeyDown={(event) => keyed(event, svg.current, props)}
          {...drag.handlers}
        >
          <Fades hues={HUES} />
          {ticksOf(scale, TICK_GAP).map(({ day }) => (
            <line key={day} class="timeline-grid" x1={xOf(scale, day)} x2={xOf(scale, day)} y1={0} y2={layout.height} />
          ))}
          <line class="timeline-today" x1={xOf(scale, today)} x2={xOf(scale, today)} y1={0} y2={layout.height} />
          {marks.map((placed) => (
            <ItemMark
              key={placed.item.fact.id}
              placed={placed}
              hue={hues.of(placed.item.kind)}
              width={scale.width}
              tabbable={placed === tabbable}
              lit={placed.item.fact.id === lit}
              onFocus={() => props.onLight(placed.item.fact.id)}
              onHover={(over) => props.onLight(over ? placed.item.fact.id : null)}
              onOpen={() => drag.moved() || props.onOpen(placed.item.fact.id)}
            />
          ))}
        </svg>
      </div>
    </div>
  );
}

/** The arrow keys walk, Enter opens, plus and minus zoom around the mark that has the focus, 0 shows all of time. */
function keyed(event: KeyboardEvent, svg: SVGSVGElement | null, props: PlotProps): void {
  const at = (event.target as Element).getAttribute("data-fact");
  const to = at === null ? null : walked(props.layout, at, event.key);
  if (to !== null) {
    props.moves.reveal(to);
    svg?.querySelector<SVGGElement>(`[data-fact="${CSS.escape(to)}"]`)?.focus();
  } else if (at !== null && (event.key === "Enter" || event.key === " ")) props.onOpen(at);
  else if (event.key === "Escape") props.onClose();
  else if (event.key === "+" || event.key === "=") props.moves.zoom(1.6, middle(props, at));
  else if (event.key === "-") props.moves.zoom(1 / 1.6, middle(props, at));
  else if (event.key === "0") props.moves.whole();
  else return;
  event.preventDefault();
}

function Axis({ scale, gutter, today }: { scale: Scale; gutter: number; today: number }) {
  const now = xOf(scale, today);
  const ticks = ticksOf(scale, TICK_GAP);
  return (
    <svg class="timeline-axis" width={scale.width + gutter} height={AXIS} aria-hidden="true">
      {ticks.map((tick, n) => (
        <text key={tick.day} x={gutter + xOf(scale, tick.day)} y={19} class={tick.unit === "year" ? "year" : ""}>
          {tickWords(tick, n === 0)}
        </text>
      ))}
      {now > 0 && now < scale.width && ticks.every(({ day }) => Math.abs(xOf(scale, day) - now) > TICK_GAP / 2) && (
        <text class="today" x={gutter + now} y={19}>
          {words.today}
        </text>
      )}
    </svg>
  );
}

/** What the facts of a group say; seen only: each mark says it for itself to those who hear the page. */
function GroupName({ row, name, gutter }: { row: Row; name: string; gutter: number }) {
  const said = groupName(row.group, name);
  return (
    <div
      class={`timeline-group ${gutter === 0 ? "above" : ""}`}
      style={{ top: `${row.top}px`, height: `${row.height}px` }}
      aria-hidden="true"
    >
      <span style={gutter === 0 ? {} : { width: `${gutter - NAME_GAP}px` }} title={said}>
        {said}
      </span>
    </div>
  );
}

/** The day around which a key zooms: that of the fact, as far as it is shown, or the middle of what is. */
function middle({ layout, scale }: PlotProps, factId: string | null): number {
  const item = layout.rows.flatMap(({ placed }) => placed).find((mark) => mark.item.fact.id === factId)?.item;
  if (item === undefined) return (scale.from + scale.to) / 2;
  return Math.min(Math.max((item.first + item.last) / 2, scale.from), scale.to);
}

/** Moving by the pointer; `moved` says whether the click that ends a drag was one, so that it opens nothing. */
function useDrag(scale: Scale, moves: Moves) {
  const last = useRef<number | null>(null);
  const travelled = useRef(0);
  const dragging = last.current !== null && travelled.current > 4;
  return {
    dragging,
    moved: () => travelled.current > 4,
    handlers: {
      onPointerDown: (event: PointerEvent) => {
        if (event.button !== 0) return;
        last.current = event.clientX;
        travelled.current = 0;
      },
      onPointerMove: (event: PointerEvent) => {
        if (last.current === null) return;
        const by = event.clientX - last.current;
        travelled.current += Math.abs(by);
        if (travelled.current <= 4) return;
        (event.currentTarget as Element).setPointerCapture(event.pointerId);
        last.current = event.clientX;
        moves.pan(-by / scale.width);
      },
      onPointerUp: () => (last.current = null),
      onPointerCancel: () => (last.current = null),
    },
  };
}

/** Ctrl or Command and the wheel zoom, as on a map; without them the page scrolls. Sideways it moves. */
function useWheel(svg: { current: SVGSVGElement | null }, scale: Scale, moves: Moves): void {
  useEffect(() => {
    const element = svg.current;
    if (element === null) return undefined;
    const wheeled = (event: WheelEvent): void => {
      const x = event.clientX - element.getBoundingClientRect().left;
      if (event.ctrlKey || event.metaKey) moves.zoom(Math.exp(-event.deltaY / 300), dayAt(scale, x));
      else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) moves.pan(event.deltaX / scale.width);
      else return;
      event.preventDefault();
    };
    element.addEventListener("wheel", wheeled, { passive: false });
    return () => element.removeEventListener("wheel", wheeled);
  }, [scale]);
}
