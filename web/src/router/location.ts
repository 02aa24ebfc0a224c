/** Where the page is: the path and the part after #, as signals, kept by the browser's history. */
import { signal } from "@preact/signals";

export const path = signal(window.location.pathname);
export const hash = signal(window.location.hash);

function read(): void {
  path.value = window.location.pathname;
  hash.value = window.location.hash;
}

/** Go to a path of this page. `replace` leaves no entry to go back to. */
export function navigate(to: string, { replace = false }: { replace?: boolean } = {}): void {
  const url = new URL(to, window.location.href);
  if (url.href === window.location.href) {
    return;
  }
  window.history[replace ? "replaceState" : "pushState"](null, "", url);
  read();
}

/** Follow the browser's own moves, and turn plain clicks on links of ours into moves without a reload. */
export function listen(): void {
  window.addEventListener("popstate", read);
  window.addEventListener("hashchange", read);
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    if (link === null || link.target !== "" || link.hasAttribute("download")) return;
    const url = new URL(link.href, window.location.href);
    if (url.origin !== window.location.origin || /^\/(api|v1|mcp|openapi\.json)/.test(url.pathname)) return;
    if (url.pathname === window.location.pathname && url.hash !== window.location.hash) return;
    event.preventDefault();
    navigate(url.pathname + url.search + url.hash);
  });
}
