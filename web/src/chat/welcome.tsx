/** What a first visit sees: what this is for, three questions to try, and the base they are asked of. */
import { useEffect, useState } from "preact/hooks";

import { answersOffline, baseNames } from "../conversations/stored.ts";
import { Refusal } from "../http/request.ts";
import { count } from "../i18n/moments.ts";
import { visible } from "../text/visible.ts";
import { words } from "./words.ts";

interface Props {
  base: string;
  onBase: (name: string) => void;
  onAsk: (question: string) => void;
}

export function Welcome({ base, onBase, onAsk }: Props) {
  const bases = useRead(baseNames) ?? [];
  const offline = useRead(answersOffline) ?? false;
  const chosen = bases.find((one) => one.name === base);
  return (
    <div class="chat-scroll">
      <div class="welcome">
        <h1>{words.intro}</h1>
        <p class="welcome-more">{words.introMore}</p>
        {chosen?.documents === 0 ? (
          <p class="notice caution">
            {words.baseEmpty} <a href={`/bases/${encodeURIComponent(base)}`}>{words.addDocuments}</a>
          </p>
        ) : (
          <section aria-labelledby="examples">
            <h2 id="examples" class="small soft">
              {words.examples}
            </h2>
            <ul class="welcome-examples">
              {words.exampleQuestions.split("\n").map((question) => (
                <li key={question}>
                  <button type="button" onClick={() => onAsk(question)}>
                    {question}
                  </button>
                </li>
              ))}
            </ul>
          </section>
        )}
        {offline && (
          <p class="small soft">
            {words.offline} <a href="/settings">{words.offlineMore}</a>
          </p>
        )}
        {bases.length > 0 && (
          <label class="welcome-base small">
            <span class="soft">{words.base}</span>
            <select class="field" value={base} onChange={(event) => onBase(event.currentTarget.value)}>
              {bases.map(({ name, documents }) => (
                <option key={name} value={name}>
                  {words.baseDocuments(visible(name), count(documents))}
                </option>
              ))}
            </select>
          </label>
        )}
      </div>
    </div>
  );
}

/** What the server says; null while it can't be read: asking says then what is wrong. */
function useRead<T>(read: (signal: AbortSignal) => Promise<T>): T | null {
  const [found, setFound] = useState<T | null>(null);
  useEffect(() => {
    const left = new AbortController();
    read(left.signal).then(
      (value) => setFound(() => value),
      (error: unknown) => {
        if (!left.signal.aborted && !(error instanceof Refusal)) throw error;
      },
    );
    return () => left.abort();
  }, [read]);
  return found;
}
