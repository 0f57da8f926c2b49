// The Durable Object: each entry point takes input, checks it, and turns it into one event for dispatch. On a job's way: every step in the hub.
import { DurableObject } from "cloudflare:workers";
import { LIMITS } from "../../protocol/limits.ts";
import { shortJobId } from "../../protocol/text.ts";
import { CLOSE } from "../../protocol/worker-messages.ts";
import { type Env, type Settings, settingsOf } from "../config.ts";
import { errorFacts, logError } from "../log.ts";
import { shareOwner } from "../rates/network.ts";
import { startHere } from "../recent-jobs.ts";
import { wasRefused } from "../store/jobs.ts";
import type { JournalRow } from "../store/record.ts";
import { TUNING } from "../tuning.ts";
import { HubAlarm } from "./alarm.ts";
import { CancelTokens } from "./cancel-tokens.ts";
import { ChainReads, chainSource } from "./chain-reads.ts";
import type { ChannelSocket } from "./channel-socket.ts";
import { type CommitParts, EarlierCommits, RepeatedCommits } from "./commits.ts";
import { HubCron } from "./cron.ts";
import { Dispatcher, type DispatcherEvents } from "./dispatcher.ts";
import { Figures, type HubFigures } from "./figures.ts";
import { FreeCommits } from "./free-commits.ts";
import { endedJob, JobAnswers } from "./job-answers.ts";
import { Journal } from "./journal.ts";
import { LedgerStore } from "./ledger-store.ts";
import { Lookups } from "./lookups.ts";
import { OfferedModels } from "./offered-models.ts";
import { Outbox } from "./outbox.ts";
import { PaidCommits } from "./paid-commits.ts";
import { PairingClaims } from "./pairing-claims.ts";
import { PaymentOrders } from "./payment-orders.ts";
import { ReadPause } from "./read-pause.ts";
import { Registration } from "./registration.ts";
import type { CommitAnswer, CommitInput, HubRpc, PageRequest, PaidAnswer, PaymentInput, ReserveAnswer, SettleReport, SubmitAnswer, UserJob } from "./rpc.ts";
import { migrateHub } from "./schema.ts";
import { SettleCalls } from "./settle-calls.ts";
import type { Settler } from "./settler.ts";
import { SocketGate } from "./socket-gate.ts";
import { hangUp, type HubSocket, Sockets } from "./sockets.ts";
import { StorageRoom } from "./storage-room.ts";
import { StoredModels } from "./stored-models.ts";
import { EventStreams } from "./streams.ts";
import { stakeSource, Tiers } from "./tiers.ts";
import { Deadlines, HubClock, Waits } from "./timers.ts";
import { WorkerFrames } from "./worker-frames.ts";
import { WorkerKeys } from "./worker-keys.ts";

