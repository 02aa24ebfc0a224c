/** Where an arrow key leads from one mark to the next. Pure. */
import type { Layout, Row } from "./layout.ts";

/**
 * The id of the fact that a key leads to, null where it leads nowhere: left and right in order of time within a
 * group and on to the next, up and down to the nearest in time of the group above or below, Home and End.
 */
export function walked(layout: Layout, from: string, key: string): string | null {
  const order = layout.rows.flatMap((row) => row.placed.map(({ item }) => item.fact.id));
  const at = order.indexOf(from);
  if (at === -1) return null;
  if (key === "ArrowRight") return order[at + 1] ?? null;
  if (key === "ArrowLeft") return order[at - 1] ?? null;
  if (key === "Home") return order[0] ?? null;
  if (key === "End") return order[order.length - 1] ?? null;
  if (key !== "ArrowUp" && key !== "ArrowDown") return null;
  const row = layout.rows.findIndex(({ placed }) => placed.some(({ item }) => item.fact.id === from));
  const next = layout.rows[row + (key === "ArrowDown" ? 1 : -1)];
  const day = layout.rows[row]?.placed.find(({ item }) => item.fact.id === from)?.item.first;
  return next === undefined || day === undefined ? null : nearest(next, day);
}

function nearest(row: Row, day: number): string | null {
  const byDistance = [...row.placed].sort((a, b) => Math.abs(a.item.first - day) - Math.abs(b.item.first - day));
  return byDistance[0]?.item.fact.id ?? null;
}
