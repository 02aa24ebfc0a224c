/** The conversations in the navigation: search, open, rename, delete, begin a new one. */
import { useEffect, useRef, useState } from "preact/hooks";

import { announce, heard } from "../chat/news.ts";
import { Refusal } from "../http/request.ts";
import { shortMoment } from "../i18n/moments.ts";
import { navigate } from "../router/location.ts";
import { visible } from "../text/visible.ts";
import "./list.css";
import { find, remove, rename, type Conversation } from "./stored.ts";
import { words } from "./words.ts";

interface Listed {
  conversations: Conversation[];
  total: number;
}

export function ConversationList({ current }: { current: string | null }) {
  const [query, setQuery] = useState("");
  const { listed, failed, load } = useListed(query);
  const more = listed !== null && listed.conversations.length < listed.total;
  return (
    <section class="list" aria-label={words.conversations}>
      <a
        class="button list-new"
        href="/"
        aria-current={current === null && location.pathname === "/" ? "page" : undefined}
      >
        <span aria-hidden="true">+</span> {words.newConversation}
      </a>
      <input
        type="search"
        class="field list-search"
        aria-label={words.search}
        placeholder={words.search}
        maxLength={200}
        value={query}
        onInput={(event) => setQuery(event.currentTarget.value)}
      />
      <div class="list-scroll">
        {failed && (
          <p class="small list-note">
            {words.failed}{" "}
            <button type="button" class="button quiet small" onClick={() => load(0)}>
              {words.again}
            </button>
          </p>
        )}
        {listed?.total === 0 && <p class="small soft list-note">{query.trim() === "" ? words.none : words.noMatch}</p>}
        <ul class="list-entries">
          {listed?.conversations.map((one) => (
            <Entry key={one.id} conversation={one} current={one.id === current} />
          ))}
        </ul>
        {more && (
          <button type="button" class="button quiet small" onClick={() => load(listed.conversations.length)}>
            {words.more}
          </button>
        )}
      </div>
    </section>
  );
}

/** What the search finds, read anew when a conversation begins, ends or changes in any tab. */
function useListed(query: string) {
  const [listed, setListed] = useState<Listed | null>(null);
  const [failed, setFailed] = useState(false);
  const reading = useRef(new AbortController());

  const load = (offset: number) => {
    reading.current.abort();
    reading.current = new AbortController();
    const { signal } = reading.current;
    find(query.trim(), offset, signal).then(
      (found) => {
        setFailed(false);
        setListed((before) => (offset === 0 || before === null ? found : joined(before, found)));
      },
      (error: unknown) => {
        if (signal.aborted) return;
        if (!(error instanceof Refusal)) throw error;
        setFailed(true);
      },
    );
  };
  useEffect(() => {
    const typed = setTimeout(() => load(0), query === "" ? 0 : 200);
    const unhear = heard(() => load(0));
    return () => {
      clearTimeout(typed);
      unhear();
      reading.current.abort();
    };
  }, [query]);
  return { listed, failed, load };
}

function joined(before: Listed, next: Listed): Listed {
  const known = new Set(before.conversations.map((one) => one.id));
  return {
    conversations: [...before.conversations, ...next.conversations.filter((one) => !known.has(one.id))],
    total: next.total,
  };
}

type Act = "nothing" | "choosing" | "renaming" | "removing";

function Entry({ conversation, current }: { conversation: Conversation; current: boolean }) {
  const [doing, setDoing] = useState<Act>("nothing");
  const [trouble, setTrouble] = useState("");
  const title = visible(conversation.title);
  const { id } = conversation;

  const change = async (request: Promise<unknown>, what: "renamed" | "deleted") => {
    try {
      await request;
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      setTrouble(error.message);
      return;
    }
    setTrouble("");
    setDoing("nothing");
    announce({ conversation: id, what });
    if (what === "deleted" && current) navigate("/", { replace: true });
  };
  return (
    <li class={`list-entry ${current ? "current" : ""}`}>
      <div class="list-row">
        <a href={`/c/${id}`} aria-current={current ? "page" : undefined} title={title}>
          <bdi class="list-title">{title}</bdi>
          <span class="list-when small soft">{shortMoment(conversation.updated_at)}</span>
        </a>
        <button
          type="button"
          class="button quiet small list-more"
          aria-label={words.actions(title)}
          aria-expanded={doing !== "nothing"}
          onClick={() => setDoing(doing === "nothing" ? "choosing" : "nothing")}
        >
          ⋯
        </button>
      </div>
      <Doing conversation={conversation} doing={doing} onDoing={setDoing} onChange={change} />
      {trouble !== "" && (
        <p class="small list-trouble" role="alert">
          {trouble}
        </p>
      )}
    </li>
  );
}

interface DoingProps {
  conversation: Conversation;
  doing: Act;
  onDoing: (next: Act) => void;
  onChange: (request: Promise<unknown>, what: "renamed" | "deleted") => Promise<void>;
}

function Doing({ conversation, doing, onDoing, onChange }: DoingProps) {
  const { id, title } = conversation;
  return (
    <>
      {doing === "choosing" && (
        <div class="list-doing">
          <button type="button" class="button small" onClick={() => onDoing("renaming")}>
            {words.rename}
          </button>
          <button type="button" class="button small danger" onClick={() => onDoing("removing")}>
            {words.remove}
          </button>
        </div>
      )}
      {doing === "renaming" && (
        <Renaming
          title={title}
          onSave={(to) => onChange(rename(id, to), "renamed")}
          onCancel={() => onDoing("nothing")}
        />
      )}
      {doing === "removing" && (
        <div class="list-doing" role="group" aria-label={words.removeThis}>
          <span class="small">{words.removeThis}</span>
          <button type="button" class="button small danger" onClick={() => onChange(remove(id), "deleted")}>
            {words.remove}
          </button>
          <button type="button" class="button quiet small" onClick={() => onDoing("nothing")}>
            {words.cancel}
          </button>
        </div>
      )}
    </>
  );
}

function Renaming({
  title,
  onSave,
  onCancel,
}: {
  title: string;
  onSave: (to: string) => Promise<void>;
  onCancel: () => void;
}) {
  const [to, setTo] = useState(title);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.select(), []);
  return (
    <form
      class="list-doing"
      onSubmit={(event) => {
        event.preventDefault();
        if (to.trim() !== "") void onSave(to.trim());
      }}
      onKeyDown={(event) => {
        if (event.key !== "Escape" || event.isComposing) return;
        event.preventDefault();
        onCancel();
      }}
    >
      <input
        ref={field}
        class="field"
        aria-label={words.title}
        maxLength={120}
        value={to}
        onInput={(event) => setTo(event.currentTarget.value)}
      />
      <button type="submit" class="button small primary">
        {words.save}
      </button>
      <button type="button" class="button quiet small" onClick={onCancel}>
        {words.cancel}
      </button>
    </form>
  );
}
