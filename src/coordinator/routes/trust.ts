// Pairing: a user creates a code, a worker claims it, and from then on that worker may get the user's PRIVATE jobs.
import type * as z from "zod";
import { describeIssues } from "../../protocol/issues.ts";
import { MADE_USER_ID } from "../../protocol/job.ts";
import { isJsonObject } from "../../protocol/json.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { type Paired, PairingClaim, type PairingCode, PairingCreate, type TrustList } from "../../protocol/rest.ts";
import type { Result } from "../../protocol/result.ts";
import { isoTime, PAIRING_CODE } from "../../protocol/text.ts";
import { RETRY_AFTER } from "../../protocol/times.ts";
import { pairText } from "../../protocol/worker-messages.ts";
import { toHex } from "../../receipt/bytes.ts";
import { verifyText } from "../../receipt/ed25519.ts";
import { type AppContext, refuse, refuseWith } from "../http/context.ts";
import { askHub } from "../http/hub-client.ts";
import { clientOf, provesUser, readJsonBody, readUserToken, refuseBody } from "../http/request.ts";
import type { Hub } from "../hub/rpc.ts";
import { errorFacts, logError } from "../log.ts";
import { boundToken, claimCode, isFull, noteUse, storeCode, trustOf } from "../store/trust.ts";

/** `POST /v1/trust/create` [SPEC, TR2, TR3]. */
export async function createPairing(c: AppContext): Promise<Response> {
  const body = await readFields(c, PairingCreate, ["user_id"]);
  if (!body.ok) return body.reason;
  const { user_id: userId } = body.value;
  // Its token would list the jobs of the one who sent the request.
  if (MADE_USER_ID.test(userId)) return refuseWith(c, 400, "user_id has a form that is reserved for OpenAI requests without a user; choose another one");
  const token = readUserToken(c.req.header("X-User-Token"), userId);
  if (!token.ok) return refuseWith(c, 400, token.reason);
  const { storageBytes, rateLimits } = c.get("settings");
  if (await isFull(c.env.DB, storageBytes)) return refuse(c, "storage_full", RETRY_AFTER.storage_full);
  if (!provesUser(token.value, await boundToken(c.env.DB, userId, token.value, Date.now()))) return refuse(c, "user_token_required");
  const openLimit = rateLimits ? LIMITS.openPairingCodes : null;
  const now = Date.now();
  for (let tries = 0; tries < LIMITS.pairingCodeTries; tries++) {
    const code = toHex(crypto.getRandomValues(new Uint8Array(3))).toUpperCase();
    const stored = await storeCode(c.env.DB, { code, userId, now, openLimit });
    if (stored.ok) {
      const created: PairingCode = { pairing_code: code, expires_at: isoTime(stored.value) };
      return c.json(created, 201);
    }
    if (stored.reason.kind === "too_many") return refuse(c, "rate_limited", (stored.reason.until - now) / 1_000);
  }
  return refuse(c, "overloaded", RETRY_AFTER.overloaded);
}

/** `POST /v1/trust/claim` [SPEC, API4, TR3, TR4]. */
export async function claimPairing(c: AppContext): Promise<Response> {
  const { network, rateLimits } = c.get("settings");
  const body = await readFields(c, PairingClaim, ["pairing_code", "provider_pubkey"]);
  if (!body.ok) return body.reason;
  const { provider_pubkey: key, signature } = body.value;
  const code = body.value.pairing_code.toUpperCase();
  if (signature != null && !verifyText(pairText({ network, code, pubkey: key }), signature, key)) return refuseWith(c, 400, "invalid_signature");
  // A text that does not have the form of a code cannot match one, so it does not count as a guess.
  if (!PAIRING_CODE.test(code)) return refuseWith(c, 400, "invalid_code");

  const id = crypto.randomUUID();
  const signedBy = signature == null ? null : key;
  if (rateLimits && !(await askHub(c.env, (hub) => hub.mayClaimCode(clientOf(c.req.raw, c.get("settings")), id, signedBy)))) {
    return refuse(c, "rate_limited", RETRY_AFTER.rate_limited);
  }

  const now = Date.now();
  const claiming = claimAndTell(c, { code, key, id: rateLimits ? id : null, now });
  // Also if the client leaves: once the code is claimed, the hub must hear of it.
  c.executionCtx.waitUntil(claiming.catch(() => {}));
  const claim = await claiming;
  if (!claim.ok) return refuseWith(c, 400, claim.reason);
  const paired: Paired = { user_id: claim.value, paired_at: isoTime(now) };
  return c.json(paired);
}

/** Claims a code for a worker's key, tells the hub, and returns the user id. `id` is that of the claim in the hub's count; null if claims are not counted. */
async function claimAndTell(
  c: AppContext,
  { code, key, id, now }: { code: string; key: string; id: string | null; now: number },
): ReturnType<typeof claimCode> {
  const claim = await claimCode(c.env.DB, code, key, now);
  if (!claim.ok) return claim;
  // The claim is valid even if these calls fail: they only offer waiting jobs to the new worker and take this claim off the count of failed ones.
  const tell = async (call: "paired" | "codeClaimed", notice: (hub: Hub) => Promise<void>) =>
    await askHub(c.env, notice).catch((error: unknown) => logError("paired_not_told", { request_id: c.get("requestId"), call, ...errorFacts(error) }));
  await Promise.all([tell("paired", (hub) => hub.paired(claim.value, key)), ...(id === null ? [] : [tell("codeClaimed", (hub) => hub.codeClaimed(id))])]);
  return claim;
}

/** `GET /v1/trust/list` [SPEC, API4, TR2]. */
export async function listProviders(c: AppContext): Promise<Response> {
  const given = { user_id: c.req.query("user_id") };
  if (given.user_id === undefined) return refuseWith(c, 400, "Missing required query parameter: user_id");
  const query = PairingCreate.safeParse(given);
  if (!query.success) return refuseWith(c, 400, describeIssues(query.error, given));
  const { user_id: userId } = query.data;
  const token = readUserToken(c.req.header("X-User-Token"), userId);
  if (!token.ok) return refuseWith(c, 400, token.reason);
  const { pairings, tokenHash, usedAt } = await trustOf(c.env.DB, userId, null);
  if (!provesUser(token.value, tokenHash)) return refuse(c, "user_token_required");
  // A user with a pairing is not forgotten.
  if (tokenHash !== null && pairings.length === 0) await noteUse(c.env.DB, { userId, keys: [], usedAt, requestId: c.get("requestId") });
  const body: TrustList = {
    providers: pairings.map((pairing) => ({ provider_pubkey: pairing.providerPubkey, paired_at: isoTime(pairing.pairedAt) })),
  };
  return c.json(body);
}

/** Reads the body by `schema`. If a field is missing or wrong, the reason is the 400 that names it [API4]. */
async function readFields<T>(c: AppContext, schema: z.ZodType<T>, required: readonly string[]): Promise<Result<T, Response>> {
  const fields = required.join(", ");
  const hint = `Required fields: ${fields}`;
  const body = await readJsonBody(c.req.raw);
  if (!body.ok) return { ok: false, reason: refuseBody(c, body.reason, hint) };
  const { json } = body.value;
  if (!isJsonObject(json)) return { ok: false, reason: refuseWith(c, 400, `Body must be a JSON object. ${hint}`) };
  if (required.some((field) => json[field] == null)) return { ok: false, reason: refuseWith(c, 400, `Missing required fields: ${fields}`) };
  const parsed = schema.safeParse(json);
  return parsed.success ? { ok: true, value: parsed.data } : { ok: false, reason: refuseWith(c, 400, describeIssues(parsed.error, json)) };
}
