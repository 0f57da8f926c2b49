import { TUNING } from "../../protocol/limits.ts";
/** JSON texts of jobs that ended lately: what pollers ask for next, without a read from D1. Bounded, oldest out first. */
export class Recent {
  readonly #jobs = new Map<string, string>();
  #chars = 0;

  get(id: string): string | undefined {
    return this.#jobs.get(id);
  }

  /** Forgets all: what retention has emptied must not be told any more [LM3]. */
  clear(): void {
    this.#jobs.clear();
    this.#chars = 0;
  }

  put(id: string, json: string): void {
    this.#jobs.set(id, json);
    this.#chars += json.length;
    for (const [oldest, text] of this.#jobs) {
      if (this.#chars <= TUNING.recentChars) return;
      this.#jobs.delete(oldest);
      this.#chars -= text.length;
    }
  }
}
