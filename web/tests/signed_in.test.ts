import assert from "node:assert/strict";
import { test } from "node:test";

import { refusalOf } from "../src/http/request.ts";
import { loggedIn, loginNeeded, noteStatus } from "../src/http/signed_in.ts";

test("an answer with 401 asks for a login, and others don't", async () => {
  for (const status of [0, 403, 404, 500]) noteStatus(status);
  assert.equal(loginNeeded.value, false);
  await refusalOf(Response.json({ error: { code: "unauthenticated", message: "Who?" } }, { status: 401 }));
  assert.equal(loginNeeded.value, true);
});

test("after a login a page that had shown something stays as it is, another one is loaded again", () => {
  let reloads = 0;
  noteStatus(200); // the login's own answer
  loggedIn(() => reloads++);
  assert.deepEqual([reloads, loginNeeded.value], [1, false]);
  for (const status of [200, 401, 401, 200]) noteStatus(status);
  loggedIn(() => reloads++);
  assert.deepEqual([reloads, loginNeeded.value], [1, false]);
});
