/** The frame of the page: navigation at the left (a drawer on a phone), the view of the current path beside it. */
import { signal } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import { Chat } from "../chat/chat.tsx";
import { ConversationList } from "../conversations/list.tsx";
import { loginNeeded } from "../http/signed_in.ts";
import { path } from "../router/location.ts";
import { match, type Params } from "../router/match.ts";
import { LoggedIn, Login } from "./login.tsx";
import "./shell.css";
import type { View, ViewProps } from "./view.ts";
import { views } from "./views.ts";
import { words } from "./words.ts";

const drawerOpen = signal(false);

export function Shell() {
  const current = path.value;
  useEffect(() => {
    drawerOpen.value = false;
  }, [current]);
  return (
    <div class="shell">
      <a class="skip button" href="#main">
        {words.skip}
      </a>
      <TopBar />
      <Navigation current={current} />
      <main id="main" class="shell-main" tabIndex={-1} inert={drawerOpen.value}>
        <Pane current={current} />
      </main>
      {loginNeeded.value && <Login />}
    </div>
  );
}

function TopBar() {
  return (
    <header class="shell-top">
      <button
        id="menu"
        type="button"
        class="button quiet"
        aria-expanded={drawerOpen.value}
        aria-controls="navigation"
        onClick={() => (drawerOpen.value = !drawerOpen.value)}
      >
        <span aria-hidden="true">☰</span> {words.menu}
      </button>
      <a class="shell-brand" href="/">
        turnstream
      </a>
    </header>
  );
}

function Navigation({ current }: { current: string }) {
  const nav = useRef<HTMLElement>(null);
  useEffect(() => {
    const drawer = nav.current;
    if (!drawerOpen.value || drawer === null) return;
    drawer.querySelector<HTMLElement>("a, button, input")?.focus();
    return () => {
      if (drawer.contains(document.activeElement)) document.getElementById("menu")?.focus();
    };
  }, [drawerOpen.value]);
  return (
    <>
      {drawerOpen.value && (
        <button
          type="button"
          class="shell-veil"
          aria-label={words.closeMenu}
          onClick={() => (drawerOpen.value = false)}
        />
      )}
      <nav
        id="navigation"
        ref={nav}
        class={`shell-nav ${drawerOpen.value ? "open" : ""}`}
        aria-label={words.navigation}
        onKeyDown={(event) => {
          if (event.key === "Escape") drawerOpen.value = false;
        }}
      >
        <a class="shell-brand" href="/">
          turnstream
        </a>
        <ConversationList current={match("/c/:id", current)?.["id"] ?? null} />
        <ul class="shell-areas">
          {views.map((view) => view.nav && <Area key={view.path} nav={view.nav} current={current} />)}
        </ul>
        <LoggedIn />
      </nav>
    </>
  );
}

function Area({ nav, current }: { nav: NonNullable<View["nav"]>; current: string }) {
  const here = current === nav.under || current.startsWith(`${nav.under}/`);
  return (
    <li>
      <a href={nav.under} aria-current={here ? "page" : undefined}>
        {nav.label}
      </a>
    </li>
  );
}

function Pane({ current }: { current: string }) {
  // One component for both paths: a new conversation keeps its stream when its address becomes known.
  const conversation = current === "/" ? {} : match("/c/:id", current);
  if (conversation !== null) return <Chat id={(conversation as Params)["id"] ?? null} />;
  for (const view of views) {
    const params = match(view.path, current);
    if (params !== null) return <Loaded key={view.path} view={view} params={params} />;
  }
  return (
    <div class="view">
      <p>{words.nothingHere}</p>
      <p>
        <a href="/">{words.toStart}</a>
      </p>
    </div>
  );
}

function Loaded({ view, params }: { view: View; params: Params }) {
  const [shown, show] = useState<{ Component: ComponentType<ViewProps> } | "failed" | null>(null);
  useEffect(() => {
    let left = false;
    view.load().then(
      (Component) => left || show({ Component }),
      () => left || show("failed"),
    );
    return () => {
      left = true;
    };
  }, [view]);
  if (shown === null) return <p class="view soft">{words.loading}</p>;
  if (shown === "failed") return <p class="view">{words.notLoaded}</p>;
  return <shown.Component params={params} />;
}
