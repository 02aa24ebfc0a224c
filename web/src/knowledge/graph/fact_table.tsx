/** Facts as a table: what each says, when, on which sentence; with a way to correct and to reject it. */
import { useState } from "preact/hooks";

import { rejectFact, type EntityRef, type Fact } from "../../api/facts.ts";
import { visible } from "../../text/visible.ts";
import { documentAt, entityAt } from "../addresses.ts";
import { Confirm } from "../confirm.tsx";
import { rangeWords } from "../timeline/date_words.ts";
import { sentenceOf } from "../timeline/sentence.ts";
import { Trouble } from "../trouble.tsx";
import { words } from "./words.ts";

interface Props {
  readonly base: string;
  readonly entityId: string;
  readonly facts: readonly Fact[];
  /** Null where the past is looked at, which can't be changed. */
  readonly onCorrect: ((fact: Fact) => void) | null;
  readonly onChanged: () => Promise<void>;
}

export function FactTable({ base, entityId, facts, onCorrect, onChanged }: Props) {
  if (facts.length === 0) return null;
  return (
    <table class="facts-table">
      <thead>
        <tr>
          <th scope="col">{words.saying}</th>
          <th scope="col">{words.when}</th>
          <th scope="col">{words.source}</th>
          {onCorrect && (
            <th scope="col">
              <span class="unseen">{words.actions}</span>
            </th>
          )}
        </tr>
      </thead>
      <tbody>
        {facts.map((fact) => (
          <Row key={fact.id} {...{ base, entityId, fact, onCorrect, onChanged }} />
        ))}
      </tbody>
    </table>
  );
}

function Row({ base, entityId, fact, onCorrect, onChanged }: Omit<Props, "facts"> & { fact: Fact }) {
  const [error, setError] = useState<unknown>(null);
  async function reject(): Promise<void> {
    try {
      await rejectFact(base, fact.id);
      await onChanged();
    } catch (refusal) {
      setError(refusal);
    }
  }
  return (
    <tr>
      <td>
        <End base={base} entity={fact.subject} here={entityId} />{" "}
        <span class="facts-predicate">{visible(fact.predicate)}</span>{" "}
        {fact.object === null ? (
          <span>{visible(fact.value ?? "")}</span>
        ) : (
          <End base={base} entity={fact.object} here={entityId} />
        )}
        <Doubt fact={fact} />
        <Trouble error={error} />
      </td>
      <td class="facts-when">{rangeWords(fact.from, fact.to)}</td>
      <td class="small">
        {fact.quote !== "" && (
          <q class="facts-quote" dir="auto">
            {fact.quote}
          </q>
        )}
        <Source base={base} fact={fact} />
      </td>
      {onCorrect && (
        <td class="facts-deeds">
          <button
            type="button"
            class="button quiet small"
            aria-label={`${words.correct}: ${sentenceOf(fact)}`}
            onClick={() => onCorrect(fact)}
          >
            {words.correct}
          </button>
          <Confirm
            label={words.reject}
            about={sentenceOf(fact)}
            question={words.rejectAsk}
            confirm={words.rejectConfirm}
            onConfirm={reject}
          />
        </td>
      )}
    </tr>
  );
}

function End({ base, entity, here }: { base: string; entity: EntityRef; here: string }) {
  const name = visible(entity.name);
  return entity.id === here ? <span class="facts-here">{name}</span> : <a href={entityAt(base, entity.id)}>{name}</a>;
}

function Doubt({ fact }: { fact: Fact }) {
  const since = { asserted: "", corrected: words.corrected, rejected: words.rejected, merged: words.mergedFact }[
    fact.status
  ];
  return (
    <>
      {fact.confidence < 1 && <span class="tag">{words.confidence(Math.round(fact.confidence * 100))}</span>}
      {since !== "" && <span class="tag caution">{since}</span>}
    </>
  );
}

function Source({ base, fact }: { base: string; fact: Fact }) {
  const { evidence } = fact;
  if (evidence === null) return <span class="soft">{words.noSource}</span>;
  return (
    <span>
      <a href={documentAt(base, evidence.document_id, evidence.chunk_id)}>{visible(evidence.document)}</a>
      {!evidence.live && <span class="soft"> ({words.outdated})</span>}
    </span>
  );
}
