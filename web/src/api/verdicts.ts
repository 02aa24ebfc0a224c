/** What a base's answers rested on over time, by model. Source: app/api/verdicts.py. */

import { request } from "../http/request.ts";

export type Bucket = "hour" | "day";

/** The answers of one model in the bucket that begins at `start`, each counted once. `model` is "" where none is known. */
export interface VerdictCount {
  readonly start: string;
  readonly model: string;
  readonly cited: number;
  readonly uncited: number;
  readonly skipped: number;
  readonly none: number;
  readonly failed: number;
  readonly stopped: number;
}

/** Counts from `since` up to, but not with, `until`, in buckets of UTC; those without answers are left out. */
export interface Verdicts {
  readonly bucket: Bucket;
  readonly since: string;
  readonly until: string;
  readonly verdicts: readonly VerdictCount[];
}

export interface VerdictQuery {
  readonly bucket: Bucket;
  /** A day or a moment; until now is counted. */
  readonly since: string;
}

export function getVerdicts(base: string, query: VerdictQuery): Promise<Verdicts> {
  return request(["api", "bases", base, "verdicts"], { query: { ...query } });
}
