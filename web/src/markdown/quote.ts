/** Which sentences of a passage an answer's sentence rests on, so that an opened source shows them marked. Pure. */

export interface Range {
  start: number;
  end: number;
}

/** Where a sentence ends: also before a blank line and before an entry of a list; a line's end alone is none. */
const END = /[.!?]+["'”’)\]]*(?=\s|$)|[。！？；]+["”’」』）]*|\n(?=\s*\n|[-*#|>•]|\d+[.)]\s)/g;
const WORD = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]|[\p{L}\p{N}]+/gu;
const HAN = /[\p{Script=Han}]/u;

/** At least this part of what the claim says stands in the sentence that is marked. */
const ENOUGH = 0.45;

/**
 * The sentence of the passage that shares most with the claim; where none shares enough, the pieces of the excerpt
 * (it joins them with " … ") that stand in the passage word for word.
 */
export function marked(passage: string, claim: string, excerpt: string): Range[] {
  const best = closest(passage, claim);
  if (best !== null) return [best];
  const found = excerpt.split("…").map((piece) => locate(passage, piece));
  return found.filter((range) => range !== null).sort((a, b) => a.start - b.start);
}

function closest(passage: string, claim: string): Range | null {
  const wanted = terms(claim);
  if (wanted.size < 2) return null;
  let best: Range | null = null;
  let bestShare = ENOUGH;
  for (const range of sentences(passage)) {
    const here = terms(passage.slice(range.start, range.end));
    let shared = 0;
    for (const term of wanted) if (here.has(term)) shared += 1;
    if (shared / wanted.size > bestShare) {
      bestShare = shared / wanted.size;
      best = range;
    }
  }
  return best;
}

function sentences(passage: string): Range[] {
  const ends = [...passage.matchAll(END)].map((end) => end.index + end[0].length);
  const found: Range[] = [];
  let from = 0;
  for (const end of [...ends, passage.length]) {
    const text = passage.slice(from, end);
    const start = from + (text.length - text.trimStart().length);
    if (text.trim() !== "") found.push({ start, end: from + text.trimEnd().length });
    from = end;
  }
  return found;
}

/** Words, lower case, and pairs of neighbouring Chinese characters. */
function terms(text: string): Set<string> {
  const found = new Set<string>();
  let before = "";
  for (const [word] of text.toLowerCase().matchAll(WORD)) {
    if (!HAN.test(word)) found.add(word);
    else if (HAN.test(before)) found.add(before + word);
    before = word;
  }
  return found;
}

/** Where the piece stands in the text, whatever the blanks between its words; null where it doesn't. */
export function locate(text: string, piece: string): Range | null {
  const words = piece
    .trim()
    .split(/\s+/)
    .filter((word) => word !== "");
  if (words.length === 0) return null;
  const pattern = words.map((word) => word.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&")).join("\\s+");
  const found = new RegExp(pattern).exec(text);
  return found === null ? null : { start: found.index, end: found.index + found[0].length };
}
