/**
 * Who may hold a stream: at most four per browser, whatever the number of tabs, because HTTP/1.1 gives a host six
 * connections and asking and stopping need some (case S08, decision 0014).
 *
 * A slot is a Web Lock. A tab that finds none free asks the others over a BroadcastChannel: a hidden tab gives its
 * slot up; when all holders are visible, the one that was focused the longest ago gives it to the focused tab.
 */

import { newRequestId } from "./request_id.ts";

export const SLOTS = 4;

export interface Slot {
  /** Aborted when another tab needs the slot more: stop streaming, then release. */
  readonly lost: AbortSignal;
  release(): void;
}

export interface Slots {
  /**
   * A slot, or null when there is none for this tab now; asking again later is right. With `claim` other tabs are
   * asked for theirs; without, only a free one is taken.
   */
  take(claim: boolean, signal: AbortSignal): Promise<Slot | null>;
}

export interface Attention {
  hidden: boolean;
  focused: boolean;
  /** When the tab had the focus last, milliseconds since the epoch. */
  focusedAt: number;
}

type Said =
  | { kind: "want"; from: string }
  | { kind: "hold"; to: string; from: string; n: number; hidden: boolean; focusedAt: number }
  | { kind: "yield"; to: string; n: number };

type Holder = Extract<Said, { kind: "hold" }>;

const REPLIES_MS = 150;
const YIELD_MS = 1_500;

export class LockSlots implements Slots {
  readonly #locks: LockManager;
  readonly #channel: BroadcastChannel;
  readonly #attention: () => Attention;
  readonly #tab = newRequestId();
  readonly #held = new Map<number, AbortController>();
  readonly #replies = new Set<(holder: Holder) => void>();

  constructor(locks: LockManager, channel: BroadcastChannel, attention: () => Attention) {
    this.#locks = locks;
    this.#channel = channel;
    this.#attention = attention;
    channel.addEventListener("message", (event: MessageEvent) => this.#hear(event.data as Said));
  }

  async take(claim: boolean, signal: AbortSignal): Promise<Slot | null> {
    for (let n = 0; n < SLOTS; n += 1) {
      const free = await this.#lock(n, signal, null);
      if (free !== null || signal.aborted) return free;
    }
    if (!claim || this.#attention().hidden) return null;
    const holder = this.#weakest(await this.#holders());
    if (holder === null || signal.aborted) return null;
    this.#say({ kind: "yield", to: holder.from, n: holder.n });
    return this.#lock(holder.n, signal, YIELD_MS);
  }

  /** Whose slot this tab may have: a hidden tab's first, else, if this one has the focus, the least recent one's. */
  #weakest(holders: Holder[]): Holder | null {
    const byFocus = holders.sort((a, b) => a.focusedAt - b.focusedAt);
    const hidden = byFocus.find((holder) => holder.hidden);
    return hidden ?? (this.#attention().focused ? (byFocus[0] ?? null) : null);
  }

  #holders(): Promise<Holder[]> {
    return new Promise((resolve) => {
      const holders: Holder[] = [];
      const done = () => {
        clearTimeout(timer);
        this.#replies.delete(add);
        resolve(holders);
      };
      const add = (holder: Holder) => {
        if (holders.push(holder) === SLOTS) done();
      };
      const timer = setTimeout(done, REPLIES_MS);
      this.#replies.add(add);
      this.#say({ kind: "want", from: this.#tab });
    });
  }

  #hear(said: Said): void {
    if (said.kind === "want") {
      const { hidden, focusedAt } = this.#attention();
      for (const n of this.#held.keys())
        this.#say({ kind: "hold", to: said.from, from: this.#tab, n, hidden, focusedAt });
    } else if (said.to === this.#tab && said.kind === "hold") {
      for (const add of [...this.#replies]) add(said);
    } else if (said.to === this.#tab && said.kind === "yield") {
      this.#held.get(said.n)?.abort(new Error("another tab needs the stream"));
    }
  }

  #say(said: Said): void {
    this.#channel.postMessage(said);
  }

  /** The lock `n`: only when it is free for `waitMs` null, else waited for so long. */
  #lock(n: number, signal: AbortSignal, waitMs: number | null): Promise<Slot | null> {
    return new Promise((resolve) => {
      const options: LockOptions =
        waitMs === null ? { ifAvailable: true } : { signal: AbortSignal.any([signal, AbortSignal.timeout(waitMs)]) };
      const granted = (lock: Lock | null): Promise<void> | undefined => {
        if (lock === null) return void resolve(null);
        return new Promise<void>((free) => {
          const lost = new AbortController();
          this.#held.set(n, lost);
          resolve({
            lost: lost.signal,
            release: () => {
              this.#held.delete(n);
              free();
            },
          });
        });
      };
      // Rejects when the wait is over without the lock: then there is no slot for now.
      this.#locks.request(`turnstream-stream-${n}`, options, granted).catch(() => resolve(null));
    });
  }
}

/** Where the browser has no Web Locks (an address that isn't https or loopback): every stream is let through. */
export class UncountedSlots implements Slots {
  take(): Promise<Slot> {
    return Promise.resolve({ lost: new AbortController().signal, release: () => undefined });
  }
}
