/** A fact as a form: to add one, to correct one, or to say how a proposal should read. */
import { useEffect, useRef, useState } from "preact/hooks";

import { addFact, correctFact, type Fact, type FactRow } from "../../api/facts.ts";
import { acceptProposal, type Proposal } from "../../api/proposals.ts";
import { Trouble } from "../trouble.tsx";
import { words as shared } from "../words.ts";
import "./entity.css";
import { withObject, withSubject } from "./fact_row.ts";
import { words } from "./words.ts";

export type Deed =
  | { readonly kind: "add" }
  | { readonly kind: "correct"; readonly fact: Fact }
  | { readonly kind: "accept"; readonly proposal: Proposal };

interface Props {
  readonly base: string;
  readonly deed: Deed;
  readonly initial: FactRow;
  readonly onClose: () => void;
  readonly onSaved: () => Promise<void>;
}

const TITLES = { add: words.addTitle, correct: words.correctTitle, accept: words.acceptTitle };

export function FactDialog({ base, deed, initial, onClose, onSaved }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [row, setRow] = useState(initial);
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  useEffect(() => dialog.current?.showModal(), []);

  async function save(event: Event): Promise<void> {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await record(base, deed, row);
      await onSaved();
      onClose();
    } catch (refusal) {
      setError(refusal);
      setBusy(false);
    }
  }

  return (
    <dialog ref={dialog} class="facts-dialog" aria-labelledby="facts-dialog-title" onClose={onClose}>
      <form class="kb-form" onSubmit={(event) => void save(event)}>
        <h2 id="facts-dialog-title">{TITLES[deed.kind]}</h2>
        <Text label={words.subject} value={row.subject} required onChange={(text) => setRow(withSubject(row, text))} />
        <Text
          label={words.predicate}
          value={row.predicate}
          required
          onChange={(predicate) => setRow({ ...row, predicate })}
        />
        <OtherEnd row={row} onChange={setRow} />
        <Dates row={row} onChange={setRow} />
        <label>
          {words.quote}
          <textarea
            class="field"
            rows={3}
            maxLength={2000}
            value={row.quote ?? ""}
            onInput={(event) => setRow({ ...row, quote: event.currentTarget.value })}
          />
        </label>
        <Trouble error={error} />
        <div class="kb-actions">
          <button type="submit" class="button primary" disabled={busy}>
            {words.save}
          </button>
          <button type="button" class="button" onClick={() => dialog.current?.close()}>
            {shared.cancel}
          </button>
        </div>
      </form>
    </dialog>
  );
}

interface TextProps {
  readonly label: string;
  readonly value: string;
  readonly onChange: (text: string) => void;
  readonly required?: boolean;
  readonly disabled?: boolean;
  readonly describedBy?: string;
}

function Text({ label, value, onChange, required = false, disabled = false, describedBy }: TextProps) {
  return (
    <label>
      {label}
      <input
        class="field"
        value={value}
        required={required}
        disabled={disabled}
        maxLength={1000}
        aria-describedby={describedBy}
        onInput={(event) => onChange(event.currentTarget.value)}
      />
    </label>
  );
}

function OtherEnd({ row, onChange }: { row: FactRow; onChange: (row: FactRow) => void }) {
  const kind = row.value === undefined ? "object" : "value";
  const text = row.value ?? row.object ?? "";
  return (
    <fieldset class="facts-end">
      <legend>{words.objectOrValue}</legend>
      {(["object", "value"] as const).map((one) => (
        <label key={one} class="facts-choice">
          <input
            type="radio"
            name="end"
            checked={kind === one}
            onChange={() => onChange(withObject(row, { kind: one, text }))}
          />
          {words[one]}
        </label>
      ))}
      <input
        class="field"
        aria-label={words[kind]}
        value={text}
        required
        maxLength={1000}
        onInput={(event) => onChange(withObject(row, { kind, text: event.currentTarget.value }))}
      />
    </fieldset>
  );
}

function Dates({ row, onChange }: { row: FactRow; onChange: (row: FactRow) => void }) {
  const open = row.to === "open";
  return (
    <>
      <div class="kb-pair">
        <Text
          label={words.from}
          value={row.from ?? ""}
          describedBy="facts-dates"
          onChange={(from) => onChange({ ...row, from })}
        />
        <Text
          label={words.to}
          value={open ? "" : (row.to ?? "")}
          disabled={open}
          describedBy="facts-dates"
          onChange={(to) => onChange({ ...row, to })}
        />
      </div>
      <label class="facts-choice">
        <input type="checkbox" checked={open} onChange={() => onChange({ ...row, to: open ? "" : "open" })} />
        {words.stillTrue}
      </label>
      <p id="facts-dates" class="soft small">
        {words.dateHint}
      </p>
    </>
  );
}

async function record(base: string, deed: Deed, row: FactRow): Promise<void> {
  if (deed.kind === "correct") await correctFact(base, deed.fact.id, row);
  else if (deed.kind === "accept") await acceptProposal(base, deed.proposal.id, row);
  else {
    const { failed } = await addFact(base, row);
    if (failed[0] !== undefined) throw new Error(failed[0].error);
  }
}
