// The floor of the platform, for npm run bench: the same work in the same workerd and with as many requests, RPCs, frames and statements, and nothing else. It
// has no tiers, trust, payments, retries, time-outs or limits, and copies nothing to D1. What the coordinator costs beyond it are its own checks. Its writes
// keep the coordinator's pace: one that syncs the disk for fewer rows is slower.
import { DurableObject } from "cloudflare:workers";
import { createHash, createPublicKey, generateKeyPairSync, type KeyObject, randomBytes, sign, verify } from "node:crypto";
import { Pace } from "../../../src/coordinator/hub/pace.ts";
import { newJobId } from "../../../src/coordinator/routes/job-id.ts";
import { endedHere, startHere } from "../../../src/coordinator/recent-jobs.ts";

type Env = { HUB: DurableObjectNamespace<WorkerHub> };
type Receipt = { job_id: string; provider_pubkey: string; output_hash: string; completed_at: string; payment_ref: string | null };
type Frame =
  | { type: "register"; provider_pubkey: string; signature: string }
  | { type: "job_complete"; job_id: string; output: unknown; receipt: Receipt; receipt_signature: string };
type Job = { id: string; payload: string; ended: string | null; worker: WebSocket | null };
type Worker = { name: string; key: KeyObject };

/** A job that ended is answered from memory for at least half as many others. A poll can be seconds late where the core is full. */
const RECENT = 20_000;
/** So many commits at once, when a curve fills the queue. */
const AT_ONCE = 1_000;

