/** Requests by name, and answers as tables. The page, its first script and the worker of layouts share them. */

/** A dictionary-encoded text column: the distinct values, and the index of each row's value. */
type Packed = { values: unknown[]; at: (number | null)[] };
export type Columns = Record<string, unknown[] | Packed>;

export function rows<T>(columns: Columns): T[] {
  const names = Object.keys(columns);
  const all = Object.values(columns).map((column) => (Array.isArray(column) ? { values: column, at: null } : column));
  const length = all[0] ? (all[0].at ?? all[0].values).length : 0;
  return Array.from({ length }, (_, row) => {
    const made: Record<string, unknown> = {};
    for (let index = 0; index < names.length; index++) {
      const { values, at } = all[index] as { values: unknown[]; at: (number | null)[] | null };
      const place = at ? at[row] : row;
      made[names[index] as string] = place === null || place === undefined ? null : values[place];
    }
    return made as T;
  });
}

/** Returns path and query of a request. */
export const askedFor = (path: string, query: Record<string, string>) => `${path}?${new URLSearchParams(query)}`;

/** Returns the id of a node: its address, with the number of a time node. */
export const idOf = (address: string, window: number | null) => (window === null ? address : `${address}#${window}`);
