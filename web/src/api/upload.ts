/** An upload with its progress. fetch tells nothing about what was sent, so this is XMLHttpRequest. */

import { address, Refusal, refusalOf } from "../http/request.ts";
import { PAGE } from "../http/signed_in.ts";
import type { StoredDocument } from "./documents.ts";

export interface UploadOptions {
  readonly signal?: AbortSignal;
  /** The share of the file that was sent, 0 to 1. */
  readonly onProgress?: (share: number) => void;
}

/** Sends a file into a base. The answer comes before the file is read: ask for the document until it is ready. */
export function uploadDocument(base: string, file: File, options: UploadOptions = {}): Promise<StoredDocument> {
  const { signal, onProgress } = options;
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason as Error);
      return;
    }
    const request = new XMLHttpRequest();
    const abort = (): void => request.abort();
    const end = (act: () => void): void => {
      signal?.removeEventListener("abort", abort);
      act();
    };
    signal?.addEventListener("abort", abort);
    request.upload.addEventListener("progress", (event) => {
      if (event.lengthComputable && event.total > 0) onProgress?.(event.loaded / event.total);
    });
    request.addEventListener("load", () => end(() => void settle(request).then(resolve, reject)));
    request.addEventListener("error", () => end(() => reject(new Refusal(0, "unreachable", CUT_SHORT))));
    request.addEventListener("abort", () => end(() => reject(signal?.reason as Error)));
    request.open("POST", address(["api", "bases", base, "documents"]));
    request.setRequestHeader("Accept", "application/json");
    for (const [name, value] of Object.entries(PAGE)) request.setRequestHeader(name, value);
    const form = new FormData();
    form.append("file", file, file.name);
    request.send(form);
  });
}

const CUT_SHORT = "The connection broke while the file was sent.";

async function settle(request: XMLHttpRequest): Promise<StoredDocument> {
  const retryAfter = request.getResponseHeader("Retry-After");
  const headers = retryAfter === null ? {} : { "Retry-After": retryAfter };
  const { status, statusText, responseText } = request;
  if (status < 200 || status > 299) throw await refusalOf(new Response(responseText, { status, statusText, headers }));
  return JSON.parse(responseText) as StoredDocument;
}
