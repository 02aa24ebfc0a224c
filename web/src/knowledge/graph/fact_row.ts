/** Facts as rows that the server takes: what a form begins with. Pure. */
import type { EntityDetail } from "../../api/entities.ts";
import type { EntityRef, Fact, FactRow } from "../../api/facts.ts";

/** The row of a fact: the same claim, said by names. */
export function rowOf(fact: Fact): FactRow {
  const { subject, object } = fact;
  return {
    subject: subject.name,
    ...identity("subject", subject),
    predicate: fact.predicate,
    ...(object === null ? { value: fact.value ?? "" } : { object: object.name, ...identity("object", object) }),
    ...(fact.from === null ? {} : { from: fact.from }),
    ...(fact.to === null ? {} : { to: fact.to }),
    confidence: fact.confidence,
    ...(fact.evidence === null ? {} : { evidence: fact.evidence.chunk_id }),
    ...(fact.quote === "" ? {} : { quote: fact.quote }),
  };
}

/** A row that only says what it is about. */
export function rowAbout(entity: EntityDetail): FactRow {
  return { subject: entity.name, ...identity("subject", entity), predicate: "", object: "" };
}

/** The row of a proposal, to be completed where only a sentence was kept. */
export function rowOfProposal(fact: Partial<FactRow>, sentence: string): FactRow {
  const end = fact.value === undefined ? { object: fact.object ?? "" } : {};
  return { quote: sentence, ...fact, subject: fact.subject ?? "", predicate: fact.predicate ?? "", ...end };
}

/**
 * The row with another name at its end. What identified the old one goes with it: the type and the disambiguator
 * belonged to that entity.
 */
export function withObject(row: FactRow, other: { kind: "object" | "value"; text: string }): FactRow {
  const { object, object_type, object_disambiguator, value, ...rest } = row;
  if (other.kind === "value") return { ...rest, value: other.text };
  if (other.text !== object) return { ...rest, object: other.text };
  return {
    ...rest,
    object,
    ...(object_type === undefined ? {} : { object_type }),
    ...(object_disambiguator === undefined ? {} : { object_disambiguator }),
  };
}

/** The row with another subject, likewise. */
export function withSubject(row: FactRow, text: string): FactRow {
  if (text === row.subject) return row;
  const { subject_type: _type, subject_disambiguator: _disambiguator, ...rest } = row;
  return { ...rest, subject: text };
}

function identity(end: "subject" | "object", entity: Pick<EntityRef, "type" | "disambiguator">): Partial<FactRow> {
  return {
    ...(entity.type === "" ? {} : { [`${end}_type`]: entity.type }),
    ...(entity.disambiguator === "" ? {} : { [`${end}_disambiguator`]: entity.disambiguator }),
  };
}
