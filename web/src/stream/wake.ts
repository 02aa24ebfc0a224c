/** The moments at which a page should look at its connection at once instead of waiting. */

export type Wake =
  /** The network is back, or the page comes out of the browser's cache with its connections gone. */
  | "network"
  /** Somebody looks at the page again. */
  | "visible";

/** Calls `woken` at each of them until the returned function is called. */
export function onWake(woken: (why: Wake) => void): () => void {
  const online = () => woken("network");
  const shown = (event: PageTransitionEvent) => {
    if (event.persisted) woken("network");
  };
  const visible = () => {
    if (!document.hidden) woken("visible");
  };
  window.addEventListener("online", online);
  window.addEventListener("pageshow", shown);
  window.addEventListener("focus", visible);
  document.addEventListener("visibilitychange", visible);
  return () => {
    window.removeEventListener("online", online);
    window.removeEventListener("pageshow", shown);
    window.removeEventListener("focus", visible);
    document.removeEventListener("visibilitychange", visible);
  };
}
