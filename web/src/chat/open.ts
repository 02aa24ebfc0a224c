/**
 * The conversation that is open: what is stored, the turn that runs, and what a person can do with them. Holds at
 * most one stream, and none while nothing runs.
 */
import { batch, signal } from "@preact/signals";

import { detail as read, stop as requestStop, type Detail } from "../conversations/stored.ts";
import { Refusal } from "../http/request.ts";
import { follow, type Ending, type Link, type Question } from "../stream/follow.ts";
import { browserPorts } from "../stream/browser.ts";
import { newRequestId } from "../stream/request_id.ts";
import { onWake, type Wake } from "../stream/wake.ts";
import { NOTHING, type TurnState } from "../turn/reduce.ts";
import { announce, heard } from "./news.ts";
import { Painter } from "./painter.ts";
import { unanswered, type LiveTurn } from "./thread.ts";

/** A question that the server didn't take: its words are still here. */
export interface NotTaken {
  question: Question;
  refusal: Refusal;
}

export class OpenConversation {
  readonly id = signal<string | null>(null);
  readonly stored = signal<Detail | null>(null);
  readonly live = signal<LiveTurn | null>(null);
  readonly link = signal<Link>("live");
  readonly stopping = signal(false);
  readonly notTaken = signal<NotTaken | null>(null);
  readonly unreadable = signal<Refusal | null>(null);
  readonly notStopped = signal<Refusal | null>(null);
  /** Told once when a turn begins here and once when it ends, for the live region. */
  readonly spoken = signal<"" | "began" | "ended" | "failed">("");

