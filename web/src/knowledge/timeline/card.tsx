/** What one fact says, beside its mark: shown while it is looked at, and with its links once it is opened. */
import { useLayoutEffect, useRef } from "preact/hooks";

import type { Fact } from "../../api/facts.ts";
import { visible } from "../../text/visible.ts";
import { documentAt, entityAt } from "../addresses.ts";
import { words as shared } from "../words.ts";
import { rangeWords } from "./date_words.ts";
import { sentenceOf } from "./sentence.ts";
import { words } from "./words.ts";

interface Props {
  readonly base: string;
  readonly fact: Fact;
  readonly entityId: string;
  /** Where its mark stands in the plot, in pixels, and whether it goes above or below it. */
  readonly place: { readonly x: number; readonly y: number; readonly above: boolean };
  readonly opened: boolean;
  readonly onClose: () => void;
}

export function FactCard({ base, fact, entityId, place, opened, onClose }: Props) {
  const card = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (opened) card.current?.focus();
  }, [opened, fact.id]);
  const others = [fact.subject, fact.object].filter((end) => end !== null && end.id !== entityId);
  return (
    <div
      ref={card}
      class={`timeline-card ${place.above ? "above" : ""} ${opened ? "opened" : ""}`}
      style={{ "--x": `${place.x}px`, "--y": `${place.y}px` }}
      role={opened ? "dialog" : undefined}
      aria-label={opened ? sentenceOf(fact) : undefined}
      aria-hidden={opened ? undefined : true}
      tabIndex={-1}
      onKeyDown={(event) => {
        if (event.key === "Escape") onClose();
      }}
    >
      <p class="timeline-card-saying">{sentenceOf(fact)}</p>
      <p class="soft small">{rangeWords(fact.from, fact.to)}</p>
      {fact.quote !== "" && <blockquote dir="auto">{fact.quote}</blockquote>}
      {!opened && fact.evidence !== null && <p class="soft small">{visible(fact.evidence.document)}</p>}
      {opened && (
        <p class="timeline-card-links small">
          {others.map(
            (end) =>
              end && (
                <a key={end.id} href={entityAt(base, end.id)}>
                  {words.openEntity(visible(end.name))}
                </a>
              ),
          )}
          {fact.evidence !== null && (
            <a href={documentAt(base, fact.evidence.document_id, fact.evidence.chunk_id)}>
              {`${words.passage}: ${visible(fact.evidence.document)}`}
            </a>
          )}
          <button type="button" class="button quiet small" onClick={onClose}>
            {shared.close}
          </button>
        </p>
      )}
    </div>
  );
}
