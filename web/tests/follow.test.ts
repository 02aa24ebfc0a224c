import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";

import { follow, type Ending, type Question } from "../src/stream/follow.ts";
import { NOTHING, type TurnState } from "../src/turn/reduce.ts";
import { Server, refusal, settle, slot } from "./lines.ts";

const QUESTION: Question = { message: "Who?", request_id: "11111111-1111-4111-8111-111111111111" };
const STARTED = { id: "c", turn_id: "t", message_id: "q", title: "Who?" };
const DONE = { message_id: "m", stopped: false, evidence: "none", cited: [] };

beforeEach(() => mock.timers.enable({ apis: ["setTimeout", "setInterval", "Date"] }));
afterEach(() => mock.timers.reset());

/** A question, or with null an attach, that is being followed. */
class Tab {
  readonly server = new Server();
  readonly leave = new AbortController();
  state: TurnState = NOTHING;
  /** Every text that was shown, so that a character shown twice is seen. */
  readonly shown: string[] = [];
  ending: Ending | null = null;

  follow(question: Question | null = QUESTION): void {
    const onState = (state: TurnState) => {
      this.state = state;
      this.shown.push(state.content);
    };
    const followed = { question, conversationId: question === null ? "c" : null, onState, onLink: this.server.onLink };
    void follow(followed, this.server.ports, this.leave.signal).then((ending) => (this.ending = ending));
  }

  async line(n: number) {
    await settle();
    const line = this.server.lines[n];
    assert.ok(line !== undefined, `there is no line ${n}: ${JSON.stringify(this.server.asked)}`);
    return line;
  }
}

async function pass(ms: number): Promise<void> {
  await settle();
  mock.timers.tick(ms);
  await settle();
}

test("a turn is read to its end over one request, and its slot is given back", async () => {
  const tab = new Tab();
  const held = slot();
  tab.server.slots = { take: () => Promise.resolve(held) };
  tab.follow();
  const line = await tab.line(0);
  line.frame("t:1", "conversation", STARTED);
  line.frame("t:2", "delta", { at: 0, text: "Hi" });
  line.frame("t:3", "done", DONE);
  await settle();
  assert.deepEqual(tab.ending, { kind: "terminal" });
  assert.equal(tab.state.content, "Hi");
  assert.deepEqual(tab.server.asked, [{ what: "ask", requestId: QUESTION.request_id }]);
  assert.equal(held.released, true);
});

test("a broken line is taken up behind the last frame, and no character is shown twice", async () => {
  const tab = new Tab();
  tab.follow();
  const first = await tab.line(0);
  first.frame("t:1", "conversation", STARTED);
  first.frame("t:2", "delta", { at: 0, text: "A🦀" });
  first.write('id: t:3\nevent: delta\ndata: {"at":3,"te'); // cut inside a frame
  await settle();
  first.cut();
  await pass(400);
  const second = await tab.line(1);
  second.frame("t:2", "delta", { at: 0, text: "A🦀" }); // a server that repeats
  second.frame("t:3", "delta", { at: 3, text: " end" });
  second.frame("t:4", "done", DONE);
  await settle();
  assert.deepEqual(tab.server.asked.slice(1), [{ what: "attach", lastId: "t:2" }]);
  assert.deepEqual([...new Set(tab.shown)], ["", "A🦀", "A🦀 end"]);
  assert.deepEqual(tab.ending, { kind: "terminal" });
});

test("before the turn is known the same question is sent again under the same request id (case S09)", async () => {
  const tab = new Tab();
  tab.server.replies.push(new TypeError("network error"), null);
  tab.follow();
  await pass(400);
  (await tab.line(0)).frame("t:1", "conversation", STARTED);
  const again = { what: "ask", requestId: QUESTION.request_id } as const;
  assert.deepEqual(tab.server.asked, [again, again]);
  tab.leave.abort();
  await settle();
  assert.deepEqual(tab.ending, { kind: "left" });
});

