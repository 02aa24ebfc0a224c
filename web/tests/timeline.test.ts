import assert from "node:assert/strict";
import { test } from "node:test";

import type { Fact } from "../src/api/facts.ts";
import { dateOf, dayOf, parsePeriod, today } from "../src/knowledge/timeline/dates.ts";
import { groupsOf, itemOf, placed, type Item } from "../src/knowledge/timeline/lanes.ts";
import {
  between,
  boundsOf,
  dayAt,
  LEAST_DAYS,
  panned,
  ticksOf,
  xOf,
  zoomed,
  type Scale,
} from "../src/knowledge/timeline/scale.ts";
import { DOT, OPEN_FADE, shapeOf, UNKNOWN_FADE } from "../src/knowledge/timeline/shape.ts";
import { knownDays, spanOf, type Span } from "../src/knowledge/timeline/span.ts";

const iso = (day: number): string => dateOf(day).toISOString().slice(0, 10);
const NOW = dayOf(2026, 3, 1);

function drawn(from: string | null, to: string | null): Span {
  const span = spanOf(from, to);
  assert.ok(span !== null);
  return span;
}

test("a period is all of its days, and no more precise than it was written", () => {
  const shown = (text: string): unknown => {
    const period = parsePeriod(text);
    return period && [iso(period.first), iso(period.last), period.precision];
  };
  assert.deepEqual(shown("2015"), ["2015-01-01", "2015-12-31", "year"]);
  assert.deepEqual(shown("2024-02"), ["2024-02-01", "2024-02-29", "month"]);
  assert.deepEqual(shown("2023-02"), ["2023-02-01", "2023-02-28", "month"]);
  assert.deepEqual(shown("1999-12"), ["1999-12-01", "1999-12-31", "month"]);
  assert.deepEqual(shown("2023-11-17"), ["2023-11-17", "2023-11-17", "day"]);
  assert.deepEqual(shown("0099"), ["0099-01-01", "0099-12-31", "year"]);
});

test("what is no date of the calendar is none", () => {
  const wrong = [
    "",
    "15",
    "2015-13",
    "2015-00",
    "2023-02-29",
    "2023-04-31",
    "2023-11-00",
    "2023-1-1",
    "open",
    "2023-11-17T00:00",
  ];
  for (const text of wrong) assert.equal(parsePeriod(text), null, text);
});

test("today is the reader's day, not the day in Greenwich", () => {
  assert.equal(iso(today(new Date(2026, 2, 1, 0, 5))), "2026-03-01");
  assert.equal(iso(today(new Date(2026, 2, 1, 23, 55))), "2026-03-01");
});

test("equal ends are a moment, an open end and an unknown one are told apart, two unknown ones are nothing", () => {
  assert.equal(drawn("2023-11-17", "2023-11-17").kind, "moment");
  assert.equal(drawn("2023", "2023").kind, "moment");
  assert.equal(drawn("2023", "2023-05").kind, "interval");
  const open = drawn("2019", "open");
  const unknown = drawn("2019", null);
  assert.ok(open.kind === "interval" && unknown.kind === "interval");
  assert.deepEqual([open.end.kind, unknown.end.kind], ["open", "unknown"]);
  assert.equal(spanOf(null, null), null);
  assert.equal(spanOf(null, "open"), null);
});

test("the known days of a span end today where it is open, and at what is known where it is not", () => {
  const days = (from: string | null, to: string | null): string[] => {
    const { first, last } = knownDays(drawn(from, to), NOW);
    return [iso(first), iso(last)];
  };
  assert.deepEqual(days("2019", "open"), ["2019-01-01", "2026-03-01"]);
  assert.deepEqual(days("2019-05", null), ["2019-05-01", "2019-05-01"]);
  assert.deepEqual(days(null, "2020"), ["2020-12-31", "2020-12-31"]);
  assert.deepEqual(days("2031", "open"), ["2031-01-01", "2031-01-01"]);
});

test("a day goes to its pixel and back", () => {
  const scale: Scale = { from: dayOf(2020, 1, 1), to: dayOf(2021, 1, 1), width: 732 };
  assert.equal(xOf(scale, scale.from), 0);
  assert.equal(xOf(scale, scale.to), 732);
  assert.equal(xOf(scale, dayOf(2020, 7, 1)), 364);
  assert.equal(dayAt(scale, xOf(scale, dayOf(2020, 3, 9))), dayOf(2020, 3, 9));
});

