/** Who an entity is connected with, by its facts. Pure. */
import type { EntityRef, Fact } from "../../api/facts.ts";

export interface Neighbour {
  readonly entity: EntityRef;
  readonly facts: number;
}

/** The entities at the other ends of the facts, those with the most facts first, then by name. */
export function neighboursOf(facts: readonly Fact[], entityId: string): readonly Neighbour[] {
  const found = new Map<string, { entity: EntityRef; facts: number }>();
  for (const fact of facts) {
    const other = fact.subject.id === entityId ? fact.object : fact.subject;
    if (other === null || other.id === entityId) continue;
    const known = found.get(other.id);
    if (known === undefined) found.set(other.id, { entity: other, facts: 1 });
    else known.facts++;
  }
  return [...found.values()].sort((a, b) => b.facts - a.facts || a.entity.name.localeCompare(b.entity.name));
}
