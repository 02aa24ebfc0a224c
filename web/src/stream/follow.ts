/**
 * Follows a turn to its end, over as many connections as it takes. A question is POSTed with a request_id; as soon
 * as the turn is known, a broken connection is replaced by GET …/live with Last-Event-ID. Before that the same POST
 * is sent again: the server attaches it to the turn it started, never starts a second one (case S09).
 *
 * A tab without a slot (slots.ts) asks every few seconds whether the turn still runs.
 */
import { Refusal } from "../http/request.ts";
import { frameOf, type Frame } from "../turn/frames.ts";
import { NOTHING, reduce, type TurnState } from "../turn/reduce.ts";
import { delay, type Hints } from "./backoff.ts";
import { read } from "./connection.ts";
import type { StreamEvent } from "./parse.ts";
import type { Slot, Slots } from "./slots.ts";
import type { Wake } from "./wake.ts";

export interface Question {
  message: string;
  request_id: string;
  conversation_id?: string;
  base?: string;
  as_of?: string;
  retry_message_id?: string;
}

export type Link = "live" | "reconnecting" | "waiting";

export interface Followed {
  /** The question to ask first; null attaches to what runs. */
  question: Question | null;
  conversationId: string | null;
  onState: (state: TurnState) => void;
  /** `reconnecting` is said only after 2 s without a line; `waiting`: the turn runs, other tabs hold the streams. */
  onLink: (link: Link) => void;
}

export interface Ports {
  ask: (question: Question, signal: AbortSignal) => Promise<Response>;
  attach: (conversationId: string, lastId: string | null, signal: AbortSignal) => Promise<Response>;
  /** The turn that runs in the conversation, null for none; throws Refusal. */
  runningTurn: (conversationId: string, signal: AbortSignal) => Promise<string | null>;
  slots: Slots;
  onWake: (woken: (why: Wake) => void) => () => void;
  random: () => number;
}

export type Ending =
  /** The turn's terminal frame is in the state. */
  | { kind: "terminal" }
  /** Nothing runs any more; the conversation as stored says how it ended. */
  | { kind: "idle" }
  | { kind: "refused"; refusal: Refusal }
  /** The caller's signal ended it. */
  | { kind: "left" };

const SAY_RECONNECTING_MS = 2_000;
const POLL_MS = 3_000;
const QUIET_MS = 20_000;
const ASK_ATTEMPTS = 6;
const PASSING: ReadonlySet<number> = new Set([0, 429, 502, 503, 504]);

export function follow(followed: Followed, ports: Ports, signal: AbortSignal): Promise<Ending> {
  return new Following(followed, ports, signal).run();
}

class Following {
  #state: TurnState = NOTHING;
  #conversationId: string | null;
  #failures = 0;
  #hints: Hints = { retryMs: null, retryAfterS: null };
  #resync = false;
  #idle = false;
  #polling = false;
  /** Other tabs are asked for a slot once, and again when somebody looks at this one: two tabs never take turns. */
  #claim = true;
  #slot: Slot | null = null;
  #heardAt = Date.now();
  #quietTimer: ReturnType<typeof setTimeout> | undefined;
  #wake = new AbortController();

  readonly #followed: Followed;
  readonly #ports: Ports;
  readonly #signal: AbortSignal;

  constructor(followed: Followed, ports: Ports, signal: AbortSignal) {
    this.#followed = followed;
    this.#ports = ports;
    this.#signal = signal;
    this.#conversationId = followed.conversationId;
  }

