/** The browser's side of follow.ts: real requests, Web Locks, and the page's own attention. */
import { detail } from "../conversations/stored.ts";
import { address } from "../http/request.ts";
import { PAGE } from "../http/signed_in.ts";
import type { Ports } from "./follow.ts";
import { LockSlots, UncountedSlots, type Slots } from "./slots.ts";
import { onWake } from "./wake.ts";

let focusedAt = Date.now();
window.addEventListener("focus", () => (focusedAt = Date.now()));
window.addEventListener("blur", () => (focusedAt = Date.now()));

function slots(): Slots {
  if (!("locks" in navigator)) return new UncountedSlots();
  return new LockSlots(navigator.locks, new BroadcastChannel("turnstream-slots"), () => {
    const focused = document.hasFocus();
    return { hidden: document.hidden, focused, focusedAt: focused ? Date.now() : focusedAt };
  });
}

export const browserPorts: Ports = {
  ask: (question, signal) =>
    fetch(address(["api", "chat"]), {
      method: "POST",
      headers: { accept: "text/event-stream", "content-type": "application/json", ...PAGE },
      body: JSON.stringify(question),
      cache: "no-store",
      signal,
    }),
  attach: (conversationId, lastId, signal) =>
    fetch(address(["api", "conversations", conversationId, "live"]), {
      headers: { accept: "text/event-stream", ...(lastId === null ? {} : { "last-event-id": lastId }) },
      cache: "no-store",
      signal,
    }),
  runningTurn: async (conversationId, signal) => (await detail(conversationId, signal)).running_turn_id,
  slots: slots(),
  onWake,
  random: Math.random,
};
