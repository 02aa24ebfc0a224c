/** A scripted server for the tests of stream/: each request is kept, and answered as the test says. */
import type { Link, Ports, Question } from "../src/stream/follow.ts";
import type { Slot, Slots } from "../src/stream/slots.ts";
import type { Wake } from "../src/stream/wake.ts";

const encoder = new TextEncoder();

/** One open answer: the test writes into it, ends it or cuts it; `aborted` says that the page left it. */
export class Line {
  aborted = false;
  readonly response: Response;
  #sink: ReadableStreamDefaultController<Uint8Array> | null = null;

  constructor(signal: AbortSignal) {
    const body = new ReadableStream<Uint8Array>({ start: (controller) => void (this.#sink = controller) });
    this.response = new Response(body, { headers: { "content-type": "text/event-stream" } });
    signal.addEventListener("abort", () => {
      if (this.#sink === null) return;
      this.aborted = true;
      this.cut();
    });
  }

  write(text: string): void {
    this.#sink?.enqueue(encoder.encode(text));
  }

  frame(id: string, event: string, data: unknown): void {
    this.write(`id: ${id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
  }

  end(): void {
    this.#sink?.close();
    this.#sink = null;
  }

  cut(): void {
    this.#sink?.error(new TypeError("network error"));
    this.#sink = null;
  }
}

export type Asked = { what: "ask"; requestId: string } | { what: "attach"; lastId: string | null } | { what: "poll" };

export class Server {
  readonly asked: Asked[] = [];
  readonly lines: Line[] = [];
  readonly links: Link[] = [];
  /** Answers to give instead of a line, in order; null gives a line, an Error fails the request. */
  readonly replies: (Response | Error | null)[] = [];
  running: string | null = null;
  slots: Slots = { take: () => Promise.resolve(slot()) };
  wake: (why: Wake) => void = () => undefined;

  readonly ports: Ports = {
    ask: (question: Question, signal) => this.#answer({ what: "ask", requestId: question.request_id }, signal),
    attach: (_conversation, lastId, signal) => this.#answer({ what: "attach", lastId }, signal),
    runningTurn: () => {
      this.asked.push({ what: "poll" });
      return Promise.resolve(this.running);
    },
    slots: { take: (claim, signal) => this.slots.take(claim, signal) },
    onWake: (woken) => {
      this.wake = woken;
      return () => undefined;
    },
    random: () => 0.5,
  };

  readonly onLink = (link: Link): void => {
    if (this.links.at(-1) !== link) this.links.push(link);
  };

  #answer(asked: Asked, signal: AbortSignal): Promise<Response> {
    this.asked.push(asked);
    const reply = this.replies.shift() ?? null;
    if (reply instanceof Error) return Promise.reject(reply);
    if (reply !== null) return Promise.resolve(reply);
    const line = new Line(signal);
    this.lines.push(line);
    return Promise.resolve(line.response);
  }
}

export function slot(lost: AbortSignal = new AbortController().signal): Slot & { released: boolean } {
  const held = { lost, released: false, release: () => void (held.released = true) };
  return held;
}

export function refusal(status: number, code: string, headers: Record<string, string> = {}): Response {
  return Response.json({ error: { code, message: code } }, { status, headers });
}

/** Let everything that is due happen, without letting time pass. */
export async function settle(): Promise<void> {
  for (let n = 0; n < 50; n += 1) await new Promise((done) => setImmediate(done));
}
