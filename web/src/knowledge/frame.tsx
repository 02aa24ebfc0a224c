/** What stands around every view of one base: its name, the way back, and its parts. */
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";

import { documentsAt, evidenceAt, factsAt, proposalsAt } from "./addresses.ts";
import "./frame.css";
import { words } from "./words.ts";

export type Part = "documents" | "facts" | "proposals" | "evidence";

interface Props {
  readonly base: string;
  readonly part: Part;
  /** What is shown, where it is one thing of the part; it is then the heading. */
  readonly title?: string;
  /** How many proposals wait, where that is known. */
  readonly waiting?: number;
  readonly children: ComponentChildren;
}

export function BaseFrame({ base, part, title, waiting, children }: Props) {
  const heading = title ?? words[part];
  useEffect(() => {
    document.title = `${heading} · ${base} · turnstream`;
  }, [heading, base]);
  return (
    <div class="view kb-view">
      <nav class="kb-crumbs small" aria-label={words.knowledge}>
        <a href="/bases">{words.knowledge}</a> <span aria-hidden="true">/</span> <a href={documentsAt(base)}>{base}</a>
        {title !== undefined && (
          <>
            {" "}
            <span aria-hidden="true">/</span>{" "}
            <a href={part === "facts" ? factsAt(base) : documentsAt(base)}>{words[part]}</a>
          </>
        )}
      </nav>
      {title === undefined && (
        <>
          <h1 class="unseen">{`${base}: ${heading}`}</h1>
          <nav class="kb-tabs" aria-label={words.sections}>
            <Tab href={documentsAt(base)} here={part === "documents"} label={words.documents} />
            <Tab href={factsAt(base)} here={part === "facts"} label={words.facts} />
            <Tab href={proposalsAt(base)} here={part === "proposals"} label={words.proposals} count={waiting} />
            <Tab href={evidenceAt(base)} here={part === "evidence"} label={words.evidence} />
          </nav>
        </>
      )}
      {children}
    </div>
  );
}

function Tab({ href, here, label, count }: { href: string; here: boolean; label: string; count?: number | undefined }) {
  return (
    <a href={href} aria-current={here ? "page" : undefined}>
      {label}
      {count ? <span class="tag caution">{count}</span> : null}
    </a>
  );
}
