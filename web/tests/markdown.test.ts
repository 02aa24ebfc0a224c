import assert from "node:assert/strict";
import { test } from "node:test";

import { cut } from "../src/markdown/blocks.ts";
import { citations, claimBefore } from "../src/markdown/citations.ts";
import { html, tokens } from "../src/markdown/dialect.ts";
import { locate, marked } from "../src/markdown/quote.ts";

const DOCUMENT = `# Title

A paragraph with **bold** text,
over two lines.

- one
- two

  a second paragraph of two

1. first
2. second

\`\`\`ts
const a = "[1]";

# not a heading
\`\`\`

| a | b |
| --- | --- |
| 🦀 | [1] |

Setext
===

> quoted
lazily

    indented code

end`;

/** The document as a page shows it that settles blocks while the text grows by `size` units at a time. */
function grown(text: string, size: number): string {
  let [settled, shown] = [0, ""];
  let open = "";
  for (let end = size; end < text.length + size; end += size) {
    const step = cut(text.slice(settled, end));
    shown += html(step.settled);
    settled += step.length;
    open = html(step.open);
  }
  return shown + open;
}

for (const size of [1, 2, 5, 13, 100]) {
  test(`text that grows by ${size} looks like the whole text in the end`, () => {
    assert.equal(grown(DOCUMENT, size), html(tokens(DOCUMENT)));
  });
}

test("a block is settled as soon as another one stands behind it, and its length is the text's", () => {
  const text = "One 🦀.\n\nTwo.\n\n";
  const { length, settled, open } = cut(text);
  assert.equal(text.slice(0, length), "One 🦀.\n\n");
  assert.deepEqual(
    [settled.map((t) => t.type), open.map((t) => t.type)],
    [
      ["paragraph", "space"],
      ["paragraph", "space"],
    ],
  );
});

test("HTML in an answer is shown as text, images are links, and definitions of sources stay", () => {
  const shown = html(tokens('<img src=x onerror=alert(1)> a<br>b ![p](https://x/p.png)\n\n[1]: https://x/ "T"'));
  assert.ok(!shown.includes("<img"));
  assert.ok(shown.includes("&#60;img src=x onerror=alert(1)&#62;"));
  assert.ok(shown.includes("a<br>b"));
  assert.ok(shown.includes('<a href="https://x/p.png">p</a>'));
  assert.ok(shown.includes("[1]: "));
});

test("citations are found in every bracket that the server counts", () => {
  const text = "A [1][2], [3, 4] 和【5】、［6，7］ but not [a], a[i] or [].";
  assert.deepEqual(
    citations(text).map(({ start, end, numbers }) => [text.slice(start, end), numbers]),
    [
      ["[1]", [1]],
      ["[2]", [2]],
      ["[3, 4]", [3, 4]],
      ["【5】", [5]],
      ["［6，7］", [6, 7]],
    ],
  );
});

test("what a citation claims is its own sentence, without earlier citations", () => {
  const text = "It began in 2015 [1]. The board had six members. [2][3]";
  assert.equal(claimBefore(text, text.indexOf("[1]")), "It began in 2015");
  assert.equal(claimBefore(text, text.indexOf("[3]")), "The board had six members");
  assert.equal(claimBefore("成立于2015年。董事会有六人[2]", 15), "董事会有六人");
});

const PASSAGE =
  "The firm began in 2015. The board that removed\nSam Altman had six members. It met v2.5 often.\n董事会罢免了首席执行官。他五天后回来。";

test("the sentence that says what is claimed is marked", () => {
  const claims: [string, string][] = [
    ["Six members sat on the board that removed Sam Altman", "Sam Altman had six members."],
    ["董事会罢免首席执行官", "董事会罢免了首席执行官。"],
  ];
  for (const [claim, sentence] of claims) {
    const [range] = marked(PASSAGE, claim, "");
    assert.ok(range !== undefined, claim);
    assert.ok(PASSAGE.slice(range.start, range.end).endsWith(sentence), PASSAGE.slice(range.start, range.end));
  }
});

test("without such a sentence the excerpt's pieces are marked where they stand word for word", () => {
  const ranges = marked(PASSAGE, "Nothing like it", "began in 2015. … removed Sam Altman … not there");
  assert.deepEqual(
    ranges.map((r) => PASSAGE.slice(r.start, r.end)),
    ["began in 2015.", "removed\nSam Altman"],
  );
  assert.equal(locate("a+b (c)", "b (c)")?.start, 2);
  assert.equal(locate("a", "  "), null);
});
