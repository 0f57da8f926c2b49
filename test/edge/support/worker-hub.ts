// A separate hub per edge test, with the real router, the real D1 and a clock that the test moves.
import { createExecutionContext, evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterAll, onTestFinished, vi } from "vitest";
import { app } from "../../../src/coordinator/app.ts";
import type { Env } from "../../../src/coordinator/config.ts";
import type { WorkerHub } from "../../../src/coordinator/main.ts";
import type { CommitInput } from "../../../src/coordinator/hub/rpc.ts";
import { startHere } from "../../../src/coordinator/recent-jobs.ts";
import type { Job } from "../../../src/protocol/job.ts";
import { TIMING } from "../../../src/protocol/times.ts";
import type { KeyPair } from "../../../src/receipt/index.ts";
import { TestWorker } from "./worker.ts";

/** Overrides variables for every hub of this test file. Call it before the first hub starts, because a hub reads its settings once. */
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

/** An answer of the REST API. */
export type Answer = { status: number; text: string; body: Record<string, unknown>; headers: Headers };

type JobFields = Partial<Record<"job_type" | "user_id" | "privacy_class", string>> & { payload?: object };

/** A faulty D1: `batch` wraps each write, `read` replaces each read, `bound` gets the parameters of a write. */
export type D1Fault = { batch?: (run: () => Promise<D1Result[]>) => Promise<D1Result[]>; read?: () => Promise<void>; bound?: (values: unknown[]) => void };

/**
 * A separate hub for one test, with the real router and the real D1. It has a new name, so it contains nothing of other tests.
 * After the first {@link pass} the clock stands still and moves only there. It starts at the present, so no alarm of the platform comes early.
 */
export class TestHub {
  readonly #name = crypto.randomUUID();
  readonly #env: Env;
  readonly #workers: TestWorker[] = [];
  /** The names of the RPCs that the router has made. */
  readonly rpcs: string[] = [];
  /** True while D1 is broken: an object with work that waits for D1 cannot be evicted. */
  #stuck = false;

