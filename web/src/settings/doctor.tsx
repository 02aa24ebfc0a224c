/** The doctor's button and what it found: each thing with what it means, and what to do where it isn't well. */
import { useState } from "preact/hooks";

import { runDoctor, type Examination, type Finding } from "../api/settings.ts";
import { troubleOf } from "../api/trouble.ts";
import { longMoment } from "../i18n/moments.ts";
import { meaningOf } from "./checks.ts";
import { words } from "./words.ts";

const TONES = { ok: "ok", missing: "caution", unreachable: "danger", failed: "danger" };

export function Doctor() {
  const [examined, setExamined] = useState<Examination | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);

  async function examine(): Promise<void> {
    setBusy(true);
    setError(null);
    try {
      setExamined(await runDoctor());
    } catch (refusal) {
      setError(refusal);
    } finally {
      setBusy(false);
    }
  }

  return (
    <section class="settings-section" aria-busy={busy}>
      <h2>{words.check}</h2>
      <p class="soft">{words.checkAbout}</p>
      <p class="settings-doctor">
        <button type="button" class="button primary" disabled={busy} onClick={() => void examine()}>
          {words.run}
        </button>
        <span role="status">{busy ? words.running : examined === null ? "" : verdictOf(examined)}</span>
      </p>
      {error !== null && (
        <p class="notice danger" role="alert">
          {troubleOf(error)}
        </p>
      )}
      {examined !== null && (
        <>
          <ul class="settings-findings">
            {examined.findings.map((finding) => (
              <Found key={finding.subject} finding={finding} />
            ))}
          </ul>
          <p class="soft small">
            {longMoment(examined.at)} · {words.took(examined.ms)}
          </p>
        </>
      )}
    </section>
  );
}

function verdictOf({ findings }: Examination): string {
  const faults = findings.filter(({ verdict }) => verdict !== "ok").length;
  return faults === 0 ? words.well : words.unwell(faults);
}

function Found({ finding }: { finding: Finding }) {
  const meaning = meaningOf(finding.subject);
  return (
    <li>
      <p>
        <span class={`tag ${TONES[finding.verdict]}`}>{words[finding.verdict]}</span>{" "}
        <span class="settings-subject">{finding.subject}</span>
      </p>
      <div>
        <p>{finding.note}</p>
        {finding.hint !== "" && <p class="settings-hint">{finding.hint}</p>}
        {meaning !== "" && <p class="soft small">{meaning}</p>}
      </div>
    </li>
  );
}
