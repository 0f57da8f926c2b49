import * as z from "zod";
import { isJsonObject, readJson } from "../../protocol/text.ts";
import { Tier } from "../../protocol/worker-messages.ts";
import type { SessionNote, Turn } from "./session-event.ts";
import type { SessionState } from "./state.ts";

// Laxer than the protocol's own schemas: a coordinator written from SPEC.md alone sends `job_assign` with five fields and little else.
const attempt = z
  .int()
  .min(1)
  .nullish()
  .transform((value) => value ?? 1);

const Assign = z.object({
  type: z.literal("job_assign"),
  job_id: z.string().min(1).max(128),
  // A kind that this worker does not know is rejected, not ignored.
  job_type: z.string(),
  payload: z.custom<Record<string, unknown>>(isJsonObject),
  attempt,
  deadline: z.string().nullish(),
});
/** A job for this worker [WS8]. */
export type Assign = z.infer<typeof Assign>;

const RegisterAck = z.object({
  type: z.literal("register_ack"),
  status: z.string().nullish(),
  worker_id: z.string().nullish(),
  authenticated: z.boolean().nullish(),
  tier: Tier.nullish().catch(null),
  heartbeat_interval_ms: z.number().nullish().catch(null),
  time: z.string().nullish().catch(null),
  error: z.string().nullish(),
  retry_after_s: z.number().nullish().catch(null),
});
/** The answer to a registration [WS4]. */
export type RegisterAck = z.infer<typeof RegisterAck>;

const Frame = z.discriminatedUnion("type", [
  z.object({ type: z.literal("challenge"), nonce: z.string().min(1).max(256), network: z.string().min(1).max(256), host: z.string().min(1).max(512) }),
  RegisterAck,
  z.object({ type: z.literal("heartbeat_ack") }),
  Assign,
  z.object({
    type: z.literal("job_complete_ack"),
    job_id: z.string(),
    status: z.string(),
    error: z.string().nullish(),
    message: z.string().nullish().catch(null),
  }),
  z.object({ type: z.literal("job_cancel"), job_id: z.string(), attempt: z.int().nullish(), reason: z.string().nullish() }),
  z.object({ type: z.literal("tier"), tier: Tier }),
  z.object({ type: z.literal("drained") }),
  z.object({ type: z.literal("error"), code: z.string(), message: z.string().nullish(), retry_after_s: z.number().nullish().catch(null) }),
]);
/** A frame from a coordinator that this worker understands. */
export type CoordinatorFrame = z.infer<typeof Frame>;

/** Reads a frame of a coordinator; null for whatever is not understood, which a worker ignores. */
export function readCoordinatorFrame(text: string): CoordinatorFrame | null {
  const json = readJson(text);
  if (!json.ok) return null;
  const frame = Frame.safeParse(json.value);
  return frame.success ? frame.data : null;
}

/** The number of the present socket, or null. */
export function presentConn(state: SessionState): number | null {
  return "conn" in state.link ? state.link.conn : null;
}

/** Sends a frame when the worker is registered; says whether it did. */
export function sendFrame(state: SessionState, frame: object | string, turn: Turn): boolean {
  if (state.link.kind !== "online") return false;
  const text = typeof frame === "string" ? frame : JSON.stringify(frame);
  turn.effects.push({ type: "send", conn: state.link.conn, text });
  return true;
}

/** Tells the owner. */
export function tell(note: SessionNote, turn: Turn): void {
  turn.effects.push({ type: "note", note });
}
