/** The thread as it is drawn: questions and answers, in a scroller that stays at the end only while the reader is there. */
import { useComputed } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

import { hash } from "../router/location.ts";
import { Answer } from "./answer.tsx";
import type { OpenConversation } from "./open.ts";
import type { OpenedSource } from "./sources_panel.tsx";
import { StickyEnd } from "./sticky_end.ts";
import { thread, type QuestionEntry } from "./thread.ts";
import { words } from "./words.ts";

interface Props {
  conversation: OpenConversation;
  onSource: (source: OpenedSource) => void;
}

export function Thread({ conversation, onSource }: Props) {
  const scroller = useRef<HTMLDivElement>(null);
  const inner = useRef<HTMLDivElement>(null);
  const [end, setEnd] = useState<StickyEnd | null>(null);
  const [away, setAway] = useState(false);
  useLayoutEffect(() => {
    if (scroller.current === null || inner.current === null) return;
    const made = new StickyEnd(scroller.current, inner.current, setAway);
    setEnd(made);
    return () => made.close();
  }, []);

  const entries = useComputed(() => thread(conversation.stored.value?.messages ?? [], conversation.live.value)).value;
  const { running } = conversation;
  useEffect(() => {
    if (running) end?.go();
  }, [running, end]);
  useTarget(scroller.current, end, conversation.stored.value?.id ?? null);
  const loading =
    conversation.stored.value === null && conversation.live.value === null && conversation.notTaken.value === null;
  return (
    <div class="chat-scroll" ref={scroller} tabIndex={0} role="region" aria-label={words.thread}>
      <div class="chat-thread" ref={inner}>
        {loading && conversation.unreadable.value === null && <p class="soft">{words.loading}</p>}
        {entries.map((entry) =>
          entry.kind === "question" ? (
            <Question key={entry.key} entry={entry} />
          ) : (
            <Answer
              key={entry.key}
              entry={entry}
              link={conversation.link.value}
              onSource={(n, claim) => onSource({ sources: entry.sources, cited: entry.cited, n, claim })}
              onRetry={(messageId) => conversation.retry(messageId)}
            />
          ),
        )}
        <Troubles conversation={conversation} />
      </div>
      {away && (
        <button type="button" class="button small chat-latest" onClick={() => end?.go()}>
          ↓ {words.latest}
        </button>
      )}
    </div>
  );
}

function Question({ entry }: { entry: QuestionEntry }) {
  return (
    <article
      class="question"
      id={entry.messageId === null ? undefined : `m-${entry.messageId}`}
      aria-label={words.question}
    >
      <p dir="auto">{entry.text}</p>
    </article>
  );
}

/** What went wrong outside of an answer, each with what can be done about it. */
function Troubles({ conversation }: { conversation: OpenConversation }) {
  const notTaken = conversation.notTaken.value;
  const unreadable = conversation.unreadable.value;
  const notStopped = conversation.notStopped.value;
  const lonely = conversation.unanswered;
  return (
    <>
      {notTaken !== null && (
        <>
          {notTaken.question.message !== "" && (
            <Question entry={{ kind: "question", key: "", messageId: null, text: notTaken.question.message }} />
          )}
          <div class="notice danger" role="alert">
            <p>
              <strong>{words.notTaken}.</strong>{" "}
              {notTaken.refusal.status === 0 ? words.unreachable : notTaken.refusal.message}
            </p>
            <button type="button" class="button small" onClick={() => conversation.sendAgain()}>
              {words.sendAgain}
            </button>
          </div>
        </>
      )}
      {notStopped !== null && (
        <p class="notice danger" role="alert">
          {words.notStopped} {notStopped.status === 0 ? words.unreachable : notStopped.message}
        </p>
      )}
      {unreadable !== null && (
        <div class="notice danger" role="alert">
          <p>
            {words.unreadable} {unreadable.status === 0 ? words.unreachable : unreadable.message}
          </p>
          <button type="button" class="button small" onClick={() => conversation.again()}>
            {words.retry}
          </button>
        </div>
      )}
      {lonely !== null && (
        <div class="notice caution">
          <p>{words.unanswered}</p>
          <button type="button" class="button small" onClick={() => conversation.retry(lonely)}>
            {words.retry}
          </button>
        </div>
      )}
    </>
  );
}

/** Scrolls to the message that the address names (`#m-<id>`) once it is there, and lifts it out for a moment. */
function useTarget(scroller: HTMLElement | null, end: StickyEnd | null, conversationId: string | null): void {
  const wanted = hash.value;
  useEffect(() => {
    if (scroller === null || conversationId === null || !wanted.startsWith("#m-")) return;
    const message = document.getElementById(wanted.slice(1));
    if (message === null) return;
    end?.leave();
    message.scrollIntoView({ block: "start" });
    message.classList.add("target");
    const timer = setTimeout(() => message.classList.remove("target"), 2_500);
    return () => clearTimeout(timer);
  }, [scroller, end, conversationId, wanted]);
}
