/** Every view of the page, in the order of the navigation. A new area adds its list here. */
import { knowledgeViews } from "../knowledge/views.ts";
import { settingsViews } from "../settings/views.ts";
import type { View } from "./view.ts";

export const views: readonly View[] = [...knowledgeViews, ...settingsViews];
