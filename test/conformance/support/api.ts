// The REST client of the conformance tests. It uses no code of src.
import { randomUUID } from "node:crypto";
import type { WorkerSocket } from "./worker.ts";
import { within } from "./wait.ts";

/** Any JSON object. */
export type Fields = Record<string, unknown>;

/** The Job object of the specification. */
export type Job = {
  id: string;
  status: "pending" | "assigned" | "running" | "completed" | "failed";
  result: Fields | null;
  receipt: Fields | null;
  created_at: string;
  completed_at: string | null;
};

/** An HTTP answer. */
export type Answer = { status: number; headers: Headers; text: string; body: Fields; ms: number };

/** ISO 8601 UTC with milliseconds. */
export const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
export const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Returns a valid TASK commit of this user. */
export function task(user: string, input = "I love this", changes: Fields = {}): Fields {
  return { job_type: "TASK", user_id: user, payload: { job_type: "TASK", task_type: "classify", input }, ...changes };
}

/** Returns a valid LLM_INFER commit of this user. */
export function llm(user: string, prompt = "Say hi", changes: Fields = {}): Fields {
  return { job_type: "LLM_INFER", user_id: user, payload: { job_type: "LLM_INFER", prompt }, ...changes };
}

/** Returns a new user id. */
export function newUser(): string {
  return `user-${randomUUID()}`;
}

/** The REST API as a seeker uses it. */
export class Api {
  readonly base: string;
  /** The cancel tokens of the jobs that it has committed, by id. */
  readonly tokens = new Map<string, string>();

  constructor(base: string) {
    this.base = base;
  }

  /** Cancels what it has committed and nobody has ended. */
  async cancelAll(): Promise<void> {
    const known = [...this.tokens];
    this.tokens.clear();
    await Promise.all(known.map(([id, token]) => this.ask("DELETE", `/v1/jobs/${id}`, undefined, { "x-cancel-token": token })));
  }

  async ask(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answer> {
    const started = performance.now();
    const raw = body === undefined || typeof body === "string" || body instanceof Uint8Array;
    const response = await fetch(this.base + path, {
      method,
      headers: { ...(body !== undefined && { "content-type": "application/json" }), ...headers },
      ...(body !== undefined && { body: (raw ? body : JSON.stringify(body)) as string | Uint8Array<ArrayBuffer> }),
    });
    const text = await response.text();
    let parsed: Fields = {};
    try {
      parsed = JSON.parse(text) as Fields;
    } catch {
      // A test that needs JSON will fail by itself.
    }
    const token = response.headers.get("x-cancel-token");
    if (token !== null) this.tokens.set(String(response.headers.get("x-job-id") ?? parsed.job_id), token);
    return { status: response.status, headers: response.headers, text, body: parsed, ms: performance.now() - started };
  }

  get(path: string, headers?: Record<string, string>): Promise<Answer> {
    return this.ask("GET", path, undefined, headers);
  }

  post(path: string, body: unknown, headers?: Record<string, string>): Promise<Answer> {
    return this.ask("POST", path, body, headers);
  }

  tryCommit(body: unknown, tier: "fast" | "cheap" = "cheap", headers?: Record<string, string>): Promise<Answer> {
    return this.post(`/v1/jobs/commit/${tier}`, body, headers);
  }

  /** Commits and expects 201. */
  async commit(body: unknown, tier: "fast" | "cheap" = "cheap", headers?: Record<string, string>): Promise<string> {
    const answer = await this.tryCommit(body, tier, headers);
    if (answer.status !== 201) throw new Error(`commit answered ${answer.status} ${answer.text}`);
    return String(answer.body.job_id);
  }

  async job(id: string): Promise<Job> {
    const answer = await this.get(`/v1/jobs/${id}`);
    if (answer.status !== 200) throw new Error(`poll answered ${answer.status} ${answer.text}`);
    return answer.body as Job;
  }

  /** Polls until the job meets a condition. */
  async until(id: string, status: Job["status"] | ((job: Job) => boolean), ms = 10_000): Promise<Job> {
    const wished = typeof status === "string" ? (job: Job) => job.status === status : status;
    let last: Job | undefined;
    return within(
      ms,
      async () => {
        last = await this.job(id);
        return wished(last) ? last : undefined;
      },
      () => `job ${id} to be ${String(status)}, is ${JSON.stringify(last)}`,
    );
  }

  /** Polls until the job has ended. */
  ended(id: string, ms?: number): Promise<Job> {
    return this.until(id, (job) => job.status === "completed" || job.status === "failed", ms);
  }

  /** Pairs workers with a user. */
  async pair(user: string, ...workers: (WorkerSocket | string)[]): Promise<void> {
    for (const worker of workers) {
      const created = await this.post("/v1/trust/create", { user_id: user });
      if (created.status !== 201) throw new Error(`create answered ${created.status} ${created.text}`);
      const pubkey = typeof worker === "string" ? worker : worker.pubkey;
      const claimed = await this.post("/v1/trust/claim", { pairing_code: created.body.pairing_code, provider_pubkey: pubkey });
      if (claimed.status !== 200) throw new Error(`claim answered ${claimed.status} ${claimed.text}`);
    }
  }
}
