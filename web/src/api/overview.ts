/** What a base's graph holds, counted. Source: app/api/overview.py. */

import { request } from "../http/request.ts";

/** An entity with the number of facts in which it is subject or object. */
export interface Leader {
  readonly id: string;
  readonly name: string;
  readonly type: string;
  readonly disambiguator: string;
  readonly fact_count: number;
}

/** Counts of what is believed now; `leaders` are the entities that most facts are about. */
export interface Overview {
  readonly entities: number;
  readonly facts: number;
  readonly pending_proposals: number;
  readonly types: readonly { readonly type: string; readonly entities: number }[];
  readonly leaders: readonly Leader[];
}

export function getOverview(base: string): Promise<Overview> {
  return request(["api", "bases", base, "overview"]);
}
