/** One connection: a request whose answer is an event stream, read to its end, its break or its silence. */
import { refusalOf, type Refusal } from "../http/request.ts";
import { StreamParser, type StreamEvent } from "./parse.ts";

/** Two and a half heartbeats of the server (TURNSTREAM_HEARTBEAT_S, 15 s): nothing for so long means a dead line. */
export const SILENCE_MS = 38_000;

export interface Reading {
  send: (signal: AbortSignal) => Promise<Response>;
  /** Returns false to end the reading. */
  onEvent: (event: StreamEvent) => boolean;
  /** Bytes arrived; also for heartbeats. */
  onBytes: () => void;
  signal: AbortSignal;
  silenceMs?: number;
}

export type Ended =
  /** The stream ended, broke or fell silent; `retryMs` is what it asked for. */
  { kind: "over"; retryMs: number | null } | { kind: "refused"; refusal: Refusal };

/** Never rejects, except with what `onEvent` throws. An abort ends it like a break: the caller knows that it did it. */
export async function read(reading: Reading): Promise<Ended> {
  const silence = new AbortController();
  const signal = AbortSignal.any([reading.signal, silence.signal]);
  const limit = reading.silenceMs ?? SILENCE_MS;
  let heard = Date.now();
  // Asked now and then, by the wall clock: a timer set for the limit would sleep along with the laptop.
  const watch = setInterval(() => {
    if (Date.now() - heard > limit) silence.abort(new Error("the stream fell silent"));
  }, limit / 8);
  const parser = new StreamParser();
  try {
    const response = await answered(reading.send(signal));
    if (response === null) return { kind: "over", retryMs: null };
    if (!response.ok || response.body === null) return { kind: "refused", refusal: await refusalOf(response) };
    const body = response.body.getReader();
    try {
      for (;;) {
        const chunk = await answered(body.read());
        if (chunk === null || chunk.done) return { kind: "over", retryMs: parser.retryMs };
        heard = Date.now();
        reading.onBytes();
        for (const event of parser.push(chunk.value)) {
          if (!reading.onEvent(event)) return { kind: "over", retryMs: parser.retryMs };
        }
      }
    } finally {
      await answered(body.cancel());
    }
  } finally {
    clearInterval(watch);
    silence.abort(new Error("the stream was read"));
  }
}

/** What the network gives, or null when it fails: a line that is cut says so by rejecting. */
function answered<T>(promise: Promise<T>): Promise<T | null> {
  return promise.catch(() => null);
}
