/** One document, read as the base took it in: its passages in their order, and the one that an address names marked. */
import { useEffect, useRef, useState } from "preact/hooks";

import { getDocument, getPassage, listPassages, type Passage } from "../../api/documents.ts";
import { listed, type Listed } from "../../api/listed.ts";
import { useAnswer } from "../../api/use_answer.ts";
import { longMoment } from "../../i18n/moments.ts";
import { hash } from "../../router/location.ts";
import type { ViewProps } from "../../shell/view.ts";
import { visible } from "../../text/visible.ts";
import { BaseFrame } from "../frame.tsx";
import { More } from "../more.tsx";
import { Trouble } from "../trouble.tsx";
import { words as shared } from "../words.ts";
import "./documents.css";
import { Status } from "./documents.tsx";
import { sizeOf } from "../../text/size.ts";
import { words } from "./words.ts";

const PAGE = 50;
const LOOK_AGAIN_MS = 1_500;

export function Document({ params }: ViewProps) {
  const base = params["base"] ?? "";
  const id = params["id"] ?? "";
  const { value: document, error, again } = useAnswer(() => getDocument(base, id), `${base} ${id}`);
  const reading = document?.status === "pending" || document?.status === "reading";
  useEffect(() => {
    if (!reading) return undefined;
    const timer = setInterval(() => void again(), LOOK_AGAIN_MS);
    return () => clearInterval(timer);
  }, [reading]);

  const title = document === null ? "…" : visible(document.title === "" ? document.name : document.title);
  return (
    <BaseFrame base={base} part="documents" title={title}>
      <header class="view-head">
        <h1>{title}</h1>
        {document !== null && <Status document={document} />}
      </header>
      <Trouble error={error} again={() => void again()} />
      {document !== null && (
        <>
          <dl class="docs-about small">
            <About term={words.added} said={longMoment(document.created_at)} />
            <About
              term={words.type}
              said={[visible(document.name), document.media_type].filter((w) => w !== "").join(" · ")}
            />
            <About term={words.size} said={sizeOf(document.size_bytes)} />
            {document.encoding !== null && <About term={words.encoding} said={document.encoding} />}
            <About term={words.passages} said={String(document.chunk_count)} />
          </dl>
          {document.superseded_at !== null && <p class="notice caution">{words.superseded}</p>}
          {document.status === "failed" && (
            <p class="notice danger" role="alert">
              {document.error}
            </p>
          )}
          {reading && <p class="soft">{words.noPassages}</p>}
          {document.status === "ready" && <Passages base={base} id={id} />}
        </>
      )}
    </BaseFrame>
  );
}

function About({ term, said }: { term: string; said: string }) {
  return (
    <div>
      <dt>{term}</dt>
      <dd>{said}</dd>
    </div>
  );
}

function Passages({ base, id }: { base: string; id: string }) {
  const wanted = hash.value.slice(1);
  // the page that holds the wanted passage is where reading begins
  const { value: start, error, again } = useAnswer(() => firstOf(base, id, wanted), `${id} ${wanted}`);
  if (error !== null) return <Trouble error={error} again={() => void again()} />;
  if (start === null) return <p class="soft">{shared.loading}</p>;
  return <PassageList key={start} base={base} id={id} start={start} wanted={wanted} />;
}

function PassageList({ base, id, start, wanted }: { base: string; id: string; start: number; wanted: string }) {
  const [range, setRange] = useState({ from: start, to: start + PAGE });
  const { from, to } = range;
  const { value, error, again } = useAnswer(() => passagesOf(base, id, from, to), `${id} ${from} ${to}`, true);
  if (error !== null) return <Trouble error={error} again={() => void again()} />;
  if (value === null) return <p class="soft">{shared.loading}</p>;
  const left = value.total - from - value.items.length;
  return (
    <section class="docs-passages" aria-label={words.passages}>
      {from > 0 && (
        <p class="kb-more">
          <button type="button" class="button" onClick={() => setRange({ from: Math.max(0, from - PAGE), to })}>
            {words.earlier}
          </button>
        </p>
      )}
      {value.items.map((passage) => (
        <PassageText key={passage.id} passage={passage} wanted={passage.id === wanted} />
      ))}
      <More left={left} page={PAGE} onMore={() => setRange({ from, to: to + PAGE })} />
    </section>
  );
}

function PassageText({ passage, wanted }: { passage: Passage; wanted: boolean }) {
  const place = useRef<HTMLElement>(null);
  useEffect(() => {
    if (wanted) place.current?.scrollIntoView({ block: "center" });
  }, [wanted]);
  const where = [visible(passage.heading), passage.page === null ? "" : words.page(passage.page)];
  const heading = where.filter((w) => w !== "").join(" · ");
  return (
    <article ref={place} id={passage.id} class={`docs-passage ${wanted ? "wanted" : ""}`}>
      <h2 class="soft small">
        <a href={`#${passage.id}`} aria-label={words.passage(passage.position + 1)}>
          {passage.position + 1}
        </a>{" "}
        {heading}
      </h2>
      <p dir="auto">{passage.text}</p>
    </article>
  );
}

async function firstOf(base: string, id: string, wanted: string): Promise<number> {
  if (wanted === "") return 0;
  const passage = await getPassage(base, wanted);
  return passage.document_id === id ? Math.floor(passage.position / PAGE) * PAGE : 0;
}

async function passagesOf(base: string, id: string, from: number, to: number): Promise<Listed<Passage>> {
  return listed(from, to, async (page) => {
    const { passages, total } = await listPassages(base, id, page);
    return { items: passages, total };
  });
}
