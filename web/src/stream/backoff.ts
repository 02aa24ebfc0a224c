/** How long to wait before connecting again. Pure. */

const FIRST_MS = 400;
const LONGEST_MS = 15_000;

export interface Hints {
  /** The stream's own `retry:`, milliseconds. */
  retryMs: number | null;
  /** The Retry-After of the last refusal, seconds. */
  retryAfterS: number | null;
}

/**
 * Milliseconds before attempt `n`, counted from 0 since the last byte arrived: doubling, and a random part of it,
 * so that the tabs of a restarted server don't come back together. What the server asked for is waited for at least.
 */
export function delay(n: number, hints: Hints, random: number): number {
  const most = Math.min(LONGEST_MS, FIRST_MS * 2 ** n);
  const asked = Math.max(hints.retryMs ?? 0, (hints.retryAfterS ?? 0) * 1000);
  return asked > 0 ? asked + (random * most) / 2 : random * most;
}
