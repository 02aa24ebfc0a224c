/** Dates, times and numbers as the reader's language writes them. */
import { language } from "./language.ts";

const locale = language === "zh" ? "zh-CN" : "en-GB";

const day = new Intl.DateTimeFormat(locale, { day: "numeric", month: "short", year: "numeric" });
const clock = new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit" });
const number = new Intl.NumberFormat(locale);
const seconds = new Intl.NumberFormat(locale, { maximumFractionDigits: 1 });

/** The time of day for today, the date for anything older. `iso` is a moment with its zone. */
export function shortMoment(iso: string, now: Date = new Date()): string {
  const moment = new Date(iso);
  return moment.toDateString() === now.toDateString() ? clock.format(moment) : day.format(moment);
}

export function longMoment(iso: string): string {
  const moment = new Date(iso);
  return `${day.format(moment)}, ${clock.format(moment)}`;
}

export function count(value: number): string {
  return number.format(value);
}

/** A span of milliseconds: `340 ms`, `2.4 s`. */
export function span(ms: number): string {
  return ms < 1000 ? `${number.format(Math.round(ms))} ms` : `${seconds.format(ms / 1000)} s`;
}
