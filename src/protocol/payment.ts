import * as z from "zod";

/** One way to pay, as the 402 body lists it: SPEC.md's fields first, the x402 fields for readers of bodies after them [PY4]. */
export const PaymentRequirement = z
  .object({
    scheme: z.literal("exact"),
    price: z.string(),
    network: z.string(),
    payTo: z.string(),
    asset: z.string().optional().meta({ description: "Token contract; on the EVM instance only." }),
    amount: z.string().meta({ description: "Atomic units of the token." }),
    maxTimeoutSeconds: z.int(),
    extra: z.record(z.string(), z.unknown()),
    maxAmountRequired: z.string(),
    resource: z.string(),
    description: z.string(),
    mimeType: z.literal("application/json"),
  })
  .meta({ id: "PaymentRequirement" });
export type PaymentRequirement = z.infer<typeof PaymentRequirement>;

export const PaymentRequired = z
  .object({
    error: z.string(),
    accepts: z.array(PaymentRequirement),
    x402Version: z.literal(2),
    resource: z.object({ url: z.string(), description: z.string(), mimeType: z.string() }),
  })
  .meta({ id: "PaymentRequired" });
/** Body of every 402 [PY4]. */
export type PaymentRequired = z.infer<typeof PaymentRequired>;
