/** Dates and ranges in the reader's language, no more precisely than they are known. */
import { language } from "../../i18n/language.ts";
import { dateOf, parsePeriod } from "./dates.ts";
import type { Tick } from "./scale.ts";
import { words } from "./words.ts";

const locale = language === "zh" ? "zh-CN" : "en-GB";

// days have no zone: they are written as UTC has them
const FORMATS = {
  year: new Intl.DateTimeFormat(locale, { year: "numeric", timeZone: "UTC" }),
  month: new Intl.DateTimeFormat(locale, { year: "numeric", month: "short", timeZone: "UTC" }),
  day: new Intl.DateTimeFormat(locale, { year: "numeric", month: "short", day: "numeric", timeZone: "UTC" }),
};
const SHORT = {
  month: new Intl.DateTimeFormat(locale, { month: "short", timeZone: "UTC" }),
  day: new Intl.DateTimeFormat(locale, { month: "short", day: "numeric", timeZone: "UTC" }),
};

/** A date of the base, such as 2015-12, for a person; a text that is no date stays as it is. */
export function dateWords(text: string): string {
  const period = parsePeriod(text);
  return period === null ? text : FORMATS[period.precision].format(dateOf(period.first));
}

/** When a fact was true. */
export function rangeWords(from: string | null, to: string | null): string {
  const start = from === null ? null : dateWords(from);
  if (to === "open") return start === null ? words.stillStartUnknown : words.since(start);
  const end = to === null ? null : dateWords(to);
  if (start === null) return end === null ? words.unknown : words.startUnknown(end);
  if (end === null) return words.endUnknown(start);
  return start === end ? start : words.fromTo(start, end);
}

/** What stands at a mark of the axis: the year where one begins, else as little as is needed; the first says it all. */
export function tickWords(tick: Tick, isFirst: boolean): string {
  const date = dateOf(tick.day);
  if (tick.unit === "year" || (date.getUTCMonth() === 0 && date.getUTCDate() === 1)) return FORMATS.year.format(date);
  if (isFirst) return FORMATS[tick.unit].format(date);
  return SHORT[tick.unit].format(date);
}
