/** One answer: its text with the steps where they happened, what it rests on, and what can be done with it. */
import { memo } from "./memo.ts";
import { Evidence } from "./evidence.tsx";
import { copyText, linkTo } from "./clipboard.ts";
import { CopyButton } from "./copy_button.tsx";
import { Segment } from "./segment.tsx";
import { segments } from "./segments.ts";
import { StepLine } from "./step_line.tsx";
import type { Link } from "../stream/follow.ts";
import type { AnswerEntry } from "./thread.ts";
import { words } from "./words.ts";

interface Props {
  entry: AnswerEntry;
  link: Link;
  /** A source was chosen: its number, and the sentence that cites it ("" from the list). */
  onSource: (n: number | null, claim: string) => void;
  onRetry: (messageId: string) => void;
}

export const Answer = memo(AnswerView, (a, b) =>
  a.entry.running ? a.entry === b.entry && a.link === b.link : a.entry === b.entry || same(a, b),
);

/** A stored answer is made anew at each reading; what it shows is the same while these are. */
function same(a: Props, b: Props): boolean {
  const [one, other] = [a.entry, b.entry];
  return (
    one.messageId === other.messageId &&
    one.running === other.running &&
    one.retry === other.retry &&
    one.content === other.content &&
    one.steps.length === other.steps.length &&
    one.sources.length === other.sources.length &&
    one.evidence === other.evidence
  );
}

function AnswerView({ entry, link, onSource, onRetry }: Props) {
  const parts = segments(entry.content, entry.steps);
  return (
    <article
      class="answer"
      id={entry.messageId === null ? undefined : `m-${entry.messageId}`}
      aria-label={words.answer}
      aria-busy={entry.running}
    >
      {parts.map((part) =>
        part.kind === "step" ? (
          <StepLine key={`step-${part.step.n}`} step={part.step} />
        ) : (
          <Segment
            key={`text-${part.start}`}
            text={part.text}
            sources={entry.sources}
            complete={!entry.running || !part.last}
            onSource={onSource}
          />
        ),
      )}
      {entry.running && <Progress entry={entry} link={link} />}
      {entry.error !== null && (
        <div class="notice danger">
          <p>
            <strong>{words.failed}</strong> <span dir="auto">{entry.error.message}</span>
          </p>
          {entry.retry !== null && (
            <button type="button" class="button small" onClick={() => onRetry(entry.retry ?? "")}>
              {words.retry}
            </button>
          )}
        </div>
      )}
      {!entry.running && <Foot entry={entry} onSource={onSource} />}
    </article>
  );
}

function Progress({ entry, link }: { entry: AnswerEntry; link: Link }) {
  const said = {
    live: entry.content === "" ? words.working : words.writing,
    reconnecting: words.reconnecting,
    waiting: words.waiting,
  };
  return (
    <p class={`progress small ${link}`}>
      <span class="progress-dot" aria-hidden="true" />
      {said[link]}
    </p>
  );
}

function Foot({ entry, onSource }: { entry: AnswerEntry; onSource: Props["onSource"] }) {
  const { messageId, sources } = entry;
  return (
    <footer class="answer-foot">
      {entry.stopped && <p class="tag caution">{words.stopped}</p>}
      {entry.evidence !== null && entry.error === null && (
        <Evidence verdict={entry.evidence} cited={entry.cited.length} />
      )}
      <div class="answer-actions">
        {sources.length > 0 && (
          <button type="button" class="button quiet small" onClick={() => onSource(null, "")}>
            {words.sources(sources.length)}
          </button>
        )}
        {entry.content !== "" && (
          <CopyButton label={words.copy} done={words.copied} copy={() => copyText(entry.content)} />
        )}
        {messageId !== null && (
          <CopyButton label={words.link} done={words.linkCopied} copy={() => copyText(linkTo(messageId))} />
        )}
      </div>
    </footer>
  );
}
