import { useState } from "preact/hooks";

/** A button that copies something and says so for a moment. */
export function CopyButton({ label, done, copy }: { label: string; done: string; copy: () => Promise<boolean> }) {
  const [copied, setCopied] = useState(false);
  return (
    <button
      type="button"
      class="button quiet small"
      onClick={async () => {
        if (!(await copy())) return;
        setCopied(true);
        setTimeout(() => setCopied(false), 1_500);
      }}
    >
      <span aria-live="polite">{copied ? done : label}</span>
    </button>
  );
}
