/** The documents of a base: bring them in, look for one, see what became of each. */
import { useEffect, useState } from "preact/hooks";

import { deleteDocument, listDocuments, type StoredDocument } from "../../api/documents.ts";
import { getEmbeddingProgress } from "../../api/extraction.ts";
import { listed, type Listed } from "../../api/listed.ts";
import { getSettings } from "../../api/settings.ts";
import { useAnswer } from "../../api/use_answer.ts";
import { shortMoment } from "../../i18n/moments.ts";
import type { ViewProps } from "../../shell/view.ts";
import { visible } from "../../text/visible.ts";
import { documentAt } from "../addresses.ts";
import { Confirm } from "../confirm.tsx";
import { BaseFrame } from "../frame.tsx";
import { More } from "../more.tsx";
import { Trouble } from "../trouble.tsx";
import { useLater } from "../use_later.ts";
import { words as shared } from "../words.ts";
import "./documents.css";
import { DropZone } from "./drop_zone.tsx";
import { sizeOf } from "../../text/size.ts";
import { UploadList } from "./upload_list.tsx";
import { uploadsOf } from "./uploads.ts";
import { words } from "./words.ts";

const PAGE = 50;

/** Between looks at documents that others brought in and that are still being read. */
const LOOK_AGAIN_MS = 2_500;

export function Documents({ params }: ViewProps) {
  const base = params["base"] ?? "";
  const uploads = uploadsOf(base);
  const [typed, setTyped] = useState("");
  const [shown, setShown] = useState(PAGE);
  const query = useLater(typed.trim(), 200);
  const news = uploads.news.value;
  const about = JSON.stringify([base, query, shown, news]);
  const { value: page, error, again } = useAnswer(() => documentsOf(base, query, shown), about, true);
  const { value: settings } = useAnswer(getSettings, "");

  const reading = page?.items.some(({ status }) => status === "pending" || status === "reading") ?? false;
  useEffect(() => {
    if (!reading) return undefined;
    const timer = setInterval(() => void again(), LOOK_AGAIN_MS);
    return () => clearInterval(timer);
  }, [reading, about]);

  return (
    <BaseFrame base={base} part="documents">
      <DropZone uploads={uploads} maxBytes={settings?.limits.max_upload_bytes ?? null} />
      <UploadList base={base} uploads={uploads} />
      {settings?.search.kind === "vectors" && <Vectors base={base} news={news} />}
      {page !== null && (page.total > 0 || query !== "") && (
        <div class="kb-bar">
          <input
            type="search"
            class="field"
            placeholder={words.search}
            aria-label={words.search}
            value={typed}
            onInput={(event) => setTyped(event.currentTarget.value)}
          />
          <span class="soft small" role="status">
            {shared.documentCount(page.total)}
          </span>
        </div>
      )}
      <Trouble error={error} again={() => void again()} />
      {page === null && error === null && <p class="soft">{shared.loading}</p>}
      {page !== null && page.total === 0 && <p class="kb-empty soft">{query === "" ? words.none : words.noneFound}</p>}
      {page !== null && page.total > 0 && (
        <ul class="kb-rows">
          {page.items.map((document) => (
            <Row key={document.id} base={base} document={document} onGone={again} />
          ))}
        </ul>
      )}
      {page !== null && (
        <More left={page.total - page.items.length} page={PAGE} onMore={() => setShown(shown + PAGE)} />
      )}
    </BaseFrame>
  );
}

/** How far the passages have their vectors; nothing once all do. */
function Vectors({ base, news }: { base: string; news: number }) {
  const { value: progress, again } = useAnswer(() => getEmbeddingProgress(base), `${base} ${news}`, true);
  const left = progress === null ? 0 : progress.total - progress.done;
  useEffect(() => {
    if (left === 0) return undefined;
    const timer = setInterval(() => void again(), LOOK_AGAIN_MS);
    return () => clearInterval(timer);
  }, [left > 0]);
  if (progress === null || left === 0) return null;
  return <p class="soft small docs-vectors">{words.vectors(progress.done, progress.total)}</p>;
}

async function documentsOf(base: string, q: string, shown: number): Promise<Listed<StoredDocument>> {
  return listed(0, shown, async (page) => {
    const { documents, total } = await listDocuments(base, { q, ...page });
    return { items: documents, total };
  });
}

function Row({ base, document, onGone }: { base: string; document: StoredDocument; onGone: () => Promise<void> }) {
  const [error, setError] = useState<unknown>(null);
  async function remove(): Promise<void> {
    try {
      await deleteDocument(base, document.id);
      await onGone();
    } catch (refusal) {
      setError(refusal);
    }
  }
  const name = visible(document.name);
  const title = document.title === "" ? name : visible(document.title);
  return (
    <li class="docs-row">
      <div class="docs-what">
        <a href={documentAt(base, document.id)}>{title}</a>
        <p class="soft small">
          {title !== name && `${name} · `}
          {sizeOf(document.size_bytes)} · {shared.passageCount(document.chunk_count)} ·{" "}
          {shortMoment(document.created_at)}
          {document.version > 1 && ` · ${words.version(document.version)}`}
        </p>
        {document.status === "failed" && <p class="docs-why small">{document.error}</p>}
        <Trouble error={error} />
      </div>
      <Status document={document} />
      <Confirm label={shared.remove} about={name} question={words.ask} confirm={words.askConfirm} onConfirm={remove} />
    </li>
  );
}

export function Status({ document }: { document: StoredDocument }) {
  const tone = { ready: "ok", failed: "danger", pending: "", reading: "" }[document.status];
  return <span class={`tag ${tone}`}>{words[document.status]}</span>;
}
