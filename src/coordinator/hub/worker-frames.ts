// Reads the frames of workers: each is limited, parsed, and turned into one event for dispatch. On a job's way: acknowledge, progress, complete.
import { LIMITS } from "../../protocol/limits.ts";
import { shortJobId, utf8Length } from "../../protocol/text.ts";
import {
  CLOSE,
  completedJob,
  isCompletion,
  isRegistration,
  type JobComplete,
  parseWorkerFrame,
  WorkerFailure,
  type WorkerFrame,
} from "../../protocol/worker-messages.ts";
import type { Settings } from "../config.ts";
import { errorFacts, logError } from "../log.ts";
import { shareOwner } from "../rates/network.ts";
import { StoreUnavailable } from "../store/database.ts";
import { TUNING } from "../tuning.ts";
import { askedBytes, checkCompletion, type CheckedCompletion, workerMessage } from "./completion-check.ts";
import type { Dispatcher } from "./dispatcher.ts";
import type { Journal } from "./journal.ts";
import { answerLateResult, LateResults } from "./late-results.ts";
import type { Registration } from "./registration.ts";
import type { ReadPause } from "./read-pause.ts";
import type { SocketGate } from "./socket-gate.ts";
import type { Conn, Sockets } from "./sockets.ts";
import type { StorageRoom } from "./storage-room.ts";
import type { EventStreams } from "./streams.ts";

type Parts = {
  settings: Settings;
  journal: Journal;
  sockets: Sockets;
  dispatcher: Dispatcher;
  room: StorageRoom;
  gate: SocketGate;
  pause: ReadPause;
  registration: Registration;
  streams: EventStreams;
  clock: () => number;
  db: () => D1Database;
};

/**
 * Handles what workers send. Cheap checks come first: a frame is parsed only if its socket may send it, and a result is checked only if its key held the job.
 */
export class WorkerFrames {
  readonly #parts: Parts;
  readonly #lateResults = new LateResults();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Handles one message of a socket. Never rejects. */
  async read(conn: Conn, data: string | ArrayBuffer): Promise<void> {
    try {
      await this.#read(conn, data);
    } catch (error) {
      // Without this the worker would wait for an answer that never comes.
      logError("message_failed", errorFacts(error));
      this.drop(conn, CLOSE.restart, "try again");
    }
  }

