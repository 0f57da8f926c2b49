// The floor of the platform for a paid job, for npm run throughput of the payment lab: the same workerd with as many requests, RPCs, calls of the facilitator,
// frames and writes as the coordinator has (docs/architecture.md "The paid path"), and nothing else. It has no tiers, trust, rates, retries, doubts, credits
// or copies in D1. What the coordinator costs beyond it are its own checks.
import { DurableObject, WorkerEntrypoint } from "cloudflare:workers";
import { newJobId } from "../../../src/coordinator/routes/job-id.ts";
import { createHash, createPublicKey, type KeyObject, verify } from "node:crypto";

type Env = { HUB: DurableObjectNamespace<WorkerHub>; EVM_FACILITATOR: string };
type Receipt = { job_id: string; provider_pubkey: string; output_hash: string; completed_at: string; payment_ref: string | null };
type Frame =
  | { type: "register"; provider_pubkey: string }
  | { type: "job_complete"; job_id: string; output: unknown; receipt: Receipt; receipt_signature: string };
type Settled = { success: boolean; transaction: string };
/** `claimed`: its worker is kept while it is settled. */
type Job = { id: string; key: string; payload: string; payment: string; claimed: WebSocket | null; done: PromiseWithResolvers<string>; response: string };
type Worker = { name: string; key: KeyObject };