  #left = new AbortController();
  #turn: AbortController | null = null;
  #current: LiveTurn | null = null;
  #settled: Promise<void> = Promise.resolve();
  #nudge: () => void = () => undefined;
  readonly #painter = new Painter(() => {
    this.live.value = this.#current;
  });
  readonly #onCreated: (id: string) => void;

  /** `onCreated` is called when a first question has made the conversation. */
  constructor(onCreated: (id: string) => void) {
    this.#onCreated = onCreated;
  }

  /** Whether a turn runs here, as far as this page knows. */
  get running(): boolean {
    const live = this.live.value;
    return live !== null && live.state.terminal === null;
  }

  /** The stored question that has no answer and isn't being answered, as after a crash that left nothing else. */
  get unanswered(): string | null {
    const stored = this.stored.value;
    if (stored === null || stored.running_turn_id !== null || this.live.value !== null || this.notTaken.value !== null)
      return null;
    return unanswered(stored.messages);
  }

  /** A turn can be stopped once its id is known. */
  get stoppable(): boolean {
    const known = this.live.value?.state.turnId ?? this.stored.value?.running_turn_id ?? null;
    return known !== null;
  }

  /** The address names no conversation of this person's: 404, or 422 for what is no id at all. */
  get missing(): boolean {
    const refusal = this.unreadable.value;
    return this.stored.value === null && (refusal?.status === 404 || refusal?.status === 422);
  }

  /** What the conversation is called; null for one that has no name yet. */
  get title(): string | null {
    return this.stored.value?.title ?? this.live.value?.state.started?.title ?? null;
  }

  /** Follow what other tabs do and look again when somebody comes back to the page; until the function is called. */
  watch(): () => void {
    const unhear = heard((news, own) => {
      if (news.conversation !== this.id.value) return;
      if (news.what === "renamed") void this.#reread();
      else if (!own && this.#turn === null) void this.#refresh();
    });
    const unwake = onWake(() => {
      if (this.id.value !== null && this.#turn === null) void this.#refresh();
    });
    return () => {
      unhear();
      unwake();
      this.#leave();
    };
  }

  /** Show another conversation, or with null the place where a new one begins. */
  open(id: string | null): void {
    if (id === this.id.value) return;
    this.#leave();
    batch(() => {
      this.id.value = id;
      this.stored.value = null;
      this.notTaken.value = null;
      this.unreadable.value = null;
      this.spoken.value = "";
    });
    if (id !== null) void this.#refresh();
  }

  ask(message: string, { base }: { base: string }): void {
    const question: Question = { message, request_id: newRequestId() };
    if (this.id.value !== null) question.conversation_id = this.id.value;
    else question.base = base;
    this.#begin(question, { questionText: message, retryOf: null, state: NOTHING });
  }

  /** Ask a stored question without answer again. */
  retry(messageId: string): void {
    if (this.id.value === null) return;
    const question = {
      message: "",
      request_id: newRequestId(),
      conversation_id: this.id.value,
      retry_message_id: messageId,
    };
    this.#begin(question, { questionText: null, retryOf: messageId, state: NOTHING });
  }

  /** Send again what was not taken; the same request_id, so that it can't become a second turn. */
  sendAgain(): void {
    const failed = this.notTaken.value;
    if (failed === null) return;
    const retryOf = failed.question.retry_message_id ?? null;
    this.#begin(failed.question, {
      questionText: retryOf === null ? failed.question.message : null,
      retryOf,
      state: NOTHING,
    });
  }

  async stop(): Promise<void> {
    const conversation = this.id.value;
    const turnId = this.#current?.state.turnId ?? this.stored.value?.running_turn_id ?? null;
    if (conversation === null || turnId === null || this.stopping.value) return;
    this.stopping.value = true;
    this.notStopped.value = null;
    try {
      await requestStop(conversation, turnId);
      this.#nudge(); // a tab that only asks now and then looks at once
    } catch (error) {
      this.stopping.value = false;
      if (!(error instanceof Refusal)) throw error;
      // Where it ended in the meantime, its terminal frame is on its way.
      if (error.code !== "turn_not_running") this.notStopped.value = error;
    }
  }

  /** Read a conversation that couldn't be read once more. */
  again(): void {
    this.unreadable.value = null;
    void this.#refresh();
  }

  #begin(question: Question, live: LiveTurn): void {
    if (this.#turn !== null) return;
    this.notTaken.value = null;
    void this.#follow(question, live);
  }

  async #follow(question: Question | null, live: LiveTurn): Promise<void> {
    const turn = new AbortController();
    this.#turn = turn;
    await this.#settled; // the answer before is read from the store first: what is live shows one turn
    if (this.#turn !== turn) return; // another conversation was opened meanwhile
    this.#current = live;
    batch(() => {
      this.live.value = live;
      this.link.value = "live";
      this.stopping.value = false;
      this.spoken.value = question === null ? "" : "began";
    });
    const ending = await follow(
      {
        question,
        conversationId: this.id.value,
        onState: (state) => this.#onState(state),
        onLink: (link) => (this.link.value = link),
      },
      { ...browserPorts, onWake: (woken) => this.#wakeBy(woken) },
      AbortSignal.any([turn.signal, this.#left.signal]),
    );
    if (ending.kind === "left") return;
    this.#turn = null;
    this.#painter.now();
    this.#settled = this.#ended(ending, question);
    await this.#settled;
  }

  #wakeBy(woken: (why: Wake) => void): () => void {
    this.#nudge = () => woken("visible");
    return onWake(woken);
  }

  #onState(state: TurnState): void {
    const before = this.#current;
    if (before === null) return;
    // Another tab's turn can follow the one that was watched: what was asked here is stored by then.
    const changed = before.state.turnId !== null && before.state.turnId !== state.turnId;
    this.#current = changed ? { questionText: null, retryOf: null, state } : { ...before, state };
    if (before.state.started === null && state.started !== null && this.id.value === null) {
      this.id.value = state.started.id;
      this.#onCreated(state.started.id);
    }
    if (before.state.turnId === null && this.id.value !== null)
      announce({ conversation: this.id.value, what: "began" });
    if (changed) void this.#reread();
    if (state.terminal === null) this.#painter.soon();
    else this.#painter.now();
  }

  async #ended(ending: Exclude<Ending, { kind: "left" }>, question: Question | null): Promise<void> {
    const conversation = this.id.value;
    if (ending.kind === "refused") {
      batch(() => {
        if (question !== null && this.#current?.state.turnId === null)
          this.notTaken.value = { question, refusal: ending.refusal };
        else this.unreadable.value = ending.refusal;
        this.#drop();
        this.spoken.value = "failed";
      });
      if (ending.refusal.code === "answer_running" && conversation !== null) await this.#refresh();
      return;
    }
    const failed = this.#current?.state.terminal?.kind === "error";
    this.spoken.value = failed ? "failed" : "ended";
    if (conversation !== null) announce({ conversation, what: "ended" });
    await this.#refresh();
  }

  /** Read what is stored; where a turn runs, attach to it, else what was live gives way to what is stored. */
  async #refresh(): Promise<void> {
    const found = await this.#reread();
    if (found === null || this.#turn !== null) return;
    if (found.running_turn_id !== null) {
      void this.#follow(null, { questionText: null, retryOf: null, state: NOTHING });
    } else {
      this.#drop();
    }
  }

  async #reread(): Promise<Detail | null> {
    const id = this.id.value;
    if (id === null) return null;
    const left = this.#left.signal;
    try {
      const found = await read(id, left);
      if (left.aborted) return null;
      batch(() => {
        this.stored.value = found;
        this.unreadable.value = null;
      });
      return found;
    } catch (error) {
      if (left.aborted) return null;
      if (!(error instanceof Refusal)) throw error;
      // What is shown stays; only a page that has nothing to show says so.
      batch(() => {
        if (error.status === 404) this.stored.value = null;
        if (this.stored.value === null) this.unreadable.value = error;
      });
      return null;
    }
  }

  #drop(): void {
    this.#current = null;
    this.#painter.cancel();
    batch(() => {
      this.live.value = null;
      this.link.value = "live";
      this.stopping.value = false;
      this.notStopped.value = null;
    });
  }

  #leave(): void {
    this.#left.abort(new Error("another conversation is shown"));
    this.#left = new AbortController();
    this.#turn = null;
    this.#drop();
  }
}
