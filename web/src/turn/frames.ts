/** The frames of a turn as the server sends them. Source: DESIGN section 5, app/live/frames.py. */
import type { StreamEvent } from "../stream/parse.ts";

export type Evidence = "cited" | "uncited" | "skipped" | "none";

export interface Step {
  n: number;
  at: number;
  call_id: string;
  tool: string;
  kind: string;
  label: string;
  detail: string;
  status: "ok" | "empty" | "error";
  ms: number;
}

export interface Source {
  n: number;
  kind: string;
  id: string;
  document_id: string | null;
  title: string;
  locator: string;
  excerpt: string;
}

export interface Started {
  id: string;
  turn_id: string;
  message_id: string;
  title: string;
}

export interface Done {
  message_id: string;
  stopped: boolean;
  evidence: Evidence;
  cited: number[];
}

export interface Failed {
  code: string;
  message: string;
  retryable: boolean;
}

export interface Snapshot {
  turn_id: string;
  content: string;
  steps: Step[];
  sources: Source[];
}

export type Frame =
  | { event: "conversation"; data: Started }
  | { event: "step"; data: Step }
  | { event: "sources"; data: Source[] }
  | { event: "delta"; data: { at: number; text: string } }
  | { event: "snapshot"; data: Snapshot }
  | { event: "done"; data: Done }
  | { event: "error"; data: Failed }
  | { event: "idle"; data: Record<string, never> };

const KNOWN: ReadonlySet<string> = new Set([
  "conversation",
  "step",
  "sources",
  "delta",
  "snapshot",
  "done",
  "error",
  "idle",
]);

/** The event as a frame; null for a kind that a newer server may send. Throws SyntaxError where data isn't JSON. */
export function frameOf(event: StreamEvent): Frame | null {
  if (!KNOWN.has(event.type)) return null;
  return { event: event.type, data: JSON.parse(event.data) } as Frame;
}

/** A frame's id, `<turn_id>:<seq>`, taken apart; null where it has none. */
export function positionOf(id: string): { turnId: string; seq: number } | null {
  const colon = id.lastIndexOf(":");
  const seq = Number(id.slice(colon + 1));
  return colon > 0 && Number.isInteger(seq) && seq > 0 ? { turnId: id.slice(0, colon), seq } : null;
}
