import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";

/** Bytes of a cancel token. */
const TOKEN_BYTES = 16;

/**
 * Makes and checks the tokens that allow a seeker to cancel its job [JB13]. A token is the first 16 bytes, in hex, of HMAC-SHA256 over the job id under a
 * random key that the hub makes once, so nothing is stored per job.
 */
export class CancelTokens {
  readonly #key: Uint8Array;

  constructor(sql: SqlStorage) {
    const stored = sql.exec<{ key: SqlStorageValue }>("SELECT key FROM cancel_key").toArray()[0]?.key;
    this.#key = stored instanceof ArrayBuffer ? new Uint8Array(stored) : randomBytes(32);
    if (stored instanceof ArrayBuffer) return;
    sql.exec("DELETE FROM cancel_key");
    sql.exec("INSERT INTO cancel_key (key) VALUES (?)", this.#key.slice().buffer);
  }

  /** The token of a job. */
  of(jobId: string): string {
    return createHmac("sha256", this.#key).update(jobId).digest().subarray(0, TOKEN_BYTES).toString("hex");
  }

  /** True if this is the token of the job. The comparison takes constant time. */
  isOf(jobId: string, token: string): boolean {
    const [given, own] = [Buffer.from(token), Buffer.from(this.of(jobId))];
    return given.length === own.length && timingSafeEqual(given, own);
  }
}
