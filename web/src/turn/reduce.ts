/**
 * Frames -> the turn as it is shown. Pure: the same frames in the same order give the same state, and a frame that
 * is held already changes nothing, so a stream may be joined anywhere and any number of times.
 */
import { positionOf, type Done, type Failed, type Frame, type Source, type Started, type Step } from "./frames.ts";

export type Terminal = { kind: "done"; done: Done } | { kind: "error"; error: Failed };

export interface TurnState {
  turnId: string | null;
  started: Started | null;
  content: string;
  steps: readonly Step[];
  sources: readonly Source[];
  terminal: Terminal | null;
  /** Goes back to the server as Last-Event-ID. */
  lastId: string | null;
}

export const NOTHING: TurnState = {
  turnId: null,
  started: null,
  content: "",
  steps: [],
  sources: [],
  terminal: null,
  lastId: null,
};

/** `gap`: something before this frame is missing; attach again without an id, which brings a snapshot. */
export type Reduced = { state: TurnState; gap: boolean };

export function reduce(state: TurnState, frame: Frame, id: string): Reduced {
  if (frame.event === "idle") return { state, gap: false };
  const position = positionOf(id);
  const last = state.lastId === null ? null : positionOf(state.lastId);
  if (frame.event !== "snapshot" && position !== null && last !== null && position.turnId === last.turnId) {
    if (position.seq <= last.seq) return { state, gap: false };
    if (position.seq > last.seq + 1) return { state, gap: true };
  }
  const next = apply(state, frame);
  return next === null ? { state, gap: true } : { state: { ...next, lastId: id || state.lastId }, gap: false };
}

function apply(state: TurnState, frame: Exclude<Frame, { event: "idle" }>): TurnState | null {
  switch (frame.event) {
    case "conversation":
      return { ...NOTHING, turnId: frame.data.turn_id, started: frame.data };
    case "snapshot": {
      const { turn_id: turnId, content, steps, sources } = frame.data;
      const started = state.turnId === null || state.turnId === turnId ? state.started : null;
      return { ...NOTHING, turnId, started, content, steps, sources };
    }
    case "delta": {
      const { at, text } = frame.data;
      if (at > state.content.length) return null;
      if (state.content.startsWith(text, at)) return state;
      return {
        ...state,
        content: at === state.content.length ? state.content + text : state.content.slice(0, at) + text,
      };
    }
    case "step": {
      if (frame.data.at > state.content.length) return null;
      const others = state.steps.filter((step) => step.n !== frame.data.n);
      return { ...state, steps: [...others, frame.data].sort((a, b) => a.n - b.n) };
    }
    case "sources":
      return { ...state, sources: frame.data };
    case "done":
      return { ...state, terminal: { kind: "done", done: frame.data } };
    case "error":
      return { ...state, terminal: { kind: "error", error: frame.data } };
  }
}
