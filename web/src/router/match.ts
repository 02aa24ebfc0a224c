/** Path patterns such as `/c/:id` and `/bases/:base/:rest*`. Pure. */

export type Params = Readonly<Record<string, string>>;

/** The values of the pattern's names in the path, decoded; null where it doesn't match. `:name*` takes the rest. */
export function match(pattern: string, path: string): Params | null {
  const wanted = parts(pattern);
  const given = parts(path);
  const values: Record<string, string> = {};
  for (const [n, part] of wanted.entries()) {
    if (part.startsWith(":") && part.endsWith("*")) {
      values[part.slice(1, -1)] = given.slice(n).map(decoded).join("/");
      return values;
    }
    const value = given[n];
    if (value === undefined) return null;
    if (part.startsWith(":")) values[part.slice(1)] = decoded(value);
    else if (part !== value) return null;
  }
  return given.length === wanted.length ? values : null;
}

function parts(path: string): string[] {
  return path.split("/").filter((part) => part !== "");
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // a lone % in an address that somebody typed
  }
}
