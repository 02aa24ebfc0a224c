/**
 * Files on their way into a base: a few at a time, each with its progress, followed until it is ready or failed.
 *
 * They belong to the page and not to a view, so that leaving the documents and coming back loses none.
 */
import { signal, type ReadonlySignal } from "@preact/signals";

import { getDocument, type StoredDocument } from "../../api/documents.ts";
import { troubleOf } from "../../api/trouble.ts";
import { uploadDocument } from "../../api/upload.ts";
import { Refusal } from "../../http/request.ts";

import { words } from "./words.ts";

/** Uploads at once: HTTP/1.1 gives a page six connections to a server, and streams and questions need some. */
const AT_ONCE = 2;

/** Between questions about a document that is being read: soon at first, then less often. */
const FIRST_LOOK_MS = 300;
const LONGEST_LOOK_MS = 3_000;

export type UploadState =
  | { readonly kind: "waiting" | "cancelled" }
  | { readonly kind: "sending"; readonly share: number }
  | { readonly kind: "reading"; readonly document: StoredDocument }
  | { readonly kind: "ready"; readonly document: StoredDocument }
  | { readonly kind: "failed"; readonly why: string };

export interface Upload {
  readonly id: number;
  readonly name: string;
  readonly size: number;
  readonly state: UploadState;
}

/** Whether nothing more will become of it. */
export function isOver(upload: Upload): boolean {
  return upload.state.kind === "ready" || upload.state.kind === "failed" || upload.state.kind === "cancelled";
}

export class Uploads {
  /** Every upload that wasn't cleared, the newest last. */
  readonly all: ReadonlySignal<readonly Upload[]>;
  /** Counts what happened to documents that the base has got: whoever lists them asks again. */
  readonly news: ReadonlySignal<number>;

  readonly #base: string;
  readonly #all = signal<readonly Upload[]>([]);
  readonly #news = signal(0);
  readonly #queue: { id: number; file: File }[] = [];
  readonly #abort = new Map<number, AbortController>();
  #running = 0;
  #lastId = 0;

  constructor(base: string) {
    this.#base = base;
    this.all = this.#all;
    this.news = this.#news;
  }

  /** Takes files in; `refusal` says why one of them is not even tried, null where it is. */
  add(files: readonly File[], refusal: (file: File) => string | null): void {
    for (const file of files) {
      const id = ++this.#lastId;
      const why = refusal(file);
      const state: UploadState = why === null ? { kind: "waiting" } : { kind: "failed", why };
      this.#all.value = [...this.#all.value, { id, name: file.name, size: file.size, state }];
      if (why === null) this.#queue.push({ id, file });
    }
    this.#next();
  }

  /** Drops what waits, or cuts short what is being sent. What the server has is read all the same. */
  cancel(id: number): void {
    const at = this.#queue.findIndex((waiting) => waiting.id === id);
    if (at !== -1) {
      this.#queue.splice(at, 1);
      this.#set(id, { kind: "cancelled" });
    }
    this.#abort.get(id)?.abort();
  }

  clear(): void {
    this.#all.value = this.#all.value.filter((upload) => !isOver(upload));
  }

  #next(): void {
    while (this.#running < AT_ONCE) {
      const next = this.#queue.shift();
      if (next === undefined) return;
      this.#running++;
      void this.#send(next.id, next.file).then((document) => {
        this.#running--;
        this.#next();
        if (document !== null) void this.#follow(next.id, document);
      });
    }
  }

  async #send(id: number, file: File): Promise<StoredDocument | null> {
    const abort = new AbortController();
    this.#abort.set(id, abort);
    this.#set(id, { kind: "sending", share: 0 });
    try {
      return await uploadDocument(this.#base, file, {
        signal: abort.signal,
        onProgress: (share) => this.#set(id, { kind: "sending", share }),
      });
    } catch (error) {
      this.#set(id, abort.signal.aborted ? { kind: "cancelled" } : { kind: "failed", why: troubleOf(error) });
      return null;
    } finally {
      this.#abort.delete(id);
    }
  }

  async #follow(id: number, sent: StoredDocument): Promise<void> {
    let document = sent;
    this.#news.value++;
    for (let wait = FIRST_LOOK_MS; ; wait = Math.min(wait * 1.5, LONGEST_LOOK_MS)) {
      if (document.status === "ready") this.#set(id, { kind: "ready", document });
      else if (document.status === "failed") this.#set(id, { kind: "failed", why: document.error ?? words.failed });
      else this.#set(id, { kind: "reading", document });
      if (document.status === "ready" || document.status === "failed") break;
      await new Promise((resolve) => setTimeout(resolve, wait));
      try {
        document = await getDocument(this.#base, document.id);
      } catch (error) {
        if (error instanceof Refusal && error.status !== 404) continue; // a server that restarts still reads it
        this.#set(id, { kind: "failed", why: error instanceof Refusal ? words.gone : troubleOf(error) });
        break;
      }
    }
    this.#news.value++;
  }

  #set(id: number, state: UploadState): void {
    this.#all.value = this.#all.value.map((upload) => (upload.id === id ? { ...upload, state } : upload));
  }
}

const byBase = new Map<string, Uploads>();

/** The uploads of a base, for as long as the page is open. */
export function uploadsOf(base: string): Uploads {
  let uploads = byBase.get(base);
  if (uploads === undefined) byBase.set(base, (uploads = new Uploads(base)));
  return uploads;
}
