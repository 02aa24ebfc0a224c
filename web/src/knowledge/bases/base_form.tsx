/** A base's name and description as a form, to make one or to change one. */
import { useEffect, useRef, useState } from "preact/hooks";

import { DEFAULT_BASE } from "../../api/bases.ts";
import { Trouble } from "../trouble.tsx";
import { words as shared } from "../words.ts";
import { words } from "./words.ts";

interface Described {
  readonly name: string;
  readonly description: string;
}

interface Props {
  readonly initial: Described;
  readonly submit: string;
  /** What it throws is shown where the form stands. */
  readonly onSubmit: (given: Described) => Promise<void>;
  readonly onCancel: () => void;
}

export function BaseForm({ initial, submit, onSubmit, onCancel }: Props) {
  const [name, setName] = useState(initial.name);
  const [description, setDescription] = useState(initial.description);
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);

  async function submitted(event: Event): Promise<void> {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await onSubmit({ name, description });
    } catch (refusal) {
      setError(refusal);
      setBusy(false);
    }
  }

  return (
    <form class="kb-form" onSubmit={(event) => void submitted(event)}>
      <NameField name={name} fixed={initial.name === DEFAULT_BASE} onName={setName} />
      <label>
        {words.description}
        <input
          class="field"
          value={description}
          maxLength={2000}
          onInput={(event) => setDescription(event.currentTarget.value)}
        />
      </label>
      <Trouble error={error} />
      <div class="kb-actions">
        <button type="submit" class="button primary" disabled={busy}>
          {submit}
        </button>
        <button type="button" class="button" onClick={onCancel}>
          {shared.cancel}
        </button>
      </div>
    </form>
  );
}

function NameField({ name, fixed, onName }: { name: string; fixed: boolean; onName: (name: string) => void }) {
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  return (
    <>
      <label>
        {words.name}
        <input
          ref={field}
          class="field"
          value={name}
          required
          readOnly={fixed}
          pattern="[a-z0-9][a-z0-9_\-]*"
          title={words.nameHint}
          autocomplete="off"
          autocapitalize="off"
          spellcheck={false}
          maxLength={63}
          aria-describedby="base-name-hint"
          onInput={(event) => onName(event.currentTarget.value)}
        />
      </label>
      <p id="base-name-hint" class="soft small">
        {fixed ? words.defaultName : words.nameHint}
      </p>
    </>
  );
}
