const MOST_JOBS = 2_000;
const MOST_CHARS = 16 * 1024;

/** JSON texts of jobs that ended lately: what pollers ask for next, without a read from D1. Only small ones, oldest out first. */
export class Recent {
  readonly #jobs = new Map<string, string>();

  get(id: string): string | undefined {
    return this.#jobs.get(id);
  }

  put(id: string, json: string): void {
    if (json.length > MOST_CHARS) return;
    this.#jobs.set(id, json);
    if (this.#jobs.size <= MOST_JOBS) return;
    const oldest = this.#jobs.keys().next().value;
    if (oldest !== undefined) this.#jobs.delete(oldest);
  }
}
