import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterAll, onTestFinished, vi } from "vitest";
import { app } from "../../../src/coordinator/app.ts";
import type { Env } from "../../../src/coordinator/config.ts";
import type { WorkerHub } from "../../../src/coordinator/main.ts";
import type { CommitInput } from "../../../src/coordinator/hub/rpc.ts";
import { TIMING } from "../../../src/protocol/limits.ts";
import type { Job } from "../../../src/protocol/job.ts";
import type { KeyPair } from "../../../src/receipt/index.ts";
import { TestWorker } from "./worker.ts";

/** Overrides variables of the instance for every hub of this test file. Call it before the first one wakes: a hub reads its settings once. */
export function withSettings(variables: Record<string, string>): void {
  const before = Object.fromEntries(Object.keys(variables).map((name): [string, unknown] => [name, Reflect.get(env, name)]));
  Object.assign(env, variables);
  afterAll(() => {
    for (const [name, value] of Object.entries(before)) {
      if (value === undefined) Reflect.deleteProperty(env, name);
      else Reflect.set(env, name, value);
    }
  });
}

/** An answer of the REST side. */
export type Answer = { status: number; text: string; body: Record<string, unknown>; headers: Headers };

type JobFields = Partial<Record<"job_type" | "user_id" | "privacy_class", string>> & { payload?: object };

/** A D1 that misbehaves: `batch` stands around each write, `read` in place of each read, `bound` sees the parameters of a write. */
export type D1Fault = { batch?: (run: () => Promise<D1Result[]>) => Promise<D1Result[]>; read?: () => Promise<void>; bound?: (values: unknown[]) => void };

/**
 * A hub of its own for one test, with the real router in front and the real D1 behind. Named, not reset: nothing of another test can be in it.
 * Time stands still from the first {@link pass} on and moves only there; it starts at the present, so no alarm of the platform comes early.
 */
export class TestHub {
  readonly #name = crypto.randomUUID();
  readonly #env: Env;
  readonly #workers: TestWorker[] = [];
  /** Work that waits for a broken D1 keeps an object from being evicted. */
  #stuck = false;

