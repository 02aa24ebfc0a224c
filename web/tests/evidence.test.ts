import assert from "node:assert/strict";
import { test } from "node:test";

import type { VerdictCount, Verdicts } from "../src/api/verdicts.ts";
import { labelled, marksUpTo } from "../src/knowledge/evidence/axes.ts";
import { barsOf, countsOf, modelsOf, partsOf, totalOf, type Counts } from "../src/knowledge/evidence/counts.ts";
import { HOUR_MS, queryOf } from "../src/knowledge/evidence/periods.ts";
import { belowBar, shareWords } from "../src/knowledge/evidence/when.ts";

const NOTHING: Counts = { cited: 0, uncited: 0, skipped: 0, none: 0, failed: 0, stopped: 0 };

function row(start: string, model: string, counts: Partial<Counts>): VerdictCount {
  return { start, model, ...NOTHING, ...counts };
}

const ANSWER: Verdicts = {
  bucket: "day",
  since: "2026-02-27T00:00:00Z",
  until: "2026-03-02T10:30:00Z",
  verdicts: [
    row("2026-02-27T00:00:00Z", "small", { cited: 2, failed: 1 }),
    row("2026-03-01T00:00:00Z", "large", { cited: 5 }),
    row("2026-03-01T00:00:00Z", "small", { skipped: 1 }),
  ],
};

test("a period asks for whole buckets of UTC, the one that now is in among them", () => {
  const now = new Date("2026-03-01T23:10:00Z");
  assert.deepEqual(queryOf("days7", now), { bucket: "day", since: "2026-02-23" });
  assert.deepEqual(queryOf("days30", now), { bucket: "day", since: "2026-01-31" });
  assert.deepEqual(queryOf("days90", now), { bucket: "day", since: "2025-12-02" });
  assert.deepEqual(queryOf("hours48", now), { bucket: "hour", since: "2026-02-28T00:00:00.000Z" });
});

test("there is a bar for each bucket of the stretch, with the models together", () => {
  assert.deepEqual(
    barsOf(ANSWER, null).map(({ start, counts, total }) => [new Date(start).toISOString().slice(0, 10), counts, total]),
    [
      ["2026-02-27", { ...NOTHING, cited: 2, failed: 1 }, 3],
      ["2026-02-28", NOTHING, 0],
      ["2026-03-01", { ...NOTHING, cited: 5, skipped: 1 }, 6],
      ["2026-03-02", NOTHING, 0],
    ],
  );
});

test("a stretch that ends where a bucket begins hasn't got that bucket", () => {
  const until = { ...ANSWER, until: "2026-03-02T00:00:00Z" };
  assert.equal(barsOf(until, null).length, 3);
  const hours: Verdicts = { bucket: "hour", since: "2026-03-01T22:30:00Z", until: "2026-03-02T00:00:01Z", verdicts: [] };
  assert.deepEqual(
    barsOf(hours, null).map(({ start }) => new Date(start).toISOString()),
    ["2026-03-01T22:00:00.000Z", "2026-03-01T23:00:00.000Z", "2026-03-02T00:00:00.000Z"],
  );
});

test("one model's bars and totals are made of its answers alone", () => {
  assert.deepEqual(
    barsOf(ANSWER, "small").map(({ total }) => total),
    [3, 0, 1, 0],
  );
  assert.deepEqual(countsOf(ANSWER, "small"), { ...NOTHING, cited: 2, skipped: 1, failed: 1 });
  assert.equal(totalOf(countsOf(ANSWER, null)), 9);
});

test("models are named with the one that answered most first, equal ones by name", () => {
  assert.deepEqual(modelsOf(ANSWER), [
    { model: "large", counts: { ...NOTHING, cited: 5 }, total: 5 },
    { model: "small", counts: { ...NOTHING, cited: 2, skipped: 1, failed: 1 }, total: 4 },
  ]);
  const equal = [row("2026-03-01T00:00:00Z", "b", { none: 1 }), row("2026-03-01T00:00:00Z", "a", { stopped: 1 })];
  assert.deepEqual(
    modelsOf({ ...ANSWER, verdicts: equal }).map(({ model }) => model),
    ["a", "b"],
  );
});

test("the parts of a bar stand on one another and are as high as it is", () => {
  assert.deepEqual(partsOf({ ...NOTHING, cited: 3, none: 1, stopped: 2 }), [
    { kind: "cited", below: 0, count: 3 },
    { kind: "none", below: 3, count: 1 },
    { kind: "stopped", below: 4, count: 2 },
  ]);
  assert.deepEqual(partsOf(NOTHING), []);
});

test("the upright axis has few marks, whole numbers, and reaches the highest bar", () => {
  assert.deepEqual(marksUpTo(0), [0, 1]);
  assert.deepEqual(marksUpTo(1), [0, 1]);
  assert.deepEqual(marksUpTo(7), [0, 2, 4, 6, 8]);
  assert.deepEqual(marksUpTo(9), [0, 5, 10]);
  for (let most = 1; most < 3000; most++) {
    const marks = marksUpTo(most);
    const [last = 0, before = 0] = marks.slice(-2).reverse();
    assert.ok(marks.length <= 5 && marks.every(Number.isInteger) && last >= most && before < most, String(most));
  }
});

test("days are written as room allows, always the newest", () => {
  const starts = Array.from({ length: 30 }, (_, n) => n);
  assert.deepEqual(labelled(starts, "day", 30).length, 30);
  assert.deepEqual(labelled(starts, "day", 8), [1, 8, 15, 22, 29]);
  assert.deepEqual(labelled(starts, "day", 1), [1, 29]);
  assert.deepEqual(labelled([], "day", 8), []);
});

test("hours are written where the reader's clock has a round one", () => {
  const midnight = new Date(2026, 2, 1).getTime();
  const starts = Array.from({ length: 48 }, (_, n) => midnight + (n - 2) * HOUR_MS);
  assert.deepEqual(labelled(starts, "hour", 8), [2, 8, 14, 20, 26, 32, 38, 44]);
  assert.equal(belowBar(midnight, "hour"), "1 Mar");
  assert.equal(belowBar(midnight + 6 * HOUR_MS, "hour"), "06:00");
});

test("a share is neither nothing nor everything unless it is", () => {
  assert.deepEqual(
    [shareWords(0, 0), shareWords(0, 5), shareWords(1, 1000), shareWords(1, 3), shareWords(999, 1000), shareWords(5, 5)],
    ["0%", "0%", "<1%", "33%", ">99%", "100%"],
  );
});
