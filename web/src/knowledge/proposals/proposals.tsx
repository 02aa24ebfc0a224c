/** Proposals of a base: what waits for a nod, with the sentence it was read from, and what was decided before. */
import { useRef, useState } from "preact/hooks";

import { getPassage } from "../../api/documents.ts";
import type { FactRow } from "../../api/facts.ts";
import { listed, type Listed } from "../../api/listed.ts";
import {
  acceptProposal,
  listProposals,
  refuseProposal,
  type Proposal,
  type ProposalStatus,
} from "../../api/proposals.ts";
import { useAnswer } from "../../api/use_answer.ts";
import { shortMoment } from "../../i18n/moments.ts";
import { navigate } from "../../router/location.ts";
import type { ViewProps } from "../../shell/view.ts";
import { visible } from "../../text/visible.ts";
import { documentAt } from "../addresses.ts";
import { BaseFrame } from "../frame.tsx";
import { FactDialog } from "../graph/fact_dialog.tsx";
import { rowOfProposal } from "../graph/fact_row.ts";
import { More } from "../more.tsx";
import { rangeWords } from "../timeline/date_words.ts";
import { Trouble } from "../trouble.tsx";
import { words as shared } from "../words.ts";
import "./proposals.css";
import { words } from "./words.ts";

const PAGE = 50;
const STATUSES: readonly ProposalStatus[] = ["pending", "accepted", "refused"];

export function Proposals({ params }: ViewProps) {
  const base = params["base"] ?? "";
  const [status, setStatus] = useState<ProposalStatus>("pending");
  const [shown, setShown] = useState(PAGE);
  const [said, setSaid] = useState("");
  const list = useRef<HTMLUListElement>(null);
  const {
    value: page,
    error,
    again,
  } = useAnswer(() => proposalsOf(base, status, shown), `${base} ${status} ${shown}`, true);
  return (
    <BaseFrame base={base} part="proposals" waiting={status === "pending" ? (page?.total ?? 0) : 0}>
      <p class="soft proposals-about">{words.about}</p>
      <div class="kb-chips" role="group" aria-label={words.filter}>
        {STATUSES.map((one) => (
          <button
            key={one}
            type="button"
            class="kb-chip"
            aria-pressed={one === status}
            onClick={() => {
              setStatus(one);
              setShown(PAGE);
            }}
          >
            {words[one]}
          </button>
        ))}
      </div>
      <p class="unseen" role="status">
        {said}
      </p>
      <Trouble error={error} again={() => void again()} />
      {page === null && error === null && <p class="soft">{shared.loading}</p>}
      {page?.total === 0 && <p class="kb-empty soft">{status === "pending" ? words.nonePending : words.noneDecided}</p>}
      <ul ref={list} class="kb-rows">
        {page?.items.map((proposal, n) => (
          <Entry
            key={proposal.id}
            base={base}
            proposal={proposal}
            onDecided={async (word) => {
              setSaid(word);
              await again();
              // the one decided is gone from the list: whoever works through it by keyboard goes on with the next
              requestAnimationFrame(() => focusEntry(list.current, n));
            }}
          />
        ))}
      </ul>
      {page !== null && (
        <More left={page.total - page.items.length} page={PAGE} onMore={() => setShown(shown + PAGE)} />
      )}
    </BaseFrame>
  );
}

function focusEntry(list: HTMLUListElement | null, n: number): void {
  const entry = list?.children[n] ?? list?.lastElementChild;
  entry?.querySelector("button")?.focus();
}

async function proposalsOf(base: string, status: ProposalStatus, shown: number): Promise<Listed<Proposal>> {
  return listed(0, shown, async (page) => {
    const { proposals, total } = await listProposals(base, { status, ...page });
    return { items: proposals, total };
  });
}

interface EntryProps {
  readonly base: string;
  readonly proposal: Proposal;
  readonly onDecided: (said: string) => Promise<void>;
}

