/** Proposals: facts that wait for a person's nod. Source: app/api/proposals.py. */

import type { FactRow } from "./facts.ts";
import { request } from "../http/request.ts";

export type ProposalStatus = "pending" | "accepted" | "refused";

/** `fact` is what is proposed, {} where only a sentence was kept; `fact_id` is the fact that a nod recorded. */
export interface Proposal {
  readonly id: string;
  readonly fact: Partial<FactRow>;
  readonly sentence: string;
  readonly chunk_id: string | null;
  readonly origin: "remember" | "extraction";
  readonly proposed_by: string;
  readonly turn_id: string | null;
  readonly status: ProposalStatus;
  readonly decided_by: string | null;
  readonly decided_at: string | null;
  readonly fact_id: string | null;
  readonly created_at: string;
}

export interface ProposalList {
  readonly proposals: readonly Proposal[];
  readonly total: number;
}

export interface ProposalQuery {
  readonly status?: ProposalStatus | undefined;
  readonly limit?: number | undefined;
  readonly offset?: number | undefined;
}

export function listProposals(base: string, query: ProposalQuery = {}): Promise<ProposalList> {
  return request(["api", "bases", base, "proposals"], { query: { ...query } });
}

/** Records the proposed fact, or `instead`. */
export function acceptProposal(base: string, id: string, instead: FactRow | null = null): Promise<Proposal> {
  return request(["api", "bases", base, "proposals", id, "accept"], { method: "POST", body: { fact: instead } });
}

export function refuseProposal(base: string, id: string): Promise<Proposal> {
  return request(["api", "bases", base, "proposals", id, "refuse"], { method: "POST" });
}
