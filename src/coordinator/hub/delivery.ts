// Writes the frames that a batch sends, once it is durable, and sends them. On a job's way: assign, and every message to a worker.
import { isoTime } from "../../protocol/text.ts";
import { CLOSE, type CoordinatorFrame } from "../../protocol/worker-messages.ts";
import type { LiveJob } from "../dispatch/index.ts";
import { errorFacts, logError } from "../log.ts";
import type { OutgoingMessage } from "./batch.ts";
import type { Journal } from "./journal.ts";
import type { Sockets } from "./sockets.ts";

/** Sends messages to workers. */
export class Delivery {
  readonly #sockets: Sockets;
  readonly #journal: Journal;
  readonly #clock: () => number;

  constructor({ sockets, journal, clock }: { sockets: Sockets; journal: Journal; clock: () => number }) {
    this.#sockets = sockets;
    this.#journal = journal;
    this.#clock = clock;
  }

  /**
   * Sends one message; false if its socket is gone. `jobs` are the live ones, `fresh` those of them whose payload was written just now. Never throws, because
   * the other messages of the batch must still be sent. If the message cannot be built, its socket is closed, so that its worker reconnects.
   */
  send(message: OutgoingMessage, jobs: ReadonlyMap<string, LiveJob>, fresh: ReadonlyMap<string, { payload: string }>): boolean {
    try {
      return this.#send(message, jobs, fresh);
    } catch (error) {
      logError("delivery_failed", errorFacts(error));
      this.#sockets.close(message.connId, CLOSE.restart, "try again");
      return false;
    }
  }

  #send(message: OutgoingMessage, jobs: ReadonlyMap<string, LiveJob>, fresh: ReadonlyMap<string, { payload: string }>): boolean {
    switch (message.type) {
      case "frame":
        return this.#sockets.send(message.connId, message.frame);
      case "assign":
        return this.#assign(message, jobs.get(message.jobId), fresh.get(message.jobId)?.payload);
      case "cancel_attempt":
        return this.#sockets.send(message.connId, { type: "job_cancel", job_id: message.jobId, attempt: message.attempt, reason: message.reason });
      case "completion_ack":
        return this.#sockets.send(message.connId, { type: "job_complete_ack", job_id: message.jobId, ...message.answer });
      case "drained":
        return this.#sockets.send(message.connId, { type: "drained" });
      case "parked":
        return this.#sockets.send(message.connId, parkedFrame(message.ms));
      case "close":
        this.#sockets.close(message.connId, message.code, message.reason);
        return true;
      default:
        return message satisfies never;
    }
  }

  #assign(message: Extract<OutgoingMessage, { type: "assign" }>, job: LiveJob | undefined, fresh: string | undefined): boolean {
    if (job === undefined) return true;
    const payload = fresh ?? this.#journal.payload(job.id);
    if (payload === null) return true;
    const { policy, privacyClass } = job;
    const head = JSON.stringify({ type: "job_assign", job_id: job.id, job_type: job.jobType });
    const tail = JSON.stringify({ policy, privacy_class: privacyClass, attempt: message.attempt, deadline: isoTime(message.deadline) });
    this.#sockets.used(message.connId, this.#clock());
    // The payload is inserted as the stored text, so it stays as the client sent it [WS8].
    return this.#sockets.send(message.connId, `${head.slice(0, -1)},"payload":${payload},${tail.slice(1)}`);
  }
}

/** The frame that tells a worker that its key is parked, before its socket is closed [WS4]. */
function parkedFrame(ms: number): CoordinatorFrame {
  const seconds = Math.ceil(ms / 1_000);
  return { type: "error", code: "parked", message: `too many results were rejected: come back in ${seconds} s`, retry_after_s: seconds };
}
