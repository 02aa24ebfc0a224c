/** The settings page. */
import type { View } from "../shell/view.ts";
import { words } from "./words.ts";

export const settingsViews: readonly View[] = [
  {
    path: "/settings",
    load: () => import("./settings.tsx").then((m) => m.Settings),
    nav: { label: words.settings, under: "/settings" },
  },
];
