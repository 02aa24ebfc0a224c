/** The same numbers as lists and tables: all together, by model, and bucket by bucket. */
import type { ComponentChildren } from "preact";

import type { Bucket } from "../../api/verdicts.ts";
import { count } from "../../i18n/moments.ts";
import { visible } from "../../text/visible.ts";
import { KINDS, type Bar, type Counts, type ModelCounts } from "./counts.ts";
import { Swatch } from "./swatch.tsx";
import { bucketWords, shareWords } from "./when.ts";
import { words } from "./words.ts";

/** What the fillings mean, with how many answers there are of each. */
export function Totals({ counts, total }: { counts: Counts; total: number }) {
  return (
    <ul class="verdicts-totals" aria-label={words.totals}>
      {KINDS.map((kind) => (
        <li key={kind}>
          <Swatch kind={kind} />
          <div>
            <p>
              {words[kind]} <strong>{shareWords(counts[kind], total)}</strong>{" "}
              <span class="soft small">{words.answerCount(counts[kind])}</span>
            </p>
            <p class="soft small">{words[`${kind}Hint`]}</p>
          </div>
        </li>
      ))}
    </ul>
  );
}

export function modelName(model: string): string {
  return model === "" ? words.noModel : visible(model);
}

/** Shares side by side, where more than one model answered. */
export function ByModel({ models }: { models: readonly ModelCounts[] }) {
  if (models.length < 2) return null;
  return (
    <section>
      <h2 class="kb-heading">{words.byModel}</h2>
      <Scroller label={words.byModel}>
        <table class="verdicts-table small">
          <caption class="soft">{words.shares}</caption>
          <Head first={words.model} />
          <tbody>
            {models.map(({ model, counts, total }) => (
              <tr key={model}>
                <th scope="row">{modelName(model)}</th>
                <td>{count(total)}</td>
                {KINDS.map((kind) => (
                  <td key={kind}>{shareWords(counts[kind], total)}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </Scroller>
    </section>
  );
}

/** Bucket by bucket, the newest first. */
export function BarTable({ bars, bucket }: { bars: readonly Bar[]; bucket: Bucket }) {
  return (
    <details class="verdicts-numbers">
      <summary>{words.table}</summary>
      <Scroller label={words.table}>
        <table class="verdicts-table small">
          <caption class="soft">{words.emptyLeftOut}</caption>
          <Head first={words[bucket]} />
          <tbody>
            {bars
              .filter(({ total }) => total > 0)
              .reverse()
              .map(({ start, counts, total }) => (
                <tr key={start}>
                  <th scope="row">{bucketWords(start, bucket)}</th>
                  <td>{count(total)}</td>
                  {KINDS.map((kind) => (
                    <td key={kind}>{count(counts[kind])}</td>
                  ))}
                </tr>
              ))}
          </tbody>
        </table>
      </Scroller>
    </details>
  );
}

function Head({ first }: { first: string }) {
  return (
    <thead>
      <tr>
        <th scope="col">{first}</th>
        <th scope="col">{words.answers}</th>
        {KINDS.map((kind) => (
          <th key={kind} scope="col">
            {words[kind]}
          </th>
        ))}
      </tr>
    </thead>
  );
}

/** A wide table moves by itself on a phone; the keyboard reaches it to move it. */
function Scroller({ label, children }: { label: string; children: ComponentChildren }) {
  return (
    <div class="verdicts-scroller" role="region" aria-label={label} tabIndex={0}>
      {children}
    </div>
  );
}
