/** Buckets and shares in the reader's language. Days are those of UTC, as they are counted; hours the reader's own. */
import type { Bucket } from "../../api/verdicts.ts";
import { language } from "../../i18n/language.ts";

const locale = language === "zh" ? "zh-CN" : "en-GB";
const SHORT_DAY = { day: "numeric", month: "short" } as const;

const shortDay = new Intl.DateTimeFormat(locale, { ...SHORT_DAY, timeZone: "UTC" });
const wholeDay = new Intl.DateTimeFormat(locale, { ...SHORT_DAY, year: "numeric", timeZone: "UTC" });
const ownDay = new Intl.DateTimeFormat(locale, SHORT_DAY);
const clock = new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const percent = new Intl.NumberFormat(locale, { style: "percent" });

/** What stands below a bar: the day, or the hour, where midnight says the day that begins. */
export function belowBar(start: number, bucket: Bucket): string {
  if (bucket === "day") return shortDay.format(start);
  return new Date(start).getHours() === 0 ? ownDay.format(start) : clock.format(start);
}

/** A bucket by itself. */
export function bucketWords(start: number, bucket: Bucket): string {
  return bucket === "day" ? wholeDay.format(start) : `${ownDay.format(start)}, ${clock.format(start)}`;
}

/** A part of a whole in percent: neither nothing nor everything is said where it isn't so. */
export function shareWords(part: number, whole: number): string {
  if (part > 0 && part / whole < 0.005) return `<${percent.format(0.01)}`;
  if (part < whole && part / whole >= 0.995) return `>${percent.format(0.99)}`;
  return percent.format(whole === 0 ? 0 : part / whole);
}
