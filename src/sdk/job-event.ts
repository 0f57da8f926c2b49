import type { EventSourceMessage } from "eventsource-parser";
import type { Job, JobStatus } from "../protocol/job.ts";
import { isJsonObject } from "../protocol/text.ts";
import type { Connection } from "./connection.ts";
import { ProtocolError } from "./errors.ts";
import { serverSentEvents } from "./event-source.ts";
import type { Limit } from "./limit.ts";
import type { Settings } from "./options.ts";
import { readJsonText } from "./response-body.ts";
import type { RouterResult } from "./run-result.ts";
import { isJob, isStatus } from "./shapes.ts";

/** What `stream` yields. Text is final only in `done`: joined deltas are what a worker has said so far. */
export type JobEvent =
  /** The router has the job; always the first. `price` as in a result. */
  | { type: "job"; jobId: string; price: string | null }
  /** `attempt` counts the workers that were given it; null while the router is polled. */
  | { type: "status"; status: JobStatus; attempt: number | null }
  /** More text. After a `reset` a first `seq` above 0 says that the beginning is missing. */
  | { type: "delta"; attempt: number; seq: number; delta: string }
  /** Drop the text: another worker begins anew, or what came between was lost. */
  | { type: "reset"; attempt: number }
  /** The end, with what `run` resolves to. */
  | { type: "done"; result: RouterResult };

/** An event as the router sends it. */
export type WireEvent = Exclude<JobEvent, { type: "job" | "done" }> | { type: "done"; job: Job };

/** One connection to the stream of a job: its events with their ids, after the one of `lastId`. Unknown ones are left out, as the wire grows. */
export async function* wireEvents(
  connection: Connection,
  { requestTimeout }: Settings,
  jobId: string,
  lastId: string,
  limit: Limit,
): AsyncGenerator<{ id: string; event: WireEvent }, void, undefined> {
  const headers = new Headers(lastId === "" ? {} : { "last-event-id": lastId });
  const request = { method: "GET", path: `/v1/jobs/${jobId}/events`, headers, timeout: requestTimeout } as const;
  for await (const message of serverSentEvents(connection, request, limit)) {
    const event = readEvent(message, jobId);
    if (event !== null) yield { id: message.id ?? "", event };
  }
}

function readEvent({ event, data }: EventSourceMessage, jobId: string): WireEvent | null {
  const reading = readJsonText(data);
  const value = reading.ok ? reading.value : undefined;
  switch (event) {
    case "status":
      if (isJsonObject(value) && isStatus(value.status) && isCount(value.attempt)) return { type: "status", status: value.status, attempt: value.attempt };
      break;
    case "delta":
      if (isJsonObject(value) && isCount(value.attempt) && isCount(value.seq) && typeof value.delta === "string") {
        return { type: "delta", attempt: value.attempt, seq: value.seq, delta: value.delta };
      }
      break;
    case "reset":
      if (isJsonObject(value) && isCount(value.attempt)) return { type: "reset", attempt: value.attempt };
      break;
    case "done":
      if (isJob(value) && value.id.toLowerCase() === jobId.toLowerCase()) return { type: "done", job: value };
      break;
    default:
      return null;
  }
  throw new ProtocolError(`the router sent a malformed event (${event})`, { reason: reading.ok ? "unexpected_shape" : reading.reason });
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0;
}