  constructor() {
    const hub = new Proxy(env.HUB, { get: (target, member) => (member === "getByName" ? () => target.getByName(this.#name) : Reflect.get(target, member)) });
    this.#env = { ...env, HUB: hub };
    onTestFinished(() => this.#end());
  }

  get stub(): DurableObjectStub<WorkerHub> {
    return env.HUB.getByName(this.#name);
  }

  // ── Workers ───────────────────────────────────────────────────────────────────────────────────

  async dial(url = "http://hub.test/", headers: Record<string, string> = {}): Promise<Response> {
    return this.fetch(new Request(url, { headers: { Upgrade: "websocket", ...headers } }));
  }

  /** A socket that has been challenged and has not registered. */
  async connect(key?: KeyPair, url?: string, headers?: Record<string, string>): Promise<TestWorker> {
    const { webSocket, status } = await this.dial(url, headers);
    if (webSocket === null) throw new Error(`no socket: ${status}`);
    const worker = await TestWorker.greeted(webSocket, key);
    this.#workers.push(worker);
    return worker;
  }

  /** A registered worker. */
  async worker(fields: { key?: KeyPair; signed?: boolean; [field: string]: unknown } = {}): Promise<TestWorker> {
    const { key, ...registration } = fields;
    const worker = await this.connect(key);
    await worker.register(registration);
    return worker;
  }

  /** A worker that does not announce `ack`, once it has arrived: it is given jobs at once [JB2]. Stops the clock. */
  async plainWorker(fields: { key?: KeyPair; signed?: boolean; [field: string]: unknown } = {}): Promise<TestWorker> {
    const worker = await this.worker({ features: [], ...fields });
    this.skip(TIMING.arrival);
    return worker;
  }

  // ── Seekers ───────────────────────────────────────────────────────────────────────────────────

  async fetch(request: Request): Promise<Response> {
    return app.fetch(request, this.#env);
  }

  async request(path: string, init?: RequestInit): Promise<Answer> {
    const response = await this.fetch(new Request(`http://hub.test${path}`, init));
    const text = await response.text();
    return { status: response.status, text, body: JSON.parse(text), headers: response.headers };
  }

  post(policy: "fast" | "cheap", fields: JobFields = {}, headers: Record<string, string> = {}): Promise<Answer> {
    const payload = fields.job_type === "LLM_INFER" ? { prompt: "p" } : { task_type: "summarize", input: "i" };
    const body = JSON.stringify({ job_type: "TASK", user_id: "user", payload, ...fields });
    return this.request(`/v1/jobs/commit/${policy}`, { method: "POST", headers: { "content-type": "application/json", ...headers }, body });
  }

  /** Commits a job that has to be accepted; its id. */
  async commit(policy: "fast" | "cheap" = "cheap", fields: JobFields = {}): Promise<string> {
    const { status, body, text } = await this.post(policy, fields);
    if (status !== 201) throw new Error(`${status} ${text}`);
    return String(body.job_id);
  }

  /** The job as GET returns it. */
  async job(id: string): Promise<Job> {
    const { status, text } = await this.request(`/v1/jobs/${id}`);
    if (status !== 200) throw new Error(`${status} ${text}`);
    return JSON.parse(text);
  }

  async workersOnline(): Promise<unknown> {
    const { body } = await this.request("/v1/health");
    return body.workers_online;
  }

  /** Resolves once so many workers are registered: a close is not answered, so it has to be looked for. */
  async online(count: number): Promise<void> {
    await until(async () => (await this.stub.workersOnline()) === count, `${count} workers online`);
  }

  /** Pairs a user with a worker, as a claimed code leaves them. */
  async pair(userId: string, key: string): Promise<void> {
    const now = Date.now();
    await env.DB.prepare(
      "INSERT INTO pairings (pairing_code, user_id, provider_pubkey, claimed, created_at, expires_at, paired_at) VALUES ('ABCDEF', ?, ?, 1, ?, ?, ?)",
    )
      .bind(userId, key, now, now, now)
      .run();
  }

  // ── Time, storage, faults ─────────────────────────────────────────────────────────────────────

  /** Stops the clock, if it runs, and sets it forward. */
  skip(ms: number): void {
    const now = Date.now();
    vi.useFakeTimers({ toFake: ["Date"], now: now + ms });
  }

  /** Gives the clock back to the present. */
  runClock(): void {
    vi.useRealTimers();
  }

  /** Lets this much time go by and then has the alarm ring, as the platform would. True when there was one. */
  async pass(ms: number): Promise<boolean> {
    this.skip(ms);
    return runDurableObjectAlarm(this.stub);
  }

  inside<R>(look: (hub: WorkerHub, state: DurableObjectState) => R | Promise<R>): Promise<R> {
    return runInDurableObject(this.stub, look);
  }

  /** Delivers frames in one turn of the hub, which the platform may do and no test can time. Each by the nonce of its socket's challenge. */
  together(...frames: readonly { from: TestWorker; frame: object }[]): Promise<void> {
    return this.inside(async (hub, state) => {
      const sockets = state.getWebSockets();
      const deliver = async (from: TestWorker, frame: object): Promise<void> => {
        const ws = sockets.find((socket) => socket.deserializeAttachment().nonce === from.challenge.nonce);
        if (ws !== undefined) await hub.webSocketMessage(ws, JSON.stringify(frame));
      };
      await Promise.all(frames.map(({ from, frame }) => deliver(from, frame)));
    });
  }

  sql<Row extends Record<string, SqlStorageValue>>(query: string): Promise<Row[]> {
    return this.inside((_, state) => state.storage.sql.exec<Row>(query).toArray());
  }

  alarmAt(): Promise<number | null> {
    return this.inside((_, state) => state.storage.getAlarm());
  }

  /** The hub's memory is lost; storage, alarm and (by default) sockets stay. */
  async evict(webSockets: "hibernate" | "close" = "hibernate"): Promise<void> {
    await evictDurableObject(this.stub, { webSockets });
  }

  /** The hub dies in the middle of something, and its sockets with it. */
  async abort(): Promise<void> {
    await this.inside((_, state) => state.abort("test")).catch(() => {});
  }

  /** Puts a faulty D1 behind the hub, until the hub loses its memory or {@link healD1}. */
  async breakD1(fault: D1Fault): Promise<void> {
    this.#stuck = true;
    await this.inside((hub) => {
      hub.db = new Proxy(env.DB, {
        get(target, member) {
          if (member === "batch" && fault.batch) {
            const { batch } = fault;
            return (statements: D1PreparedStatement[]) => batch(() => target.batch(statements));
          }
          if (member === "prepare" && fault.read) {
            const { read } = fault;
            return (query: string) => (query.startsWith("SELECT") ? unreadable(read) : target.prepare(query));
          }
          if (member === "prepare" && fault.bound) {
            const { bound } = fault;
            return (query: string) => {
              const statement = target.prepare(query);
              const bind = (...values: unknown[]) => (bound(values), statement.bind(...values));
              return query.includes("?") ? { bind } : statement;
            };
          }
          const value: unknown = Reflect.get(target, member);
          return typeof value === "function" ? value.bind(target) : value;
        },
      });
    });
  }

  async healD1(): Promise<void> {
    await this.inside((hub) => {
      hub.db = env.DB;
    });
  }

  /** Resolves with the job's row in D1 once its state there is this one. */
  async recorded(id: string, status: string): Promise<Record<string, unknown>> {
    let row: Record<string, unknown> | null = null;
    await until(async () => {
      row = await env.DB.prepare("SELECT * FROM jobs WHERE id = ?").bind(id).first();
      return row?.status === status;
    }, `${status} in D1`);
    return row ?? {};
  }

  async #end(): Promise<void> {
    vi.useRealTimers();
    for (const worker of this.#workers) worker.close();
    await this.inside((_, state) => state.storage.deleteAlarm()).catch(() => {});
    await (this.#stuck ? this.abort() : this.evict("close").catch(() => {}));
  }
}

/** Asks again and again, because nothing tells. */
export async function until(met: () => Promise<boolean>, what: string): Promise<void> {
  for (let tries = 0; tries < 600; tries++) {
    if (await met()) return;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  throw new Error(`never ${what}`);
}

function unreadable(read: () => Promise<void>): { bind(): { first(): Promise<null> } } {
  return { bind: () => ({ first: () => read().then(() => null) }) };
}

/** A commit as the router hands it to the hub. */
export function commitInput(fields: Partial<CommitInput> = {}): CommitInput {
  return {
    id: crypto.randomUUID(),
    jobType: "TASK",
    policy: "CHEAP",
    privacyClass: "PUBLIC",
    userId: "user",
    trustedKeys: [],
    payload: '{"job_type":"TASK","task_type":"summarize","input":"i"}',
    idempotency: null,
    wait: 0,
    ...fields,
  };
}
