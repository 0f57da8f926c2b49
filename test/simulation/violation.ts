/** A broken invariant: the simulation has found a bug. */
export class Violation extends Error {
  readonly invariant: string;

  constructor(invariant: string, detail: string) {
    super(`${invariant}: ${detail}`);
    this.name = "Violation";
    this.invariant = invariant;
  }
}

/** Throws unless `holds`; call `broken` directly where the detail costs something to write. */
export function broken(invariant: string, detail: string): never {
  throw new Violation(invariant, detail);
}
