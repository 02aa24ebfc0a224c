/** Extraction of facts by the configured model: start it, see how far it is, stop it. */
import { useEffect, useState } from "preact/hooks";

import { getExtraction, startExtraction, stopExtraction, type Extraction } from "../../api/extraction.ts";
import { getSettings } from "../../api/settings.ts";
import { useAnswer } from "../../api/use_answer.ts";
import { proposalsAt } from "../addresses.ts";
import { Trouble } from "../trouble.tsx";
import { words as shared } from "../words.ts";
import { words } from "./words.ts";

const LOOK_AGAIN_MS = 2_000;

export function ExtractionPanel({ base }: { base: string }) {
  const { value: settings } = useAnswer(getSettings, "");
  const { value: progress, error, again } = useAnswer(() => getExtraction(base), base);
  const [refusal, setRefusal] = useState<unknown>(null);
  const running = progress?.running ?? false;

  useEffect(() => {
    if (!running) return undefined;
    const timer = setInterval(() => void again(), LOOK_AGAIN_MS);
    return () => clearInterval(timer);
  }, [running]);

  async function act(deed: (base: string) => Promise<Extraction>): Promise<void> {
    setRefusal(null);
    try {
      await deed(base);
      await again();
    } catch (why) {
      setRefusal(why);
    }
  }

  if (settings === null || progress === null) return <Trouble error={error} again={() => void again()} />;
  return (
    <section class="card facts-extraction">
      <h2>{words.extraction}</h2>
      <p class="soft small">
        {settings.model.extracts ? (
          words.extractionAbout
        ) : (
          <>
            {words.noExtractor} <a href="/settings">{words.seeSettings}</a>
          </>
        )}
      </p>
      {(progress.running || progress.done > 0 || progress.failed > 0) && <Progress base={base} progress={progress} />}
      <Trouble error={refusal ?? error} />
      {settings.model.extracts && progress.total > 0 && (
        <p>
          {progress.running ? (
            <button type="button" class="button small" onClick={() => void act(stopExtraction)}>
              {words.stop}
            </button>
          ) : (
            progress.done < progress.total && (
              <button type="button" class="button small" onClick={() => void act(startExtraction)}>
                {progress.done > 0 ? words.goOn : words.start}
              </button>
            )
          )}
        </p>
      )}
    </section>
  );
}

function Progress({ base, progress }: { base: string; progress: Extraction }) {
  const said = words.progress(progress.done, progress.total);
  return (
    <div class="facts-progress small">
      {progress.running && <progress value={progress.done} max={Math.max(progress.total, 1)} aria-label={said} />}
      <p>
        {said} ·{" "}
        <a href={proposalsAt(base)} aria-label={`${words.proposed(progress.proposed)}: ${shared.proposals}`}>
          {words.proposed(progress.proposed)}
        </a>
      </p>
      {progress.failures.map((failure) => (
        <p key={failure.code} class="facts-gave-up">
          {words.gaveUp(failure.chunks, failure.message)}
        </p>
      ))}
    </div>
  );
}
