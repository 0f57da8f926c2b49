import * as z from "zod";
import { UserId } from "./job.ts";

export const PairingCreate = z.object({ user_id: UserId }).meta({ id: "PairingCreate" });
/** Body of `POST /v1/trust/create`. */
export type PairingCreate = z.infer<typeof PairingCreate>;

export const PairingCode = z.object({ pairing_code: z.string().regex(/^[0-9A-F]{6}$/), expires_at: z.iso.datetime() }).meta({ id: "PairingCode" });
/** A fresh pairing code, valid for one hour, usable once [SPEC]. */
export type PairingCode = z.infer<typeof PairingCode>;

export const PairingClaim = z
  .object({
    pairing_code: z.string(),
    provider_pubkey: z
      .string()
      .regex(/^[0-9a-fA-F]{64}$/, "must be 64 hex characters")
      .transform((key) => key.toLowerCase()),
    signature: z
      .string()
      .nullish()
      .meta({ description: "Optional proof of the key: base64 ed25519 over `compute-router/pair/v1`, network, code and key, one a line." }),
  })
  .meta({ id: "PairingClaim" });
/** Body of `POST /v1/trust/claim` [TR4]. */
export type PairingClaim = z.infer<typeof PairingClaim>;

export const Paired = z.object({ user_id: z.string(), paired_at: z.iso.datetime() }).meta({ id: "Paired" });
/** Answer to a claim that won. */
export type Paired = z.infer<typeof Paired>;

export const TrustList = z.object({ providers: z.array(z.object({ provider_pubkey: z.string(), paired_at: z.iso.datetime() })) }).meta({ id: "TrustList" });
/** The workers that a user has paired with, newest first. */
export type TrustList = z.infer<typeof TrustList>;

/** Why a code cannot be claimed, in the order of checking [API4]. */
export type ClaimRefusal = "invalid_code" | "already_claimed" | "expired";