test("a gap is filled by a snapshot, asked for without an id", async () => {
  const tab = new Tab();
  tab.follow();
  const first = await tab.line(0);
  first.frame("t:1", "conversation", STARTED);
  first.frame("t:4", "delta", { at: 10, text: "x" });
  await pass(400);
  const second = await tab.line(1);
  second.frame("t:6", "snapshot", { turn_id: "t", content: "All of it", steps: [], sources: [] });
  await settle();
  assert.deepEqual(tab.server.asked.slice(1), [{ what: "attach", lastId: null }]);
  assert.equal(tab.state.content, "All of it");
});

test("what isn't JSON is a line to replace, not an end", async () => {
  const tab = new Tab();
  tab.follow();
  const first = await tab.line(0);
  first.frame("t:1", "conversation", STARTED);
  first.write("id: t:2\nevent: delta\ndata: <html>\n\n");
  await pass(400);
  assert.deepEqual(tab.server.asked.slice(1), [{ what: "attach", lastId: null }]);
});

test("reconnecting is said after two seconds without a line, and not before", async () => {
  const tab = new Tab();
  tab.follow();
  const first = await tab.line(0);
  first.frame("t:1", "conversation", STARTED);
  await settle();
  const never = new TypeError("network error");
  tab.server.replies.push(never, never, never, never);
  first.cut();
  await pass(1_999);
  assert.deepEqual(tab.server.links, ["live"]);
  await pass(1);
  assert.deepEqual(tab.server.links, ["live", "reconnecting"]);
});

test("a line that is back within two seconds was never gone", async () => {
  const tab = new Tab();
  tab.follow();
  const first = await tab.line(0);
  first.frame("t:1", "conversation", STARTED);
  await settle();
  first.cut();
  await pass(400);
  (await tab.line(1)).write(": keep-alive\n\n");
  await pass(5_000);
  assert.deepEqual(tab.server.links, ["live"]);
});

test("a refused question is not sent again", async () => {
  const tab = new Tab();
  tab.server.replies.push(refusal(422, "no_chat_model"));
  tab.follow();
  await pass(60_000);
  assert.equal(tab.ending?.kind, "refused");
  assert.equal(tab.ending.refusal.code, "no_chat_model");
  assert.equal(tab.server.asked.length, 1);
});

test("a question over a limit is given back at once, a tab over one waits", async () => {
  const asking = new Tab();
  asking.server.replies.push(refusal(429, "too_many_turns", { "retry-after": "5" }));
  asking.follow();
  await settle();
  assert.equal(asking.ending?.kind, "refused");
  assert.equal(asking.ending.refusal.code, "too_many_turns");
  const again = new Tab();
  again.server.replies.push(new TypeError("network error"), refusal(429, "too_many_requests", { "retry-after": "3" }), null);
  again.follow();
  for (let n = 0; n < 4; n += 1) await pass(5_000);
  assert.equal(again.ending, null);
  assert.equal(again.server.asked.length, 3);
  const attaching = new Tab();
  attaching.server.replies.push(refusal(429, "too_many_requests", { "retry-after": "3" }), null);
  attaching.follow(null);
  await pass(3_000);
  assert.equal(attaching.server.asked.length, 1);
  await pass(15_000);
  assert.equal(attaching.server.asked.length, 2);
});

test("a server that asks for time is given it", async () => {
  const tab = new Tab();
  tab.server.replies.push(refusal(503, "draining", { "retry-after": "3" }), null);
  tab.follow();
  await pass(3_000);
  assert.equal(tab.server.asked.length, 1);
  await pass(1_000);
  assert.equal(tab.server.asked.length, 2);
});

test("the retry hint of a stream that says goodbye is waited for", async () => {
  const tab = new Tab();
  tab.follow();
  const first = await tab.line(0);
  first.frame("t:1", "conversation", STARTED);
  first.write("retry: 1000\n\n");
  first.end();
  await pass(999);
  assert.equal(tab.server.asked.length, 1);
  await pass(500);
  assert.deepEqual(tab.server.asked[1], { what: "attach", lastId: "t:1" });
});

