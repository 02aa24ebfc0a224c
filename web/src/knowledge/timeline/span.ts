/** When a fact was true, as something that can be drawn: a moment or an interval, with what isn't known of its ends. */
import { parsePeriod, type Period } from "./dates.ts";

/** One end of an interval. An open end is known not to have come; an unknown one is not known at all. */
export type End =
  { readonly kind: "date"; readonly period: Period } | { readonly kind: "open" } | { readonly kind: "unknown" };

/** `moment`: it happened at some time within the period. */
export type Span =
  | { readonly kind: "moment"; readonly period: Period }
  | { readonly kind: "interval"; readonly start: End; readonly end: End };

/** The span of a fact's `from` and `to`; null where neither is known, so that nothing can be drawn. */
export function spanOf(from: string | null, to: string | null): Span | null {
  const start = endOf(from);
  const end = endOf(to);
  if (start.kind !== "date" && end.kind !== "date") return null;
  if (start.kind === "date" && end.kind === "date" && same(start.period, end.period)) {
    return { kind: "moment", period: start.period };
  }
  return { kind: "interval", start, end };
}

/** The first and last day for which something of a span is known. */
export function knownDays(span: Span, today: number): { first: number; last: number } {
  if (span.kind === "moment") return { first: span.period.first, last: span.period.last };
  const { start, end } = span;
  const first = start.kind === "date" ? start.period.first : null;
  const last = end.kind === "date" ? end.period.last : end.kind === "open" ? Math.max(today, first ?? today) : null;
  const any = first ?? last ?? today;
  return { first: first ?? any, last: last ?? any };
}

function endOf(text: string | null): End {
  if (text === null) return { kind: "unknown" };
  if (text === "open") return { kind: "open" };
  const period = parsePeriod(text);
  return period === null ? { kind: "unknown" } : { kind: "date", period };
}

function same(one: Period, other: Period): boolean {
  return one.first === other.first && one.last === other.last;
}
