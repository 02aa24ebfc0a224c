/** The stored messages and the running turn, as one list of what a reader sees. Pure. */
import type { Message } from "../conversations/stored.ts";
import type { Evidence, Source, Step } from "../turn/frames.ts";
import type { TurnState } from "../turn/reduce.ts";

export interface QuestionEntry {
  kind: "question";
  key: string;
  /** null until the server has stored it. */
  messageId: string | null;
  text: string;
}

export interface AnswerEntry {
  kind: "answer";
  /** The same while the turn runs and when it is stored, so that what is painted stays. */
  key: string;
  messageId: string | null;
  content: string;
  steps: readonly Step[];
  sources: readonly Source[];
  cited: readonly number[];
  running: boolean;
  stopped: boolean;
  evidence: Evidence | null;
  error: { code: string; message: string } | null;
  /** The question to ask again, where that is allowed: the last one, when its turn failed. */
  retry: string | null;
  model: string | null;
}

export type Entry = QuestionEntry | AnswerEntry;

/** The turn that is shown as it runs. `questionText` is what was asked here, null for a turn that was attached to. */
export interface LiveTurn {
  questionText: string | null;
  /** The stored question that is asked again. */
  retryOf: string | null;
  state: TurnState;
}

export function thread(messages: readonly Message[], live: LiveTurn | null): Entry[] {
  const turnId = live?.state.turnId ?? null;
  const stored = messages.filter((message) => live === null || !replaced(message, messages, live, turnId));
  const entries = stored.map(entryOf);
  if (live === null) {
    withRetry(entries);
    return entries;
  }
  const questionId = live.state.started?.message_id ?? null;
  const known = live.questionText === null || stored.some((message) => message.id === questionId);
  if (!known) entries.push({ kind: "question", key: "asked", messageId: questionId, text: live.questionText ?? "" });
  entries.push(running(live, turnId));
  return entries;
}

/** Whether a stored answer gives way to the running turn: it is that turn's own, or the failed one asked again. */
function replaced(message: Message, all: readonly Message[], live: LiveTurn, turnId: string | null): boolean {
  if (message.role !== "assistant") return false;
  if (turnId !== null && message.turn_id === turnId) return true;
  if (live.retryOf === null || message.error_code === null) return false;
  return all.indexOf(message) > all.findIndex((other) => other.id === live.retryOf);
}

function entryOf(message: Message): Entry {
  if (message.role === "user") {
    return { kind: "question", key: message.id, messageId: message.id, text: message.content };
  }
  return {
    kind: "answer",
    key: message.turn_id ?? message.id,
    messageId: message.id,
    content: message.content,
    steps: message.steps,
    sources: message.sources,
    cited: message.cited,
    running: false,
    stopped: message.stopped,
    evidence: message.evidence,
    error: message.error_code === null ? null : { code: message.error_code, message: message.error_message ?? "" },
    retry: null,
    model: message.model,
  };
}

function running(live: LiveTurn, turnId: string | null): AnswerEntry {
  const { content, steps, sources, terminal } = live.state;
  const done = terminal?.kind === "done" ? terminal.done : null;
  return {
    kind: "answer",
    key: turnId ?? "running",
    messageId: done?.message_id ?? null,
    content,
    steps,
    sources,
    cited: done?.cited ?? [],
    running: terminal === null,
    stopped: done?.stopped ?? false,
    evidence: done?.evidence ?? null,
    error: terminal?.kind === "error" ? { code: terminal.error.code, message: terminal.error.message } : null,
    retry: null,
    model: null,
  };
}

function withRetry(entries: Entry[]): void {
  const last = entries.at(-1);
  const question = entries.findLast((entry) => entry.kind === "question");
  if (question?.kind !== "question") return;
  if (last?.kind === "answer" && last.error !== null) last.retry = question.messageId;
}

/** The question at the end that has no answer; null where the last message is one. */
export function unanswered(messages: readonly Message[]): string | null {
  const last = messages.at(-1);
  return last?.role === "user" ? last.id : null;
}