function Entry({ base, proposal, onDecided }: EntryProps) {
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const [changing, setChanging] = useState(false);
  const whole = isWhole(proposal.fact);

  async function decide(deed: () => Promise<Proposal>, said: string): Promise<void> {
    setBusy(true);
    setError(null);
    try {
      await deed();
      await onDecided(said);
    } catch (refusal) {
      setError(refusal);
      setBusy(false);
    }
  }

  return (
    <li class="proposals-entry">
      {whole ? (
        <p class="proposals-fact">
          {sayingOf(proposal.fact)}{" "}
          <span class="soft small">{rangeWords(proposal.fact.from ?? null, proposal.fact.to ?? null)}</span>
        </p>
      ) : (
        <p class="soft">{words.noFact}</p>
      )}
      <blockquote dir="auto">{proposal.sentence}</blockquote>
      <p class="soft small proposals-origin">
        {proposal.origin === "extraction" ? words.fromExtraction : words.fromRemember} ·{" "}
        {shortMoment(proposal.created_at)}
        {proposal.chunk_id !== null && <OpenPassage base={base} chunkId={proposal.chunk_id} onTrouble={setError} />}
      </p>
      <Trouble error={error} />
      {proposal.status === "pending" ? (
        <Deeds
          proposal={proposal}
          busy={busy}
          onAccept={() => void decide(() => acceptProposal(base, proposal.id), words.doneAccepted)}
          onChange={() => setChanging(true)}
          onRefuse={() => void decide(() => refuseProposal(base, proposal.id), words.doneRefused)}
        />
      ) : (
        <Decided proposal={proposal} />
      )}
      {changing && (
        <FactDialog
          base={base}
          deed={{ kind: "accept", proposal }}
          initial={rowOfProposal(proposal.fact, proposal.sentence)}
          onClose={() => setChanging(false)}
          onSaved={() => onDecided(words.doneAccepted)}
        />
      )}
    </li>
  );
}

interface DeedsProps {
  readonly proposal: Proposal;
  readonly busy: boolean;
  readonly onAccept: () => void;
  readonly onChange: () => void;
  readonly onRefuse: () => void;
}

function Deeds({ proposal, busy, onAccept, onChange, onRefuse }: DeedsProps) {
  const whole = isWhole(proposal.fact);
  const what = isWhole(proposal.fact) ? sayingOf(proposal.fact) : visible(proposal.sentence);
  const deeds = [
    ...(whole ? [{ word: words.accept, act: onAccept, look: "primary" }] : []),
    { word: whole ? words.change : words.say, act: onChange, look: "" },
    { word: words.refuse, act: onRefuse, look: "" },
  ];
  return (
    <div class="kb-actions">
      {deeds.map(({ word, act, look }) => (
        <button
          key={word}
          type="button"
          class={`button small ${look}`}
          disabled={busy}
          aria-label={words.deed(word, what)}
          onClick={act}
        >
          {word}
        </button>
      ))}
    </div>
  );
}

function Decided({ proposal }: { proposal: Proposal }) {
  const { status, decided_by: by, decided_at: at } = proposal;
  return (
    <p class="small">
      <span class={`tag ${status === "accepted" ? "ok" : ""}`}>{words[status]}</span>{" "}
      {by !== null && at !== null && <span class="soft">{words.decided(by, shortMoment(at))}</span>}
    </p>
  );
}

/** A passage's document is only known once the passage is asked for. */
function OpenPassage({
  base,
  chunkId,
  onTrouble,
}: {
  base: string;
  chunkId: string;
  onTrouble: (error: unknown) => void;
}) {
  async function open(): Promise<void> {
    try {
      const passage = await getPassage(base, chunkId);
      navigate(documentAt(base, passage.document_id, passage.id));
    } catch (refusal) {
      onTrouble(refusal);
    }
  }
  return (
    <button type="button" class="button quiet small" onClick={() => void open()}>
      {shared.openPassage}
    </button>
  );
}

/** Whether a proposal holds a fact, or only the sentence that was remembered. */
function isWhole(fact: Partial<FactRow>): fact is FactRow {
  return fact.subject !== undefined && fact.predicate !== undefined;
}

function sayingOf(fact: FactRow): string {
  return `${visible(fact.subject)} ${visible(fact.predicate)} ${visible(fact.object ?? fact.value ?? "")}`;
}
