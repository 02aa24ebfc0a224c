import assert from "node:assert/strict";
import { test } from "node:test";

import { address, refusalOf } from "../src/http/request.ts";
import { choose } from "../src/i18n/language.ts";
import { inLanguage } from "../src/i18n/words.ts";
import { match } from "../src/router/match.ts";
import { delay } from "../src/stream/backoff.ts";
import { newRequestId } from "../src/stream/request_id.ts";
import { visible } from "../src/text/visible.ts";

test("paths match their patterns, and names are decoded", () => {
  assert.deepEqual(match("/c/:id", "/c/0199"), { id: "0199" });
  assert.deepEqual(match("/bases/:base/facts/:name", "/bases/a%20b/facts/%E4%B8%AD"), { base: "a b", name: "中" });
  assert.deepEqual(match("/bases/:base/:rest*", "/bases/x/y/z"), { base: "x", rest: "y/z" });
  assert.deepEqual(match("/settings", "/settings/"), {});
  assert.deepEqual(match("/c/:id", "/c/100%"), { id: "100%" });
  for (const path of ["/c", "/c/1/2", "/d/1"]) assert.equal(match("/c/:id", path), null);
});

test("the interface speaks the first language that it knows of those wanted", () => {
  assert.equal(choose(["zh-CN", "en"]), "zh");
  assert.equal(choose(["fr", "en-GB", "zh"]), "en");
  assert.equal(choose(["de"]), "en");
  assert.equal(inLanguage({ en: { a: "x" }, zh: { a: "y" } }).a, "x");
});

test("characters that reorder or hide text become visible (case T08)", () => {
  assert.equal(visible("a\u202efdp.exe"), "a⟨U+202E⟩fdp.exe");
  assert.equal(visible("two\nlines\u0000\u200b"), "two lines⟨U+0000⟩⟨U+200B⟩");
  assert.equal(visible("中文 é 🦀 العربية"), "中文 é 🦀 العربية");
});

test("the wait doubles up to its limit, is random, and is at least what the server asked for", () => {
  const none = { retryMs: null, retryAfterS: null };
  assert.deepEqual(
    [0, 1, 2, 3, 20].map((n) => delay(n, none, 1)),
    [400, 800, 1_600, 3_200, 15_000],
  );
  assert.equal(delay(3, none, 0), 0);
  assert.equal(delay(0, { retryMs: 1_000, retryAfterS: null }, 0), 1_000);
  assert.equal(delay(0, { retryMs: 1_000, retryAfterS: 5 }, 1), 5_200);
});

test("addresses are encoded once, and empty parameters are left out", () => {
  assert.equal(
    address(["api", "bases", "a/b ?"], { q: "x&y", limit: 5, none: null, empty: "" }),
    "/api/bases/a%2Fb%20%3F?q=x%26y&limit=5",
  );
});

test("a refusal says its code, or the status where the body isn't ours", async () => {
  const ours = await refusalOf(
    Response.json({ error: { code: "not_found", message: "No." } }, { status: 404, headers: { "retry-after": "2" } }),
  );
  assert.deepEqual([ours.status, ours.code, ours.message, ours.retryAfterS], [404, "not_found", "No.", 2]);
  const foreign = await refusalOf(new Response("<html>", { status: 502, statusText: "Bad Gateway" }));
  assert.deepEqual(
    [foreign.status, foreign.code, foreign.message, foreign.retryAfterS],
    [502, "unexpected", "502 Bad Gateway", null],
  );
});

test("request ids are random UUIDs of version 4", () => {
  const ids = new Set(Array.from({ length: 50 }, newRequestId));
  assert.equal(ids.size, 50);
  for (const id of ids) assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
});
