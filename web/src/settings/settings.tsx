/** What the server is set to, without secrets, and a button that has it look at itself. */
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";

import { getSettings, type Limits, type ModelInfo, type ServerSettings, type Tool } from "../api/settings.ts";
import { troubleOf } from "../api/trouble.ts";
import { useAnswer } from "../api/use_answer.ts";
import { count } from "../i18n/moments.ts";
import { sizeOf } from "../text/size.ts";
import { Doctor } from "./doctor.tsx";
import "./settings.css";
import { words } from "./words.ts";

export function Settings() {
  const { value: settings, error, again } = useAnswer(getSettings, "");
  useEffect(() => {
    document.title = `${words.settings} · turnstream`;
  }, []);
  return (
    <div class="view settings">
      <header class="view-head">
        <h1>{words.settings}</h1>
      </header>
      <p class="soft settings-about">{words.about}</p>
      {error !== null && (
        <div class="notice danger" role="alert">
          <p>{troubleOf(error)}</p>
          <button type="button" class="button small" onClick={() => void again()}>
            {words.tryAgain}
          </button>
        </div>
      )}
      {settings === null && error === null && <p class="soft">{words.loading}</p>}
      {settings !== null && (
        <>
          <Model model={settings.model} />
          <Doctor />
          <Server settings={settings} />
          <LimitList limits={settings.limits} />
          <Tools tools={settings.tools} />
        </>
      )}
    </div>
  );
}

function Section({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <section class="settings-section">
      <h2>{title}</h2>
      {children}
    </section>
  );
}

function Line({ term, children }: { term: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{term}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Model({ model }: { model: ModelInfo }) {
  const offline = model.endpoint === null;
  return (
    <Section title={words.model}>
      <p class="settings-model">
        <span class="settings-name">{model.name}</span> {offline && <span class="tag caution">{words.offline}</span>}
      </p>
      {offline ? (
        <>
          <p>{words.offlineAbout}</p>
          <p class="soft">{words.offlineHow}</p>
          <pre class="settings-code">
            {"TURNSTREAM_LLM_BASE_URL=https://your-endpoint/v1\nTURNSTREAM_LLM_API_KEY=…\nTURNSTREAM_LLM_MODEL=…"}
          </pre>
        </>
      ) : (
        <>
          <p>{model.description}</p>
          <dl>
            <Line term={words.endpoint}>{model.endpoint}</Line>
            <Line term={words.key}>{model.keyed ? words.keySet : words.keyUnset}</Line>
            <Line term={words.reads}>{model.extracts ? words.yes : words.no}</Line>
          </dl>
        </>
      )}
    </Section>
  );
}

function Server({ settings }: { settings: ServerSettings }) {
  const { search } = settings;
  return (
    <Section title={words.server}>
      <dl>
        <Line term={words.search}>{search.model === null ? words.fullText : words.vectors(search.model)}</Line>
        <Line term={words.database}>{words[settings.database]}</Line>
        <Line term={words.live}>{words[settings.live_log]}</Line>
        <Line term={words.auth}>{words[settings.auth]}</Line>
        <Line term={words.version}>{settings.version}</Line>
        <Line term={words.prompt}>{settings.prompt_version}</Line>
      </dl>
    </Section>
  );
}

function LimitList({ limits }: { limits: Limits }) {
  return (
    <Section title={words.limits}>
      <dl>
        <Line term={words.rounds}>{count(limits.max_rounds)}</Line>
        <Line term={words.question}>{words.chars(limits.message_max_chars)}</Line>
        <Line term={words.answer}>{words.chars(limits.answer_max_chars)}</Line>
        <Line term={words.upload}>{sizeOf(limits.max_upload_bytes)}</Line>
        <Line term={words.atOnce}>{perPerson(limits.max_running_turns)}</Line>
        <Line term={words.requests}>{perPerson(limits.max_requests_per_minute)}</Line>
        <Line term={words.tokens}>{perPerson(limits.max_tokens_per_minute)}</Line>
      </dl>
    </Section>
  );
}

function perPerson(limit: number | null): string {
  return limit === null ? words.unlimited : count(limit);
}

function Tools({ tools }: { tools: readonly Tool[] }) {
  return (
    <Section title={words.tools}>
      <p class="soft">{words.toolsAbout}</p>
      <dl class="settings-tools">
        {tools.map((tool) => (
          <div key={tool.name}>
            <dt>
              <code>{tool.name}</code> {tool.writes && <span class="tag">{words.writes}</span>}
            </dt>
            <dd lang="en">{tool.headline}</dd>
          </div>
        ))}
      </dl>
    </Section>
  );
}
