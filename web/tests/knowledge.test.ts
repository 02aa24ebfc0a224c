import assert from "node:assert/strict";
import { test } from "node:test";

import type { EntityDetail } from "../src/api/entities.ts";
import type { Fact, FactRow } from "../src/api/facts.ts";
import { listed } from "../src/api/listed.ts";
import { rowAbout, rowOf, rowOfProposal, withObject, withSubject } from "../src/knowledge/graph/fact_row.ts";
import { neighboursOf } from "../src/knowledge/graph/neighbours.ts";
import { huesOf } from "../src/knowledge/timeline/hues.ts";
import { groupsOf, itemOf } from "../src/knowledge/timeline/lanes.ts";
import { layoutOf, type Layout } from "../src/knowledge/timeline/layout.ts";
import { dayOf } from "../src/knowledge/timeline/dates.ts";
import { walked } from "../src/knowledge/timeline/walk.ts";
import { sizeOf } from "../src/text/size.ts";

const NOW = dayOf(2026, 3, 1);

function entity(name: string, type = "", disambiguator = "") {
  return { id: `id of ${name}`, name, type, disambiguator };
}

const FACT: Fact = {
  id: "f",
  subject: entity("Ada", "person", "the mathematician"),
  predicate: "wrote",
  object: entity("The Notes", "paper"),
  value: null,
  from: "1842",
  to: "1843-08",
  confidence: 0.8,
  status: "asserted",
  recorded_at: "2026-01-01T00:00:00Z",
  superseded_at: null,
  superseded_by: null,
  evidence: { chunk_id: "c", document_id: "d", document: "notes.md", live: true },
  quote: "She wrote the Notes.",
  origin: "import",
};

test("a fact as a row says the same claim by names, with what identifies both ends", () => {
  assert.deepEqual(rowOf(FACT), {
    subject: "Ada",
    subject_type: "person",
    subject_disambiguator: "the mathematician",
    predicate: "wrote",
    object: "The Notes",
    object_type: "paper",
    from: "1842",
    to: "1843-08",
    confidence: 0.8,
    evidence: "c",
    quote: "She wrote the Notes.",
  });
  const bare = {
    ...FACT,
    object: null,
    value: "a paper",
    from: null,
    to: null,
    evidence: null,
    quote: "",
    confidence: 1,
  };
  assert.deepEqual(rowOf({ ...bare, subject: entity("Ada") }), {
    subject: "Ada",
    predicate: "wrote",
    value: "a paper",
    confidence: 1,
  });
});

test("another name at an end doesn't take the old one's type along, the same name keeps it", () => {
  const row = rowOf(FACT);
  const renamed = withObject(row, { kind: "object", text: "The Engine" });
  assert.deepEqual([renamed.object, renamed.object_type], ["The Engine", undefined]);
  assert.equal(withObject(row, { kind: "object", text: "The Notes" }).object_type, "paper");
  const value = withObject(row, { kind: "value", text: "a paper" });
  assert.deepEqual(
    [value.value, value.object, "object" in value, "object_type" in value],
    ["a paper", undefined, false, false],
  );
  const someone = withSubject(row, "Charles");
  assert.deepEqual(
    [someone.subject, someone.subject_type, someone.subject_disambiguator],
    ["Charles", undefined, undefined],
  );
  assert.equal(withSubject(row, "Ada"), row);
});

test("a proposal of a sentence alone becomes a row to complete, one of a fact keeps all of it", () => {
  assert.deepEqual(rowOfProposal({}, "We meet on Tuesdays."), {
    quote: "We meet on Tuesdays.",
    subject: "",
    predicate: "",
    object: "",
  });
  const fact: Partial<FactRow> = { subject: "Ada", predicate: "born", value: "in London", quote: "Born in London." };
  assert.deepEqual(rowOfProposal(fact, "A sentence."), fact);
});

test("a row about an entity begins with the entity and nothing else", () => {
  const detail: EntityDetail = {
    ...entity("Ada", "person"),
    aliases: ["Lovelace"],
    merged_into: null,
    created_at: "2026-01-01T00:00:00Z",
    fact_count: 0,
    facts: [],
    total: 0,
    undecided: 0,
  };
  assert.deepEqual(rowAbout(detail), { subject: "Ada", subject_type: "person", predicate: "", object: "" });
});

function fact(subject: string, predicate: string, object: string | null, from: string, type = "person"): Fact {
  return {
    ...FACT,
    id: `${subject} ${predicate} ${object ?? ""} ${from}`,
    subject: entity(subject, type),
    predicate,
    object: object === null ? null : entity(object, type),
    value: object === null ? "something" : null,
    from,
    to: from,
  };
}

