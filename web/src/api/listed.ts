/** Lists that the server gives in pages, as one list from the beginning. */

/** The most that a page of the server holds. */
const MOST = 200;

export interface Listed<T> {
  readonly items: readonly T[];
  readonly total: number;
}

/** The things from `from` to `to` of a list, and how many there are; `load` asks for one page. */
export async function listed<T>(
  from: number,
  to: number,
  load: (page: { limit: number; offset: number }) => Promise<Listed<T>>,
): Promise<Listed<T>> {
  const items: T[] = [];
  for (let offset = from; ; offset += MOST) {
    const page = await load({ limit: Math.min(MOST, to - offset), offset });
    items.push(...page.items);
    if (page.items.length < MOST || offset + MOST >= to) return { items, total: page.total };
  }
}