export class WorkerHub extends DurableObject<Env> {
  readonly #sql: SqlStorage;
  readonly #live = new Map<string, Job>();
  readonly #past = new Map<string, Job>();
  /** Where the first of the waiting jobs is: to take it out of a long array would move all others. */
  readonly #waiting = new Map<string, Job>();
  readonly #idle: WebSocket[] = [];
  readonly #nonces = new Map<WebSocket, string>();
  readonly #workers = new Map<WebSocket, Worker>();
  readonly #pace = new Pace();
  /** The coordinator answers from these without an RPC, too. */
  readonly #recent = startHere();
  #ended: string[] = [];
  readonly #waits = new Map<string, () => void>();
  #writes: (() => void)[] = [];
  #after: (() => void)[] = [];
  #written = Promise.withResolvers<void>();
  #statements = 0;
  #probed: Parameters<typeof isValid> | undefined;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#sql = ctx.storage.sql;
    this.#sql.exec("CREATE TABLE IF NOT EXISTS bare (id TEXT PRIMARY KEY, payload TEXT NOT NULL, worker TEXT, ended TEXT)");
  }

  async commit(id: string, payload: string, waits: boolean): Promise<string> {
    const job: Job = { id, payload, ended: null, worker: null };
    this.#live.set(id, job);
    const ended = waits ? new Promise<void>((resolve) => this.#waits.set(id, resolve)) : null;
    const worker = this.#nextIdle();
    await this.#commit(
      () => this.#sql.exec("INSERT INTO bare (id, payload) VALUES (?, ?)", id, payload),
      () => {
        if (worker === undefined) this.#waiting.set(id, job);
        else this.#assign(worker, job);
      },
    );
    await ended;
    return this.#text(job);
  }

  async job(id: string): Promise<string | null> {
    const job = this.#live.get(id) ?? this.#past.get(id);
    return job === undefined ? null : this.#text(job);
  }

  override async fetch(request: Request): Promise<Response> {
    const [client, server] = Object.values(new WebSocketPair());
    if (client === undefined || server === undefined) throw new Error("no sockets");
    this.ctx.acceptWebSocket(server);
    const nonce = randomBytes(16).toString("hex");
    const host = request.headers.get("Host") ?? "";
    this.#nonces.set(server, `bench\n${host}\n${nonce}`);
    server.send(JSON.stringify({ type: "challenge", nonce, network: "bench", host }));
    return new Response(null, { status: 101, webSocket: client });
  }

  /** How many rows it has written, each with a statement. */
  async statements(): Promise<number> {
    return this.#statements;
  }

  /** Commits jobs until so many wait. */
  async queue(jobs: number): Promise<void> {
    for (let left = jobs - this.#waiting.size; left > 0; left -= AT_ONCE)
      await Promise.all(Array.from({ length: Math.min(AT_ONCE, left) }, () => this.commit(newJobId(Date.now()), PROBE_PAYLOAD, false)));
  }

  /** Writes a row as a commit does, by itself. */
  async write(): Promise<void> {
    const id = newJobId(Date.now());
    await this.#commit(
      () => this.#sql.exec("INSERT INTO bare (id, payload) VALUES (?, ?)", id, PROBE_PAYLOAD),
      () => {},
    );
  }

  /** Checks a receipt as a result does, by itself. */
  async receipt(): Promise<boolean> {
    return isValid(...(this.#probed ??= probedReceipt()));
  }

  override async webSocketMessage(socket: WebSocket, data: string): Promise<void> {
    const frame: Frame | { type: "heartbeat" } = JSON.parse(data);
    if (frame.type === "register") this.#register(socket, frame.provider_pubkey, frame.signature);
    if (frame.type === "job_complete") await this.#complete(socket, frame);
  }

  override webSocketError(socket: WebSocket): void {
    this.webSocketClose(socket);
  }

  override webSocketClose(socket: WebSocket): void {
    const place = this.#idle.indexOf(socket);
    if (place >= 0) this.#idle.splice(place, 1);
    this.#workers.delete(socket);
    this.#nonces.delete(socket);
  }

  #register(socket: WebSocket, name: string, signature: string): void {
    const key = createPublicKey({ format: "jwk", key: { kty: "OKP", crv: "Ed25519", x: Buffer.from(name, "hex").toString("base64url") } });
    const text = `compute-router/register/v1\n${this.#nonces.get(socket)}\n${name}`;
    if (!verify(null, Buffer.from(text), key, Buffer.from(signature, "base64"))) return socket.close(4401);
    this.#workers.set(socket, { name, key });
    socket.send('{"type":"register_ack","status":"ok"}');
    this.#free(socket);
  }

  async #complete(socket: WebSocket, { job_id, output, receipt, receipt_signature }: Extract<Frame, { type: "job_complete" }>): Promise<void> {
    const [job, worker] = [this.#live.get(job_id), this.#workers.get(socket)];
    if (job === undefined || worker === undefined || job.worker !== socket) return;
    const answer = (status: string): void => socket.send(`{"type":"job_complete_ack","job_id":"${job_id}","status":"${status}"}`);
    if (!isValid(receipt, receipt_signature, output, job_id, worker)) return answer("rejected");
    const ended = `"status":"completed","result":${JSON.stringify(output)},"receipt":${JSON.stringify({ ...receipt, signature: receipt_signature })}`;
    job.worker = null;
    this.#free(socket);
    await this.#commit(
      () => this.#sql.exec("UPDATE bare SET ended = ? WHERE id = ?", ended, job_id),
      () => {
        job.ended = ended;
        this.#live.delete(job_id);
        this.#past.set(job_id, job);
        this.#recent.put(job_id, { json: this.#text(job), refused: false });
        this.#ended.push(job_id);
        this.#waits.get(job_id)?.();
        this.#waits.delete(job_id);
        answer("accepted");
        if (this.#past.size > RECENT) this.#forget();
      },
    );
  }

  /**
   * Writes with everything else of this turn, at the coordinator's pace; `after` runs when all of it is in the journal. The platform holds what is sent until
   * that is durable.
   */
  #commit(write: () => void, after: () => void): Promise<void> {
    this.#after.push(after);
    if (this.#writes.push(write) === 1) {
      this.#pace.next(() => {
        const [writes, afters, { resolve }] = [this.#writes, this.#after, this.#written];
        [this.#writes, this.#after, this.#written] = [[], [], Promise.withResolvers<void>()];
        this.ctx.storage.transactionSync(() => {
          for (const one of writes) one();
        });
        this.#statements += writes.length;
        this.#pace.written();
        for (const one of afters) one();
        const ids = this.#ended;
        this.#ended = [];
        void this.ctx.storage.sync().then(() => {
          this.#pace.synced();
          this.#recent.becameDurable(ids, Date.now());
        });
        resolve();
      });
    }
    return this.#written.promise;
  }

  #assign(socket: WebSocket, job: Job): void {
    job.worker = socket;
    socket.send(`{"type":"job_assign","job_id":"${job.id}","attempt":1,"job_type":"TASK","payload":${job.payload}}`);
  }

  /** The worker that has been idle for longest. A driver that ends may leave a socket of which the hub has not heard yet. */
  #nextIdle(): WebSocket | undefined {
    for (let socket = this.#idle.shift(); socket !== undefined; socket = this.#idle.shift()) if (socket.readyState === WebSocket.OPEN) return socket;
    return undefined;
  }

  #free(socket: WebSocket): void {
    const [next] = this.#waiting.values();
    if (next === undefined) {
      this.#idle.push(socket);
      return;
    }
    this.#waiting.delete(next.id);
    // Like the coordinator it notes who got a job before it is sent: a job that found an idle worker has that in its first write.
    void this.#commit(
      () => this.#sql.exec("UPDATE bare SET worker = ? WHERE id = ?", this.#workers.get(socket)?.name ?? null, next.id),
      () => this.#assign(socket, next),
    );
  }

  #text({ id, ended }: Job): string {
    return `{"id":"${id}",${ended ?? '"status":"pending","result":null,"receipt":null'}}`;
  }

  #forget(): void {
    for (const id of this.#past.keys()) {
      if (this.#past.size <= RECENT / 2) return;
      this.#past.delete(id);
    }
  }
}