test("the bounds hold everything with room, and today where it is near", () => {
  const near = boundsOf([{ first: dayOf(2015, 12, 8), last: dayOf(2025, 9, 2) }], NOW);
  assert.ok(near.from < dayOf(2015, 12, 8) && near.to > NOW);
  const longAgo = boundsOf([{ first: dayOf(1900, 1, 1), last: dayOf(1910, 1, 1) }], NOW);
  assert.ok(longAgo.to > dayOf(1910, 1, 1) && longAgo.to < dayOf(1912, 1, 1));
  const one = boundsOf([{ first: NOW, last: NOW }], NOW);
  assert.ok(one.to - one.from > LEAST_DAYS);
  assert.ok(boundsOf([], NOW).to > boundsOf([], NOW).from);
});

test("zooming keeps the day under the pointer, stops at the least days and at the bounds", () => {
  const bounds = { from: 0, to: 1000 };
  const closer = zoomed(bounds, 2, 250, bounds);
  assert.deepEqual(closer, { from: 125, to: 625 });
  assert.deepEqual(zoomed(closer, 0.5, 250, bounds), bounds);
  const least = zoomed(bounds, 1e6, 500, bounds);
  assert.equal(least.to - least.from, LEAST_DAYS);
  assert.deepEqual(zoomed(bounds, 0.1, 10, bounds), bounds);
});

test("moving stays inside the bounds and keeps the length", () => {
  const bounds = { from: 0, to: 1000 };
  assert.deepEqual(panned({ from: 100, to: 300 }, 0.5, bounds), { from: 200, to: 400 });
  assert.deepEqual(panned({ from: 100, to: 300 }, -3, bounds), { from: 0, to: 200 });
  assert.deepEqual(panned({ from: 900, to: 1000 }, 1, bounds), { from: 900, to: 1000 });
});

test("a brush may go either way, and a click is the least window around it", () => {
  const bounds = { from: 0, to: 1000 };
  assert.deepEqual(between(400, 200, bounds), { from: 200, to: 400 });
  const click = between(500, 500, bounds);
  assert.deepEqual(click, { from: 500 - LEAST_DAYS / 2, to: 500 + LEAST_DAYS / 2 });
  assert.deepEqual(between(-50, 20, bounds), { from: 0, to: 70 });
});

test("ticks stand on round years, months or days, far enough apart", () => {
  const ticks = (from: string, to: string, width = 800): string[] => {
    const first = parsePeriod(from);
    const last = parsePeriod(to);
    assert.ok(first && last);
    const scale = { from: first.first, to: last.last, width };
    const found = ticksOf(scale, 70);
    for (const [n, tick] of found.entries()) {
      const before = found[n - 1];
      if (before) assert.ok(xOf(scale, tick.day) - xOf(scale, before.day) > 60, `${from} ${iso(tick.day)}`);
    }
    return found.map((tick) => iso(tick.day));
  };
  assert.deepEqual(
    ticks("2015", "2026"),
    [16, 18, 20, 22, 24, 26].map((year) => `20${year}-01-01`),
  );
  assert.deepEqual(ticks("2023", "2023", 400), ["2023-01-01", "2023-04-01", "2023-07-01", "2023-10-01"]);
  assert.deepEqual(ticks("2023-11", "2024-02").slice(0, 4), ["2023-11-01", "2023-12-01", "2024-01-01", "2024-02-01"]);
  assert.ok(ticks("1000", "2026").every((day) => day.endsWith("00-01-01")));
  assert.ok(ticks("2023-11-10", "2023-11-20").length >= 8);
});

const SCALE: Scale = { from: dayOf(2015, 1, 1), to: dayOf(2027, 1, 1), width: 1200 };

const after = (width: number) => ({ width, before: false });

test("a moment is a dot in the middle of its day, or the range in which it happened", () => {
  const dot = shapeOf(drawn("2020-06-01", "2020-06-01"), SCALE, NOW, after(40));
  assert.equal(dot.kind, "dot");
  assert.equal(dot.to - dot.from, DOT);
  assert.ok(Math.abs((dot.from + dot.to) / 2 - xOf(SCALE, dayOf(2020, 6, 1) + 0.5)) < 1e-9);
  assert.equal(dot.words.inside, false);
  const range = shapeOf(drawn("2020", "2020"), SCALE, NOW, after(40));
  assert.equal(range.kind, "range");
  assert.equal(range.from, xOf(SCALE, dayOf(2020, 1, 1)));
  assert.equal(range.to, xOf(SCALE, dayOf(2021, 1, 1)));
  assert.equal(range.words.inside, true);
});

test("a bar is solid where it surely held and fades over what its dates leave open", () => {
  const bar = shapeOf(drawn("2018", "2023-11-17"), SCALE, NOW, after(30));
  assert.equal(bar.from, xOf(SCALE, dayOf(2018, 1, 1)));
  assert.equal(bar.solidFrom, xOf(SCALE, dayOf(2018, 12, 31)));
  assert.equal(bar.solidTo, xOf(SCALE, dayOf(2023, 11, 18)));
  assert.equal(bar.to, bar.solidTo);
});

