/** Every base, a way to make one and to delete one. */
import { useEffect, useState } from "preact/hooks";

import { changeBase, createBase, DEFAULT_BASE, deleteBase, listBases, type Base } from "../../api/bases.ts";
import { useAnswer } from "../../api/use_answer.ts";
import { navigate } from "../../router/location.ts";
import { documentsAt, factsAt } from "../addresses.ts";
import { Confirm } from "../confirm.tsx";
import "../frame.css";
import { Trouble } from "../trouble.tsx";
import { words as shared } from "../words.ts";
import { BaseForm } from "./base_form.tsx";
import "./bases.css";
import { words } from "./words.ts";

export function Bases() {
  const { value: bases, error, again } = useAnswer(listBases, "");
  const [making, setMaking] = useState(false);
  useEffect(() => {
    document.title = `${shared.knowledge} · turnstream`;
  }, []);
  return (
    <div class="view">
      <header class="view-head">
        <h1>{shared.knowledge}</h1>
        <button type="button" class="button" aria-expanded={making} onClick={() => setMaking(!making)}>
          {words.make}
        </button>
      </header>
      <p class="soft bases-about">{words.about}</p>
      {making && (
        <div class="card bases-new">
          <BaseForm
            initial={{ name: "", description: "" }}
            submit={words.create}
            onSubmit={async ({ name, description }) =>
              navigate(documentsAt((await createBase(name, description)).name))
            }
            onCancel={() => setMaking(false)}
          />
        </div>
      )}
      <Trouble error={error} again={() => void again()} />
      {bases === null && error === null && <p class="soft">{shared.loading}</p>}
      <ul class="bases-list">
        {bases?.map((base) => (
          <BaseCard key={base.id} base={base} onChanged={again} />
        ))}
      </ul>
    </div>
  );
}

function BaseCard({ base, onChanged }: { base: Base; onChanged: () => Promise<void> }) {
  const [error, setError] = useState<unknown>(null);
  const [editing, setEditing] = useState(false);
  async function remove(): Promise<void> {
    try {
      await deleteBase(base.name);
      await onChanged();
    } catch (refusal) {
      setError(refusal);
    }
  }
  if (editing) {
    return (
      <li class="card bases-card">
        <BaseForm
          initial={base}
          submit={words.save}
          onSubmit={async (change) => {
            await changeBase(base.name, change);
            await onChanged();
            setEditing(false);
          }}
          onCancel={() => setEditing(false)}
        />
      </li>
    );
  }
  return (
    <li class="card bases-card">
      <h2>
        <a href={documentsAt(base.name)}>{base.name}</a>
      </h2>
      {base.description !== "" && <p>{base.description}</p>}
      <Counts base={base} />
      <div class="kb-actions bases-deeds">
        <button
          type="button"
          class="button quiet small"
          aria-label={`${words.edit}: ${base.name}`}
          onClick={() => setEditing(true)}
        >
          {words.edit}
        </button>
        {base.name !== DEFAULT_BASE && (
          <Confirm
            label={shared.remove}
            about={base.name}
            question={words.ask(base.name)}
            confirm={words.askConfirm}
            onConfirm={remove}
          />
        )}
      </div>
      <Trouble error={error} />
    </li>
  );
}

function Counts({ base }: { base: Base }) {
  if (base.document_count === 0) return <p class="soft small">{words.empty}</p>;
  return (
    <p class="soft small">
      {shared.documentCount(base.document_count)} · {shared.passageCount(base.chunk_count)} ·{" "}
      <a href={factsAt(base.name)} aria-label={`${shared.facts}: ${base.name}`}>
        {shared.facts}
      </a>
    </p>
  );
}
