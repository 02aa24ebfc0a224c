/** Facts of a base on both clocks: add, correct, reject. Source: app/api/facts.py. */

import { request } from "../http/request.ts";

/** An entity, as one end of a fact. */
export interface EntityRef {
  readonly id: string;
  readonly name: string;
  readonly type: string;
  readonly disambiguator: string;
}

/** The passage that a fact rests on; `live` is false once its document is superseded. */
export interface FactEvidence {
  readonly chunk_id: string;
  readonly document_id: string;
  readonly document: string;
  readonly live: boolean;
}

export type FactStatus = "asserted" | "corrected" | "rejected" | "merged";
export type FactOrigin = "import" | "api" | "extraction" | "remember";

/**
 * A fact. Exactly one of `object` and `value` is given. `from` and `to` are YYYY, YYYY-MM or YYYY-MM-DD, as precise
 * as is known; null is unknown, a `to` of "open" is still true. `superseded_at`: since when it isn't believed.
 */
export interface Fact {
  readonly id: string;
  readonly subject: EntityRef;
  readonly predicate: string;
  readonly object: EntityRef | null;
  readonly value: string | null;
  readonly from: string | null;
  readonly to: string | null;
  readonly confidence: number;
  readonly status: FactStatus;
  readonly recorded_at: string;
  readonly superseded_at: string | null;
  readonly superseded_by: string | null;
  readonly evidence: FactEvidence | null;
  readonly quote: string;
  readonly origin: FactOrigin;
}

/** With `at`, `undecided` counts the facts that may have held too, by what is known. */
export interface FactList {
  readonly facts: readonly Fact[];
  readonly total: number;
  readonly undecided: number;
}

/** Valid time and record time of a read. */
export interface Clocks {
  readonly at?: string | undefined;
  readonly as_of?: string | undefined;
}

/** A fact as it is written: names, not ids. The server reads them as `turnstream facts import` does. */
export interface FactRow {
  readonly subject: string;
  readonly subject_type?: string;
  readonly subject_disambiguator?: string;
  readonly predicate: string;
  readonly object?: string;
  readonly object_type?: string;
  readonly object_disambiguator?: string;
  readonly value?: string;
  readonly from?: string;
  readonly to?: string;
  readonly confidence?: number;
  readonly evidence?: string;
  readonly quote?: string;
}

/** What became of added rows; `without_evidence` counts those whose quote was found in no passage. */
export interface Added {
  readonly added: number;
  readonly known: number;
  readonly without_evidence: number;
  readonly failed: readonly { readonly line: number; readonly error: string }[];
}

export function addFact(base: string, row: FactRow): Promise<Added> {
  return request(["api", "bases", base, "facts"], { method: "POST", body: row });
}

/** Closes a fact and records what is right; gives the new fact. */
export function correctFact(base: string, id: string, row: FactRow): Promise<Fact> {
  return request(["api", "bases", base, "facts", id, "correct"], { method: "POST", body: row });
}

/** Ends the belief in a fact. */
export function rejectFact(base: string, id: string): Promise<Fact> {
  return request(["api", "bases", base, "facts", id, "reject"], { method: "POST" });
}