  async run(): Promise<Ending> {
    const unwatch = this.#ports.onWake((why) => {
      // A line that carried bytes a moment ago needs no new one because somebody looks at it.
      this.#claim = true;
      const lively = why === "visible" && !this.#polling && Date.now() - this.#heardAt < QUIET_MS;
      if (!lively) this.#wake.abort(new Error(why));
    });
    try {
      for (;;) {
        const ending = await this.#round();
        if (this.#signal.aborted) return { kind: "left" };
        if (ending !== null) return ending;
      }
    } finally {
      unwatch();
      clearTimeout(this.#quietTimer);
      this.#free();
    }
  }

  /** One connection, or one poll where there is no slot, and the wait after it; null: go on. */
  async #round(): Promise<Ending | null> {
    this.#wake = new AbortController();
    const asking = this.#followed.question !== null && this.#state.started === null;
    if (!asking && this.#slot === null) {
      this.#slot = await this.#take(this.#signal);
      if (this.#slot === null) return this.#poll();
    }
    const ending = await this.#stream(asking);
    if (this.#state.terminal !== null) return { kind: "terminal" };
    if (this.#idle) return { kind: "idle" };
    if (ending !== null) return ending;
    if (this.#slot?.lost.aborted) this.#free();
    else await this.#pause();
    return null;
  }

  async #stream(asking: boolean): Promise<Ending | null> {
    const stop = new AbortController();
    // A question never waits for a slot: where there is none, its stream is left once the turn is known.
    const seeking = asking && this.#slot === null ? this.#seek(stop) : null;
    const lost = this.#slot === null ? [] : [this.#slot.lost];
    const ended = await read({
      send: (signal) => this.#send(asking, signal),
      onEvent: (event) => this.#onEvent(event),
      onBytes: () => this.#heard(),
      signal: AbortSignal.any([this.#signal, this.#wake.signal, stop.signal, ...lost]),
    });
    stop.abort(new Error("the stream ended"));
    await seeking;
    if (this.#signal.aborted) return null;
    if (ended.kind === "over") {
      this.#lost({ retryMs: ended.retryMs, retryAfterS: null });
      const givesUp = asking && this.#state.started === null && this.#failures >= ASK_ATTEMPTS;
      return givesUp ? { kind: "refused", refusal: new Refusal(0, "unreachable", "") } : null;
    }
    this.#lost({ retryMs: null, retryAfterS: ended.refusal.retryAfterS });
    return this.#forgives(ended.refusal, asking) ? null : { kind: "refused", refusal: ended.refusal };
  }

  #take(signal: AbortSignal): Promise<Slot | null> {
    const claim = this.#claim;
    this.#claim = false;
    return this.#ports.slots.take(claim, signal);
  }

  async #seek(stop: AbortController): Promise<void> {
    const slot = await this.#take(AbortSignal.any([this.#signal, stop.signal]));
    if (slot !== null) {
      this.#slot = slot;
      slot.lost.addEventListener("abort", () => stop.abort(slot.lost.reason));
    } else {
      await this.#known(stop.signal);
      stop.abort(new Error("other tabs hold the streams"));
    }
  }

  /** Resolves once the turn's first frame is here, or when the stream is over. */
  #known(over: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      over.addEventListener("abort", () => resolve());
      this.#onStarted = resolve;
      if (this.#state.started !== null || over.aborted) resolve();
    });
  }

  #onStarted: () => void = () => undefined;

  #send(asking: boolean, signal: AbortSignal): Promise<Response> {
    const { question } = this.#followed;
    if (asking && question !== null) return this.#ports.ask(question, signal);
    return this.#ports.attach(this.#conversationId ?? "", this.#resync ? null : this.#state.lastId, signal);
  }

  #onEvent(event: StreamEvent): boolean {
    let frame: Frame | null;
    try {
      frame = frameOf(event);
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      this.#resync = true; // something between here and the server rewrote it: ask for the whole again
      return false;
    }
    if (frame === null) return true;
    if (frame.event === "idle") {
      this.#idle = true;
      return false;
    }
    const { state, gap } = reduce(this.#state, frame, event.id);
    this.#resync = gap;
    if (gap) return false;
    this.#state = state;
    this.#failures = 0;
    if (frame.event === "conversation") {
      this.#conversationId = frame.data.id;
      this.#onStarted();
    }
    this.#followed.onState(state);
    return state.terminal === null;
  }

  /**
   * Whether a refusal is worth another attempt. A question over a limit is its reader's to ask again, who is told;
   * unless it was sent before, on a line that broke: its turn may run, and is waited for.
   */
  #forgives(refusal: Refusal, asking: boolean): boolean {
    if (!PASSING.has(refusal.status) || (asking && refusal.status === 429 && this.#failures === 0)) return false;
    return !asking || this.#failures < ASK_ATTEMPTS;
  }

  async #poll(): Promise<Ending | null> {
    this.#followed.onLink("waiting");
    this.#polling = true;
    try {
      const running = await this.#ports.runningTurn(this.#conversationId ?? "", this.#signal);
      this.#heard("waiting");
      if (running === null || (this.#state.turnId !== null && running !== this.#state.turnId)) return { kind: "idle" };
    } catch (error) {
      if (this.#signal.aborted) return null;
      if (!(error instanceof Refusal) || !PASSING.has(error.status)) {
        return {
          kind: "refused",
          refusal: error instanceof Refusal ? error : new Refusal(0, "unexpected", String(error)),
        };
      }
      this.#lost({ retryMs: null, retryAfterS: error.retryAfterS });
    }
    await this.#sleep(POLL_MS);
    this.#polling = false;
    return null;
  }

  #heard(link: Link = "live"): void {
    this.#heardAt = Date.now();
    clearTimeout(this.#quietTimer);
    this.#quietTimer = undefined;
    this.#followed.onLink(link);
  }

  #lost(hints: Hints): void {
    this.#hints = hints;
    this.#quietTimer ??= setTimeout(() => this.#followed.onLink("reconnecting"), SAY_RECONNECTING_MS);
  }

  async #pause(): Promise<void> {
    const ms = this.#wake.signal.aborted ? 0 : delay(this.#failures, this.#hints, this.#ports.random());
    this.#failures += 1;
    await this.#sleep(ms);
  }

  /** Ends early when the page wakes or the caller leaves. */
  #sleep(ms: number): Promise<void> {
    const wakened = AbortSignal.any([this.#signal, this.#wake.signal]);
    return new Promise((resolve) => {
      if (wakened.aborted) return resolve();
      const timer = setTimeout(resolve, ms);
      wakened.addEventListener("abort", () => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  #free(): void {
    this.#slot?.release();
    this.#slot = null;
  }
}
