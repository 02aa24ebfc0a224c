/**
 * Dates as the base writes them, on a line of days. Precision is kept: a year is all of its days. Pure.
 *
 * A day is a whole number, counted from 1970-01-01, in the proleptic Gregorian calendar and without any zone.
 */

const MS_PER_DAY = 86_400_000;

export type Precision = "year" | "month" | "day";

/** A year, a month or a day: its first and last day. */
export interface Period {
  readonly first: number;
  readonly last: number;
  readonly precision: Precision;
}

/** The day of a date of the calendar. Months count from 1; a month of 13 is January of the next year. */
export function dayOf(year: number, month: number, day: number): number {
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day); // Date.UTC takes the years 0 to 99 for 1900 to 1999
  return date.getTime() / MS_PER_DAY;
}

export function dateOf(day: number): Date {
  return new Date(day * MS_PER_DAY);
}

/** The reader's own day. */
export function today(now: Date = new Date()): number {
  return dayOf(now.getFullYear(), now.getMonth() + 1, now.getDate());
}

/** A text YYYY, YYYY-MM or YYYY-MM-DD as what it covers; null for any other text and for no day of the calendar. */
export function parsePeriod(text: string): Period | null {
  const match = /^(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?$/.exec(text);
  if (match === null) return null;
  const [year, month, day] = [Number(match[1]), match[2], match[3]];
  if (month === undefined) return { first: dayOf(year, 1, 1), last: dayOf(year, 12, 31), precision: "year" };
  const m = Number(month);
  if (m < 1 || m > 12) return null;
  const last = dayOf(year, m + 1, 1) - 1;
  if (day === undefined) return { first: dayOf(year, m, 1), last, precision: "month" };
  const only = dayOf(year, m, Number(day));
  if (Number(day) < 1 || only > last) return null;
  return { first: only, last: only, precision: "day" };
}
