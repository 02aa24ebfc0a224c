/** A stretch of answer text as prose; a click on a number opens its source, one on a code block's button copies it. */
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";

import { claimBefore } from "../markdown/citations.ts";
import { Prose } from "../markdown/prose.ts";
import "../markdown/prose.css";
import { visible } from "../text/visible.ts";
import type { Source } from "../turn/frames.ts";
import { copyText } from "./clipboard.ts";
import { words } from "./words.ts";

interface Props {
  text: string;
  sources: readonly Source[];
  complete: boolean;
  onSource: (n: number, claim: string) => void;
}

export function Segment({ text, sources, complete, onSource }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const prose = useRef<Prose | null>(null);
  const titles = useMemo(
    () => new Map(sources.map(({ n, title }) => [n, words.openSource(n, visible(title))])),
    [sources],
  );
  useLayoutEffect(() => {
    if (host.current === null) return;
    prose.current ??= new Prose(host.current);
    prose.current.paint(text, { titles, copyLabel: words.copyCode }, { complete });
  }, [text, titles, complete]);
  return (
    <div
      class="prose"
      ref={host}
      onClick={(event) => {
        const at = event.target instanceof Element ? event.target : null;
        const cite = at?.closest<HTMLButtonElement>("button.cite");
        const copy = at?.closest<HTMLButtonElement>("button.prose-copy");
        if (cite) onSource(Number(cite.value), claimOf(cite));
        if (copy) void copyCode(copy);
      }}
    />
  );
}

/** The sentence in front of a citation, within its paragraph, entry or cell. */
function claimOf(cite: Element): string {
  const block = cite.closest("p, li, td, th, h1, h2, h3, h4, h5, h6") ?? cite.parentElement;
  if (block === null) return "";
  const before = document.createRange();
  before.selectNodeContents(block);
  before.setEndBefore(cite);
  const piece = before.cloneContents();
  for (const other of piece.querySelectorAll("button.cite")) other.replaceWith(`[${other.textContent}]`);
  const text = piece.textContent;
  return claimBefore(text, text.length);
}

async function copyCode(button: HTMLButtonElement): Promise<void> {
  const code = button.parentElement?.querySelector("pre")?.textContent ?? "";
  if (!(await copyText(code))) return;
  button.textContent = words.copied;
  setTimeout(() => (button.textContent = words.copyCode), 1_500);
}
