// The honest workers and seekers beside a flood, each with an address of its own: how many of their jobs complete, and how long they take.
import { sign } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { type Socket, WorkerSession } from "../../src/worker/session/index.ts";
import { ADDRESS_HEADER, newKey } from "./flood-socket.ts";

/** How long an honest worker takes for a job. */
const WORK_MS = 20;
const TICK_MS = 20;
/** Addresses of seekers: one alone may not commit so often. */
const SEEKERS = 40;

/** What became of the honest jobs. */
export type Served = { committed: number; done: number; times: number[]; others: Map<string, number> };

/** Honest workers and seekers of one coordinator. */
export class Honest {
  readonly #url: string;
  readonly #workers: WorkerSession[] = [];
  #jobs = 0;

  constructor(url: string, workers: number) {
    this.#url = url;
    for (let n = 0; n < workers; n++) this.#workers.push(startWorker(url, `198.51.100.${n + 1}`));
  }

  /** Commits `perSecond` jobs, whatever becomes of them, until `over`; resolves when all of them have been answered. */
  async seek(perSecond: number, over: AbortSignal): Promise<Served> {
    const served: Served = { committed: 0, done: 0, times: [], others: new Map() };
    const pending: Promise<void>[] = [];
    const began = performance.now();
    while (!over.aborted) {
      const due = ((performance.now() - began) / 1_000) * perSecond;
      while (pending.length < due) pending.push(this.#job(served));
      await delay(TICK_MS);
    }
    await Promise.all(pending);
    return served;
  }

  /** Stops the workers. */
  stop(): void {
    for (const worker of this.#workers) worker.stop();
  }

  async #job(served: Served): Promise<void> {
    const n = ++this.#jobs;
    const body = JSON.stringify({ job_type: "TASK", user_id: `honest-${n}`, payload: { task_type: "classify", input: "I love this" } });
    const headers = { "content-type": "application/json", prefer: "wait=25", [ADDRESS_HEADER]: `203.0.113.${(n % SEEKERS) + 1}` };
    const began = performance.now();
    served.committed++;
    let outcome: string;
    try {
      const answer = await fetch(`${this.#url}/v1/jobs/commit/cheap`, { method: "POST", body, headers, signal: AbortSignal.timeout(60_000) });
      const { job, error } = (await answer.json()) as { job?: { status: string }; error?: string };
      outcome = answer.status === 201 ? String(job?.status) : `${answer.status} ${error}`;
    } catch (error) {
      outcome = error instanceof Error ? error.name : String(error);
    }
    if (outcome === "completed") {
      served.done++;
      served.times.push(performance.now() - began);
    } else served.others.set(outcome, (served.others.get(outcome) ?? 0) + 1);
  }
}

function startWorker(url: string, address: string): WorkerSession {
  const { publicKey, key } = newKey();
  const session = new WorkerSession({
    url: `${url.replace("http", "ws")}/`,
    WebSocket: socketFrom(address),
    signer: { publicKey, sign: (text) => sign(null, Buffer.from(text), key).toString("base64") },
    profile: { providerType: "MOBILE", capabilities: ["TASK"], models: [] },
    execute: async () => {
      await delay(WORK_MS);
      return { ok: true, output: { sentiment: "positive", confidence: 1 }, tokens: null };
    },
    onNote: () => {},
  });
  session.start();
  return session;
}

/** The WebSocket of Node from this address: it takes headers, which the type of the browsers' one does not know. */
function socketFrom(address: string): new (url: string) => Socket {
  const dial = (url: string) => Reflect.construct(WebSocket, [url, { headers: { [ADDRESS_HEADER]: address } }]) as Socket;
  return new Proxy(WebSocket, { construct: (_, [url]: [string]) => dial(url) });
}
