import { eq } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import { withDeadline } from "./d1.ts";
import { stakes } from "./schema.ts";

/** The stake in token units that the operator recorded for a worker's key; 0 for one without a row [ST1]. @throws {StoreUnavailable} */
export async function stakeOf(db: D1Database, pubkey: string): Promise<number> {
  const query = drizzle(db).select({ amount: stakes.amount }).from(stakes).where(eq(stakes.providerPubkey, pubkey));
  const [row] = await withDeadline(query);
  return row?.amount ?? 0;
}
