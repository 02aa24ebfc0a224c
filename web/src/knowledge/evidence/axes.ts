/** Where the drawing's axes have marks. Pure. */
import type { Bucket } from "../../api/verdicts.ts";

const MOST_STEPS = 4;

/** Whole numbers in even steps from 0 to the first that reaches `most`: the marks of the upright axis. */
export function marksUpTo(most: number): readonly number[] {
  const step = stepFor(Math.max(most, 1) / MOST_STEPS);
  const steps = Math.ceil(Math.max(most, 1) / step);
  return Array.from({ length: steps + 1 }, (_, n) => n * step);
}

/** The smallest of 1, 2, 5, 10, 20, 50 … that is no less than `least`. */
function stepFor(least: number): number {
  for (let ten = 1; ; ten *= 10) {
    for (const step of [ten, 2 * ten, 5 * ten]) if (step >= least) return step;
  }
}

const EVERY: Readonly<Record<Bucket, readonly number[]>> = { hour: [1, 3, 6, 12, 24], day: [1, 2, 7, 14, 28] };

/**
 * Which of `starts` have their moment written below them, as places in the list, where `room` words fit side by side.
 *
 * Days are counted back from the newest, which is always written; hours are those of the reader's clock that the
 * step divides.
 */
export function labelled(starts: readonly number[], bucket: Bucket, room: number): readonly number[] {
  const steps = EVERY[bucket];
  const step = steps.find((every) => starts.length / every <= room) ?? steps[steps.length - 1] ?? 1;
  const last = starts.length - 1;
  return starts.flatMap((start, n) => {
    const place = bucket === "hour" ? new Date(start).getHours() : last - n;
    return place % step === 0 ? [n] : [];
  });
}
