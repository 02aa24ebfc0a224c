import assert from "node:assert/strict";
import { test } from "node:test";

import { StreamParser, type StreamEvent } from "../src/stream/parse.ts";

const encoder = new TextEncoder();

function parsed(text: string, size = Infinity): StreamEvent[] {
  const parser = new StreamParser();
  const bytes = encoder.encode(text);
  const events: StreamEvent[] = [];
  for (let at = 0; at < bytes.length; at += Math.min(size, bytes.length)) {
    events.push(...parser.push(bytes.subarray(at, at + Math.min(size, bytes.length))));
  }
  return events;
}

const STREAM =
  '\uFEFF: hello\nid: t:1\nevent: delta\ndata: {"text":"A🦀 中é\u2028x"}\n\n' +
  ": keep-alive\n\n" +
  "id: t:2\r\nevent: step\r\ndata: one\r\ndata:two\r\ndata\r\n\r\n" +
  "data:  spaced\rretry: 1500\r\r" +
  "event: idle\ndata: {}\n\n" +
  "event: unfinished\ndata: lost";

const EVENTS: StreamEvent[] = [
  { type: "delta", data: '{"text":"A🦀 中é\u2028x"}', id: "t:1" },
  { type: "step", data: "one\ntwo\n", id: "t:2" },
  { type: "message", data: " spaced", id: "t:2" },
  { type: "idle", data: "{}", id: "t:2" },
];

for (const size of [1, 2, 3, 7, 4096]) {
  test(`events are the same when the stream comes in pieces of ${size} bytes`, () => {
    assert.deepEqual(parsed(STREAM, size), EVENTS);
  });
}

test("retry is heard, and what isn't digits is not", () => {
  const parser = new StreamParser();
  parser.push(encoder.encode("retry: soon\n\n"));
  assert.equal(parser.retryMs, null);
  parser.push(encoder.encode("retry: 2500\n\n"));
  assert.equal(parser.retryMs, 2500);
});

test("an event without data is none, and its name is not kept", () => {
  assert.deepEqual(parsed("event: delta\n\ndata: x\n\n"), [{ type: "message", data: "x", id: "" }]);
});

test("only CR, LF and CRLF end a line", () => {
  const data = "a\u0085b\u2028c\u2029d\u000be\u000cf";
  assert.deepEqual(parsed(`data: ${data}\n\n`), [{ type: "message", data, id: "" }]);
});
