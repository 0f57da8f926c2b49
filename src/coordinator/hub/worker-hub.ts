// The Durable Object: each door takes input, checks it, and turns it into one event for dispatch. On a job's way: every step in the hub.
import { DurableObject } from "cloudflare:workers";
import type { JobStatus } from "../../protocol/job.ts";
import { LIMITS, TIMING } from "../../protocol/limits.ts";
import { type ModelList, modelList } from "../../protocol/models.ts";
import { utf8Length } from "../../protocol/text.ts";
import { CLOSE, isRegistration, parseWorkerFrame, WorkerFailure, type WorkerFrame } from "../../protocol/worker-messages.ts";
import { type Env, type Settings, settingsOf } from "../config.ts";
import { errorFacts, logError } from "../log.ts";
import { settlePayment } from "../payment/facilitator.ts";
import { TUNING } from "../tuning.ts";
import { checkCompletion, type CheckedCompletion, workerMessage } from "./completion-check.ts";
import { Dispatcher, type DispatcherEvents } from "./dispatcher.ts";
import { FreeCommits } from "./free-commits.ts";
import { answerEndedCompletion, endedJob, LateResults, liveJob, RecentJobs } from "./job-answers.ts";
import { Journal } from "./journal.ts";
import { LedgerStore } from "./ledger-store.ts";
import { Outbox } from "./outbox.ts";
import type { ExpectedOutput } from "./output-shape.ts";
import { PaidCommits } from "./paid-commits.ts";
import { PairingClaims } from "./pairing-claims.ts";
import { Registration } from "./registration.ts";
import type { CommitAnswer, CommitInput, HubRpc, PaymentInput, ReserveAnswer, SubmitAnswer } from "./rpc.ts";
import { SocketGate } from "./socket-gate.ts";
import { type Conn, hangUp, Sockets } from "./sockets.ts";
import { EventStreams } from "./streams.ts";
import { stakeSource, Tiers } from "./tiers.ts";
import { Deadlines, HubClock, Waits } from "./timers.ts";

/**
 * The one Durable Object of an instance. It holds the worker sockets, and it alone writes what happens to a job.
 * Each of its doors (upgrade, commit, message, close, error, alarm) turns input into events for the dispatch core.
 */