test("an open end is solid to today and fades beyond, an unknown end fades at once", () => {
  const open = shapeOf(drawn("2019-01-01", "open"), SCALE, NOW, after(30));
  assert.equal(open.solidTo, xOf(SCALE, NOW));
  assert.equal(open.to, open.solidTo + OPEN_FADE);
  const unknown = shapeOf(drawn("2019-01-01", null), SCALE, NOW, after(300));
  assert.equal(unknown.solidTo, unknown.solidFrom);
  assert.equal(unknown.to, unknown.solidTo + UNKNOWN_FADE);
  const began = shapeOf(drawn(null, "2019-01-01"), SCALE, NOW, after(300));
  assert.equal(began.from, began.solidFrom - UNKNOWN_FADE);
});

test("words stand inside where there is room, else behind or before the mark", () => {
  const dated = (width: number, before: boolean) =>
    shapeOf(drawn("2020-01-01", "2020-12-31"), SCALE, NOW, { width, before });
  const inside = dated(40, true);
  assert.deepEqual([inside.words.inside, inside.begin, inside.end], [true, inside.from, inside.to]);
  const behind = dated(300, false);
  assert.ok(behind.words.x > behind.to && behind.end === behind.words.x + 300 && behind.begin === behind.from);
  const before = dated(300, true);
  assert.ok(before.words.x + 300 < before.from && before.begin === before.words.x && before.end === before.to);
});

test("dates that are imprecise about each other still make a bar that runs forward", () => {
  const bar = shapeOf(drawn("2023", "2023-05"), SCALE, NOW, after(30));
  assert.ok(bar.from <= bar.solidFrom && bar.solidFrom <= bar.solidTo && bar.solidTo <= bar.to);
  const before = shapeOf(drawn("2031", "open"), SCALE, NOW, after(30));
  assert.ok(before.from <= before.solidFrom && before.solidFrom <= before.solidTo && before.solidTo <= before.to);
});

const entity = (name: string) => ({ id: name, name, type: "person", disambiguator: "" });

function fact(subject: string, predicate: string, object: string, from: string | null, to: string | null): Fact {
  return {
    id: `${subject} ${predicate} ${object} ${from}`,
    subject: entity(subject),
    predicate,
    object: entity(object),
    value: null,
    from,
    to,
    confidence: 1,
    status: "asserted",
    recorded_at: "2026-01-01T00:00:00Z",
    superseded_at: null,
    superseded_by: null,
    evidence: null,
    quote: "",
    origin: "api",
  };
}

function itemsOf(facts: readonly Fact[], id: string) {
  return facts.map((one) => itemOf(one, id, NOW)).filter((item) => item !== null);
}

test("facts are grouped by what they say and which way round, the earliest first", () => {
  const facts = [
    fact("Acme", "owns", "Bolt", "2020", "open"),
    fact("Cora", "owns", "Acme", "2018", "2020"),
    fact("Acme", "owns", "Nut", "2017", "2019"),
    fact("Acme", "likes", "Nut", null, null),
  ];
  const groups = groupsOf(itemsOf(facts, "Acme"), "Acme");
  assert.deepEqual(
    groups.map(({ predicate, inverse, items }) => [predicate, inverse, items.map((item) => item.label)]),
    [
      ["owns", false, ["Nut", "Bolt"]],
      ["owns", true, ["Cora"]],
    ],
  );
});

test("nothing on a lane covers another's words, and moving along the axis changes no lane", () => {
  const facts = Array.from({ length: 40 }, (_, n) => {
    const month = String((n % 12) + 1).padStart(2, "0");
    return fact("Acme", "met", `Person ${n}`, `20${15 + (n % 10)}-${month}`, n % 3 === 0 ? null : "2025");
  });
  const items = groupsOf(itemsOf(facts, "Acme"), "Acme").flatMap((group) => group.items);
  const wordsOf = (item: Item) => ({ width: item.label.length * 7, before: item.first > dayOf(2022, 1, 1) });
  const lanes = placed(items, SCALE, NOW, wordsOf);
  for (const [n, one] of lanes.entries()) {
    for (const other of lanes.slice(n + 1).filter(({ lane }) => lane === one.lane)) {
      assert.ok(one.shape.end < other.shape.begin || other.shape.end < one.shape.begin);
    }
  }
  const moved = placed(items, { ...SCALE, from: SCALE.from + 900, to: SCALE.to + 900 }, NOW, wordsOf);
  assert.deepEqual(
    moved.map(({ lane }) => lane),
    lanes.map(({ lane }) => lane),
  );
});