export class WorkerHub extends DurableObject<Env> {
  readonly #sql: SqlStorage;
  readonly #jobs = new Map<string, Job>();
  readonly #waiting: Job[] = [];
  readonly #idle: WebSocket[] = [];
  readonly #workers = new Map<WebSocket, Worker>();
  #writes: (() => void)[] = [];
  #written = Promise.withResolvers<void>();

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#sql = ctx.storage.sql;
    this.#sql.exec("CREATE TABLE IF NOT EXISTS jobs (id TEXT PRIMARY KEY, payload TEXT NOT NULL, ended TEXT)");
    this.#sql.exec("CREATE TABLE IF NOT EXISTS payments (key TEXT PRIMARY KEY, payload TEXT, phase TEXT NOT NULL, response TEXT)");
  }

  async reserve(key: string, payment: string): Promise<boolean> {
    if (this.#sql.exec("SELECT 1 FROM payments WHERE key = ?", key).toArray().length > 0) return false;
    await this.#write(() => this.#sql.exec("INSERT INTO payments (key, payload, phase) VALUES (?, ?, 'reserved')", key, payment));
    return true;
  }

  /** Gives null where the request is to settle: its job has a worker. */
  async submit(id: string, key: string, payload: string, payment: string): Promise<{ job: string; response: string } | null> {
    const job: Job = { id, key, payload, payment, claimed: this.#idle.shift() ?? null, done: Promise.withResolvers(), response: "" };
    this.#jobs.set(id, job);
    const isClaimed = job.claimed !== null;
    if (!isClaimed) this.#waiting.push(job);
    await this.#write(() => {
      this.#sql.exec("INSERT INTO jobs (id, payload) VALUES (?, ?)", id, payload);
      this.#phase(key, isClaimed ? "settling" : "held");
    });
    return isClaimed ? null : { job: await job.done.promise, response: job.response };
  }

  async settled(id: string, response: string): Promise<{ job: string; response: string } | null> {
    const job = this.#jobs.get(id);
    if (job === undefined) return null;
    await this.#settled(job, response);
    return { job: await job.done.promise, response };
  }

  override async fetch(): Promise<Response> {
    const [client, server] = Object.values(new WebSocketPair());
    if (client === undefined || server === undefined) throw new Error("no sockets");
    this.ctx.acceptWebSocket(server);
    return new Response(null, { status: 101, webSocket: client });
  }

  override async webSocketMessage(socket: WebSocket, data: string): Promise<void> {
    const frame: Frame | { type: "heartbeat" } | { type: "job_ack" } = JSON.parse(data);
    if (frame.type === "register") this.#register(socket, frame.provider_pubkey);
    if (frame.type === "job_complete") await this.#complete(socket, frame);
  }

  #register(socket: WebSocket, name: string): void {
    const key = createPublicKey({ format: "jwk", key: { kty: "OKP", crv: "Ed25519", x: Buffer.from(name, "hex").toString("base64url") } });
    this.#workers.set(socket, { name, key });
    socket.send('{"type":"register_ack","status":"ok"}');
    this.#free(socket);
  }

  async #complete(socket: WebSocket, { job_id, output, receipt, receipt_signature }: Extract<Frame, { type: "job_complete" }>): Promise<void> {
    const [job, worker] = [this.#jobs.get(job_id), this.#workers.get(socket)];
    if (job === undefined || worker === undefined || job.claimed !== socket) return;
    if (!isValid(receipt, receipt_signature, output, job_id, worker)) return socket.close(1008);
    const ended = `"status":"completed","result":${JSON.stringify(output)},"receipt":${JSON.stringify({ ...receipt, signature: receipt_signature })}`;
    this.#free(socket);
    await this.#write(() => {
      this.#sql.exec("UPDATE jobs SET ended = ? WHERE id = ?", ended, job_id);
      this.#phase(job.key, "spent");
    });
    this.#jobs.delete(job_id);
    socket.send(`{"type":"job_complete_ack","job_id":"${job_id}","status":"accepted"}`);
    job.done.resolve(`{"id":"${job_id}",${ended}}`);
  }

  #phase(key: string, phase: string): void {
    this.#sql.exec("UPDATE payments SET phase = ? WHERE key = ?", phase, key);
  }

  async #settled(job: Job, response: string): Promise<void> {
    const { id, key, payload, claimed } = job;
    job.response = response;
    await this.#write(() => this.#sql.exec("UPDATE payments SET phase = 'settled', payload = NULL, response = ? WHERE key = ?", response, key));
    claimed?.send(`{"type":"job_assign","job_id":"${id}","attempt":1,"job_type":"TASK","payload":${payload}}`);
  }

  /** The worker takes the next job, whose payment the hub settles through an entrypoint of its own Worker. */
  #free(socket: WebSocket): void {
    const next = this.#waiting.shift();
    if (next === undefined) return void this.#idle.push(socket);
    next.claimed = socket;
    void this.#settle(next);
  }

  async #settle(job: Job): Promise<void> {
    const settler: Pick<BareSettler, "settle"> = Reflect.get(this.ctx.exports, "BareSettler");
    await this.#write(() => this.#phase(job.key, "settling"));
    await this.#settled(job, await settler.settle(job.payment));
  }

  /** Writes with everything else of this turn. The platform holds what is sent until that is durable. */
  #write(write: () => void): Promise<void> {
    if (this.#writes.push(write) === 1) {
      setTimeout(() => {
        const [writes, { resolve }] = [this.#writes, this.#written];
        [this.#writes, this.#written] = [[], Promise.withResolvers<void>()];
        this.ctx.storage.transactionSync(() => {
          for (const one of writes) one();
        });
        resolve();
      }, 2);
    }
    return this.#written.promise;
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

/** Asks the facilitator; the answer as text. */
async function ask(facilitator: string, operation: "verify" | "settle", paymentPayload: string): Promise<string> {
  const body = `{"x402Version":2,"paymentPayload":${paymentPayload},"paymentRequirements":${JSON.stringify(TERMS)}}`;
  const response = await fetch(`${facilitator}/${operation}`, { method: "POST", headers: { "Content-Type": "application/json" }, body });
  return await response.text();
}

export class BareSettler extends WorkerEntrypoint<Env> {
  settle(payment: string): Promise<string> {
    return ask(this.env.EVM_FACILITATOR, "settle", payment);
  }
}

const TERMS = {
  scheme: "exact",
  network: "eip155:10143",
  amount: "1000",
  asset: `0x${"aa".repeat(20)}`,
  payTo: `0x${"ee".repeat(20)}`,
  maxTimeoutSeconds: 300,
};
const REQUIRED = { "PAYMENT-REQUIRED": btoa(JSON.stringify({ x402Version: 2, accepts: [TERMS] })) };

export default {
  async fetch(request, env, ctx): Promise<Response> {
    const hub = env.HUB.getByName("hub");
    if (request.headers.has("Upgrade")) return await hub.fetch(request);
    if (request.method === "GET") return Response.json({});
    const header = request.headers.get("X-PAYMENT");
    if (header === null) return Response.json({}, { status: 402, headers: REQUIRED });
    const payment = atob(header);
    const key: string = JSON.parse(payment).payload.authorization.nonce;
    const body: { payload: unknown } = await request.json();
    const [id, payload] = [newJobId(Date.now()), JSON.stringify(body.payload)];
    if (!(await hub.reserve(key, payment))) return Response.json({ error: "payment_already_used" }, { status: 402 });
    if (!JSON.parse(await ask(env.EVM_FACILITATOR, "verify", payment)).isValid) return Response.json({ error: "invalid_payment" }, { status: 402 });
    let answer = await hub.submit(id, key, payload, payment);
    if (answer === null) {
      const settling = ask(env.EVM_FACILITATOR, "settle", payment).then((response) => hub.settled(id, response));
      ctx.waitUntil(settling.catch(() => {}));
      answer = await settling;
    }
    if (answer === null) return Response.json({ error: "internal" }, { status: 500 });
    const settled: Settled = JSON.parse(answer.response);
    if (!settled.success) return Response.json({ error: "payment_failed" }, { status: 402 });
    const headers = { "Content-Type": "application/json", "PAYMENT-RESPONSE": btoa(answer.response) };
    return new Response(`{"job_id":"${id}","job":${answer.job}}`, { status: 201, headers });
  },
  scheduled: () => {},
} satisfies ExportedHandler<Env>;
