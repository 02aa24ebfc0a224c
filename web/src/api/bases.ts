/** Bases: list, make, describe, rename, delete. Source: app/api/bases.py. */

import { request } from "../http/request.ts";

/** The base that always exists. */
export const DEFAULT_BASE = "default";

/** The counts are of current, readable documents and their passages. */
export interface Base {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  readonly created_at: string;
  readonly document_count: number;
  readonly chunk_count: number;
}

export interface BaseChange {
  readonly name?: string;
  readonly description?: string;
}

export async function listBases(): Promise<readonly Base[]> {
  const { bases } = await request<{ readonly bases: readonly Base[] }>(["api", "bases"]);
  return bases;
}

export function createBase(name: string, description: string): Promise<Base> {
  return request(["api", "bases"], { method: "POST", body: { name, description } });
}

export function changeBase(name: string, change: BaseChange): Promise<Base> {
  return request(["api", "bases", name], { method: "PATCH", body: change });
}

/** Deletes its documents and conversations too. `default` stays. */
export function deleteBase(name: string): Promise<void> {
  return request(["api", "bases", name], { method: "DELETE" });
}
