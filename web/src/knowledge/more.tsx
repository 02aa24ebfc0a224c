/** The button below a list of which more is there. */
import { words } from "./words.ts";

interface Props {
  /** How many are not shown. */
  readonly left: number;
  /** How many come at a time. */
  readonly page: number;
  readonly onMore: () => void;
}

export function More({ left, page, onMore }: Props) {
  if (left <= 0) return null;
  return (
    <p class="kb-more">
      <button type="button" class="button" onClick={onMore}>
        {words.more(Math.min(left, page))}
      </button>
    </p>
  );
}
