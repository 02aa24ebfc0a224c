/**
 * Words of one area of the page, in both languages. Each area keeps its own file:
 *
 *   export const words = inLanguage({ en: { send: "Send" }, zh: { send: "发送" } });
 *
 * A key that one language lacks is a type error. What depends on a value is a function.
 */
import { language, type Language } from "./language.ts";

export type Words = Readonly<Record<string, string | ((...values: never[]) => string)>>;

export function inLanguage<W extends Words>(both: Readonly<Record<Language, W>> & { en: W; zh: NoInfer<W> }): W {
  return both[language];
}
