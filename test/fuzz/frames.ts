// Random conversations on a worker socket, and the check of their answers, for npm run fuzz.
import * as fc from "fast-check";
import * as z from "zod";
import { COORDINATOR_FRAMES } from "../../src/protocol/worker-messages.ts";
import { nearly, written } from "./hostile.ts";

const JOB = "0b8f3c1e-5d2a-4f7b-9c36-2e1d4a6b8f90";
const KEY = "ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22c";
const FRAMES = [
  {
    type: "register",
    provider_pubkey: KEY,
    provider_type: "DESKTOP",
    capabilities: ["TASK"],
    resume: [{ job_id: JOB, attempt: 1 }],
    models: ["m"],
    features: ["ack"],
  },
  { type: "heartbeat" },
  { type: "heartbeat", provider_pubkey: KEY },
  { type: "job_ack", job_id: JOB, attempt: 1 },
  { type: "job_progress", job_id: JOB, attempt: 1, seq: 0, delta: "a" },
  { type: "job_failed", job_id: JOB, attempt: 1, error: "x", retryable: true },
  { type: "job_reject", job_id: JOB, reason: "busy" },
  {
    type: "job_complete",
    job_id: JOB,
    attempt: 1,
    output: { a: 1 },
    receipt: { job_id: JOB, provider_pubkey: KEY, output_hash: `sha256:${"0".repeat(64)}`, completed_at: "2026-01-01T00:00:00.000Z", payment_ref: null },
    receipt_signature: "AAAA",
  },
  { type: "drain" },
];

/** What one socket sends, in order: frames nearly right, text that is none, and bytes. */
export const anyConversation: fc.Arbitrary<readonly (string | Uint8Array<ArrayBuffer>)[]> = fc.array(
  fc.oneof({ weight: 9, arbitrary: nearly(FRAMES).chain(written) }, { weight: 1, arbitrary: fc.uint8Array({ maxLength: 50 }) }),
  { minLength: 1, maxLength: 12 },
);

const Known = z.union(Object.values(COORDINATOR_FRAMES));
/** Codes that the rules give a coordinator to close with, and those of the protocol itself. */
const CLOSES = new Set([1000, 1005, 1009, 1012, 4001, 4003, 4008, 4400, 4401, 4409]);

/** Sends it all on one socket and waits for the end of it; null when every answer was one that the protocol has, else what was wrong. */
export async function converse(url: string, sent: readonly (string | Uint8Array<ArrayBuffer>)[]): Promise<string | null> {
  const socket = new WebSocket(url);
  const heard: unknown[] = [];
  const closed = Promise.withResolvers<number>();
  const quiet = Promise.withResolvers<void>();
  socket.binaryType = "arraybuffer";
  socket.addEventListener("message", ({ data }) => {
    heard.push(data);
    // The last thing that is sent is always answered in the same words, by the platform itself.
    if (data === '{"type":"heartbeat_ack"}') quiet.resolve();
  });
  socket.addEventListener("close", ({ code }) => {
    closed.resolve(code);
    quiet.resolve();
  });
  await new Promise<void>((resolve, reject) => {
    socket.addEventListener("open", () => resolve());
    socket.addEventListener("error", () => reject(new Error("cannot connect")));
  });
  for (const frame of sent) socket.send(frame);
  socket.send('{"type":"heartbeat"}');
  await quiet.promise;
  const wasOpen = socket.readyState === WebSocket.OPEN;
  socket.close();
  const code = await closed.promise;
  for (const frame of heard) {
    const reading = typeof frame === "string" ? Known.safeParse(JSON.parse(frame)) : { success: false };
    if (!reading.success) return `answered ${String(frame)}`;
  }
  return wasOpen || CLOSES.has(code) ? null : `closed with ${code}`;
}