export class WorkerHub extends DurableObject<Env> implements HubRpc {
  /** D1. A field, so that a test can replace it with one that fails. */
  db: D1Database;
  readonly #settings: Settings;
  readonly #journal: Journal;
  readonly #ledger: LedgerStore;
  readonly #freeCommits: FreeCommits;
  readonly #paidCommits: PaidCommits;
  readonly #sockets: Sockets;
  readonly #dispatcher: Dispatcher;
  readonly #registration: Registration;
  readonly #outbox: Outbox;
  readonly #lateResults = new LateResults();
  readonly #deadlines = new Deadlines();
  readonly #waits = new Waits(this.#deadlines);
  readonly #streams: EventStreams;
  readonly #recent = new RecentJobs();
  readonly #pairingClaims: PairingClaims;
  readonly #gate: SocketGate;
  readonly #tiers: Tiers;
  readonly #clock = new HubClock(() => this.#startAgain());
  #booted = false;
  #alarmAt: number | null = null;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.db = env.DB;
    this.#settings = settingsOf(env);
    this.#journal = new Journal(ctx.storage);
    this.#ledger = new LedgerStore(ctx.storage.sql, this.#settings.network);
    this.#pairingClaims = new PairingClaims(ctx.storage.sql);
    this.#sockets = new Sockets(ctx);
    this.#outbox = new Outbox(this.#journal, this.#ledger, () => this.db);
    const clock = () => this.#clock.now();
    const stake = stakeSource(this.#settings.stake, () => this.db);
    this.#dispatcher = new Dispatcher({
      journal: this.#journal,
      ledger: this.#ledger,
      sockets: this.#sockets,
      rules: { stake: stake !== null, receiptPolicy: this.#settings.receiptPolicy },
      clock,
      events: {
        committed: (facts) => this.#committed(facts),
        settle: (key) => void this.#paidCommits.settle(key),
        broken: () => ctx.abort("the journal cannot be read"),
      },
    });
    this.#tiers = new Tiers({ source: stake, sockets: this.#sockets, dispatcher: this.#dispatcher, clock, random: () => Math.random() });
    this.#gate = new SocketGate({ settings: this.#settings, sockets: this.#sockets, dispatcher: this.#dispatcher, clock });
    this.#registration = new Registration({
      ...{ settings: this.#settings, journal: this.#journal, sockets: this.#sockets, dispatcher: this.#dispatcher, tiers: this.#tiers, clock },
    });
    const commits = {
      ...{ journal: this.#journal, dispatcher: this.#dispatcher, clock },
      idempotencySince: () => this.#clock.now() - this.#settings.retention.idempotency,
      job: (id: string, wait: number) => this.job(id, wait),
    };
    this.#freeCommits = new FreeCommits({ ...commits, recent: this.#recent, db: () => this.db, isBehind: () => this.#outbox.size >= LIMITS.jobsBehind });
    this.#paidCommits = new PaidCommits({
      ...commits,
      ledger: this.#ledger,
      settle: (payload, requirements) => settlePayment(this.#settings, payload, requirements),
    });
    this.#streams = new EventStreams({ dispatcher: this.#dispatcher, journal: this.#journal, deadlines: this.#deadlines, clock });
    this.#dispatcher.load();
    this.#dispatcher.flush();
    this.#outbox.drainSoon();
    // The alarm that woke this object must not be replaced before it has run. One that is long overdue may never run.
    void ctx.blockConcurrencyWhile(async () => {
      const alarm = await ctx.storage.getAlarm();
      this.#alarmAt = alarm !== null && alarm > this.#clock.now() - TUNING.alarmLost ? alarm : null;
      this.#booted = true;
      this.#arm();
    });
  }

  // ── Doors for the router ──────────────────────────────────────────────────────────────────────

  async commit(input: CommitInput): Promise<CommitAnswer> {
    return this.#freeCommits.commit(input);
  }

  async stored(input: CommitInput): Promise<Extract<ReserveAnswer, { state: "known" | "refused" }> | null> {
    return this.#paidCommits.stored(input);
  }

  async reserve(input: CommitInput, payment: PaymentInput): Promise<ReserveAnswer> {
    if (this.#outbox.size >= LIMITS.jobsBehind) return { state: "refused", reason: "queue_full" };
    try {
      if (await this.#freeCommits.wasRefused(input)) return { state: "refused", reason: "no_trusted_worker", jobId: input.id };
    } catch {
      // D1 does not answer, so the outcome of the first delivery is not known.
      return { state: "refused", reason: "queue_full" };
    }
    return this.#paidCommits.reserve(input, payment);
  }

  async submit(input: CommitInput, paymentKey: string, payer: string): Promise<SubmitAnswer> {
    return this.#paidCommits.submit(input, paymentKey, payer);
  }

  async release(paymentKey: string, jobId: string): Promise<void> {
    await this.#paidCommits.release(paymentKey, jobId);
  }

  async settlement(jobId: string): Promise<string | null> {
    return this.#ledger.settlementOf(jobId);
  }

  async job(id: string, wait: number): Promise<string | null> {
    if (this.#dispatcher.isDirty(id)) await this.#dispatcher.committed();
    if (wait > 0 && this.#dispatcher.state.jobs.has(id)) await this.#waits.hold(id, wait * 1_000, this.#clock.now());
    const live = this.#dispatcher.state.jobs.get(id);
    if (live !== undefined) return liveJob(live);
    const recent = this.#recent.get(id);
    if (recent !== undefined) return recent.json;
    // The job has just ended. Its end may be told only once it is durable.
    if (this.#dispatcher.isDirty(id)) await this.#dispatcher.committed();
    const row = this.#journal.row(id);
    return row === null ? null : endedJob(row);
  }

  async workersOnline(): Promise<number> {
    return this.#dispatcher.state.workers.size;
  }

  async models(): Promise<ModelList> {
    return modelList(this.#sockets.llmWorkers());
  }

  async paired(userId: string, key: string): Promise<void> {
    this.#dispatcher.apply({ type: "paired", userId, key });
    await this.#dispatcher.committed();
  }

  async mayClaimCode(client: string, id: string): Promise<boolean> {
    const { pairingClaimsPerMinute: perClient, failedPairingClaimsPerMinute: failed } = this.#settings.rates;
    return this.#pairingClaims.begin(id, client, { perClient, failed }, this.#clock.now());
  }

  async codeClaimed(id: string): Promise<void> {
    this.#pairingClaims.won(id);
  }

  async wake(): Promise<void> {
    const now = this.#clock.now();
    this.#recent.clear();
    this.#streams.clear();
    try {
      this.#pairingClaims.purge(now);
      this.#ledger.purge(now - this.#settings.retention.job);
      this.#journal.purge(now - this.#settings.retention.idempotency, now - TIMING.authenticatedKey, (key) => this.#dispatcher.state.workers.has(key));
    } finally {
      await this.alarm();
    }
  }

  // ── Doors for workers ─────────────────────────────────────────────────────────────────────────

  override async fetch(request: Request): Promise<Response> {
    if (!request.headers.has("Upgrade")) return this.#streams.answer(request);
    const response = this.#gate.accept(request);
    this.#arm();
    return response;
  }

  override async webSocketMessage(ws: WebSocket, data: string | ArrayBuffer): Promise<void> {
    const conn = this.#sockets.of(ws);
    if (conn === undefined) return;
    try {
      await this.#read(conn, data);
    } catch (error) {
      // Without this the worker would wait for an answer that never comes.
      logError("message_failed", errorFacts(error));
      this.#drop(conn, CLOSE.restart, "try again");
    }
  }

  override async webSocketClose(ws: WebSocket, code: number): Promise<void> {
    this.#gone(ws);
    hangUp(ws, code === 1005 || code === 1006 ? CLOSE.normal : code);
  }

  override async webSocketError(ws: WebSocket): Promise<void> {
    this.#gone(ws);
    // A frame over the limit of the platform ends here. Nothing else tells the other side.
    hangUp(ws, CLOSE.tooBig, "socket error");
  }

  /** The one alarm for everything that is due. It must not throw: after six failures the platform drops an alarm for ever. */
  override async alarm(): Promise<void> {
    this.#alarmAt = null;
    try {
      this.#dispatcher.apply({ type: "time" });
      this.#gate.closeUnregistered();
      this.#dispatcher.flush();
      // Not awaited: the next alarm waits until this one returns, and a slow D1 must not delay the 2 s tick.
      void this.#tiers.refresh();
      void this.#outbox.drain();
    } catch (error) {
      logError("alarm_failed", errorFacts(error));
    } finally {
      this.#arm();
    }
  }

  // ── Behind the doors ──────────────────────────────────────────────────────────────────────────

  async #read(conn: Conn, data: string | ArrayBuffer): Promise<void> {
    const id = conn.attachment.conn;
    this.#sockets.heard(conn, this.#clock.now());
    this.#dispatcher.apply({ type: "heard", conn: id });
    if (!this.#gate.mayRead(conn, data)) return;
    if (typeof data !== "string") return this.#bad(conn, "bad_message", "binary frames are not understood");
    if (utf8Length(data) > LIMITS.frameBytes) return this.#oversized(conn, data);
    const parsed = parseWorkerFrame(data);
    if (conn.attachment.worker === null && !isRegistration(parsed)) {
      if (!parsed.ok && parsed.reason === "not_json") return this.#bad(conn, "bad_message", parsed.message);
      return this.#bad(conn, "not_registered", "register first");
    }
    if (!parsed.ok) {
      if (parsed.reason === "not_json" || parsed.reason === "bad_message") return this.#bad(conn, "bad_message", parsed.message);
      return this.#registration.refuse(conn, parsed.reason);
    }
    conn.badFrames = 0;
    if (parsed.frame.type === "register") return this.#registration.register(conn, parsed.frame);
    this.#take(conn, parsed.frame);
  }

  #take(conn: Conn, frame: Exclude<WorkerFrame, { type: "register" }>): void {
    const id = conn.attachment.conn;
    switch (frame.type) {
      case "heartbeat":
        return this.#dispatcher.send(id, { type: "heartbeat_ack", status: "ok" });
      case "job_ack":
        return void this.#dispatcher.apply({ type: "ack", conn: id, jobId: frame.job_id, attempt: frame.attempt });
      case "job_progress":
        this.#dispatcher.apply({ type: "progress", conn: id, jobId: frame.job_id, attempt: frame.attempt });
        return this.#streams.progress(id, frame);
      case "job_failed":
        return void this.#dispatcher.apply({
          ...{ type: "failed", conn: id, jobId: frame.job_id, attempt: frame.attempt, retryable: frame.retryable },
          ...{ cause: WorkerFailure.parse(frame.error), ...workerMessage(frame.message) },
        });
      case "job_reject":
        return void this.#dispatcher.apply({ type: "reject", conn: id, jobId: frame.job_id, tooLong: frame.reason === "context_length_exceeded" });
      case "drain":
        this.#sockets.drain(conn);
        return void this.#dispatcher.apply({ type: "drain", conn: id });
      case "job_complete": {
        const key = conn.attachment.worker?.key ?? "";
        const completion = checkCompletion(frame, key, this.#clock.now(), this.#expectedOf(frame.job_id));
        const { verdict, message } = completion;
        const said = message === undefined ? {} : { message };
        const answer = this.#dispatcher.apply(
          { type: "complete", conn: id, jobId: frame.job_id, attempt: frame.attempt ?? undefined, verdict, ...said },
          { completion },
        );
        if (answer === "not_live") this.#lateResults.add(id, () => this.#answerLate(id, key, frame.job_id, completion));
        return;
      }
      default:
        return frame satisfies never;
    }
  }

  /** The expected shape of a job's output; null under `record`, and for a job that is not live [RC6]. */
  #expectedOf(jobId: string): ExpectedOutput | null {
    return this.#settings.receiptPolicy === "strict" ? (this.#dispatcher.state.jobs.get(jobId) ?? null) : null;
  }

  #committed({ changed, ended, paid }: Parameters<DispatcherEvents["committed"]>[0]): void {
    for (const id of changed) this.#outbox.add(id);
    if (paid) this.#outbox.addPayments();
    this.#outbox.drainSoon();
    this.#arm();
    for (const id of changed) this.#streams.changed(id);
    for (const { jobId, outcome } of ended) {
      this.#tellEnd(jobId, outcome.status);
      this.#waits.ended(jobId);
    }
  }

  /** Tells the streams of a job how it ended, and keeps its end in memory for the next poll. */
  #tellEnd(id: string, status: JobStatus): void {
    try {
      const row = this.#journal.row(id);
      if (row === null || row.status !== status) return this.#streams.lost(id);
      this.#streams.ended(row);
      this.#recent.put(row);
    } catch (error) {
      // The end is durable, and a poll reads it from the journal.
      logError("end_unread", { job: id.slice(0, 8), ...errorFacts(error) });
      this.#streams.lost(id);
    }
  }

  async #answerLate(conn: string, key: string, jobId: string, completion: CheckedCompletion): Promise<void> {
    try {
      await this.#dispatcher.committed();
      const answer = await answerEndedCompletion(this.#journal, this.db, jobId, key, completion);
      this.#dispatcher.send(conn, { type: "job_complete_ack", job_id: jobId, ...answer });
    } catch {
      // D1 did not answer. The worker gets no answer either, keeps its result and sends it again.
    }
  }

  #bad(conn: Conn, code: "bad_message" | "not_registered", message: string): void {
    const id = conn.attachment.conn;
    this.#dispatcher.send(id, { type: "error", code, message });
    if (++conn.badFrames >= LIMITS.badFramesInARow) this.#drop(conn, CLOSE.badMessage, "too many bad messages");
  }

  /** Handles a frame that is too large to be parsed. If it names the job of its worker it is the result, and sending it again would not help [LM1]. */
  #oversized(conn: Conn, data: string): void {
    const id = conn.attachment.conn;
    const jobId = this.#dispatcher.state.workers.get(conn.attachment.worker?.key ?? "")?.jobId;
    if (typeof jobId === "string" && data.includes(jobId)) this.#dispatcher.apply({ type: "oversized", conn: id, jobId });
    this.#drop(conn, CLOSE.tooBig, "frame too large");
  }

  /** Closes a socket because of what it sent; its worker, if it has one, is disconnected. */
  #drop(conn: Conn, code: number, reason: string): void {
    this.#dispatcher.apply({ type: "disconnect", conn: conn.attachment.conn });
    this.#dispatcher.close(conn.attachment.conn, code, reason);
  }

  #gone(ws: WebSocket): void {
    const conn = this.#sockets.of(ws);
    if (conn === undefined) return;
    this.#sockets.forget(conn);
    const { worker, conn: id } = conn.attachment;
    this.#dispatcher.apply({ type: "disconnect", conn: id });
    this.#arm();
    if (worker !== null) this.#journal.keySeen(worker.key, worker.authenticated, worker.lastUsedAt, this.#clock.now());
  }

  /** Sets the alarm to the earliest time at which something is due. An earlier alarm stays, because setting one is a write. */
  #arm(): void {
    if (!this.#booted) return;
    const now = this.#clock.now();
    const dues = [this.#dispatcher.due, this.#outbox.due(now), this.#gate.due].filter((due) => typeof due === "number");
    if (dues.length === 0) return;
    const due = Math.max(Math.min(...dues), now + 1);
    if (this.#alarmAt !== null && this.#alarmAt <= due) return;
    this.#alarmAt = due;
    void this.ctx.storage.setAlarm(due);
  }

  /** Handles a clock that was set back: no remembered time may last longer than one that begins now. */
  #startAgain(): void {
    this.#dispatcher.rebuild();
    this.#deadlines.passAll();
    this.#alarmAt = null;
    this.#arm();
  }
}
