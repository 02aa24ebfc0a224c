/** An error where it happened, with a way to try again where there is one. */
import { troubleOf } from "../api/trouble.ts";
import { words } from "./words.ts";

export function Trouble({ error, again }: { error: unknown; again?: () => void }) {
  if (error === null || error === undefined) return null;
  return (
    <div class="notice danger kb-trouble" role="alert">
      <p>{troubleOf(error)}</p>
      {again && (
        <button type="button" class="button small" onClick={again}>
          {words.tryAgain}
        </button>
      )}
    </div>
  );
}
