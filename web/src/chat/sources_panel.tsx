/** The sources of an answer: the list, and one of them opened with its passage and the quoted sentence marked. */
import { useEffect, useRef, useState } from "preact/hooks";

import { passage, type Passage } from "../conversations/stored.ts";
import { Refusal } from "../http/request.ts";
import { marked, type Range } from "../markdown/quote.ts";
import { visible } from "../text/visible.ts";
import type { Source } from "../turn/frames.ts";
import "./sources.css";
import { words } from "./words.ts";

export interface OpenedSource {
  sources: readonly Source[];
  cited: readonly number[];
  /** The one that is open; null shows the list. */
  n: number | null;
  /** The sentence that cites it. */
  claim: string;
}

interface Props {
  opened: OpenedSource;
  base: string;
  onShow: (source: OpenedSource) => void;
  onClose: () => void;
}

export function SourcesPanel({ opened, base, onShow, onClose }: Props) {
  const panel = useRef<HTMLElement>(null);
  const before = useRef<Element | null>(null);
  useEffect(() => {
    before.current = document.activeElement;
    return () => {
      if (before.current instanceof HTMLElement && before.current.isConnected) before.current.focus();
    };
  }, []);
  useEffect(() => panel.current?.querySelector<HTMLElement>("h2")?.focus(), [opened]);
  const source = opened.sources.find((one) => one.n === opened.n);
  return (
    <aside class="sources" ref={panel} aria-label={words.sourcesTitle}>
      <header class="sources-head">
        {source !== undefined && (
          <button type="button" class="button quiet small" onClick={() => onShow({ ...opened, n: null, claim: "" })}>
            ← {words.backToList}
          </button>
        )}
        <button
          type="button"
          class="button quiet small sources-close"
          aria-label={words.closeSources}
          onClick={onClose}
        >
          ✕
        </button>
      </header>
      {source === undefined ? (
        <List opened={opened} onShow={onShow} />
      ) : (
        <Opened key={`${source.id} ${opened.claim}`} source={source} base={base} claim={opened.claim} />
      )}
    </aside>
  );
}

function List({ opened, onShow }: { opened: OpenedSource; onShow: Props["onShow"] }) {
  return (
    <>
      <h2 tabIndex={-1}>{words.sources(opened.sources.length)}</h2>
      <ol class="sources-list">
        {opened.sources.map((source) => (
          <li key={source.n}>
            <button type="button" class="sources-entry" onClick={() => onShow({ ...opened, n: source.n, claim: "" })}>
              <span class="cite" aria-hidden="true">
                {source.n}
              </span>
              <span>
                <bdi class="sources-title">{visible(source.title)}</bdi>
                {opened.cited.includes(source.n) && <span class="tag ok">{words.citedSource}</span>}
                <span class="small soft" dir="auto">
                  {visible(source.locator)}
                </span>
                <span class="sources-excerpt small" dir="auto">
                  {visible(source.excerpt)}
                </span>
              </span>
            </button>
          </li>
        ))}
      </ol>
    </>
  );
}

type Read = { kind: "reading" } | { kind: "read"; passage: Passage } | { kind: "gone" };

function Opened({ source, base, claim }: { source: Source; base: string; claim: string }) {
  const read = usePassage(source, base);
  const shown = read.kind === "read" ? read.passage.text : source.excerpt;
  return (
    <article class="sources-open">
      <h2 tabIndex={-1}>
        <span class="cite" aria-hidden="true">
          {source.n}
        </span>{" "}
        <bdi>{visible(source.title)}</bdi>
      </h2>
      <p class="small soft" dir="auto">
        {visible(source.locator)}
        {read.kind === "read" && read.passage.page !== null && ` · ${words.page(read.passage.page)}`}
      </p>
      {source.kind === "manual" && <p class="small soft">{words.manualSource}</p>}
      {read.kind === "gone" && <p class="notice caution small">{words.passageGone}</p>}
      {read.kind === "read" && !read.passage.live && <p class="notice caution small">{words.passageOld}</p>}
      <Marked text={shown} ranges={marked(shown, claim, read.kind === "read" ? source.excerpt : "")} />
    </article>
  );
}

/** The passage with what is quoted marked, and the first mark in view. An excerpt on its own is no quote of itself. */
function Marked({ text, ranges }: { text: string; ranges: Range[] }) {
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => host.current?.querySelector("mark")?.scrollIntoView({ block: "center" }), [text]);
  const parts = [];
  let from = 0;
  for (const { start, end } of ranges) {
    if (start < from) continue;
    parts.push(text.slice(from, start), <mark key={start}>{text.slice(start, end)}</mark>);
    from = end;
  }
  parts.push(text.slice(from));
  return (
    <div class="sources-passage" dir="auto" ref={host}>
      {parts}
    </div>
  );
}

/** The stored passage of a source that is one; what the manual says is in the excerpt. */
function usePassage(source: Source, base: string): Read {
  const [read, setRead] = useState<Read>({ kind: "reading" });
  useEffect(() => {
    if (source.kind !== "chunk") return;
    const left = new AbortController();
    passage(base, source.id, left.signal).then(
      (found) => setRead({ kind: "read", passage: found }),
      (error: unknown) => {
        if (left.signal.aborted) return;
        if (!(error instanceof Refusal)) throw error;
        setRead({ kind: "gone" });
      },
    );
    return () => left.abort();
  }, [source.id, base]);
  return read;
}
