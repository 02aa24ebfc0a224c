/** Two names that mean the same: choose the one that takes the facts of the other. */
import { useEffect, useRef, useState } from "preact/hooks";

import { listEntities, mergeEntity, type Entity } from "../../api/entities.ts";
import { useAnswer } from "../../api/use_answer.ts";
import { navigate } from "../../router/location.ts";
import { visible } from "../../text/visible.ts";
import { entityAt } from "../addresses.ts";
import { Trouble } from "../trouble.tsx";
import { useLater } from "../use_later.ts";
import { words as shared } from "../words.ts";
import { words } from "./words.ts";

const SHOWN = 8;

interface Props {
  readonly base: string;
  readonly entity: Pick<Entity, "id" | "name">;
  readonly onClose: () => void;
}

export function MergeDialog({ base, entity, onClose }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [chosen, setChosen] = useState<Entity | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  useEffect(() => dialog.current?.showModal(), []);

  async function merge(event: Event): Promise<void> {
    event.preventDefault();
    if (chosen === null) return;
    setBusy(true);
    try {
      const into = await mergeEntity(base, entity.id, chosen.id);
      onClose();
      navigate(entityAt(base, into.id));
    } catch (refusal) {
      setError(refusal);
      setBusy(false);
    }
  }

  return (
    <dialog ref={dialog} class="facts-dialog" aria-labelledby="facts-merge-title" onClose={onClose}>
      <form class="kb-form" onSubmit={(event) => void merge(event)}>
        <h2 id="facts-merge-title">{words.mergeTitle(visible(entity.name))}</h2>
        <p class="soft small">{words.mergeAbout}</p>
        <Others base={base} entityId={entity.id} chosen={chosen} onChoose={setChosen} />
        <Trouble error={error} />
        <div class="kb-actions">
          <button type="submit" class="button danger" disabled={busy || chosen === null}>
            {chosen === null ? words.merge : words.mergeWith(visible(chosen.name))}
          </button>
          <button type="button" class="button" onClick={() => dialog.current?.close()}>
            {shared.cancel}
          </button>
        </div>
      </form>
    </dialog>
  );
}

interface OthersProps {
  readonly base: string;
  readonly entityId: string;
  readonly chosen: Entity | null;
  readonly onChoose: (entity: Entity) => void;
}

/** The names that were searched for, one of which can be chosen. */
function Others({ base, entityId, chosen, onChoose }: OthersProps) {
  const [typed, setTyped] = useState("");
  const query = useLater(typed.trim(), 200);
  const about = `${base} ${query}`;
  const { value: found, error } = useAnswer(() => listEntities(base, { q: query, limit: SHOWN + 1 }), about, true);
  const others = found?.entities.filter(({ id }) => id !== entityId).slice(0, SHOWN) ?? [];
  return (
    <>
      <input
        type="search"
        class="field"
        placeholder={words.search}
        aria-label={words.search}
        value={typed}
        onInput={(event) => setTyped(event.currentTarget.value)}
      />
      <fieldset class="facts-merge">
        <legend class="unseen">{words.mergeInto}</legend>
        {others.map((other) => (
          <label key={other.id} class="facts-choice">
            <input type="radio" name="into" checked={chosen?.id === other.id} onChange={() => onChoose(other)} />
            <span>
              {visible(other.name)} <span class="soft">{aboutOf(other)}</span>
            </span>
          </label>
        ))}
        {found !== null && others.length === 0 && <p class="soft small">{words.noneFound}</p>}
        <Trouble error={error} />
      </fieldset>
    </>
  );
}

function aboutOf({ type, disambiguator, fact_count: facts }: Entity): string {
  return [visible(type), visible(disambiguator), shared.factCount(facts)].filter((part) => part !== "").join(" · ");
}
