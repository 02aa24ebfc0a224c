/** What a view of the page is: the paths it answers to, and the component that draws it. */
import type { ComponentType } from "preact";
import type { Params } from "../router/match.ts";

export interface ViewProps {
  params: Params;
}

export interface View {
  /** A pattern of router/match.ts. */
  path: string;
  /** Loaded when it is first visited; the same promise each time. */
  load: () => Promise<ComponentType<ViewProps>>;
  /** The entry in the navigation; a view without one is reached from another. */
  nav?: { label: string; /** Paths that begin with it show the entry as current. */ under: string };
}
