/** Answers by what they rest on: as bars over time, by model, and all together. Pure. */
import type { VerdictCount, Verdicts } from "../../api/verdicts.ts";
import { DAY_MS, HOUR_MS } from "./periods.ts";

/** In the order in which they are stacked and named: what one hopes for first. */
export const KINDS = ["cited", "uncited", "skipped", "none", "failed", "stopped"] as const;
export type Kind = (typeof KINDS)[number];

export type Counts = Readonly<Record<Kind, number>>;

/** The answers of one bucket. `start` is in milliseconds since 1970. */
export interface Bar {
  readonly start: number;
  readonly counts: Counts;
  readonly total: number;
}

export interface ModelCounts {
  readonly model: string;
  readonly counts: Counts;
  readonly total: number;
}

/** A part of a bar: so many answers, above `below` others. */
export interface Part {
  readonly kind: Kind;
  readonly below: number;
  readonly count: number;
}

/** Every bucket of the stretch, oldest first, also those without answers. `model` null takes all of them together. */
export function barsOf(answer: Verdicts, model: string | null): readonly Bar[] {
  const ms = answer.bucket === "hour" ? HOUR_MS : DAY_MS;
  const rows = grouped(rowsOf(answer, model), ({ start }) => Date.parse(start));
  const bars: Bar[] = [];
  for (let start = Math.floor(Date.parse(answer.since) / ms) * ms; start < Date.parse(answer.until); start += ms) {
    const counts = sumOf(rows.get(start) ?? []);
    bars.push({ start, counts, total: totalOf(counts) });
  }
  return bars;
}

/** All answers of the stretch together. */
export function countsOf(answer: Verdicts, model: string | null): Counts {
  return sumOf(rowsOf(answer, model));
}

/** The models that answered, the one with the most answers first. */
export function modelsOf(answer: Verdicts): readonly ModelCounts[] {
  return [...grouped(answer.verdicts, ({ model }) => model)]
    .map(([model, rows]) => {
      const counts = sumOf(rows);
      return { model, counts, total: totalOf(counts) };
    })
    .sort((a, b) => b.total - a.total || a.model.localeCompare(b.model));
}

export function totalOf(counts: Counts): number {
  return KINDS.reduce((sum, kind) => sum + counts[kind], 0);
}

/** The parts of a bar from the bottom up; what there is none of is left out. */
export function partsOf(counts: Counts): readonly Part[] {
  const parts: Part[] = [];
  let below = 0;
  for (const kind of KINDS) {
    const count = counts[kind];
    if (count > 0) parts.push({ kind, below, count });
    below += count;
  }
  return parts;
}

function rowsOf({ verdicts }: Verdicts, model: string | null): readonly VerdictCount[] {
  return model === null ? verdicts : verdicts.filter((row) => row.model === model);
}

function grouped<K>(rows: readonly VerdictCount[], keyOf: (row: VerdictCount) => K): Map<K, VerdictCount[]> {
  const groups = new Map<K, VerdictCount[]>();
  for (const row of rows) {
    const key = keyOf(row);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [row]);
    else group.push(row);
  }
  return groups;
}

function sumOf(rows: readonly VerdictCount[]): Counts {
  const sum = { cited: 0, uncited: 0, skipped: 0, none: 0, failed: 0, stopped: 0 };
  for (const row of rows) for (const kind of KINDS) sum[kind] += row[kind];
  return sum;
}
