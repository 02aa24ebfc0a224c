import assert from "node:assert/strict";
import { test } from "node:test";

import type { Frame, Source, Step } from "../src/turn/frames.ts";
import { frameOf } from "../src/turn/frames.ts";
import { NOTHING, reduce, type TurnState } from "../src/turn/reduce.ts";

const TURN = "0199-turn";
const STARTED = { id: "c", turn_id: TURN, message_id: "q", title: "A title" };
const DONE = { message_id: "m", stopped: false, evidence: "cited", cited: [1] } as const;

function step(n: number, at: number): Step {
  return {
    n,
    at,
    call_id: `call-${n}`,
    tool: "search_chunks",
    kind: "search",
    label: "board",
    detail: "",
    status: "ok",
    ms: 3,
  };
}

function source(n: number): Source {
  return { n, kind: "chunk", id: `s${n}`, document_id: "d", title: "Title", locator: "p. 1", excerpt: "Words." };
}

/** The frames of a whole turn, numbered from 1; the emoji count two units each. */
const FRAMES: Frame[] = [
  { event: "conversation", data: STARTED },
  { event: "delta", data: { at: 0, text: "A🦀🧭 中é" } },
  { event: "step", data: step(1, "A🦀🧭 中é".length) },
  { event: "sources", data: [source(1)] },
  { event: "delta", data: { at: "A🦀🧭 中é".length, text: "👨‍👩‍👧" } },
  { event: "step", data: step(2, "A🦀🧭 中é👨‍👩‍👧".length) },
  { event: "delta", data: { at: "A🦀🧭 中é👨‍👩‍👧".length, text: " end [1]" } },
  { event: "done", data: { ...DONE, cited: [1] } },
];

const WHOLE: TurnState = {
  turnId: TURN,
  started: STARTED,
  content: "A🦀🧭 中é👨‍👩‍👧 end [1]",
  steps: [step(1, "A🦀🧭 中é".length), step(2, "A🦀🧭 中é👨‍👩‍👧".length)],
  sources: [source(1)],
  terminal: { kind: "done", done: { ...DONE, cited: [1] } },
  lastId: `${TURN}:8`,
};

function feed(state: TurnState, from: number, to: number): TurnState {
  for (let n = from; n <= to; n += 1) {
    const reduced = reduce(state, FRAMES[n - 1] as Frame, `${TURN}:${n}`);
    assert.equal(reduced.gap, false, `frame ${n}`);
    state = reduced.state;
  }
  return state;
}

test("a whole turn is what its frames say, and each step stands behind the text that preceded it", () => {
  const state = feed(NOTHING, 1, 8);
  assert.deepEqual(state, WHOLE);
  assert.equal(state.content.slice(0, state.steps[0]?.at), "A🦀🧭 中é");
  assert.equal(state.content.slice(0, state.steps[1]?.at), "A🦀🧭 中é👨‍👩‍👧");
});

test("frames that are held already change nothing, wherever a stream is joined again", () => {
  for (let broke = 1; broke <= 8; broke += 1) {
    for (let again = 1; again <= broke; again += 1) {
      assert.deepEqual(feed(feed(NOTHING, 1, broke), again, 8), WHOLE);
    }
  }
});

test("a frame held already changes nothing without an id, too", () => {
  const held = feed(NOTHING, 1, 7);
  const delta = reduce(held, FRAMES[1] as Frame, "");
  assert.deepEqual(delta, { state: held, gap: false });
});

test("a missing frame is a gap and leaves the state as it was", () => {
  const held = feed(NOTHING, 1, 3);
  assert.deepEqual(reduce(held, FRAMES[4] as Frame, `${TURN}:5`), { state: held, gap: true });
  assert.deepEqual(reduce(held, { event: "delta", data: { at: 99, text: "x" } }, `${TURN}:4`), {
    state: held,
    gap: true,
  });
  assert.deepEqual(reduce(held, { event: "step", data: step(3, 99) }, ""), { state: held, gap: true });
});

test("a snapshot replaces what was held, also with less text, and the turn goes on behind it", () => {
  const held = feed(NOTHING, 1, 7);
  const content = "A🦀";
  const { state } = reduce(
    held,
    { event: "snapshot", data: { turn_id: TURN, content, steps: [], sources: [] } },
    `${TURN}:9`,
  );
  assert.deepEqual(state, { ...NOTHING, turnId: TURN, started: STARTED, content, lastId: `${TURN}:9` });
  const next = reduce(state, { event: "delta", data: { at: 3, text: " after the take-over" } }, `${TURN}:10`);
  assert.equal(next.state.content, "A🦀 after the take-over");
});

test("a snapshot of another turn brings nothing of the one before", () => {
  const held = feed(NOTHING, 1, 8);
  const { state } = reduce(
    held,
    { event: "snapshot", data: { turn_id: "other", content: "x", steps: [], sources: [] } },
    "other:4",
  );
  assert.deepEqual(state, { ...NOTHING, turnId: "other", content: "x", lastId: "other:4" });
});

test("another turn's first frame begins anew", () => {
  const held = feed(NOTHING, 1, 8);
  const started = { ...STARTED, turn_id: "next" };
  const { state } = reduce(held, { event: "conversation", data: started }, "next:1");
  assert.deepEqual(state, { ...NOTHING, turnId: "next", started, lastId: "next:1" });
});

test("text that was taken back is replaced from where the new text begins", () => {
  const held = feed(NOTHING, 1, 7);
  const { state } = reduce(held, { event: "delta", data: { at: 1, text: "🦀 other" } }, `${TURN}:8`);
  assert.equal(state.content, "A🦀 other");
});

test("idle and unknown kinds change nothing", () => {
  assert.deepEqual(reduce(WHOLE, { event: "idle", data: {} }, `${TURN}:8`), { state: WHOLE, gap: false });
  assert.equal(frameOf({ type: "weather", data: "{}", id: "" }), null);
});
