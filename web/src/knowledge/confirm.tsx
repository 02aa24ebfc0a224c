/** A button whose deed can't be undone: it asks where it stands, and only the second press does it. */
import { useEffect, useRef, useState } from "preact/hooks";

import { words } from "./words.ts";

interface Props {
  readonly label: string;
  /** What the button is about, for those who hear it without seeing where it stands. */
  readonly about: string;
  readonly question: string;
  readonly confirm: string;
  readonly onConfirm: () => Promise<void>;
}

export function Confirm({ label, about, question, confirm, onConfirm }: Props) {
  const [asking, setAsking] = useState(false);
  const [busy, setBusy] = useState(false);
  const first = useRef<HTMLButtonElement>(null);
  const opener = useRef<HTMLButtonElement>(null);
  const wasAsking = useRef(false);

  useEffect(() => {
    if (asking) first.current?.focus();
    else if (wasAsking.current) opener.current?.focus();
    wasAsking.current = asking;
  }, [asking]);

  async function act(): Promise<void> {
    setBusy(true);
    try {
      await onConfirm();
    } finally {
      setBusy(false);
      setAsking(false);
    }
  }

  if (!asking) {
    return (
      <button
        ref={opener}
        type="button"
        class="button quiet small"
        aria-label={`${label}: ${about}`}
        onClick={() => setAsking(true)}
      >
        {label}
      </button>
    );
  }
  return (
    <div
      class="kb-confirm"
      role="group"
      aria-label={question}
      onKeyDown={(event) => {
        if (event.key === "Escape") setAsking(false);
      }}
    >
      <span>{question}</span>
      <span class="kb-actions">
        <button ref={first} type="button" class="button small" disabled={busy} onClick={() => setAsking(false)}>
          {words.keep}
        </button>
        <button type="button" class="button danger small" disabled={busy} onClick={() => void act()}>
          {confirm}
        </button>
      </span>
    </div>
  );
}
