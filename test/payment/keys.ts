import { createHash } from "node:crypto";

/** Who holds a key in the lab: always the same key for the same role, and of no use on any real chain. */
export type Role = "deployer" | "facilitator" | "payee" | "mint" | `fee-payer-${number}` | `payer-${number}` | "poor" | "outsider" | "stranger";

/** The 32 secret bytes of a role, the same in every run. */
export function secretOf(role: Role): Buffer {
  return createHash("sha256").update(`compute-router payment lab: ${role}`).digest();
}
