/** What the answer rests on, in words. Anything but cited passages is drawn so that it can't be overlooked. */
import type { Evidence as Verdict } from "../turn/frames.ts";
import { words } from "./words.ts";

export function Evidence({ verdict, cited }: { verdict: Verdict; cited: number }) {
  const said = {
    cited: { label: words.cited(cited), hint: words.citedHint, kind: "ok" },
    uncited: { label: words.uncited, hint: words.uncitedHint, kind: "caution" },
    skipped: { label: words.skipped, hint: words.skippedHint, kind: "" },
    none: { label: words.none, hint: words.noneHint, kind: "danger" },
  }[verdict];
  return (
    <p class={`evidence ${said.kind}`} data-verdict={verdict}>
      <span class={`tag ${said.kind}`}>{said.label}</span>
      {verdict !== "cited" && <span class="small soft">{said.hint}</span>}
    </p>
  );
}
