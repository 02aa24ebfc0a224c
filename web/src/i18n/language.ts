/** The language of the interface: Chinese where the browser asks for it first, else English. */

export type Language = "en" | "zh";

/** The first of the browser's languages that the interface speaks. */
export function choose(wanted: readonly string[]): Language {
  for (const tag of wanted) {
    const name = tag.toLowerCase().split("-")[0];
    if (name === "zh" || name === "en") return name;
  }
  return "en";
}

export const language: Language = choose(typeof navigator === "undefined" ? [] : navigator.languages);
