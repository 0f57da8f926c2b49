// The trust endpoints of the OpenAPI document: create, claim and list pairings [API8].
import { LIMITS } from "../../protocol/limits.ts";
import { body, FAULTS, json, type Operation, type Parameter, ref, shared, userToken } from "./components.ts";
import { EXAMPLES } from "./examples.ts";

const userIdQuery: Parameter = {
  name: "user_id",
  in: "query",
  required: true,
  description: "The user whose pairings to list.",
  schema: ref("UserId"),
  example: EXAMPLES.user,
};

/** `POST /v1/trust/create` */
export const create: Operation = {
  operationId: "createPairingCode",
  tags: ["Trust"],
  summary: "A pairing code, with which a worker becomes trusted for a user",
  description: `Free. The code can be claimed once, within one hour. A user has at most ${LIMITS.openPairingCodes} open codes.`,
  parameters: [
    userToken(
      "If the very first code of a user is made with a token, every later code, list and PRIVATE job of that user needs the same token. Only its hash is stored.",
    ),
  ],
  requestBody: body("PairingCreate", "The user.", { user: EXAMPLES.create }),
  responses: {
    "201": json("A new code.", "PairingCode", { code: EXAMPLES.code }),
    "400": json("`user_id` or the token is missing or wrong.", "Error", { missing: { error: "Missing required fields: user_id" } }),
    "401": shared("TokenRequired"),
    "413": shared("TooLarge"),
    "415": shared("Encoded"),
    "429": shared("RateLimited"),
    ...FAULTS,
  },
};

/** `POST /v1/trust/claim` */
export const claim: Operation = {
  operationId: "claimPairingCode",
  tags: ["Trust"],
  summary: "A worker claims a code and becomes trusted for its user",
  description: "Free; called by a worker. Upper and lower case do not matter. If several workers claim one code, exactly one succeeds.",
  requestBody: body("PairingClaim", "The code and the worker's public key.", { claim: EXAMPLES.claim }),
  responses: {
    "200": json("The worker is trusted for this user.", "Paired", { paired: EXAMPLES.paired }),
    "400": json("The code cannot be claimed, or a field is missing or wrong.", "Error", {
      "code unknown": { error: "invalid_code" },
      "code used": { error: "already_claimed" },
      "code older than an hour": { error: "expired" },
      "signature is wrong": { error: "invalid_signature" },
      "field wrong": { error: 'provider_pubkey must be 64 hex characters, got "abc"' },
    }),
    "413": shared("TooLarge"),
    "415": shared("Encoded"),
    "429": shared("RateLimited"),
    ...FAULTS,
  },
};

/** `GET /v1/trust/list` */
export const list: Operation = {
  operationId: "listProviders",
  tags: ["Trust"],
  summary: "The workers that a user has paired with",
  description: "Free. The newest pairing comes first, and each worker is listed once.",
  parameters: [userIdQuery, userToken("Needed if the first pairing code of the user was made with a token.")],
  responses: {
    "200": json("The paired workers. The list is empty for a user without pairings.", "TrustList", { list: EXAMPLES.list }),
    "400": json("`user_id` is missing or wrong.", "Error", { missing: { error: "Missing required query parameter: user_id" } }),
    "401": shared("TokenRequired"),
    "429": shared("RateLimited"),
    ...FAULTS,
  },
};
