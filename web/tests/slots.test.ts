import assert from "node:assert/strict";
import { after, test } from "node:test";
import { locks } from "node:worker_threads";

import { LockSlots, SLOTS, type Attention, type Slot } from "../src/stream/slots.ts";

const channels: BroadcastChannel[] = [];
after(() => {
  for (const channel of channels) channel.close();
});

/** A tab of the test's browser: real locks, a real channel, and the attention that the test gives it. */
function tab(attention: Partial<Attention> = {}) {
  const channel = new BroadcastChannel("slots-of-a-test");
  channels.push(channel);
  const now = { hidden: false, focused: false, focusedAt: 0, ...attention };
  return { slots: new LockSlots(locks as unknown as LockManager, channel, () => now), now };
}

const { signal } = new AbortController();

/** Slots that are given back as soon as another tab needs them, as follow.ts does. */
async function holding(attention: Partial<Attention>): Promise<{ slot: Slot; gone: () => boolean }> {
  const slot = await tab(attention).slots.take(true, signal);
  assert.ok(slot !== null);
  slot.lost.addEventListener("abort", () => slot.release());
  return { slot, gone: () => slot.lost.aborted };
}

test("four tabs hold a slot; the fifth gets a hidden tab's, and a hidden one gets none", async () => {
  const held = [];
  for (let n = 0; n < SLOTS; n += 1) held.push(await holding({ hidden: n === 2, focusedAt: 100 - n }));
  assert.equal(await tab({ hidden: true }).slots.take(true, signal), null);
  const fifth = await tab().slots.take(true, signal);
  assert.ok(fifth !== null);
  assert.deepEqual(
    held.map((one) => one.gone()),
    [false, false, true, false],
  );
  assert.equal(
    await tab().slots.take(true, signal),
    null,
    "a visible tab without the focus takes nothing from visible ones",
  );
  for (const one of [...held, { slot: fifth }]) one.slot.release();
});

test("the focused tab gets the slot of the one that was focused the longest ago", async () => {
  const held = [];
  for (const focusedAt of [30, 10, 40, 20]) held.push(await holding({ focusedAt }));
  const focused = await tab({ focused: true, focusedAt: 50 }).slots.take(true, signal);
  assert.ok(focused !== null);
  assert.deepEqual(
    held.map((one) => one.gone()),
    [false, true, false, false],
  );
  assert.equal(await tab({ focused: true }).slots.take(false, signal), null, "without a claim no tab is asked");
  for (const one of [...held, { slot: focused }]) one.slot.release();
});

test("a slot that was given back is free again", async () => {
  const held = [];
  for (let n = 0; n < SLOTS; n += 1) held.push(await holding({}));
  held[1]?.slot.release();
  const next = await tab({ focused: true }).slots.take(false, signal);
  assert.ok(next !== null);
  for (const one of [...held, { slot: next }]) one.slot.release();
});