  async #read(conn: Conn, data: string | ArrayBuffer): Promise<void> {
    const { sockets, dispatcher, gate, pause, registration, clock } = this.#parts;
    sockets.heard(conn, clock());
    dispatcher.apply({ type: "heard", connId: conn.id });
    const bytes = typeof data === "string" ? Buffer.byteLength(data) : data.byteLength;
    if (bytes > LIMITS.frameBytes) return this.#oversized(conn, data);
    if (!gate.mayRead(conn, data, bytes, () => this.#takeExemption(conn, data))) return pause.take(conn.ws);
    if (typeof data !== "string") return this.#bad(conn, "bad_message", "binary frames are not supported");
    if (bytes > TUNING.largeFrame && this.#answersUnparsed(conn, data)) return;
    const parsed = parseWorkerFrame(data);
    const { worker } = conn.attachment;
    if (worker === null && !isRegistration(parsed)) {
      if (!parsed.ok && parsed.reason === "not_json") return this.#bad(conn, "bad_message", parsed.message);
      return this.#bad(conn, "not_registered", "register first");
    }
    if (!parsed.ok) {
      if (parsed.reason === "not_json" || parsed.reason === "bad_message") return this.#bad(conn, "bad_message", parsed.message);
      return registration.refuse(conn, parsed.reason);
    }
    conn.badFrames = 0;
    if (parsed.frame.type === "register") {
      if (worker !== null && !gate.mayUpdate(conn)) return pause.take(conn.ws);
      return registration.register(conn, parsed.frame);
    }
    if (worker !== null) this.#take(conn, worker.key, parsed.frame, data);
  }

  /** Closes a socket because of what it sent; its worker, if it has one, is disconnected. */
  drop(conn: Conn, code: number, reason: string): void {
    const { dispatcher } = this.#parts;
    dispatcher.apply({ type: "disconnect", connId: conn.id });
    dispatcher.close(conn.id, code, reason);
  }

  /** Handles a frame of a registered worker; `text` is what it was parsed from. */
  #take(conn: Conn, key: string, frame: Exclude<WorkerFrame, { type: "register" }>, text: string): void {
    const { dispatcher, sockets, streams } = this.#parts;
    const { id } = conn;
    switch (frame.type) {
      case "heartbeat":
        if (sockets.maySendOptional(conn)) dispatcher.send(id, { type: "heartbeat_ack", status: "ok" });
        return;
      case "job_ack":
        this.#noteReading(conn, frame.job_id);
        return void dispatcher.apply({ type: "ack", connId: id, jobId: frame.job_id, attempt: frame.attempt });
      case "job_progress":
        this.#noteReading(conn, frame.job_id);
        // Without text it is a sign of life, as while a model reads a long prompt.
        dispatcher.apply({ type: frame.delta === "" ? "ack" : "progress", connId: id, jobId: frame.job_id, attempt: frame.attempt });
        return streams.progress(id, frame);
      case "job_failed":
        return void dispatcher.apply({
          type: "failed",
          connId: id,
          jobId: frame.job_id,
          attempt: frame.attempt,
          retryable: frame.retryable,
          cause: WorkerFailure.parse(frame.error),
          ...workerMessage(frame.message),
        });
      case "job_reject":
        return void dispatcher.apply({ type: "reject", connId: id, jobId: frame.job_id, tooLong: frame.reason === "context_length_exceeded" });
      case "drain":
        sockets.drain(conn);
        return void dispatcher.apply({ type: "drain", connId: id });
      case "job_complete":
        return this.#complete(conn, key, frame, text);
      default:
        return frame satisfies never;
    }
  }

  #complete(conn: Conn, key: string, frame: JobComplete, text: string): void {
    const { dispatcher, settings, clock } = this.#parts;
    const { job_id: jobId, attempt } = frame;
    const relation = this.#relationTo(key, jobId);
    if (relation === "foreign") return this.#refuseForeign(conn, jobId);
    if (relation === "not_live") return this.#late(conn, key, jobId, text);
    conn.foreignResults = 0;
    this.#noteReading(conn, jobId);
    // Under `record` every shape of output is accepted [RC6].
    const expected = settings.receiptPolicy === "strict" ? (dispatcher.state.jobs.get(jobId) ?? null) : null;
    const completion = this.#charged(conn, jobId, checkCompletion(frame, key, clock(), expected));
    const { verdict, message } = completion;
    const said = message === undefined ? {} : { message };
    dispatcher.apply({ type: "complete", connId: conn.id, jobId, attempt: attempt ?? undefined, verdict, ...said }, { completion });
  }

