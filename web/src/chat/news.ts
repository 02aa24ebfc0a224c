/** What the tabs of one browser tell each other about conversations, so that each shows what another one began. */

export interface News {
  conversation: string;
  what: "began" | "ended" | "renamed" | "deleted";
}

const channel = new BroadcastChannel("turnstream-conversations");
const listeners = new Set<(news: News, own: boolean) => void>();

channel.addEventListener("message", (event: MessageEvent) => {
  for (const listener of listeners) listener(event.data as News, false);
});

/** Tell the other tabs, and the rest of this one. */
export function announce(news: News): void {
  channel.postMessage(news);
  for (const listener of listeners) listener(news, true);
}

/** Calls `listener` for what any tab tells, with `own` true for this one's. Returns what ends it. */
export function heard(listener: (news: News, own: boolean) => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
