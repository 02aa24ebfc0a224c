/** What this server is set to, and its doctor. Source: app/api/about.py. */

import { request } from "../http/request.ts";

/** `endpoint` is a host, null where the model answers inside the server; `extracts`: it can read facts. */
export interface ModelInfo {
  readonly name: string;
  readonly description: string;
  readonly endpoint: string | null;
  readonly keyed: boolean;
  readonly extracts: boolean;
}

/** The last three are of each person, null where there is no limit. */
export interface Limits {
  readonly max_rounds: number;
  readonly message_max_chars: number;
  readonly answer_max_chars: number;
  readonly max_upload_bytes: number;
  readonly max_running_turns: number | null;
  readonly max_requests_per_minute: number | null;
  readonly max_tokens_per_minute: number | null;
}

export interface Tool {
  readonly name: string;
  readonly headline: string;
  readonly writes: boolean;
}

export interface ServerSettings {
  readonly version: string;
  readonly prompt_version: number;
  readonly model: ModelInfo;
  readonly search: { readonly kind: "full_text" | "vectors"; readonly model: string | null };
  readonly database: "embedded" | "configured";
  readonly live_log: "memory" | "redis";
  readonly auth: "none" | "token" | "oidc";
  readonly limits: Limits;
  readonly tools: readonly Tool[];
}

export type Verdict = "ok" | "missing" | "unreachable" | "failed";

/** One thing that was looked at; `hint` says what to do where the verdict isn't ok. */
export interface Finding {
  readonly subject: string;
  readonly verdict: Verdict;
  readonly note: string;
  readonly hint: string;
}

export interface Examination {
  readonly ok: boolean;
  readonly findings: readonly Finding[];
  readonly ms: number;
  readonly at: string;
}

export function getSettings(): Promise<ServerSettings> {
  return request(["api", "settings"]);
}

/** Has the server look at its database, its tools and its model, which costs a few tokens. */
export function runDoctor(): Promise<Examination> {
  return request(["api", "settings", "doctor"], { method: "POST" });
}
