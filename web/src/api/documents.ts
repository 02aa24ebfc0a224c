/** Documents of a base and their passages. Source: app/api/documents.py, app/api/passages.py. */

import { request } from "../http/request.ts";

export type DocumentStatus = "pending" | "reading" | "ready" | "failed";

/** `error` is a sentence where the status is failed; `superseded_at` is set once a newer version is ready. */
export interface StoredDocument {
  readonly id: string;
  readonly name: string;
  readonly title: string;
  readonly status: DocumentStatus;
  readonly error_code: string | null;
  readonly error: string | null;
  readonly version: number;
  readonly superseded_at: string | null;
  readonly media_type: string;
  readonly encoding: string | null;
  readonly size_bytes: number;
  readonly chunk_count: number;
  readonly content_hash: string;
  readonly created_at: string;
}

export interface DocumentPage {
  readonly documents: readonly StoredDocument[];
  readonly total: number;
}

export interface PageQuery {
  readonly limit?: number | undefined;
  readonly offset?: number | undefined;
}

export interface DocumentQuery extends PageQuery {
  /** Looked for in the name and the title. */
  readonly q?: string | undefined;
}

/** A passage as it was stored; `live` is false once its document is superseded. */
export interface Passage {
  readonly id: string;
  readonly document_id: string;
  readonly name: string;
  readonly title: string;
  readonly heading: string;
  readonly page: number | null;
  readonly position: number;
  readonly text: string;
  readonly live: boolean;
}

export interface PassagePage {
  readonly passages: readonly Passage[];
  readonly total: number;
}

export function listDocuments(base: string, query: DocumentQuery = {}): Promise<DocumentPage> {
  return request(["api", "bases", base, "documents"], { query: { ...query } });
}

export function getDocument(base: string, id: string): Promise<StoredDocument> {
  return request(["api", "bases", base, "documents", id]);
}

/** Deletes its earlier versions too. */
export function deleteDocument(base: string, id: string): Promise<void> {
  return request(["api", "bases", base, "documents", id], { method: "DELETE" });
}

/** The passages of a document in their order. */
export function listPassages(base: string, documentId: string, query: PageQuery = {}): Promise<PassagePage> {
  return request(["api", "bases", base, "documents", documentId, "chunks"], { query: { ...query } });
}

/** The passage that a source of kind `chunk` names. */
export function getPassage(base: string, chunkId: string): Promise<Passage> {
  return request(["api", "bases", base, "chunks", chunkId]);
}
