/** Entities of a base: search, one with its facts, merge. Source: app/api/entities.py. */

import type { Clocks, FactList } from "./facts.ts";
import { request } from "../http/request.ts";

/** `merged_into` is the entity that took its names and facts; null while it stands for itself. */
export interface Entity {
  readonly id: string;
  readonly name: string;
  readonly aliases: readonly string[];
  readonly type: string;
  readonly disambiguator: string;
  readonly merged_into: string | null;
  readonly created_at: string;
  readonly fact_count: number;
}

export interface EntityList {
  readonly entities: readonly Entity[];
  readonly total: number;
}

/** The facts in which it is subject or object, at most 200; `total` counts them all. */
export interface EntityDetail extends Entity, FactList {}

export interface EntityQuery extends Clocks {
  /** Looked for in names and aliases. */
  readonly q?: string | undefined;
  readonly type?: string | undefined;
  readonly limit?: number | undefined;
  readonly offset?: number | undefined;
}

export function listEntities(base: string, query: EntityQuery = {}): Promise<EntityList> {
  return request(["api", "bases", base, "entities"], { query: { ...query } });
}

export function getEntity(base: string, id: string, clocks: Clocks = {}): Promise<EntityDetail> {
  return request(["api", "bases", base, "entities", id], { query: { ...clocks } });
}

/** Makes two entities one; gives the one that took the facts and the names. */
export function mergeEntity(base: string, id: string, into: string): Promise<Entity> {
  return request(["api", "bases", base, "entities", id, "merge"], { method: "POST", body: { into } });
}
