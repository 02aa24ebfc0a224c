/** A fact in a line of words, for labels and for those who hear the page. */
import type { Fact } from "../../api/facts.ts";
import { visible } from "../../text/visible.ts";
import { rangeWords } from "./date_words.ts";
import type { Group } from "./lanes.ts";
import { words } from "./words.ts";

export function sentenceOf(fact: Fact): string {
  return `${visible(fact.subject.name)} ${visible(fact.predicate)} ${visible(fact.object?.name ?? fact.value ?? "")}`;
}

export function spokenOf(fact: Fact): string {
  return `${sentenceOf(fact)}, ${rangeWords(fact.from, fact.to)}`;
}

/** "chief executive of OpenAI" where the entity is what the facts are said about, else what it does. */
export function groupName({ predicate, inverse }: Group, entityName: string): string {
  return inverse ? words.objectOf(visible(predicate), visible(entityName)) : visible(predicate);
}