  /** Charges what a result has beyond what its job asks for to the network of its worker, or refuses the result if that has no room for it [LM3]. */
  #charged(conn: Conn, jobId: string, completion: CheckedCompletion): CheckedCompletion {
    const { dispatcher, journal, room, settings, clock } = this.#parts;
    const job = dispatcher.state.jobs.get(jobId);
    const isStored = completion.verdict === "valid" || (completion.verdict === "invalid_receipt" && settings.receiptPolicy === "record");
    const total = utf8Length(completion.result);
    if (job === undefined || !isStored || total <= LIMITS.resultBytes) return completion;
    const asked = askedBytes(job, () => journal.maxTokens(jobId));
    const excess = { client: conn.attachment.client, bytes: total - asked };
    if (excess.bytes <= 0) return completion;
    if (room.hasRoom(excess.client, excess.bytes, clock())) return { ...completion, excess };
    const fault = `the result has ${total} bytes, ${excess.bytes} more than its job asks for, and this network has no room left for more in 24 hours`;
    return { ...completion, verdict: "output_too_large", fault };
  }

  /**
   * The relation of a key to a job: it holds or held a lease of the job, it never held one, or the job is not live and
   * has to be looked up.
   */
  #relationTo(key: string, jobId: string): "holder" | "foreign" | "not_live" {
    const job = this.#parts.dispatcher.state.jobs.get(jobId);
    if (job === undefined) return "not_live";
    return job.holders.some((holder) => holder.key === key) ? "holder" : "foreign";
  }

  /**
   * True if a large frame is a result of a job that this key does not hold: then it is answered without being parsed. A result of a job that has ended is
   * parsed only after the lookup has found that the key held the job.
   */
  #answersUnparsed(conn: Conn, data: string): boolean {
    const jobId = completedJob(data);
    const { worker } = conn.attachment;
    if (jobId === null || worker === null) return false;
    const relation = this.#relationTo(worker.key, jobId);
    if (relation === "holder") return false;
    if (relation === "foreign") this.#refuseForeign(conn, jobId);
    else this.#late(conn, worker.key, jobId, data);
    return true;
  }

  /** Refuses a result of a live job that the key never held. The core counts a strike; it needs no verdict for that [WS12, RC4]. */
  #refuseForeign(conn: Conn, jobId: string): void {
    const { dispatcher } = this.#parts;
    dispatcher.apply({ type: "complete", connId: conn.id, jobId, attempt: undefined, verdict: "invalid_receipt" });
    this.#countForeign(conn);
  }

  /** Counts a result of a job that the key never held. Too many in a row close the socket: no honest worker has so many [LM2]. */
  #countForeign(conn: Conn): void {
    if (++conn.foreignResults < LIMITS.foreignResultsInARow || !this.#parts.sockets.isHere(conn)) return;
    this.drop(conn, CLOSE.silent, "results of jobs that it never held");
  }

  /**
   * Answers a result of a job that is not live, after a lookup. Only its text is kept until then: parsed, 16 KiB of empty objects would take twenty times as
   * much memory [LM1].
   */
  #late(conn: Conn, key: string, jobId: string, text: string): void {
    const { client } = conn.attachment;
    const owner = shareOwner(client, this.#parts.settings.rateLimits) ?? conn.id;
    this.#lateResults.add({ connId: conn.id, owner, text }, () => this.#answerLate(conn, key, jobId, text));
  }

  async #answerLate(conn: Conn, key: string, jobId: string, text: string): Promise<void> {
    const { dispatcher, journal, db, clock } = this.#parts;
    try {
      if (!(await dispatcher.becameDurable())) return;
      const answer = await answerLateResult(journal, db(), jobId, key, () => {
        const parsed = parseWorkerFrame(text);
        if (!parsed.ok || parsed.frame.type !== "job_complete" || parsed.frame.job_id !== jobId) return null;
        return checkCompletion(parsed.frame, key, clock(), null);
      });
      if (answer === null) return this.#bad(conn, "bad_message", "not a job_complete");
      dispatcher.send(conn.id, { type: "job_complete_ack", job_id: jobId, ...answer });
      if (answer.status === "rejected" && answer.error !== "already_terminal") this.#countForeign(conn);
      else conn.foreignResults = 0;
    } catch (error) {
      // The worker gets no answer either, keeps its result and sends it again. That D1 does not answer has been logged already.
      if (!(error instanceof StoreUnavailable)) logError("late_result_failed", { job: shortJobId(jobId), ...errorFacts(error) });
    }
  }

  /**
   * True if a frame over the rate is the result of the job that its worker holds. Such a frame is read anyway, once for each attempt; this notes the attempt
   * [LM2].
   */
  #takeExemption(conn: Conn, data: string | ArrayBuffer): boolean {
    const { state } = this.#parts.dispatcher;
    const jobId = this.#jobOf(conn);
    if (jobId === null || typeof data !== "string" || !isCompletion(data) || !data.includes(jobId)) return false;
    const attempt = `${jobId} ${state.jobs.get(jobId)?.attempts}`;
    if (conn.exempted === attempt) return false;
    conn.exempted = attempt;
    return true;
  }

  /** Notes that a worker reads: it works on its job. One that rejects or fails its job may not have read it [LM1]. */
  #noteReading(conn: Conn, jobId: string): void {
    if (this.#jobOf(conn) === jobId) this.#parts.sockets.noteRead(conn);
  }

  /** The job that the worker of a socket has. */
  #jobOf(conn: Conn): string | null {
    return this.#parts.dispatcher.state.workers.get(conn.attachment.worker?.key ?? "")?.jobId ?? null;
  }

  #bad(conn: Conn, code: "bad_message" | "not_registered", message: string): void {
    this.#parts.dispatcher.send(conn.id, { type: "error", code, message });
    if (this.#parts.sockets.countBad(conn) >= LIMITS.badFramesInARow) this.drop(conn, CLOSE.badMessage, "too many bad messages");
  }

  /** Handles a frame that is too large to be parsed. If it names the job of its worker it is the result, and sending it again would not help [LM1]. */
  #oversized(conn: Conn, data: string | ArrayBuffer): void {
    const jobId = this.#jobOf(conn);
    if (jobId !== null && typeof data === "string" && data.includes(jobId)) {
      this.#parts.dispatcher.apply({ type: "oversized", connId: conn.id, jobId });
    }
    this.drop(conn, CLOSE.tooBig, "frame too large");
  }
}
