/** The knowledge views and their addresses, all below /bases. */
import type { View } from "../shell/view.ts";
import { words } from "./words.ts";

export const knowledgeViews: readonly View[] = [
  {
    path: "/bases",
    load: () => import("./bases/bases.tsx").then((m) => m.Bases),
    nav: { label: words.knowledge, under: "/bases" },
  },
  { path: "/bases/:base", load: () => import("./documents/documents.tsx").then((m) => m.Documents) },
  { path: "/bases/:base/documents/:id", load: () => import("./documents/document.tsx").then((m) => m.Document) },
  { path: "/bases/:base/facts", load: () => import("./graph/graph.tsx").then((m) => m.Graph) },
  { path: "/bases/:base/entities/:id", load: () => import("./graph/entity.tsx").then((m) => m.EntityPage) },
  { path: "/bases/:base/proposals", load: () => import("./proposals/proposals.tsx").then((m) => m.Proposals) },
  { path: "/bases/:base/evidence", load: () => import("./evidence/evidence.tsx").then((m) => m.Evidence) },
];
