/** What became of the files that were dropped: progress, then ready, or why not. */
import { visible } from "../../text/visible.ts";
import { documentAt } from "../addresses.ts";
import { words as shared } from "../words.ts";
import { sizeOf } from "../../text/size.ts";
import { isOver, type Upload, type Uploads } from "./uploads.ts";
import { words } from "./words.ts";

export function UploadList({ base, uploads }: { base: string; uploads: Uploads }) {
  const all = uploads.all.value;
  if (all.length === 0) return null;
  return (
    <section class="card docs-uploads" aria-label={words.uploads}>
      <ul>
        {all.map((upload) => (
          <li key={upload.id}>
            <span class="docs-upload-name">
              {upload.state.kind === "ready" ? (
                <a href={documentAt(base, upload.state.document.id)}>{visible(upload.name)}</a>
              ) : (
                visible(upload.name)
              )}{" "}
              <span class="soft small">{sizeOf(upload.size)}</span>
            </span>
            <State upload={upload} />
            {(upload.state.kind === "waiting" || upload.state.kind === "sending") && (
              <button
                type="button"
                class="button quiet small"
                aria-label={words.cancelOf(upload.name)}
                onClick={() => uploads.cancel(upload.id)}
              >
                {shared.cancel}
              </button>
            )}
          </li>
        ))}
      </ul>
      <p class="unseen" role="status">
        {all.every(isOver) ? spoken(all) : ""}
      </p>
      {all.some(isOver) && (
        <button type="button" class="button quiet small" onClick={() => uploads.clear()}>
          {words.clear}
        </button>
      )}
    </section>
  );
}

function State({ upload }: { upload: Upload }) {
  const { state } = upload;
  switch (state.kind) {
    case "sending": {
      const percent = Math.floor(state.share * 100);
      return (
        <span class="docs-progress">
          <progress value={state.share} max={1} aria-label={visible(upload.name)} />
          <span class="soft small">{words.sending(percent)}</span>
        </span>
      );
    }
    case "reading":
      return (
        <span class="docs-progress">
          <progress aria-label={visible(upload.name)} />
          <span class="soft small">{words.reading}</span>
        </span>
      );
    case "ready":
      return (
        <span>
          <span class="tag ok">{words.ready}</span>{" "}
          <span class="soft small">{shared.passageCount(state.document.chunk_count)}</span>
        </span>
      );
    case "failed":
      return (
        <span class="docs-why">
          <span class="tag danger">{words.failed}</span> {state.why}
        </span>
      );
    default:
      return <span class="tag">{words[state.kind]}</span>;
  }
}

/** Said once, when the last of them is over. */
function spoken(all: readonly Upload[]): string {
  return all
    .map(
      ({ name, state }) =>
        `${name}: ${state.kind === "failed" ? `${words.failed}, ${state.why}` : words[stateWord(state.kind)]}`,
    )
    .join("; ");
}

function stateWord(kind: Upload["state"]["kind"]): "ready" | "cancelled" {
  return kind === "ready" ? "ready" : "cancelled";
}
