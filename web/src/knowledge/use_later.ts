/** A value that follows another after it has stood still for a while: for questions that are asked while one types. */
import { useEffect, useState } from "preact/hooks";

export function useLater<T>(value: T, ms: number): T {
  const [later, setLater] = useState(value);
  useEffect(() => {
    if (Object.is(value, later)) return undefined;
    const timer = setTimeout(() => setLater(value), ms);
    return () => clearTimeout(timer);
  }, [value]);
  return later;
}
