/** What a base's answers rested on over time: the number to watch when a model, a prompt or the documents change. */
import { useState } from "preact/hooks";

import { useAnswer } from "../../api/use_answer.ts";
import { getVerdicts, type Verdicts } from "../../api/verdicts.ts";
import { address } from "../../http/request.ts";
import type { ViewProps } from "../../shell/view.ts";
import { BaseFrame } from "../frame.tsx";
import { Trouble } from "../trouble.tsx";
import { words as shared } from "../words.ts";
import { Chart } from "./chart.tsx";
import { barsOf, countsOf, modelsOf, totalOf, type ModelCounts } from "./counts.ts";
import "./evidence.css";
import { PERIODS, queryOf, type Period } from "./periods.ts";
import { Patterns } from "./swatch.tsx";
import { BarTable, ByModel, modelName, Totals } from "./tables.tsx";
import { shareWords } from "./when.ts";
import { words } from "./words.ts";

export function Evidence({ params }: ViewProps) {
  const base = params["base"] ?? "";
  const [period, setPeriod] = useState<Period>("days30");
  const [wanted, setWanted] = useState<string | null>(null);
  const { value, error, asking, again } = useAnswer(
    () => getVerdicts(base, queryOf(period, new Date())),
    `${base} ${period}`,
    true,
  );
  const models = value === null ? [] : modelsOf(value);
  // a model that didn't answer in this period is no filter for it, but comes back with a longer one
  const model = models.some((one) => one.model === wanted) ? wanted : null;
  return (
    <BaseFrame base={base} part="evidence">
      <p class="soft verdicts-about">{words.about}</p>
      <div class="verdicts-choices">
        <Periods period={period} onPeriod={setPeriod} />
        {models.length > 1 && <Models models={models} model={model} onModel={setWanted} />}
      </div>
      <Trouble error={error} again={() => void again()} />
      {value === null && error === null && <p class="soft">{shared.loading}</p>}
      {value !== null && error === null && (
        <div aria-busy={asking}>
          {models.length === 0 ? <Empty base={base} /> : <Shown value={value} model={model} models={models} />}
        </div>
      )}
    </BaseFrame>
  );
}

function Shown({ value, model, models }: { value: Verdicts; model: string | null; models: readonly ModelCounts[] }) {
  const bars = barsOf(value, model);
  const counts = countsOf(value, model);
  const total = totalOf(counts);
  const headline = words.headline(counts.cited, total, shareWords(counts.cited, total));
  return (
    <>
      <Patterns />
      <p class="verdicts-headline" role="status">
        {headline}
      </p>
      <Chart bars={bars} bucket={value.bucket} headline={headline} />
      <Totals counts={counts} total={total} />
      <BarTable bars={bars} bucket={value.bucket} />
      {model === null && <ByModel models={models} />}
    </>
  );
}

function Empty({ base }: { base: string }) {
  return (
    <div class="kb-empty" role="status">
      <p class="soft">{words.empty}</p>
      <p>
        <a class="button" href={address([], { base })}>
          {words.ask}
        </a>
      </p>
    </div>
  );
}

function Periods({ period, onPeriod }: { period: Period; onPeriod: (period: Period) => void }) {
  return (
    <div class="kb-chips" role="group" aria-label={words.period}>
      {PERIODS.map((one) => (
        <button key={one} type="button" class="kb-chip" aria-pressed={one === period} onClick={() => onPeriod(one)}>
          {words[one]}
        </button>
      ))}
    </div>
  );
}

interface ModelsProps {
  readonly models: readonly ModelCounts[];
  readonly model: string | null;
  readonly onModel: (model: string | null) => void;
}

function Models({ models, model, onModel }: ModelsProps) {
  const place = models.findIndex((one) => one.model === model);
  return (
    <label class="verdicts-model small">
      {words.model}{" "}
      <select
        class="field"
        value={String(place)}
        onChange={(event) => onModel(models[Number(event.currentTarget.value)]?.model ?? null)}
      >
        <option value="-1">{words.allModels}</option>
        {models.map((one, n) => (
          <option key={one.model} value={String(n)}>
            {modelName(one.model)}
          </option>
        ))}
      </select>
    </label>
  );
}