test("a question that reaches nobody is given back after a while", async () => {
  const tab = new Tab();
  for (let n = 0; n < 20; n += 1) tab.server.replies.push(new TypeError("network error"));
  tab.follow();
  for (let n = 0; n < 12; n += 1) await pass(15_000);
  assert.equal(tab.ending?.kind, "refused");
  assert.equal(tab.ending.refusal.status, 0);
});

test("idle is an end: what is stored says how the turn ended", async () => {
  const tab = new Tab();
  tab.follow(null);
  (await tab.line(0)).write("event: idle\ndata: {}\n\n");
  await settle();
  assert.deepEqual(tab.ending, { kind: "idle" });
});

test("a network that is back ends the wait, and a line that spoke lately is left alone when somebody looks", async () => {
  const tab = new Tab();
  tab.follow(null);
  const first = await tab.line(0);
  first.frame("t:1", "conversation", STARTED);
  await settle();
  tab.server.wake("visible");
  await settle();
  assert.equal(first.aborted, false);
  tab.server.wake("network");
  await settle();
  assert.equal(first.aborted, true);
  assert.deepEqual(tab.server.asked.at(-1), { what: "attach", lastId: "t:1" });
  await pass(25_000);
  tab.server.wake("visible");
  assert.equal((await tab.line(1)).aborted, true);
});

test("a line that is silent for more than two heartbeats is replaced", async () => {
  const tab = new Tab();
  tab.follow(null);
  const first = await tab.line(0);
  for (let n = 0; n < 5; n += 1) {
    await pass(15_000);
    first.write(": keep-alive\n\n");
  }
  await settle();
  assert.equal(first.aborted, false);
  await pass(45_000);
  assert.equal(first.aborted, true);
});

test("a tab without a slot asks whether the turn runs, and streams once it has one", async () => {
  const tab = new Tab();
  tab.server.slots = { take: () => Promise.resolve(null) };
  tab.server.running = "t";
  tab.follow(null);
  await pass(3_000);
  assert.deepEqual(tab.server.asked, [{ what: "poll" }, { what: "poll" }]);
  assert.deepEqual(tab.server.links, ["waiting"]);
  tab.server.slots = { take: () => Promise.resolve(slot()) };
  await pass(3_000);
  assert.deepEqual(tab.server.asked.at(-1), { what: "attach", lastId: null });
});

test("a tab without a slot sees the end", async () => {
  const tab = new Tab();
  tab.server.slots = { take: () => Promise.resolve(null) };
  tab.follow(null);
  await settle();
  assert.deepEqual(tab.ending, { kind: "idle" });
});

test("a question is asked without a slot, and its stream is left once the turn is known (case S08)", async () => {
  const tab = new Tab();
  tab.server.slots = { take: () => Promise.resolve(null) };
  tab.server.running = "t";
  tab.follow();
  const line = await tab.line(0);
  assert.equal(line.aborted, false);
  line.frame("t:1", "conversation", STARTED);
  await settle();
  assert.equal(line.aborted, true);
  await pass(1_000);
  assert.deepEqual(tab.server.asked.at(-1), { what: "poll" });
});

test("a slot that another tab needs is given back at once", async () => {
  const tab = new Tab();
  const lost = new AbortController();
  const held = slot(lost.signal);
  tab.server.slots = { take: () => Promise.resolve(held.released ? null : held) };
  tab.server.running = "t";
  tab.follow(null);
  const line = await tab.line(0);
  lost.abort();
  await settle();
  assert.deepEqual([line.aborted, held.released], [true, true]);
  assert.deepEqual(tab.server.asked.at(-1), { what: "poll" });
});

test("other tabs are asked for a slot once, and again when somebody looks at this one", async () => {
  const tab = new Tab();
  const claims: boolean[] = [];
  tab.server.slots = { take: (claim) => (claims.push(claim), Promise.resolve(null)) };
  tab.server.running = "t";
  tab.follow(null);
  await pass(3_000);
  await pass(3_000);
  tab.server.wake("visible");
  await settle();
  assert.deepEqual(claims, [true, false, false, true]);
});
