/** Conversations as the server stores them, and the requests that read and change them (app/api/conversations.py). */
import { request } from "../http/request.ts";
import type { Evidence, Source, Step } from "../turn/frames.ts";

export interface Conversation {
  id: string;
  base: string;
  title: string;
  created_at: string;
  updated_at: string;
  message_count: number;
}

export interface Message {
  id: string;
  role: "user" | "assistant";
  content: string;
  steps: Step[];
  sources: Source[];
  evidence: Evidence | null;
  cited: number[];
  stopped: boolean;
  error_code: string | null;
  error_message: string | null;
  model: string | null;
  turn_id: string | null;
  created_at: string;
}

export interface Detail extends Conversation {
  messages: Message[];
  running_turn_id: string | null;
}

export interface Found {
  conversations: Conversation[];
  total: number;
}

/** A passage as it was stored (app/api/documents.py). */
export interface Passage {
  id: string;
  document_id: string;
  title: string;
  heading: string;
  page: number | null;
  text: string;
  live: boolean;
}

const ALL = ["api", "conversations"];

export function find(q: string, offset: number, signal: AbortSignal): Promise<Found> {
  return request(ALL, { query: { q: q.slice(0, 200), limit: 40, offset }, signal });
}

export function detail(id: string, signal: AbortSignal): Promise<Detail> {
  return request([...ALL, id], { signal });
}

export function rename(id: string, title: string): Promise<Conversation> {
  return request([...ALL, id], { method: "PATCH", body: { title } });
}

export function remove(id: string): Promise<void> {
  return request([...ALL, id], { method: "DELETE" });
}

export function stop(id: string, turnId: string): Promise<unknown> {
  return request([...ALL, id, "stop"], { method: "POST", body: { turn_id: turnId } });
}

export function passage(base: string, chunkId: string, signal: AbortSignal): Promise<Passage> {
  return request(["api", "bases", base, "chunks", chunkId], { signal });
}

/** Whether the offline model answers, which quotes and can't converse (app/llm/extractive.py). */
export async function answersOffline(signal: AbortSignal): Promise<boolean> {
  const { model } = await request<{ model: { name: string } }>(["api", "settings"], { signal });
  return model.name === "extractive-offline";
}

export async function baseNames(
  signal: AbortSignal,
): Promise<{ name: string; description: string; documents: number }[]> {
  type Bases = { bases: { name: string; description: string; document_count: number }[] };
  const { bases } = await request<Bases>(["api", "bases"], { signal });
  return bases.map(({ name, description, document_count: documents }) => ({ name, description, documents }));
}
