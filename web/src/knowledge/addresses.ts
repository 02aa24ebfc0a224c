/** The addresses of the knowledge views. */
import { address } from "../http/request.ts";

export function documentsAt(base: string): string {
  return address(["bases", base]);
}

export function documentAt(base: string, id: string, passage?: string): string {
  return address(["bases", base, "documents", id]) + (passage === undefined ? "" : `#${passage}`);
}

export function factsAt(base: string): string {
  return address(["bases", base, "facts"]);
}

export function entityAt(base: string, id: string): string {
  return address(["bases", base, "entities", id]);
}

export function proposalsAt(base: string): string {
  return address(["bases", base, "proposals"]);
}

export function evidenceAt(base: string): string {
  return address(["bases", base, "evidence"]);
}
