/** A payment that is what we asked for, as far as it can be told without asking anybody; or the first thing about it that is not. */
export type SchemeReading =
  | {
      ok: true;
      /** The inner payload, brought into the one form that the digest and the facilitator see. */
      payload: Record<string, unknown>;
      /** One real payment [PY6]. */
      key: string;
      /** Who pays, where the payment itself says so. */
      payer: string | null;
      /** Who pays the chain's fee; null where the facilitator does so in its own name. */
      feePayer: string | null;
      /** When the authorization dies, ms since the epoch. */
      expiresAt: number;
      /** Why it is no good just now, null when it is. Not a refusal yet: it may be a payment that was good when it came first [PY6]. */
      untimely: string | null;
    }
  | { ok: false; error: string };
