/** Where a person looks into the graph of a base: search by name, or begin with what most facts are about. */
import { useState } from "preact/hooks";

import { listEntities, type Entity } from "../../api/entities.ts";
import { listed, type Listed } from "../../api/listed.ts";
import { getOverview, type Leader, type Overview } from "../../api/overview.ts";
import { useAnswer } from "../../api/use_answer.ts";
import { count } from "../../i18n/moments.ts";
import type { ViewProps } from "../../shell/view.ts";
import { visible } from "../../text/visible.ts";
import { entityAt } from "../addresses.ts";
import { BaseFrame } from "../frame.tsx";
import { More } from "../more.tsx";
import { Trouble } from "../trouble.tsx";
import { useLater } from "../use_later.ts";
import { words as shared } from "../words.ts";
import { ExtractionPanel } from "./extraction.tsx";
import "./graph.css";
import { words } from "./words.ts";

const PAGE = 50;

export function Graph({ params }: ViewProps) {
  const base = params["base"] ?? "";
  const { value: overview, error, again } = useAnswer(() => getOverview(base), base);
  return (
    <BaseFrame base={base} part="facts" waiting={overview?.pending_proposals ?? 0}>
      <Trouble error={error} again={() => void again()} />
      {overview === null && error === null && <p class="soft">{shared.loading}</p>}
      {overview !== null && overview.entities === 0 && <NoFacts base={base} />}
      {overview !== null && overview.entities > 0 && <Search base={base} overview={overview} />}
      {overview !== null && <ExtractionPanel base={base} />}
    </BaseFrame>
  );
}

function NoFacts({ base }: { base: string }) {
  return (
    <div class="kb-empty">
      <p>{words.none}</p>
      <p class="soft">{words.noneHow}</p>
      <p>
        <code>{`turnstream facts import facts.jsonl --base ${base}`}</code>
      </p>
    </div>
  );
}

function Search({ base, overview }: { base: string; overview: Overview }) {
  const [typed, setTyped] = useState("");
  const [type, setType] = useState("");
  const query = useLater(typed.trim(), 200);
  const looking = query !== "" || type !== "";
  return (
    <section class="facts-search">
      <div class="kb-bar" role="search">
        <input
          type="search"
          class="field"
          placeholder={words.search}
          aria-label={words.search}
          value={typed}
          onInput={(event) => setTyped(event.currentTarget.value)}
        />
        <span class="soft small">{words.counted(overview.entities, overview.facts)}</span>
      </div>
      <div class="kb-chips" role="group" aria-label={words.typeFilter}>
        <TypeChip name={words.allTypes} pressed={type === ""} onClick={() => setType("")} />
        {overview.types
          .filter((one) => one.type !== "")
          .map((one) => (
            <TypeChip
              key={one.type}
              name={visible(one.type)}
              n={one.entities}
              pressed={type === one.type}
              onClick={() => setType(one.type === type ? "" : one.type)}
            />
          ))}
      </div>
      {looking ? (
        <Results key={`${query} ${type}`} base={base} query={query} type={type} />
      ) : (
        <>
          <h2 class="kb-heading">{words.leaders}</h2>
          <EntityList base={base} entities={overview.leaders} />
        </>
      )}
    </section>
  );
}

function TypeChip({ name, n, pressed, onClick }: { name: string; n?: number; pressed: boolean; onClick: () => void }) {
  return (
    <button type="button" class="kb-chip" aria-pressed={pressed} onClick={onClick}>
      {name} {n !== undefined && <span class="soft">{count(n)}</span>}
    </button>
  );
}

function Results({ base, query, type }: { base: string; query: string; type: string }) {
  const [shown, setShown] = useState(PAGE);
  const about = JSON.stringify([base, query, type, shown]);
  const { value: page, error, again } = useAnswer(() => entitiesOf(base, { q: query, type }, shown), about, true);
  return (
    <>
      <Trouble error={error} again={() => void again()} />
      <p class="soft small" role="status">
        {page === null ? shared.loading : words.found(page.total)}
      </p>
      {page?.total === 0 && <p class="kb-empty soft">{words.noneFound}</p>}
      {page !== null && <EntityList base={base} entities={page.items} />}
      {page !== null && (
        <More left={page.total - page.items.length} page={PAGE} onMore={() => setShown(shown + PAGE)} />
      )}
    </>
  );
}

async function entitiesOf(base: string, query: { q: string; type: string }, shown: number): Promise<Listed<Entity>> {
  return listed(0, shown, async (page) => {
    const { entities, total } = await listEntities(base, { ...query, ...page });
    return { items: entities, total };
  });
}

function EntityList({ base, entities }: { base: string; entities: readonly (Entity | Leader)[] }) {
  return (
    <ul class="facts-entities">
      {entities.map((entity) => (
        <li key={entity.id}>
          <a href={entityAt(base, entity.id)}>
            <span class="facts-entity-name">{visible(entity.name)}</span>
            {entity.disambiguator !== "" && <span class="soft"> ({visible(entity.disambiguator)})</span>}
          </a>
          <span class="soft small">
            {entity.type === "" ? shared.noType : visible(entity.type)} · {shared.factCount(entity.fact_count)}
          </span>
          {"aliases" in entity && entity.aliases.length > 0 && (
            <span class="soft small">{words.alsoCalled(entity.aliases.map(visible).join(" · "))}</span>
          )}
        </li>
      ))}
    </ul>
  );
}
