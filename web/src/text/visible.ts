/**
 * Names and titles of documents as they may be shown in one line: characters that reorder or hide what stands
 * beside them become visible. Source: case T08; the list is Unicode's bidi controls and invisible formats.
 */
const HIDDEN =
  /[\u061c\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060\u2066-\u2069\ufeff\u0000-\u001f\u007f-\u009f]/g;

export function visible(name: string): string {
  return name.replace(HIDDEN, (c) =>
    /\s/.test(c) ? " " : `\u27e8U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}\u27e9`,
  );
}
