import type { CommitRequest, ResolvedPolicy } from "../../protocol/job.ts";
import { canonicalize } from "../../receipt/canonical.ts";
import { toHex } from "../../receipt/bytes.ts";

/**
 * What makes two commits the same under one `Idempotency-Key` [API5]: lowercase hex of SHA-256 over the canonical JSON of the endpoint
 * and of what the worker and the rules see. `payload` is the one for the worker, so members that only travel along count too.
 */
export async function fingerprint(policy: ResolvedPolicy, commit: CommitRequest, payload: Record<string, unknown>): Promise<string> {
  const { job_type, user_id, privacy_class } = commit;
  const text = JSON.stringify(canonicalize({ policy, job_type, user_id, privacy_class, payload }));
  return toHex(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))));
}
