/** The timeline of an entity: its facts as bars and points over time, with the tools to look closer. */
import { useState } from "preact/hooks";

import type { Fact } from "../../api/facts.ts";
import { useWidth } from "../use_width.ts";
import { useArrangement } from "./arrangement.ts";
import { FactCard } from "./card.tsx";
import { Plot } from "./plot.tsx";
import { Strip } from "./strip.tsx";
import "./timeline.css";
import { Legend, Tools, Undated } from "./tools.tsx";
import { words } from "./words.ts";

const CARD = 340;

/** The strip and the axis above the drawing, in pixels. */
const HEAD = 68;

interface Props {
  readonly base: string;
  readonly entity: { readonly id: string; readonly name: string };
  readonly facts: readonly Fact[];
}

export function Timeline({ base, entity, facts }: Props) {
  const [frame, setFrame] = useState<HTMLDivElement | null>(null);
  const total = useWidth(frame);
  const arrangement = useArrangement(facts, entity, total);
  const [lit, setLit] = useState<string | null>(null);
  const [opened, setOpened] = useState<string | null>(null);
  const { items, layout, scale, hues, gutter, moves } = arrangement;
  const shown = opened ?? lit;
  const mark = layout.rows.flatMap((row) => row.placed).find(({ item }) => item.fact.id === shown);

  function close(): void {
    setOpened(null);
    if (opened !== null) frame?.querySelector<SVGGElement>(`[data-fact="${CSS.escape(opened)}"]`)?.focus();
  }

  if (items.length === 0) return <Undated facts={facts} />;
  return (
    <section class="timeline" aria-labelledby="timeline-heading">
      <h2 id="timeline-heading" class="unseen">
        {words.timeline}
      </h2>
      <Tools {...arrangement} />
      <div ref={setFrame} class="timeline-frame">
        {total > 0 && (
          <>
            <Strip {...arrangement} width={scale.width} onWindow={moves.show} />
            <Plot {...arrangement} name={entity.name} lit={shown} onLight={setLit} onOpen={setOpened} onClose={close} />
          </>
        )}
        {mark !== undefined && (
          <FactCard
            base={base}
            fact={mark.item.fact}
            entityId={entity.id}
            place={{
              x: Math.min(Math.max(gutter + mark.shape.from, 0), Math.max(total - CARD, 0)),
              y: mark.y,
              above: isLow(frame, mark.y),
            }}
            opened={opened !== null}
            onClose={close}
          />
        )}
      </div>
      <Legend hues={hues} />
      <Undated facts={facts.filter((fact) => !items.some((item) => item.fact === fact))} />
    </section>
  );
}

/** Whether a mark is so far down the window that its card belongs above it. */
function isLow(frame: HTMLElement | null, y: number): boolean {
  return frame !== null && frame.getBoundingClientRect().top + HEAD + y > window.innerHeight * 0.55;
}
