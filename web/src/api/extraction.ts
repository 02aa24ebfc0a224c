/** Extraction of facts by the configured model, and how far vectors are. Source: app/api/extraction.py, app/api/embeddings.py. */

import { request } from "../http/request.ts";

/** Passages: `total` of the current documents, `done` and `failed` of them. Facts: `proposed` and `dropped`. */
export interface Extraction {
  readonly total: number;
  readonly done: number;
  readonly proposed: number;
  readonly dropped: number;
  readonly failed: number;
  readonly running: boolean;
  readonly failures: readonly { readonly code: string; readonly chunks: number; readonly message: string }[];
}

/** `model` is null where no embedding model was ever configured. */
export interface EmbeddingProgress {
  readonly model: string | null;
  readonly done: number;
  readonly total: number;
}

export function getExtraction(base: string): Promise<Extraction> {
  return request(["api", "bases", base, "extraction"]);
}

/** Has every passage read that wasn't yet, or was given up. */
export function startExtraction(base: string): Promise<Extraction> {
  return request(["api", "bases", base, "extraction"], { method: "POST" });
}

export function stopExtraction(base: string): Promise<Extraction> {
  return request(["api", "bases", base, "extraction", "stop"], { method: "POST" });
}

export function getEmbeddingProgress(base: string): Promise<EmbeddingProgress> {
  return request(["api", "bases", base, "embeddings"]);
}
