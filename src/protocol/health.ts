import * as z from "zod";

export const Health = z
  .object({
    status: z.literal("ok"),
    workers_online: z.int().min(0).meta({ description: "Registered workers with a live socket." }),
    network: z.string(),
    timestamp: z.iso.datetime(),
  })
  .meta({ id: "Health" });
/** Body of `GET /v1/health` [SPEC]. */
export type Health = z.infer<typeof Health>;
