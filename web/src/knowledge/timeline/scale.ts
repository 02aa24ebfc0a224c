/** The part of time that is looked at: days to pixels and back, zoom, pan, and where the axis is marked. Pure. */
import { dateOf, dayOf } from "./dates.ts";

/** The days from `from` to `to`, both as fractions of days, drawn on `width` pixels. */
export interface Scale {
  readonly from: number;
  readonly to: number;
  readonly width: number;
}

export interface Bounds {
  readonly from: number;
  readonly to: number;
}

/** Fewer days can't be looked at: nothing in the base is finer than a day. */
export const LEAST_DAYS = 14;

export function xOf(scale: Scale, day: number): number {
  return ((day - scale.from) / (scale.to - scale.from)) * scale.width;
}

export function dayAt(scale: Scale, x: number): number {
  return scale.from + (x / scale.width) * (scale.to - scale.from);
}

export function pixelsPerDay(scale: Scale): number {
  return scale.width / (scale.to - scale.from);
}

/** The days that hold everything, with room at both sides, and today where anything is known after or near it. */
export function boundsOf(spans: readonly { first: number; last: number }[], today: number): Bounds {
  if (spans.length === 0) return { from: today - 365, to: today + 30 };
  const first = Math.min(...spans.map((span) => span.first));
  const last = Math.max(...spans.map((span) => span.last));
  const room = Math.max((last - first) * 0.04, LEAST_DAYS);
  const end = last + room * 2; // what is drawn last carries its words to the right
  return {
    from: first - room,
    to: today > last && today - last < (last - first) / 2 ? Math.max(end, today + room) : end,
  };
}

/** The window zoomed by a factor (2 halves the days) around a day that stays where it is, inside the bounds. */
export function zoomed(window: Bounds, factor: number, around: number, bounds: Bounds): Bounds {
  const days = window.to - window.from;
  const wanted = clamp(days / factor, Math.min(LEAST_DAYS, bounds.to - bounds.from), bounds.to - bounds.from);
  const share = (around - window.from) / days;
  return within({ from: around - share * wanted, to: around + (1 - share) * wanted }, bounds);
}

/** The window moved by a share of its length, inside the bounds. */
export function panned(window: Bounds, share: number, bounds: Bounds): Bounds {
  const step = (window.to - window.from) * share;
  return within({ from: window.from + step, to: window.to + step }, bounds);
}

/** The window between two days, whichever comes first, at least LEAST_DAYS long and inside the bounds. */
export function between(one: number, other: number, bounds: Bounds): Bounds {
  const middle = (one + other) / 2;
  const half = Math.max(Math.abs(one - other), LEAST_DAYS) / 2;
  return within({ from: middle - half, to: middle + half }, bounds);
}

function within(window: Bounds, bounds: Bounds): Bounds {
  const days = Math.min(window.to - window.from, bounds.to - bounds.from);
  const from = clamp(window.from, bounds.from, bounds.to - days);
  return { from, to: from + days };
}

function clamp(value: number, least: number, most: number): number {
  return Math.min(Math.max(value, least), most);
}

/** What a mark of the axis stands for: the beginning of a year, a month or a day. */
export interface Tick {
  readonly day: number;
  readonly unit: "year" | "month" | "day";
}

type Step = { readonly unit: Tick["unit"]; readonly every: number; readonly days: number };

const STEPS: readonly Step[] = [
  { unit: "day", every: 1, days: 1 },
  { unit: "day", every: 7, days: 7 },
  { unit: "month", every: 1, days: 30.4 },
  { unit: "month", every: 3, days: 91.3 },
  { unit: "month", every: 6, days: 182.6 },
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].map((every): Step => ({ unit: "year", every, days: every * 365.25 })),
];

/** The marks of the axis, at least `gap` pixels apart, on round years, months or days. */
export function ticksOf(scale: Scale, gap: number): readonly Tick[] {
  const step = STEPS.find(({ days }) => days * pixelsPerDay(scale) >= gap) ?? STEPS[STEPS.length - 1];
  if (step === undefined) return [];
  const ticks: Tick[] = [];
  for (let day = firstTick(scale.from, step); day <= scale.to; day = nextTick(day, step)) {
    if (day >= scale.from) ticks.push({ day, unit: step.unit });
  }
  return ticks;
}

function firstTick(day: number, step: Step): number {
  const date = dateOf(Math.floor(day));
  const year = date.getUTCFullYear();
  if (step.unit === "year") return dayOf(Math.floor(year / step.every) * step.every, 1, 1);
  if (step.unit === "month") return dayOf(year, Math.floor(date.getUTCMonth() / step.every) * step.every + 1, 1);
  return Math.floor(Math.floor(day) / step.every) * step.every;
}

function nextTick(day: number, step: Step): number {
  const date = dateOf(day);
  if (step.unit === "year") return dayOf(date.getUTCFullYear() + step.every, 1, 1);
  if (step.unit === "month") return dayOf(date.getUTCFullYear(), date.getUTCMonth() + 1 + step.every, 1);
  return day + step.every;
}
