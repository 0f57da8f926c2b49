import * as z from "zod";
import { readD1 } from "./database.ts";

/** What is needed of a job that has ended to answer a result that comes after. */
export const EndedFacts = z.object({
  status: z.string(),
  provider_pubkey: z.string().nullable(),
  holders: z.string().transform((text) => z.array(z.string()).parse(JSON.parse(text))),
  signature: z.string().nullable(),
  result: z.string().nullable(),
});
export type EndedFacts = z.infer<typeof EndedFacts>;

/** The result of a job that D1 has, null where it has none yet; undefined when D1 does not know the job. @throws {StoreUnavailable} */
export async function recordedResult(db: D1Database, jobId: string): Promise<string | null | undefined> {
  const row = await readD1(db, () => db.prepare("SELECT result FROM jobs WHERE id = ?").bind(jobId).first());
  return row === null ? undefined : EndedFacts.shape.result.parse(row.result);
}

/** The same as D1 has it; null for a job that it does not know. @throws {StoreUnavailable} */
export async function findEnded(db: D1Database, jobId: string): Promise<EndedFacts | null> {
  const query = "SELECT j.status, j.provider_pubkey, j.holders, j.result, r.signature FROM jobs j LEFT JOIN receipts r ON r.job_id = j.id WHERE j.id = ?";
  const row = await readD1(db, () => db.prepare(query).bind(jobId).first());
  return row === null ? null : EndedFacts.parse(row);
}