test("neighbours are counted at either end, without the entity itself and without values", () => {
  const facts = [
    fact("Ada", "knew", "Charles", "1833"),
    fact("Charles", "wrote to", "Ada", "1843"),
    fact("Ada", "knew", "Byron", "1815"),
    fact("Ada", "was", null, "1815"),
    fact("Ada", "changed", "Ada", "1835"),
  ];
  const found = neighboursOf(facts, "id of Ada").map(({ entity: { name }, facts: n }) => [name, n]);
  assert.deepEqual(found, [
    ["Charles", 2],
    ["Byron", 1],
  ]);
});

test("the five most frequent types get a colour each, values and the rest share one", () => {
  const types = ["person", "person", "paper", "paper", "paper", "law", "chip", "prize", "river"];
  const items = types.map((type, n) => itemOf(fact("Ada", "saw", `Thing ${n}`, "1840", type), "id of Ada", NOW));
  const hues = huesOf(items.filter((item) => item !== null));
  assert.deepEqual(hues.named, ["paper", "person", "chip", "law", "prize"]);
  assert.deepEqual([hues.of("paper"), hues.of("prize"), hues.of("river"), hues.of(null), hues.of("")], [1, 5, 0, 0, 0]);
  assert.equal(hues.others, true);
});

function layout(facts: readonly Fact[]): Layout {
  const items = facts.map((one) => itemOf(one, "id of Ada", NOW)).filter((item) => item !== null);
  const scale = { from: dayOf(1810, 1, 1), to: dayOf(1860, 1, 1), width: 1000 };
  const wordsOf = () => ({ width: 40, before: false });
  return layoutOf(groupsOf(items, "id of Ada"), scale, { today: NOW, wordsOf, nameHeight: () => 0 });
}

test("arrow keys walk in order of time and to the nearest of the next group, and stop at the ends", () => {
  const [a, b, c, d] = [
    fact("Ada", "knew", "Byron", "1815"),
    fact("Ada", "knew", "Charles", "1833"),
    fact("Ada", "wrote", "The Notes", "1816"),
    fact("Ada", "wrote", "A Letter", "1834"),
  ];
  const drawn = layout([d, c, b, a]);
  const walk = (from: Fact, key: string) => walked(drawn, from.id, key);
  assert.deepEqual([walk(a, "ArrowRight"), walk(b, "ArrowRight"), walk(d, "ArrowRight")], [b.id, c.id, null]);
  assert.deepEqual([walk(a, "ArrowLeft"), walk(c, "ArrowLeft")], [null, b.id]);
  assert.deepEqual([walk(b, "ArrowDown"), walk(c, "ArrowUp"), walk(c, "ArrowDown")], [d.id, a.id, null]);
  assert.deepEqual(
    [walk(c, "Home"), walk(b, "End"), walk(a, "x"), walked(drawn, "nobody", "Home")],
    [a.id, d.id, null, null],
  );
});

test("groups stand below each other and are as high as their lanes", () => {
  const drawn = layout([
    fact("Ada", "met", "A", "1840-01"),
    fact("Ada", "met", "B", "1840-02"),
    fact("Ada", "saw", "C", "1841"),
  ]);
  const [met, saw] = drawn.rows;
  assert.ok(met && saw);
  assert.equal(saw.top, met.height);
  assert.equal(drawn.height, met.height + saw.height);
  assert.deepEqual(
    met.placed.map(({ lane }) => lane),
    [0, 1],
  );
  assert.ok(met.height > saw.height);
});

test("lists in pages are joined until what is wanted is there, or nothing is left", async () => {
  const all = Array.from({ length: 450 }, (_, n) => n);
  const asked: unknown[] = [];
  const load = (page: { limit: number; offset: number }) => {
    asked.push([page.offset, page.limit]);
    return Promise.resolve({ items: all.slice(page.offset, page.offset + page.limit), total: all.length });
  };
  assert.deepEqual(await listed(0, 50, load), { items: all.slice(0, 50), total: 450 });
  assert.deepEqual(await listed(100, 350, load), { items: all.slice(100, 350), total: 450 });
  assert.deepEqual((await listed(0, 1000, load)).items, all);
  assert.deepEqual(asked, [
    [0, 50],
    [100, 200],
    [300, 50],
    [0, 200],
    [200, 200],
    [400, 200],
  ]);
});

test("sizes are said in the unit that fits", () => {
  assert.deepEqual([0, 122, 1024, 1638, 52_428_800, 3 * 1024 ** 3].map(sizeOf), [
    "0 B",
    "122 B",
    "1 KB",
    "1.6 KB",
    "50 MB",
    "3 GB",
  ]);
});