  /** `variables` are those of the router in front of the hub. */
  constructor(variables: Record<string, string> = {}) {
    const hub = new Proxy(env.HUB, {
      get: (target, member) => (member === "getByName" ? () => this.#noting(target.getByName(this.#name)) : Reflect.get(target, member)),
    });
    this.#env = { ...env, ...variables, HUB: hub };
    onTestFinished(() => this.#end());
  }

  get stub(): DurableObjectStub<WorkerHub> {
    return env.HUB.getByName(this.#name);
  }

  // ── Workers ───────────────────────────────────────────────────────────────────────────────────

  async dial(url = "http://hub.test/", headers: Record<string, string> = {}): Promise<Response> {
    return this.fetch(new Request(url, { headers: { Upgrade: "websocket", ...headers } }));
  }

  /** Opens a socket that got its challenge and has not registered. */
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

  /** Connects a worker without `ack` and waits for its first 2 s, so that it gets jobs at once [JB2]. Stops the clock. */
  async plainWorker(fields: { key?: KeyPair; signed?: boolean; [field: string]: unknown } = {}): Promise<TestWorker> {
    const worker = await this.worker({ features: [], ...fields });
    this.skip(TIMING.arrival);
    return worker;
  }

  // ── Seekers ───────────────────────────────────────────────────────────────────────────────────

  async fetch(request: Request): Promise<Response> {
    return app.fetch(request, this.#env, createExecutionContext());
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

  /** Commits a job, which must be accepted, and returns its id. */
  async commit(policy: "fast" | "cheap" = "cheap", fields: JobFields = {}): Promise<string> {
    const { status, body, text } = await this.post(policy, fields);
    if (status !== 201) throw new Error(`${status} ${text}`);
    return String(body.job_id);
  }

  /** Returns the job as `GET /v1/jobs/{id}` shows it. */
  async job(id: string): Promise<Job> {
    const { status, text } = await this.request(`/v1/jobs/${id}`);
    if (status !== 200) throw new Error(`${status} ${text}`);
    return JSON.parse(text);
  }

  async workersOnline(): Promise<unknown> {
    const { body } = await this.request("/v1/health");
    return body.workers_online;
  }

  /** Waits until this many workers are registered. It has to poll, because nothing tells that a close was handled. */
  async online(count: number): Promise<void> {
    await until(async () => (await this.stub.workersOnline()) === count, `${count} workers online`);
  }

  /** Pairs a user with a worker: writes the row of a claimed code. */
  async pair(userId: string, key: string): Promise<void> {
    const now = Date.now();
    await env.DB.prepare(
      "INSERT INTO pairings (pairing_code, user_id, provider_pubkey, claimed, created_at, expires_at, paired_at) VALUES ('ABCDEF', ?, ?, 1, ?, ?, ?)",
    )
      .bind(userId, key, now, now, now)
      .run();
  }

  // ── Time, storage, faults ─────────────────────────────────────────────────────────────────────

  /** Stops the clock and sets it forward. */
  skip(ms: number): void {
    const now = Date.now();
    vi.useFakeTimers({ toFake: ["Date"], now: now + ms });
  }

  /** Sets the clock to the present and lets it run. */
  runClock(): void {
    vi.useRealTimers();
  }

  /** Moves the clock forward and rings the alarm, as the platform would. Returns true if an alarm was set. */
  async pass(ms: number): Promise<boolean> {
    this.skip(ms);
    return runDurableObjectAlarm(this.stub);
  }

  inside<R>(look: (hub: WorkerHub, state: DurableObjectState) => R | Promise<R>): Promise<R> {
    return runInDurableObject(this.stub, look);
  }

  /** Delivers frames in one turn of the hub. The platform may do that, but a test cannot time it. Each frame names its socket by the nonce of the challenge. */
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

  /** Evicts the hub: its memory and that of its isolate are lost; storage, alarm and (by default) sockets stay. */
  async evict(webSockets: "hibernate" | "close" = "hibernate"): Promise<void> {
    await evictDurableObject(this.stub, { webSockets });
    startHere();
  }

  /** Kills the hub during its work; its sockets close. */
  async abort(): Promise<void> {
    await this.inside((_, state) => state.abort("test")).catch(() => {});
    startHere();
  }

  /** Gives the hub a faulty D1, until the hub loses its memory or {@link healD1} is called. */
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

  /** Waits until a job has this state in D1, and returns its row. */
  async recorded(id: string, status: string): Promise<Record<string, unknown>> {
    let row: Record<string, unknown> | null = null;
    await until(async () => {
      row = await env.DB.prepare("SELECT * FROM jobs WHERE id = ?").bind(id).first();
      return row?.status === status;
    }, `${status} in D1`);
    return row ?? {};
  }

  #noting(stub: DurableObjectStub<WorkerHub>): DurableObjectStub<WorkerHub> {
    return new Proxy(stub, {
      get: (target, member) => {
        const method: unknown = Reflect.get(target, member);
        if (typeof method !== "function") return method;
        return (...values: unknown[]) => {
          this.rpcs.push(String(member));
          return Reflect.apply(method, target, values);
        };
      },
    });
  }

  async #end(): Promise<void> {
    vi.useRealTimers();
    for (const worker of this.#workers) worker.close();
    await this.inside((_, state) => state.storage.deleteAlarm()).catch(() => {});
    await (this.#stuck ? this.abort() : this.evict("close").catch(() => {}));
  }
}

/** Polls until a condition is true; for about 30 s, counted in tries, because a test may have set the clock. */
export async function until(met: () => Promise<boolean>, what: string): Promise<void> {
  for (let tries = 0; tries < 6_000; tries++) {
    if (await met()) return;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  throw new Error(`never ${what}`);
}

function unreadable(read: () => Promise<void>): { bind(): { first(): Promise<null> } } {
  return { bind: () => ({ first: () => read().then(() => null) }) };
}

/** Returns a commit as the router sends it to the hub. */
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
