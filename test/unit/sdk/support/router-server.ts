// A router for the SDK tests: a real HTTP server with a few jobs.
import { createHash, randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { onTestFinished } from "vitest";
import { ComputeRouter, type ClientOptions, type Job, type Model, type Receipt } from "../../../../src/sdk/index.ts";
import { keyPair, signReceipt } from "../../../../src/receipt/index.ts";

/** The key of the worker behind every router here. */
export const WORKER = keyPair(new Uint8Array(32).fill(7));
export const NETWORK = "eip155:10143";
const PRICES: Record<string, string> = { FAST_LLM_INFER: "$0.010", CHEAP_LLM_INFER: "$0.005", FAST_TASK: "$0.003", CHEAP_TASK: "$0.001" };
export const PAY_TO = "0x1111111111111111111111111111111111111111";

/** The model that is online here. */
export const MODEL: Model = { id: "Tiny:1b", object: "model", created: 1_764_000_000, owned_by: "workers", workers: 2 };

/** A request as it came over the wire. `at` is on the clock of performance.now(). */
export type Received = { method: string; path: string; query: URLSearchParams; headers: IncomingMessage["headers"]; body: string; at: number };
/** Does something else than the router would; `proceed` lets the router do its part, on this response or on another. */
export type Fault = (response: ServerResponse, request: Received, proceed: (response: ServerResponse) => void) => unknown;
/** How this router behaves. */
export type Rules = {
  /** The statuses that polls see before the end. */
  statuses: Job["status"][];
  /** What the worker makes of the job: an output, or a failure. */
  work: (payload: Record<string, unknown>) => { output: unknown } | { error: string; message?: string };
  /** What becomes of the signed receipt. */
  receipt: (receipt: Receipt, job: Job) => unknown;
  /** Whether a paired worker is online. */
  trusted: boolean;
  /** Whether the commits cost; `payment` says why a payment is refused, or undefined. The word of a facilitator comes after `payment_failed: `. */
  gated: boolean;
  payment: (header: string) => string | undefined;
  /** The models that are online. A job may name one of them only. */
  models: Model[];
};

type StoredJob = { seen: Job["status"][]; end: Job };

/** A real HTTP server that speaks the coordinator's wire [SPEC, API1, PY4] as far as a seeker sees it. */
export class RouterServer {
  readonly url: string;
  readonly received: Received[] = [];
  readonly jobs = new Map<string, StoredJob>();
  /** Payments that were settled. */
  readonly charged: string[] = [];
  readonly rules: Rules;
  readonly #arrivals: { path: string; resolve: () => void }[] = [];
  readonly #faults: { method: string; path: RegExp; fault: Fault }[] = [];
  readonly #keys = new Map<string, { fields: string; jobId: string }>();
  readonly #codes = new Map<string, { userId: string; provider: string | null; pairedAt: string }>();
  readonly #tokens = new Map<string, string>();

  private constructor(url: string, rules: Partial<Rules>) {
    this.url = url;
    const rest = { receipt: (receipt: Receipt) => receipt, trusted: true, gated: false, payment: () => undefined, models: [MODEL] };
    this.rules = { statuses: ["pending", "assigned"], work: builtIn, ...rest, ...rules };
  }

  /** Starts one for one test. */
  static async start(rules: Partial<Rules> = {}): Promise<RouterServer> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    const address = server.address();
    if (address === null || typeof address === "string") throw new Error("no port");
    const router = new RouterServer(`http://127.0.0.1:${address.port}`, rules);
    server.on("request", (request, response) => void router.#handle(request, response));
    return router;
  }

  /** A client of this router that does not dawdle. */
  client(options: ClientOptions = {}): ComputeRouter {
    return new ComputeRouter({ baseUrl: this.url, pollInterval: 5, retryDelay: 5, timeout: 5_000, ...options });
  }

  /** The next requests of this kind meet these faults, one each, in order. */
  fail(route: `${"GET" | "POST" | "DELETE"} ${string}`, ...faults: Fault[]): void {
    const [method = "", path = ""] = route.split(" ");
    for (const fault of faults) this.#faults.push({ method, path: new RegExp(`^${path}`), fault });
  }

  /** Resolves when a request to a path has come. */
  arrival(path: string): Promise<void> {
    if (this.to(path).length > 0) return Promise.resolve();
    return new Promise((resolve) => this.#arrivals.push({ path, resolve }));
  }

  /** The requests to a path, in order. */
  to(path: string): Received[] {
    return this.received.filter((request) => request.path.startsWith(path));
  }

  async #handle(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(incoming.url ?? "", this.url);
    const { method = "", headers } = incoming;
    const request = { method, path: url.pathname, query: url.searchParams, headers, body: await text(incoming), at: performance.now() };
    this.received.push(request);
    for (const arrival of this.#arrivals) if (request.path.startsWith(arrival.path)) arrival.resolve();
    const at = this.#faults.findIndex((entry) => entry.method === method && entry.path.test(url.pathname));
    const proceed = (to: ServerResponse): void => this.#route(request, to);
    const fault = at === -1 ? undefined : this.#faults.splice(at, 1)[0]?.fault;
    if (fault === undefined) proceed(response);
    else fault(response, request, proceed);
  }

  #route(request: Received, response: ServerResponse): void {
    const { method, path, query } = request;
    const jobId = /^\/v1\/jobs\/([^/]+)$/.exec(path)?.[1];
    switch (jobId === undefined ? `${method} ${path}` : `${method} job`) {
      case "GET /v1/health":
        return json(response, 200, { status: "ok", workers_online: 1, network: NETWORK, timestamp: new Date().toISOString() });
      case "GET /v1/quote":
        return this.#quote(query, response);
      case "POST /v1/jobs/commit/fast":
      case "POST /v1/jobs/commit/cheap":
        return this.#commit(request, response);
      case "DELETE job":
        return this.#cancel(jobId ?? "", request, response);
      case "GET /v1/models":
        return json(response, 200, { object: "list", data: this.rules.models, workers_online: 1 });
      case "GET job":
        return this.#look(jobId ?? "", query, response);
      case "GET /v1/jobs":
        return this.#listJobs(query, request, response);
      case "POST /v1/trust/create":
        return this.#create(request, response);
      case "POST /v1/trust/claim":
        return this.#claim(request, response);
      case "GET /v1/trust/list":
        return this.#list(request, response);
      default:
        return json(response, 404, { error: "not_found" });
    }
  }

  #quote(query: URLSearchParams, response: ServerResponse): void {
    const type = query.get("job_type");
    const policy = query.get("policy") || "AUTO";
    const model = query.get("model");
    if (type !== "LLM_INFER" && type !== "TASK") return json(response, 400, { error: "Invalid job_type" });
    if (!["FAST", "CHEAP", "AUTO"].includes(policy)) return json(response, 400, { error: "Invalid policy" });
    const resolved = policy === "AUTO" ? (type === "TASK" ? "CHEAP" : "FAST") : policy;
    const price = PRICES[`${resolved}_${type}`];
    const quote = { price, endpoint: `/v1/jobs/commit/${resolved.toLowerCase()}`, policy_resolved: resolved, network: NETWORK, expires_at: null };
    json(response, 200, { ...quote, ...(model !== null && { model, workers: 2 }) });
  }

  #commit({ path, headers, body }: Received, response: ServerResponse): void {
    const payment = headers["x-payment"]?.toString();
    if (this.rules.gated && payment === undefined) return this.#askPayment(path, "Payment required", response);
    const commit = JSON.parse(body);
    if (!commit.job_type || !commit.payload || !commit.user_id) return json(response, 400, { error: "Missing required fields: job_type, payload, user_id" });
    const model: unknown = commit.payload.model ?? "auto";
    const online = this.rules.models.map(({ id }) => id);
    if (typeof model === "string" && !["auto", ...online].some((id) => id.toLowerCase() === model.toLowerCase())) {
      return json(response, 404, { error: "no_such_model", models: online });
    }
    const isPrivate = commit.privacy_class === "PRIVATE";
    if (isPrivate && this.#tokens.has(commit.user_id) && this.#tokens.get(commit.user_id) !== headers["x-user-token"]) {
      return json(response, 401, { error: "user_token_required" });
    }
    const key = headers["idempotency-key"] === undefined ? undefined : `${commit.user_id} ${headers["idempotency-key"]}`;
    const stored = key === undefined ? undefined : this.#keys.get(key);
    if (stored !== undefined) {
      return stored.fields === path + body ? created(response, stored.jobId) : json(response, 409, { error: "idempotency_key_reused" });
    }
    const refusal = payment === undefined || !this.rules.gated ? undefined : this.rules.payment(payment);
    if (refusal !== undefined) return this.#askPayment(path, refusal, response);
    const jobId = randomUUID();
    if (isPrivate && !this.rules.trusted) {
      this.jobs.set(jobId, { seen: [], end: { ...bare(jobId, "failed"), result: { error: "no_trusted_worker" } } });
      return json(response, 422, { error: "no_trusted_worker", job_id: jobId });
    }
    if (payment !== undefined && this.rules.gated) this.charged.push(payment);
    if (key !== undefined) this.#keys.set(key, { fields: path + body, jobId });
    this.jobs.set(jobId, { seen: [...this.rules.statuses], end: this.#end(jobId, commit.payload) });
    created(response, jobId);
  }

  #cancel(jobId: string, { headers }: Received, response: ServerResponse): void {
    const job = this.jobs.get(jobId);
    if (job === undefined || headers["x-cancel-token"] !== tokenOf(jobId)) return json(response, 404, { error: "Job not found" });
    if (job.seen.length > 0) Object.assign(job, { seen: [], end: { ...bare(jobId, "failed"), result: { error: "cancelled" } } });
    json(response, 200, job.end);
  }

  #end(jobId: string, payload: Record<string, unknown>): Job {
    const work = this.rules.work(payload);
    if ("error" in work) return { ...bare(jobId, "failed"), result: { ...work } };
    const completed_at = new Date().toISOString();
    const result = typeof work.output === "string" ? { output: work.output } : (work.output as Job["result"]);
    const job: Job = { ...bare(jobId, "completed"), result, completed_at };
    const receipt = this.rules.receipt(signReceipt(WORKER, jobId, work.output, completed_at), job);
    return { ...job, receipt: receipt as Receipt | null };
  }

  #look(jobId: string, query: URLSearchParams, response: ServerResponse): void {
    const job = this.jobs.get(jobId);
    if (job === undefined) return json(response, 404, { error: "Job not found" });
    // A router that waits has seen the end.
    if (query.has("wait")) job.seen.length = 0;
    const status = job.seen.shift();
    json(response, 200, status === undefined ? job.end : bare(jobId, status));
  }

  #listJobs(query: URLSearchParams, { headers }: Received, response: ServerResponse): void {
    const token = this.#tokens.get(query.get("user_id") ?? "");
    if (token === undefined || token !== headers["x-user-token"]) return json(response, 401, { error: "user_token_required" });
    const all = [...this.jobs.values()].map(({ seen, end: { id, status, created_at, completed_at } }) => {
      return { id, job_type: "TASK", status: seen[0] ?? status, created_at, completed_at };
    });
    json(response, 200, { jobs: all.toReversed().slice(0, Number(query.get("limit"))), next: null });
  }

  #askPayment(path: string, error: string, response: ServerResponse): void {
    const fast = path.endsWith("fast");
    const terms = { scheme: "exact", network: NETWORK, amount: fast ? "10000" : "1000", asset: PAY_TO, payTo: PAY_TO, maxTimeoutSeconds: 300, extra: {} };
    const resource = { url: this.url + path, description: "a job", mimeType: "application/json", serviceName: "Compute Router", tags: ["llm"] };
    const header = Buffer.from(JSON.stringify({ x402Version: 2, error, resource, accepts: [terms] })).toString("base64");
    const offer = {
      ...terms,
      price: fast ? "$0.010" : "$0.001",
      maxAmountRequired: terms.amount,
      resource: resource.url,
      description: resource.description,
      mimeType: resource.mimeType,
    };
    const [, errorReason] = error.split("payment_failed: ");
    const settlement = errorReason === undefined ? {} : { "payment-response": Buffer.from(JSON.stringify({ success: false, errorReason })).toString("base64") };
    json(response, 402, { error, accepts: [offer], x402Version: 2, resource }, { "payment-required": header, ...settlement });
  }

  #create({ headers, body }: Received, response: ServerResponse): void {
    const { user_id } = JSON.parse(body);
    const token = headers["x-user-token"]?.toString();
    if (this.#tokens.has(user_id) && this.#tokens.get(user_id) !== token) return json(response, 401, { error: "user_token_required" });
    // Only the first code of a user binds a token [TR2].
    const isFirst = ![...this.#codes.values()].some(({ userId }) => userId === user_id);
    if (token !== undefined && isFirst) this.#tokens.set(user_id, token);
    const code = (0xa00000 + this.#codes.size).toString(16).toUpperCase();
    this.#codes.set(code, { userId: user_id, provider: null, pairedAt: "" });
    json(response, 201, { pairing_code: code, expires_at: new Date(Date.now() + 3_600_000).toISOString() });
  }

  #claim({ body }: Received, response: ServerResponse): void {
    const { pairing_code, provider_pubkey } = JSON.parse(body);
    const code = this.#codes.get(pairing_code.toUpperCase());
    if (code === undefined) return json(response, 400, { error: "invalid_code" });
    if (code.provider !== null) return json(response, 400, { error: "already_claimed" });
    code.provider = provider_pubkey;
    code.pairedAt = new Date().toISOString();
    json(response, 200, { user_id: code.userId, paired_at: code.pairedAt });
  }

  #list({ query, headers }: Received, response: ServerResponse): void {
    const user = query.get("user_id") ?? "";
    if (this.#tokens.has(user) && this.#tokens.get(user) !== headers["x-user-token"]) return json(response, 401, { error: "user_token_required" });
    const providers = [...this.#codes.values()]
      .filter(({ userId, provider }) => userId === user && provider !== null)
      .map(({ provider, pairedAt }) => ({ provider_pubkey: provider, paired_at: pairedAt }));
    json(response, 200, { providers });
  }
}

/** Answers JSON with the headers every answer of a router has. */
export function json(response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void {
  response.writeHead(status, { "content-type": "application/json", "x-request-id": "req-1", ...headers }).end(JSON.stringify(body));
}

/** Answers 201 with the token that cancels the job. */
function created(response: ServerResponse, jobId: string): void {
  json(response, 201, { job_id: jobId }, { "x-cancel-token": tokenOf(jobId) });
}

/** The token that cancels a job. */
export function tokenOf(jobId: string): string {
  return createHash("sha256").update(jobId).digest("hex").slice(0, 32);
}

/** A job without a result. */
function bare(id: string, status: Job["status"]): Job {
  return { id, status, result: null, receipt: null, created_at: "2026-11-21T00:00:00.000Z", completed_at: null };
}

/** What a worker makes of a job. */
function builtIn(payload: Record<string, unknown>): { output: unknown } {
  switch (payload.task_type) {
    case "classify":
      return { output: { confidence: 0.75, sentiment: "positive" } };
    case "summarize":
      return { output: { summary: `${String(payload.input)} …`, word_count: 3 } };
    case "extract_json":
      return { output: { count: 1, extracted: [{ ü: "😀", 2: [1e21, -0, null], 1: "\u2028" }] } };
    default:
      return {
        output: {
          model: "tiny",
          output: `Echo: ${typeof payload.prompt === "string" ? payload.prompt : JSON.stringify(payload.messages)}`,
          usage: { completion_tokens: 2, prompt_tokens: 1 },
        },
      };
  }
}
