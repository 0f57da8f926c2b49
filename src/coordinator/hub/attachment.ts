// The identity of a worker socket, which survives the loss of the hub's memory, and what dispatch is told of its worker.
import * as z from "zod";
import { JobType } from "../../protocol/job.ts";
import { TIMING } from "../../protocol/times.ts";
import { Tier } from "../../protocol/worker-messages.ts";
import type { EventOf } from "../dispatch/index.ts";
import { wideNetworkOf } from "../rates/network.ts";

/** The identity of a socket. It survives the loss of the hub's memory, so it has all that the socket needs to go on. Times in ms. */
export const Attachment = z.object({
  /** The id of the connection. */
  conn: z.string(),
  /** Nonce and host of the challenge; a registration is signed over both. */
  nonce: z.string(),
  host: z.string(),
  /** The client that opened the socket, as the router named it [LM2]. */
  client: z.string(),
  openedAt: z.number(),
  seenAt: z.number(),
  worker: z
    .object({
      key: z.string(),
      id: z.string(),
      authenticated: z.boolean(),
      capabilities: z.array(JobType),
      tier: Tier,
      /** When its stake must be read again, ms since the epoch. */
      tierDue: z.number(),
      acks: z.boolean(),
      registeredAt: z.number(),
      context: z.number(),
      lastUsedAt: z.number(),
      draining: z.boolean(),
      /** The names of its models, one per line: the attachment is written often, and one text is cheaper than a list [JB10]. */
      models: z.string(),
      /** The context of each of its models, in the same order; empty if it did not tell them apart, and for a socket that an earlier hub accepted [WS3]. */
      contexts: z.string().catch(""),
      /** True if it applies the messages and options of a chat; a socket that an earlier hub accepted does not [JB12]. */
      chats: z.boolean().catch(false),
    })
    .nullable(),
});
export type Attachment = z.infer<typeof Attachment>;
/** The worker that registered on a socket. */
export type Registered = NonNullable<Attachment["worker"]>;

/** The models of an attachment. */
export function modelsIn(models: string): string[] {
  return models === "" ? [] : models.split("\n");
}

/** The models of an attachment, as dispatch compares them: in lower case [JB10]. */
export function foldedModels(models: string): string[] {
  return modelsIn(models.toLowerCase());
}

/** The contexts of an attachment by model, as dispatch compares them; undefined if the worker did not tell them apart [WS3]. */
export function contextsIn({ models, contexts }: Pick<Registered, "models" | "contexts">): ReadonlyMap<string, number> | undefined {
  const tokens = contexts.split("\n");
  return contexts === "" ? undefined : new Map(foldedModels(models).map((model, at) => [model, Number(tokens[at] ?? 0)]));
}

/** What dispatch must be told of a worker and its attachment does not have; and what holds only after a loss of memory. */
type KnownOfWorker = Pick<EventOf<"register">, "record" | "publicOnly" | "resume" | "draining" | "registeredAt">;

/** The event that tells dispatch of the worker on a socket. */
export function registerEvent({ conn: connId, client }: Attachment, worker: Registered, known: KnownOfWorker): EventOf<"register"> {
  const { key, tier, chats, acks, context, authenticated, lastUsedAt } = worker;
  return {
    type: "register",
    connId,
    key,
    capabilities: new Set(worker.capabilities),
    tier,
    models: foldedModels(worker.models),
    chats,
    acks,
    context,
    contexts: contextsIn(worker),
    network: wideNetworkOf(client),
    authenticated,
    lastUsedAt,
    ...known,
  };
}

/** The attachment with no time in the future: if the clock was set back since, a silent socket or an old tier must not stay longer. */
export function asOf(now: number, attachment: Attachment): Attachment {
  const { openedAt, seenAt, worker } = attachment;
  const times = { openedAt: Math.min(openedAt, now), seenAt: Math.min(seenAt, now) };
  if (worker === null) return { ...attachment, ...times };
  return { ...attachment, ...times, worker: { ...worker, tierDue: Math.min(worker.tierDue, now + TIMING.stakeRefresh) } };
}
