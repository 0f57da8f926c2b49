import * as z from "zod";

/** What is to happen to one call of D1: it fails before it is applied, is applied and loses its answer, or comes late. */
export const DatabaseFault = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("none") }),
  z.object({ kind: z.literal("fails") }),
  z.object({ kind: z.literal("loses") }),
  z.object({ kind: z.literal("slow"), ms: z.number() }),
]);
export type DatabaseFault = z.infer<typeof DatabaseFault>;
