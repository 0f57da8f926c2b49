import { LIMITS } from "../../protocol/limits.ts";

/**
 * Questions to D1 that frames of workers cause: a few at once, so many waiting, and few of them of one socket, so that nobody who sends results of
 * made-up jobs keeps D1 from the rest. What is too much is not asked and not answered: an honest worker sends its result again.
 */
export class Lookups {
  readonly #waiting: { conn: string; run: () => Promise<void> }[] = [];
  /** Per socket how many of its questions wait or are being asked. */
  readonly #perConn = new Map<string, number>();
  #running = 0;

  /** Has this asked in its turn; `run` must not reject. False when it is one too many. */
  add(conn: string, run: () => Promise<void>): boolean {
    const own = this.#perConn.get(conn) ?? 0;
    if (own >= LIMITS.lookupsPerSocket || this.#waiting.length >= LIMITS.lookupsWaiting) return false;
    this.#perConn.set(conn, own + 1);
    this.#waiting.push({ conn, run });
    this.#next();
    return true;
  }

  #next(): void {
    if (this.#running >= LIMITS.lookups) return;
    const first = this.#waiting.shift();
    if (first === undefined) return;
    this.#running++;
    void first.run().finally(() => {
      this.#running--;
      const left = (this.#perConn.get(first.conn) ?? 1) - 1;
      if (left === 0) this.#perConn.delete(first.conn);
      else this.#perConn.set(first.conn, left);
      this.#next();
    });
  }
}