/** The one Durable Object of an instance. It owns the worker sockets, and it alone writes what happens to a job. */
export class WorkerHub extends DurableObject<Env> implements HubRpc {
  /** D1. A field, so that a test can replace it with one that fails. */
  db: D1Database;
  readonly #settings: Settings;
  readonly #journal: Journal;
  readonly #keys: WorkerKeys;
  readonly #ledger: LedgerStore;
  readonly #freeCommits: FreeCommits;
  readonly #paidCommits: PaidCommits;
  readonly #settleCalls: SettleCalls;
  readonly #orders: PaymentOrders;
  readonly #chain: ChainReads;
  readonly #sockets: Sockets;
  readonly #dispatcher: Dispatcher;
  readonly #frames: WorkerFrames;
  readonly #outbox: Outbox;
  readonly #room: StorageRoom;
  readonly #deadlines = new Deadlines();
  readonly #waits = new Waits(this.#deadlines);
  readonly #streams: EventStreams;
  readonly #recent = startHere();
  readonly #answers: JobAnswers;
  readonly #lookups = new Lookups(() => this.db);
  readonly #cancelTokens: CancelTokens;
  readonly #repeated = new RepeatedCommits(() => this.#dispatcher.state);
  readonly #pairingClaims: PairingClaims;
  readonly #gate: SocketGate;
  readonly #models: OfferedModels;
  readonly #pause: ReadPause;
  readonly #tiers: Tiers;
  readonly #alarm: HubAlarm;
  readonly #figures: Figures;
  readonly #cron: HubCron;
  readonly #clock = new HubClock(() => void this.ctx.blockConcurrencyWhile(async () => this.#startAgain()));
  /** For the channel: calls `read`, and resolves when all that it has changed in its turn is written, unless more is collected before. */
  readonly gather = (read: () => void): Promise<void> => this.#dispatcher.pace.gather(read, () => this.#dispatcher.flush());
  readonly #ownerOf = (client: string): string | null => shareOwner(client, this.#settings.rateLimits);

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.db = env.DB;
    this.#settings = settingsOf(env);
    migrateHub(ctx.storage);
    this.#journal = new Journal(ctx.storage);
    this.#keys = new WorkerKeys(ctx.storage.sql, this.#settings);
    this.#ledger = new LedgerStore(ctx.storage.sql, this.#settings.network);
    this.#cancelTokens = new CancelTokens(ctx.storage.sql);
    this.#pairingClaims = new PairingClaims(ctx.storage.sql, this.#settings.rates);
    this.#sockets = new Sockets(ctx, this.#ownerOf, ({ key, authenticated, lastUsedAt }) => this.#keys.seen(key, authenticated, lastUsedAt, this.#clock.now()));
    this.#room = new StorageRoom(ctx.storage.sql, this.#settings);
    const clock = () => this.#clock.now();
    const chain = chainSource(this.#settings);
    const stake = stakeSource(this.#settings.stake, () => this.db);
    this.#dispatcher = new Dispatcher({
      journal: this.#journal,
      keys: this.#keys,
      models: new StoredModels(ctx.storage.sql),
      ledger: this.#ledger,
      room: this.#room,
      sockets: this.#sockets,
      settings: {
        stake: stake !== null,
        receiptPolicy: this.#settings.receiptPolicy,
        settlements: LIMITS.settlements,
        queue: this.#settings.queue,
        clientShares: this.#settings.rateLimits,
        chain: chain !== null,
      },
      clock,
      events: {
        written: (rows) => this.#written(rows),
        onDisk: (ids) => this.#recent.becameDurable(ids, this.#clock.now()),
        settle: (key) => void this.#settleCalls.settle(key),
        isSettling: (key) => this.#settleCalls.isSettling(key),
        broken: () => ctx.abort("the journal cannot be read"),
      },
    });
    // What many parts of the hub need.
    const hub = {
      settings: this.#settings,
      journal: this.#journal,
      ledger: this.#ledger,
      sockets: this.#sockets,
      dispatcher: this.#dispatcher,
      deadlines: this.#deadlines,
      clock,
      db: () => this.db,
      idempotencySince: () => this.#clock.now() - this.#settings.retention.idempotency,
    };
    this.#outbox = new Outbox({ ...hub, measured: (bytes) => this.#room.measuredD1(bytes) });
    this.#answers = new JobAnswers({ ...hub, recent: this.#recent, waits: this.#waits, outbox: this.#outbox });
    this.#tiers = new Tiers({ ...hub, source: stake, random: () => Math.random() });
    this.#gate = new SocketGate(hub);
    this.#models = new OfferedModels(hub);
    this.#pause = new ReadPause(ctx, clock);
    const commits: CommitParts = {
      ...hub,
      cancelTokens: this.#cancelTokens,
      repeated: this.#repeated,
      earlier: new EarlierCommits({ ...hub, recent: this.#recent }),
      models: () => this.#models.names(),
      refusal: (origin) => (this.#outbox.isFull ? { reason: "queue_full" } : this.#room.refusal(origin, this.#clock.now())),
      job: (id, wait, client = "") => this.#answers.job(id, wait, { owner: this.#ownerOf(client), isCommit: true }),
    };
    // The types of a Worker's own exports come from a generated file, and this Worker has none.
    const settler: Pick<Settler, "settle"> = Reflect.get(ctx.exports, "Settler");
    this.#settleCalls = new SettleCalls({
      ...hub,
      settle: (payload, requirements) => settler.settle({ payment: this.#settings.payment }, payload, requirements),
    });
    this.#freeCommits = new FreeCommits(commits);
    this.#paidCommits = new PaidCommits({
      ...hub,
      ...commits,
      settlementOf: (jobId) => this.#answers.settlementOf(jobId),
      settleCalls: this.#settleCalls,
      learnBlock: () => this.#chain.learnBlock(),
    });
    this.#orders = new PaymentOrders(hub);
    this.#figures = new Figures({ ...hub, outbox: this.#outbox, room: this.#room });
    this.#chain = new ChainReads({ ...hub, source: chain });
    this.#streams = new EventStreams({ ...hub, ownerOf: this.#ownerOf, synced: () => ctx.storage.sync() });
    const duties = { outbox: this.#outbox, chain: this.#chain, orders: this.#orders, room: this.#room, keys: this.#keys, streams: this.#streams };
    this.#cron = new HubCron({ ...hub, ...duties, pairingClaims: this.#pairingClaims, recent: this.#recent, alarm: async () => this.alarm() });
    const registration = new Registration({ ...hub, keys: this.#keys, tiers: this.#tiers });
    this.#frames = new WorkerFrames({ ...hub, room: this.#room, registration, gate: this.#gate, pause: this.#pause, streams: this.#streams });
    this.#alarm = new HubAlarm({
      storage: ctx.storage,
      clock,
      dues: (now) => [this.#dispatcher.due, this.#outbox.due(now), this.#gate.due, this.#chain.due],
      isFailing: () => this.#dispatcher.pace.hasFailed,
    });
    this.#boot();
  }

  /** Loads what is stored and goes on with what was under way. */
  #boot(): void {
    this.#dispatcher.load();
    this.#dispatcher.flush();
    this.#chain.load();
    this.#outbox.drainSoon();
    if (this.#ledger.hasUnresolved()) void this.#orders.carryOut();
    void this.ctx.blockConcurrencyWhile(async () => {
      // While jobs wait there is an alarm every 2 s, so a late one tells that the hub was down.
      if ((await this.#alarm.begin()) > TUNING.outage) this.#dispatcher.apply({ type: "outage" });
    });
  }

  // ── Entry points for the router ───────────────────────────────────────────────────────────────

  async commit(input: CommitInput): Promise<CommitAnswer> {
    return this.#freeCommits.commit(input);
  }

  async stored(input: CommitInput): ReturnType<HubRpc["stored"]> {
    return this.#paidCommits.stored(input);
  }

  async reserve(input: CommitInput, payment: PaymentInput): Promise<ReserveAnswer> {
    return this.#paidCommits.reserve(input, payment);
  }

  async submit(...submitted: Parameters<HubRpc["submit"]>): Promise<SubmitAnswer> {
    return this.#paidCommits.submit(...submitted);
  }

  async settled(input: CommitInput, paymentKey: string, outcome: SettleReport): Promise<PaidAnswer> {
    return this.#paidCommits.settled(input, paymentKey, outcome);
  }

  async cancel(id: string, token: string, unlessStarted = false): Promise<{ job: string | null } | null> {
    if (!this.#cancelTokens.isOf(id, token)) return null;
    // A client that leaves cancels nothing for another one that sent the same commit again.
    if (!unlessStarted || !this.#repeated.leave(id)) this.#dispatcher.apply({ type: "cancel", jobId: id, unlessStarted });
    await this.#dispatcher.whenDurable();
    return { job: await this.job(id, 0) };
  }

  async release(paymentKey: string, jobId: string): Promise<void> {
    await this.#paidCommits.release(paymentKey, jobId);
  }

  async settlement(jobId: string): Promise<string | null> {
    return this.#answers.settlementOf(jobId);
  }

  async job(id: string, wait: number, client = ""): Promise<string | null> {
    return this.#answers.job(id, wait, { owner: this.#ownerOf(client), isCommit: false });
  }

  async poll(id: string, wait: number, client: string): Promise<{ job: string | null; settlement: string | null }> {
    const job = await this.job(id, wait, client);
    // Read after the job, so that an answer that waited has the settlement too.
    return { job, settlement: this.#answers.settlementOf(id) };
  }

  async lookUpJob(id: string): ReturnType<HubRpc["lookUpJob"]> {
    return this.#lookups.job(id);
  }

  async lookUpToken(userId: string): ReturnType<HubRpc["lookUpToken"]> {
    return this.#lookups.token(userId);
  }

  async userJobs(userId: string, page: PageRequest): Promise<UserJob[]> {
    return this.#answers.ofUser(userId, page);
  }

  async workersOnline(): Promise<number> {
    return this.#dispatcher.state.workers.size;
  }

  async models(): ReturnType<HubRpc["models"]> {
    return this.#models.list();
  }

  async paired(userId: string, key: string): Promise<void> {
    this.#dispatcher.apply({ type: "paired", userId, key });
    await this.#dispatcher.whenDurable();
  }

  async mayClaimCode(client: string, id: string, signedBy: string | null = null): Promise<boolean> {
    const connectedSince = (key: string) => this.#sockets.registeredAt(this.#dispatcher.state.workers.get(key)?.connId ?? "");
    return this.#pairingClaims.begin({ id, client, signedBy }, connectedSince, this.#clock.now());
  }

  async codeClaimed(id: string): Promise<void> {
    this.#pairingClaims.won(id);
  }

  async wake(): Promise<void> {
    await this.#cron.run();
  }

  /** What the hub has to do now, for the process that runs it outside Cloudflare. */
  async figures(): Promise<HubFigures> {
    return this.#figures.now();
  }

  /** Outside Cloudflare its process ends in so many ms: waits end before that, at once if nothing runs. Tells whether something runs. */
  async leave(ms: number): Promise<boolean> {
    const isBusy = !this.#figures.isAtRest();
    this.#deadlines.add(isBusy ? this.#clock.now() + ms : 0, () => this.#waits.endAll());
    return isBusy;
  }

  // ── Entry points for workers ──────────────────────────────────────────────────────────────────

  override async fetch(request: Request): Promise<Response> {
    if (!request.headers.has("Upgrade")) return this.#streams.answer(request);
    const response = this.#gate.accept(request);
    this.#alarm.set();
    return response;
  }

  /** The same for a socket that ends at the front: null if it is open. */
  acceptChannelSocket(socket: ChannelSocket, client: string, url: string): Response | null {
    const refused = this.#gate.acceptChannelSocket(socket, client, url);
    this.#alarm.set();
    return refused;
  }

  override webSocketMessage(ws: HubSocket, data: string | ArrayBuffer): void | Promise<void> {
    const conn = this.#sockets.of(ws);
    // Nobody reads the frames of a socket that the hub has closed, but the platform delivers them.
    return conn === undefined ? this.#pause.take(ws) : this.#frames.read(conn, data);
  }

  override async webSocketClose(ws: HubSocket, code: number): Promise<void> {
    this.#gone(ws);
    hangUp(ws, code === 1005 || code === 1006 ? CLOSE.normal : code);
  }

  override async webSocketError(ws: WebSocket): Promise<void> {
    this.#gone(ws);
    // A frame over the limit of the platform ends here. Nothing else tells the other side.
    hangUp(ws, CLOSE.tooBig, "socket error");
  }

  /** The one alarm for everything that is due. It must not throw: after six failures the platform drops an alarm forever. */
  override async alarm(): Promise<void> {
    this.#alarm.forget();
    let pause: number | undefined;
    try {
      this.#dispatcher.apply({ type: "time" });
      this.#gate.closeUnregistered();
      this.#dispatcher.flush();
      // Not awaited: the next alarm waits until this one returns, and a slow D1 must not delay the 2 s tick.
      void this.#tiers.refresh();
      void this.#outbox.drain();
      void this.#chain.read().then(() => this.#alarm.set());
    } catch (error) {
      logError("alarm_failed", errorFacts(error));
      pause = TUNING.journalPause;
    } finally {
      this.#alarm.set(pause);
    }
  }

  // ── Behind the entry points ───────────────────────────────────────────────────────────────────

  #written({ changed, ended, payments }: Parameters<DispatcherEvents["written"]>[0]): void {
    for (const [id, bytes] of changed) this.#outbox.add(id, bytes, ended.get(id) ?? null);
    if (payments.some(({ phase }) => phase.kind !== "reserved")) this.#outbox.addPayments();
    this.#chain.note(payments);
    this.#paidCommits.doubted(payments);
    this.#outbox.drainSoon();
    this.#alarm.set();
    for (const id of changed.keys()) this.#streams.changed(id);
    for (const [id, row] of ended) {
      this.#tellEnd(id, row);
      this.#waits.ended(id);
    }
  }

  /** Tells the streams of a job how it ended, and keeps its end in memory for the next poll. */
  #tellEnd(id: string, row: JournalRow | null): void {
    try {
      if (row === null) return this.#streams.lost(id);
      this.#figures.count(row);
      this.#streams.ended(row);
      this.#recent.put(id, { json: endedJob(row), refused: wasRefused(row) });
    } catch (error) {
      // The end is durable, and a poll reads it from the journal.
      logError("end_unread", { job: shortJobId(id), ...errorFacts(error) });
      this.#streams.lost(id);
    }
  }

  #gone(ws: HubSocket): void {
    const conn = this.#sockets.ended(ws);
    if (conn === undefined) return;
    this.#dispatcher.apply({ type: "disconnect", connId: conn.id });
    this.#alarm.set();
  }

  /** Handles a clock that was set back: no remembered time may last longer than one that begins now. */
  #startAgain(): void {
    this.#dispatcher.rebuild();
    this.#deadlines.passAll();
    this.#alarm.forget();
    this.#alarm.set();
  }
}
