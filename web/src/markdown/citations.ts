/** The numbers that a text cites, and where. The same brackets as the server's (app/turn/answer.py). Pure. */

export interface Citation {
  /** The first unit of the opening bracket, and the one behind the closing one. */
  start: number;
  end: number;
  numbers: number[];
}

const CITATION = /[[［【]\s*([0-9]{1,6}(?:\s*[,，、]\s*[0-9]{1,6})*)\s*[\]］】]/g;

export function citations(text: string): Citation[] {
  return [...text.matchAll(CITATION)].map((found) => ({
    start: found.index,
    end: found.index + found[0].length,
    numbers: [...(found[1] ?? "").matchAll(/[0-9]+/g)].map((digits) => Number(digits[0])),
  }));
}

const SENTENCE_END = /[.!?](?=\s)|[。！？；]|\n/g;

/** The sentence that a citation at `start` stands behind: what it claims. Earlier citations are left out of it. */
export function claimBefore(text: string, start: number): string {
  const before = text.slice(0, start).replace(CITATION, " ").trimEnd();
  // A full stop directly before the citation ends the sentence that is cited, not the one before it.
  const body = before.replace(/[.!?。！？；]+$/, "");
  let from = 0;
  for (const end of body.matchAll(SENTENCE_END)) from = end.index + end[0].length;
  return body.slice(from).trim();
}
