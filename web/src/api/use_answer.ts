/** What the server answers, as a component sees it: being asked for, there, or refused. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";

/** `value` is the last good answer and stays while a newer one is asked for; `error` is what the newest one met. */
export interface Answer<T> {
  readonly value: T | null;
  readonly error: unknown;
  readonly asking: boolean;
  /** Ask again; resolves when the answer is there, or refused. */
  readonly again: () => Promise<void>;
}

/**
 * Asks when the component is first shown and whenever `about` changes, which says what the question depends on.
 *
 * An answer that comes after a newer question is dropped. A new `about` forgets the old answer unless `keep`.
 */
export function useAnswer<T>(ask: () => Promise<T>, about: string, keep = false): Answer<T> {
  const [state, setState] = useState<{ value: T | null; error: unknown; asking: boolean }>(ASKING);
  const question = useRef(0);
  const latest = useRef(ask);
  latest.current = ask;

  const again = useCallback(async () => {
    const mine = ++question.current;
    setState((before) => ({ ...before, asking: true }));
    try {
      const value = await latest.current();
      if (mine === question.current) setState({ value, error: null, asking: false });
    } catch (error) {
      if (mine === question.current) setState((before) => ({ value: before.value, error, asking: false }));
    }
  }, []);

  useEffect(() => {
    if (!keep) setState(ASKING);
    void again();
    return () => {
      question.current++;
    };
  }, [about]);

  return { ...state, again };
}

const ASKING = { value: null, error: null, asking: true };
