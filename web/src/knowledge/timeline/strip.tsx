/** All of time, small: what part of it is shown, and a brush over it to look closer. For the pointer; buttons do the same. */
import { useRef, useState } from "preact/hooks";

import type { Hues } from "./hues.ts";
import type { Item } from "./lanes.ts";
import { between, dayAt, xOf, type Bounds, type Scale } from "./scale.ts";
import { words } from "./words.ts";

const HEIGHT = 36;
const ROWS = 9;

interface Props {
  readonly items: readonly Item[];
  readonly hues: Hues;
  readonly bounds: Bounds;
  readonly window: Bounds;
  readonly width: number;
  readonly gutter: number;
  readonly onWindow: (window: Bounds) => void;
}

export function Strip({ items, hues, bounds, window, width, gutter, onWindow }: Props) {
  const scale: Scale = { ...bounds, width };
  const { brush, handlers } = useBrush(scale, window, onWindow);
  const shown = brush ?? window;
  const left = xOf(scale, Math.min(shown.from, shown.to));
  const right = xOf(scale, Math.max(shown.from, shown.to));
  return (
    <svg
      class="timeline-strip"
      style={{ marginLeft: `${gutter}px` }}
      width={width}
      height={HEIGHT}
      aria-hidden="true"
      {...handlers}
    >
      <title>{words.strip}</title>
      <rect class="timeline-strip-ground" width={width} height={HEIGHT} rx={6} />
      {items.map((item, n) => (
        <rect
          key={item.fact.id}
          class={`timeline-strip-mark timeline-hue-${hues.of(item.kind)}`}
          x={xOf(scale, item.first)}
          y={4 + (n % ROWS) * 3.2}
          width={Math.max(xOf(scale, item.last + 1) - xOf(scale, item.first), 3)}
          height={2}
          rx={1}
        />
      ))}
      <rect
        class="timeline-strip-window"
        x={left + 0.75}
        y={0.75}
        width={Math.max(right - left - 1.5, 3)}
        height={HEIGHT - 1.5}
        rx={6}
      />
    </svg>
  );
}

/** Dragging over the strip chooses a window; a click brings the window as it is to that day. */
function useBrush(scale: Scale, window: Bounds, onWindow: (window: Bounds) => void) {
  const [brush, setBrush] = useState<Bounds | null>(null);
  const from = useRef<number | null>(null);

  function dayUnder(event: PointerEvent): number {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    return dayAt(scale, Math.min(Math.max(event.clientX - box.left, 0), scale.width));
  }

  function ended(): void {
    from.current = null;
    setBrush(null);
  }

  const handlers = {
    onPointerDown: (event: PointerEvent) => {
      if (event.button !== 0) return;
      (event.currentTarget as Element).setPointerCapture(event.pointerId);
      from.current = dayUnder(event);
    },
    onPointerMove: (event: PointerEvent) => {
      if (from.current !== null) setBrush({ from: from.current, to: dayUnder(event) });
    },
    onPointerUp: (event: PointerEvent) => {
      if (from.current === null) return;
      const to = dayUnder(event);
      const half = (window.to - window.from) / 2;
      const clicked = Math.abs(xOf(scale, to) - xOf(scale, from.current)) < 5;
      onWindow(clicked ? between(to - half, to + half, scale) : between(from.current, to, scale));
      ended();
    },
    onPointerCancel: ended,
  };
  return { brush, handlers };
}
