/** The stretches of time that can be looked at, and what to ask the server for each. Pure. */
import type { VerdictQuery } from "../../api/verdicts.ts";

export const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;

export const PERIODS = ["hours48", "days7", "days30", "days90"] as const;
export type Period = (typeof PERIODS)[number];

const DAYS = { days7: 7, days30: 30, days90: 90 };
const HOURS = 48;

/** Whole buckets of UTC up to the one that `now` is in, so that the first is no shorter than the others. */
export function queryOf(period: Period, now: Date): VerdictQuery {
  if (period === "hours48") {
    const first = Math.floor(now.getTime() / HOUR_MS) - (HOURS - 1);
    return { bucket: "hour", since: new Date(first * HOUR_MS).toISOString() };
  }
  const first = new Date(now.getTime() - (DAYS[period] - 1) * DAY_MS);
  return { bucket: "day", since: first.toISOString().slice(0, 10) };
}
