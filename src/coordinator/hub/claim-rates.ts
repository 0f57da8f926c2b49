const MINUTE = 60_000;
const MAX_IPS = 10_000;

/** Counts claims of pairing codes in windows of a minute, in memory: a hub that was evicted is lenient once [TR3]. */
export class ClaimRates {
  #window = 0;
  #failed = 0;
  readonly #byIp = new Map<string, number>();

  /** Counts a claim by `ip`; false when it is one too many, or when all together have failed too often. */
  mayClaim(ip: string, perIp: number, failedInAll: number, now: number): boolean {
    this.#roll(now);
    const count = (this.#byIp.get(ip) ?? 0) + 1;
    if (count > perIp || this.#failed >= failedInAll) return false;
    if (count === 1 && this.#byIp.size >= MAX_IPS) return false;
    this.#byIp.set(ip, count);
    return true;
  }

  failed(now: number): void {
    this.#roll(now);
    this.#failed++;
  }

  #roll(now: number): void {
    const window = Math.floor(now / MINUTE);
    if (window === this.#window) return;
    this.#window = window;
    this.#failed = 0;
    this.#byIp.clear();
  }
}
