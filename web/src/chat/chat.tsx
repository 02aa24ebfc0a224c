/** The chat: the open conversation's thread, its sources beside it, and the place to ask. */
import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";

import type { Detail } from "../conversations/stored.ts";
import { navigate } from "../router/location.ts";
import { visible } from "../text/visible.ts";
import "./chat.css";
import { Composer } from "./composer.tsx";
import { saveAsMarkdown } from "./export.ts";
import { OpenConversation } from "./open.ts";
import { SourcesPanel, type OpenedSource } from "./sources_panel.tsx";
import { Thread } from "./thread_view.tsx";
import { Welcome } from "./welcome.tsx";
import { words } from "./words.ts";

export function Chat({ id }: { id: string | null }) {
  const conversation = useMemo(() => new OpenConversation((made) => navigate(`/c/${made}`, { replace: false })), []);
  const opened = useSignal<OpenedSource | null>(null);
  const base = useSignal(new URLSearchParams(window.location.search).get("base") ?? "default");
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => conversation.watch(), [conversation]);
  useEffect(() => {
    conversation.open(id);
    opened.value = null;
    if (id === null) field.current?.focus();
  }, [id, conversation]);

  const { title } = conversation;
  useEffect(() => {
    document.title = title === null ? "turnstream" : `${visible(title)} · turnstream`;
  }, [title]);
  useKeys(conversation, opened, field);

  const stored = conversation.stored.value;
  const running = conversation.running;
  const spoken = conversation.spoken.value;
  const begun = id !== null || running || conversation.notTaken.value !== null;
  if (conversation.missing) return <Missing />;
  return (
    <div class={`chat ${opened.value === null ? "" : "with-sources"}`}>
      <section class="chat-column" aria-label={title === null ? words.newConversation : visible(title)}>
        {begun && <Head title={title} stored={stored} />}
        {begun ? (
          <Thread conversation={conversation} onSource={(source) => (opened.value = source)} />
        ) : (
          <Welcome
            base={base.value}
            onBase={(name) => (base.value = name)}
            onAsk={(text) => conversation.ask(text, { base: base.value })}
          />
        )}
        <Composer conversation={conversation} base={base.value} field={field} />
      </section>
      {opened.value !== null && (
        <SourcesPanel
          opened={opened.value}
          base={stored?.base ?? base.value}
          onShow={(source) => (opened.value = source)}
          onClose={() => (opened.value = null)}
        />
      )}
      <p class="unseen" role="status">
        {conversation.link.value === "reconnecting" ? words.reconnecting : spoken === "" ? "" : words[spoken]}
      </p>
    </div>
  );
}

function Head({ title, stored }: { title: string | null; stored: Detail | null }) {
  return (
    <header class="chat-head">
      <h1>{title === null ? words.newConversation : visible(title)}</h1>
      {stored !== null && <span class="tag">{visible(stored.base)}</span>}
      {stored !== null && stored.messages.length > 0 && (
        <button
          type="button"
          class="button quiet small"
          title={words.exportHint}
          onClick={() => saveAsMarkdown(stored)}
        >
          {words.export}
        </button>
      )}
    </header>
  );
}

function Missing() {
  return (
    <div class="view">
      <p role="alert">{words.notFound}</p>
      <p>
        <a href="/">{words.newConversation}</a>
      </p>
    </div>
  );
}

/** Esc closes the sources, else stops; `/` goes to the question. */
function useKeys(
  conversation: OpenConversation,
  opened: { value: OpenedSource | null },
  field: { readonly current: HTMLTextAreaElement | null },
): void {
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.isComposing || event.keyCode === 229) return;
      const at = event.target instanceof Element ? event.target : null;
      if (event.key === "Escape") {
        if (opened.value !== null && at?.closest(".sources")) opened.value = null;
        else if (conversation.running) void conversation.stop();
        else opened.value = null;
      } else if (event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey) {
        if (at?.closest("input, textarea, select, [contenteditable]")) return;
        event.preventDefault();
        field.current?.focus();
      }
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, [conversation, opened, field]);
}
