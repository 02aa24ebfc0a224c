/** Requests to our own API: JSON in, JSON out, and a refusal is an exception with its code. */

import { noteStatus, PAGE } from "./signed_in.ts";

/** What the server refuses, as it says it: `{"error": {"code", "message"}}`. Status 0: it was not reached. */
export class Refusal extends Error {
  readonly status: number;
  readonly code: string;
  readonly retryAfterS: number | null;

  constructor(status: number, code: string, message: string, retryAfterS: number | null = null) {
    super(message);
    this.name = "Refusal";
    this.status = status;
    this.code = code;
    this.retryAfterS = retryAfterS;
  }
}

export interface Options {
  method?: "GET" | "POST" | "PATCH" | "PUT" | "DELETE";
  /** Sent as JSON. */
  body?: unknown;
  query?: Readonly<Record<string, string | number | boolean | null | undefined>>;
  signal?: AbortSignal;
}

/** The address of a path of ours: `{base}` parts are given as values, so that each is encoded once. */
export function address(path: readonly string[], query: Options["query"] = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const search = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return `/${path.map(encodeURIComponent).join("/")}${search ? `?${search}` : ""}`;
}

/**
 * The answer's JSON as `T`, which the caller names from the API's schema; `undefined` for 204.
 *
 * Throws `Refusal`; an abort throws the signal's reason.
 */
export async function request<T>(path: readonly string[], options: Options = {}): Promise<T> {
  const init: RequestInit = { method: options.method ?? "GET", headers: { accept: "application/json", ...PAGE } };
  if (options.signal) init.signal = options.signal;
  if (options.body !== undefined) {
    init.headers = { accept: "application/json", "content-type": "application/json", ...PAGE };
    init.body = JSON.stringify(options.body);
  }
  let response: Response;
  try {
    response = await fetch(address(path, options.query), init);
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new Refusal(0, "unreachable", String(error));
  }
  if (!response.ok) throw await refusalOf(response);
  noteStatus(response.status);
  return response.status === 204 ? (undefined as T) : ((await response.json()) as T);
}

/** The refusal that a response carries; a body that isn't ours (a proxy's page) still gives its status. */
export async function refusalOf(response: Response): Promise<Refusal> {
  noteStatus(response.status);
  const retryAfterS = secondsOf(response.headers.get("retry-after"));
  const text = await response.text().catch(() => "");
  try {
    const { error } = JSON.parse(text) as { error: { code: string; message: string } };
    return new Refusal(response.status, String(error.code), String(error.message), retryAfterS);
  } catch {
    return new Refusal(response.status, "unexpected", `${response.status} ${response.statusText}`.trim(), retryAfterS);
  }
}

function secondsOf(header: string | null): number | null {
  if (header === null || header.trim() === "") return null;
  const seconds = Number(header);
  if (Number.isFinite(seconds)) return Math.max(0, seconds);
  const moment = Date.parse(header);
  return Number.isNaN(moment) ? null : Math.max(0, (moment - Date.now()) / 1000);
}
