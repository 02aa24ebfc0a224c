import assert from "node:assert/strict";
import { test } from "node:test";

import { asMarkdown } from "../src/chat/export.ts";
import { segments } from "../src/chat/segments.ts";
import { thread, unanswered, type LiveTurn } from "../src/chat/thread.ts";
import type { Detail, Message } from "../src/conversations/stored.ts";
import type { Source, Step } from "../src/turn/frames.ts";
import { NOTHING } from "../src/turn/reduce.ts";

const AT = "2026-01-02T03:04:05Z";
const STEP: Step = {
  n: 1,
  at: 3,
  call_id: "c1",
  tool: "search_chunks",
  kind: "search",
  label: "board",
  detail: "",
  status: "ok",
  ms: 3,
};
const SOURCE: Source = {
  n: 1,
  kind: "chunk",
  id: "s1",
  document_id: "d",
  title: "The board",
  locator: "2023",
  excerpt: "Six\nmembers.",
};

function message(id: string, role: Message["role"], content: string, more: Partial<Message> = {}): Message {
  return {
    id,
    role,
    content,
    steps: [],
    sources: [],
    evidence: null,
    cited: [],
    stopped: false,
    error_code: null,
    error_message: null,
    model: null,
    turn_id: null,
    created_at: AT,
    ...more,
  };
}

const ASKED = message("q1", "user", "Who?");
const ANSWERED = message("a1", "assistant", "Six [1].", {
  turn_id: "t1",
  steps: [STEP],
  sources: [SOURCE],
  evidence: "cited",
  cited: [1],
});
const ASKED_AGAIN = message("q2", "user", "And then?");
const FAILED = message("a2", "assistant", "", {
  turn_id: "t2",
  error_code: "model_unreachable",
  error_message: "No line.",
});

function live(turnId: string | null, more: Partial<LiveTurn> = {}): LiveTurn {
  const started = turnId === null ? null : { id: "c", turn_id: turnId, message_id: "q2", title: "" };
  return { questionText: null, retryOf: null, state: { ...NOTHING, turnId, started, content: "Then" }, ...more };
}

function shown(messages: Message[], turn: LiveTurn | null): string[] {
  return thread(messages, turn).map((entry) =>
    entry.kind === "question"
      ? `? ${entry.text}`
      : `${entry.running ? "~" : "="} ${entry.content}${entry.error ? "!" : ""}${entry.retry ? ` retry ${entry.retry}` : ""}`,
  );
}

test("stored messages are shown as they are, and the last failed answer can be asked again", () => {
  assert.deepEqual(shown([ASKED, ANSWERED, ASKED_AGAIN, FAILED], null), [
    "? Who?",
    "= Six [1].",
    "? And then?",
    "= ! retry q2",
  ]);
  assert.deepEqual(shown([ASKED, FAILED, ASKED_AGAIN, ANSWERED], null), ["? Who?", "= !", "? And then?", "= Six [1]."]);
});

test("a question asked here is shown at once, and once when it is stored", () => {
  const asked = live(null, { questionText: "And then?" });
  assert.deepEqual(shown([ASKED, ANSWERED], asked), ["? Who?", "= Six [1].", "? And then?", "~ Then"]);
  const known = live("t2", { questionText: "And then?" });
  assert.deepEqual(shown([ASKED, ANSWERED, ASKED_AGAIN], known), ["? Who?", "= Six [1].", "? And then?", "~ Then"]);
});

test("a running turn takes the place of its own stored answer, and of the failed one that is asked again", () => {
  assert.deepEqual(shown([ASKED, ANSWERED, ASKED_AGAIN, FAILED], live("t2")), [
    "? Who?",
    "= Six [1].",
    "? And then?",
    "~ Then",
  ]);
  const again = live("t3", { retryOf: "q2" });
  assert.deepEqual(shown([ASKED, ANSWERED, ASKED_AGAIN, FAILED], again), [
    "? Who?",
    "= Six [1].",
    "? And then?",
    "~ Then",
  ]);
});

test("an answer keeps its key when it is stored, so that what is painted stays", () => {
  const done = live("t1", {
    state: {
      ...live("t1").state,
      terminal: { kind: "done", done: { message_id: "a1", stopped: false, evidence: "cited", cited: [1] } },
    },
  });
  assert.equal(thread([ASKED], done).at(-1)?.key, thread([ASKED, ANSWERED], null).at(-1)?.key);
});

test("a question at the end without an answer is found", () => {
  assert.equal(unanswered([ASKED, ANSWERED, ASKED_AGAIN]), "q2");
  assert.equal(unanswered([ASKED, ANSWERED]), null);
  assert.equal(unanswered([]), null);
});

test("text is cut where its steps happened, in UTF-16 units (case T01)", () => {
  const content = "A🦀🧭 中é👨‍👩‍👧 end";
  const first = { ...STEP, at: "A🦀🧭 中é".length };
  const second = { ...STEP, n: 2, at: "A🦀🧭 中é👨‍👩‍👧".length };
  const third = { ...STEP, n: 3, at: second.at };
  const parts = segments(content, [second, third, first]);
  assert.deepEqual(
    parts.map((part) => (part.kind === "step" ? part.step.n : part.text)),
    ["A🦀🧭 中é", 1, "👨‍👩‍👧", 2, 3, " end"],
  );
  assert.deepEqual(
    segments("", [{ ...STEP, at: 0 }]).map((part) => part.kind),
    ["step"],
  );
  assert.deepEqual(
    segments("ab", [{ ...STEP, at: 9 }]).map((part) => part.kind),
    ["text", "step"],
  );
});

test("an exported conversation has its questions, answers, verdicts and sources", () => {
  const conversation: Detail = {
    id: "c",
    base: "default",
    title: "Who\u202e?",
    created_at: AT,
    updated_at: AT,
    message_count: 4,
    running_turn_id: null,
    messages: [message("q1", "user", "Who?\nAnd when?"), ANSWERED, ASKED_AGAIN, FAILED],
  };
  const parts = asMarkdown(conversation).split("\n\n");
  assert.equal(parts[0], "# Who⟨U+202E⟩?");
  assert.deepEqual(parts.slice(2), [
    "## You",
    "> Who?\n> And when?",
    "## Answer",
    "Six [1].",
    "*Rests on one cited passage.*",
    "### Sources",
    "1. **The board, 2023**: Six members.",
    "## You",
    "> And then?",
    "## Answer",
    "*No line.*\n",
  ]);
});