/** True if the receipt is about this output of this job, and its worker signed it. */
function isValid(receipt: Receipt, signature: string, output: unknown, jobId: string, worker: Worker): boolean {
  const { job_id, provider_pubkey, output_hash, completed_at, payment_ref } = receipt;
  if (job_id !== jobId || provider_pubkey !== worker.name) return false;
  if (output_hash !== `sha256:${createHash("sha256").update(JSON.stringify(output)).digest("hex")}`) return false;
  const text = JSON.stringify({ job_id, provider_pubkey, output_hash, completed_at, payment_ref });
  return verify(null, Buffer.from(text), worker.key, Buffer.from(signature, "base64"));
}

/** As long as the payload of a job of this benchmark. */
const PROBE_PAYLOAD = JSON.stringify({ task_type: "classify", input: "The parcel came early and the box was whole, number 123456." });

/** A valid receipt, as one of a worker. */
function probedReceipt(): Parameters<typeof isValid> {
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  const name = publicKey.export({ type: "spki", format: "der" }).subarray(-32).toString("hex");
  const output = { sentiment: "positive", confidence: 0.9312 };
  const output_hash = `sha256:${createHash("sha256").update(JSON.stringify(output)).digest("hex")}`;
  const receipt = {
    job_id: "00000000-0000-4000-8000-000000000000",
    provider_pubkey: name,
    output_hash,
    completed_at: new Date(0).toISOString(),
    payment_ref: null,
  };
  const signature = sign(null, Buffer.from(JSON.stringify(receipt)), privateKey).toString("base64");
  return [receipt, signature, output, receipt.job_id, { name, key: publicKey }];
}

const JSON_TYPE = { headers: { "Content-Type": "application/json" } };

export default {
  async fetch(request, env): Promise<Response> {
    const { pathname } = new URL(request.url);
    const hub = env.HUB.getByName("hub");
    if (request.headers.has("Upgrade")) return await hub.fetch(request);
    if (request.method === "GET") {
      if (pathname === "/v1/health" || pathname === "/probe/edge") return new Response("{}", JSON_TYPE);
      if (pathname === "/probe/write") return new Response(`{"written":${await hub.write()}}`, JSON_TYPE);
      if (pathname === "/probe/receipt") return (await hub.receipt()) ? new Response('{"valid":true}', JSON_TYPE) : new Response(null, { status: 500 });
      const jobId = pathname.slice("/v1/jobs/".length);
      const text = endedHere(jobId, Date.now()) ?? (await hub.job(jobId));
      return text === null ? new Response('{"error":"Job not found"}', { status: 404 }) : new Response(text, JSON_TYPE);
    }
    // What a curve asks: the counts, and to fill it with what this hub does not have.
    if (pathname === "/bench/queue") await hub.queue((await request.json<{ jobs: number }>()).jobs);
    if (pathname.startsWith("/bench/")) return Response.json({ statements: await hub.statements(), d1Statements: 0 });
    const body: { user_id?: unknown; payload?: unknown } = await request.json();
    if (typeof body.user_id !== "string" || typeof body.payload !== "object") return new Response('{"error":"bad request"}', { status: 400 });
    const id = newJobId(Date.now());
    const waits = request.headers.get("Prefer") !== null;
    const job = await hub.commit(id, JSON.stringify(body.payload), waits);
    return new Response(`{"job_id":"${id}"${waits ? `,"job":${job}` : ""}}`, { ...JSON_TYPE, status: 201 });
  },
  scheduled: () => {},
} satisfies ExportedHandler<Env>;
