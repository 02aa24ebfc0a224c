/** An entity: its names, its timeline, whom it is connected with, and every fact with where it stands. */
import { useState } from "preact/hooks";

import { getEntity, type EntityDetail } from "../../api/entities.ts";
import { useAnswer } from "../../api/use_answer.ts";
import type { ViewProps } from "../../shell/view.ts";
import { visible } from "../../text/visible.ts";
import { entityAt } from "../addresses.ts";
import { BaseFrame } from "../frame.tsx";
import { Timeline } from "../timeline/timeline.tsx";
import { Trouble } from "../trouble.tsx";
import { words as shared } from "../words.ts";
import { FactDialog, type Deed } from "./fact_dialog.tsx";
import { rowAbout, rowOf } from "./fact_row.ts";
import { FactTable } from "./fact_table.tsx";
import "./entity.css";
import { MergeDialog } from "./merge_dialog.tsx";
import { neighboursOf } from "./neighbours.ts";
import { words } from "./words.ts";

type Editing = Deed | { readonly kind: "merge" } | null;

export function EntityPage({ params }: ViewProps) {
  const base = params["base"] ?? "";
  const id = params["id"] ?? "";
  const [asOf, setAsOf] = useState("");
  const [editing, setEditing] = useState<Editing>(null);
  const about = `${base} ${id} ${asOf}`;
  const { value: entity, error, again } = useAnswer(() => getEntity(base, id, { as_of: asOf }), about, true);
  // another entity's facts are not shown while this one's are on their way
  const current = entity?.id === id ? entity : null;
  const title = current === null ? "…" : visible(current.name);
  return (
    <BaseFrame base={base} part="facts" title={title}>
      <header class="view-head">
        <div>
          <h1>{title}</h1>
          {current !== null && <Names entity={current} />}
        </div>
        <div class="kb-actions">
          <LookBack asOf={asOf} onChange={setAsOf} />
          {current !== null && current.merged_into === null && asOf === "" && <Deeds onDeed={setEditing} />}
        </div>
      </header>
      <Trouble error={error} again={() => void again()} />
      {current === null && error === null && <p class="soft">{shared.loading}</p>}
      {current !== null && (
        <>
          {current.merged_into !== null && (
            <p class="notice caution">
              {words.merged} <a href={entityAt(base, current.merged_into)}>{words.seeMerged}</a>
            </p>
          )}
          {current.facts.length === 0 && <p class="soft">{words.noFacts}</p>}
          <Timeline key={`${id} ${asOf}`} base={base} entity={current} facts={current.facts} />
          <Neighbours base={base} entity={current} />
          {current.facts.length > 0 && <h2 class="kb-heading">{words.allFacts}</h2>}
          {current.total > current.facts.length && (
            <p class="soft small">{words.cut(current.facts.length, current.total)}</p>
          )}
          <FactTable
            base={base}
            entityId={id}
            facts={current.facts}
            onCorrect={asOf === "" ? (fact) => setEditing({ kind: "correct", fact }) : null}
            onChanged={again}
          />
        </>
      )}
      {current !== null && (
        <Editor base={base} entity={current} editing={editing} onClose={() => setEditing(null)} onSaved={again} />
      )}
    </BaseFrame>
  );
}

function Deeds({ onDeed }: { onDeed: (editing: Editing) => void }) {
  return (
    <>
      <button type="button" class="button quiet" onClick={() => onDeed({ kind: "merge" })}>
        {words.merge}
      </button>
      <button type="button" class="button" onClick={() => onDeed({ kind: "add" })}>
        {words.add}
      </button>
    </>
  );
}

interface EditorProps {
  readonly base: string;
  readonly entity: EntityDetail;
  readonly editing: Editing;
  readonly onClose: () => void;
  readonly onSaved: () => Promise<void>;
}

function Editor({ base, entity, editing, onClose, onSaved }: EditorProps) {
  if (editing === null) return null;
  if (editing.kind === "merge") return <MergeDialog base={base} entity={entity} onClose={onClose} />;
  const initial = editing.kind === "correct" ? rowOf(editing.fact) : rowAbout(entity);
  return <FactDialog {...{ base, initial, onClose, onSaved }} deed={editing} />;
}

function Names({ entity }: { entity: EntityDetail }) {
  return (
    <p class="soft">
      {[
        entity.type === "" ? shared.noType : visible(entity.type),
        visible(entity.disambiguator),
        entity.aliases.length > 0 ? words.alsoCalled(entity.aliases.map(visible).join(" · ")) : "",
        shared.factCount(entity.total),
      ]
        .filter((part) => part !== "")
        .join(" · ")}
    </p>
  );
}

/** The record clock: what the base believes now, or believed at the end of a day. */
function LookBack({ asOf, onChange }: { asOf: string; onChange: (asOf: string) => void }) {
  return (
    <label class="facts-look small" title={words.lookAbout}>
      <span class="soft">{words.look}</span>
      <select
        class="field"
        value={asOf === "" ? "now" : "then"}
        onChange={(event) => onChange(event.currentTarget.value === "now" ? "" : new Date().toISOString().slice(0, 10))}
      >
        <option value="now">{words.lookNow}</option>
        <option value="then">{words.lookThen}</option>
      </select>
      {asOf !== "" && (
        <input
          type="date"
          class="field"
          aria-label={words.lookThen}
          value={asOf}
          onChange={(event) => {
            if (event.currentTarget.value !== "") onChange(event.currentTarget.value);
          }}
        />
      )}
    </label>
  );
}

function Neighbours({ base, entity }: { base: string; entity: EntityDetail }) {
  const neighbours = neighboursOf(entity.facts, entity.id);
  if (neighbours.length === 0) return null;
  return (
    <section class="facts-neighbours" aria-labelledby="facts-neighbours">
      <h2 id="facts-neighbours" class="kb-heading">
        {words.neighbours}
      </h2>
      <ul>
        {neighbours.map(({ entity: other, facts }) => (
          <li key={other.id}>
            <a class="kb-chip" href={entityAt(base, other.id)} aria-label={words.neighbour(visible(other.name), facts)}>
              {visible(other.name)} {facts > 1 && <span class="soft">{facts}</span>}
            </a>
          </li>
        ))}
      </ul>
    </section>
  );
}
