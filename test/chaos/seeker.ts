// The seekers of npm run test:chaos: commits, polls and pairings, with every answer noted in the history.
import { setTimeout as delay } from "node:timers/promises";
import type { Random } from "../simulation/random.ts";
import type { Commit, History } from "./history.ts";

/** How long a request is waited for before its answer counts as lost, ms: longer than a stall. */
const PATIENCE = 12_000;

/** Shared by all seekers of a run. */
export type Market = { url: string; history: History; workerKeys: readonly string[]; isOpen: () => boolean };

type Answer = { status: number; body: Record<string, unknown>; text: string };

let commits = 0;

/** A seeker with a user of its own: commits of every kind, polls, pairings, each answer into the history. */
export class Seeker {
  readonly #market: Market;
  readonly #random: Random;
  readonly #user: string;

  constructor(market: Market, index: number, random: Random) {
    this.#market = market;
    this.#random = random;
    this.#user = `seeker-${index}`;
  }

  /** Goes on until the market closes. */
  async run(): Promise<void> {
    // PRIVATE jobs need somebody to trust.
    await this.#pair();
    while (this.#market.isOpen()) {
      await delay(this.#random.between(20, 350));
      if (this.#random.chance(0.06)) await this.#pair();
      else await this.#commit();
    }
  }

  async #commit(): Promise<void> {
    const random = this.#random;
    const key = random.chance(0.5) ? crypto.randomUUID() : null;
    const commit: Commit = { marker: `chaos-${++commits}`, user: this.#user, secret: random.chance(0.25), key, requests: 0 };
    this.#market.history.commits.set(commit.marker, commit);
    const wait = random.chance(0.3) ? random.between(1, 8) : 0;
    // With a key, the same request twice at once, and again for as long as nobody answers.
    const twice = key !== null && random.chance(0.3);
    const [id] = await Promise.all([this.#insist(commit, wait), twice ? this.#insist(commit, wait) : null]);
    if (id !== null && random.chance(0.5)) await this.#poll(id);
  }

  async #insist(commit: Commit, wait: number): Promise<string | null> {
    for (;;) {
      const answer = await this.#send(commit, wait);
      if (answer?.status === 201) return String(answer.body["job_id"]);
      const isOver = answer !== null && answer.status !== 503;
      if (isOver || commit.key === null || !this.#market.isOpen()) return null;
      await delay(this.#random.between(50, 500));
    }
  }

  async #send(commit: Commit, wait: number): Promise<Answer | null> {
    const { history } = this.#market;
    const { marker, user, secret, key } = commit;
    commit.requests++;
    const isLlm = marker.endsWith("7");
    const payload = isLlm ? { prompt: marker } : { task_type: "summarize", input: marker };
    const body = { job_type: isLlm ? "LLM_INFER" : "TASK", user_id: user, privacy_class: secret ? "PRIVATE" : "PUBLIC", payload };
    const headers = { ...(key !== null && { "idempotency-key": key }), ...(wait > 0 && { prefer: `wait=${wait}` }) };
    const answer = await this.#ask(`/v1/jobs/commit/${marker.endsWith("3") ? "fast" : "cheap"}`, body, headers);
    const id = answer?.body["job_id"];
    history.committed(commit, answer?.status ?? null, typeof id === "string" ? id : null);
    const job = answer?.body["job"];
    if (answer !== null && typeof id === "string" && isJob(job)) show(history, id, job.status, answer.text.slice(answer.text.indexOf('"job":') + 6, -1));
    return answer;
  }

  /** Polls for a while, as a seeker does. */
  async #poll(id: string): Promise<void> {
    const { history, isOpen } = this.#market;
    for (let polls = 0; polls < 20 && isOpen(); polls++) {
      const answer = await this.#ask(`/v1/jobs/${id}`);
      if (answer?.status === 404) history.violations.push(`job ${id}: was accepted and is 404`);
      if (answer?.status === 200 && show(history, id, String(answer.body["status"]), answer.text)) return;
      await delay(100);
    }
  }

  /** Has a code claimed by two workers at once. */
  async #pair(): Promise<void> {
    const { history, workerKeys } = this.#market;
    const created = await this.#ask("/v1/trust/create", { user_id: this.#user });
    if (created?.status !== 201) return;
    const code = String(created.body["pairing_code"]);
    const claim = async (worker: string): Promise<void> => {
      const answer = await this.#ask("/v1/trust/claim", { pairing_code: code, provider_pubkey: worker });
      if (answer?.status === 200) history.claims.push({ code, user: this.#user, worker });
    };
    await Promise.all([claim(this.#random.pick(workerKeys)), claim(this.#random.pick(workerKeys))]);
  }

  async #ask(path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answer | null> {
    const init = body === undefined ? {} : { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json", ...headers } };
    try {
      const response = await fetch(`${this.#market.url}${path}`, { ...init, signal: AbortSignal.timeout(PATIENCE) });
      const text = await response.text();
      const answer = { status: response.status, text, body: JSON.parse(text) as Record<string, unknown> };
      // What the product says itself has a request id; the rest is from what listens before a dead runtime.
      const isOurs = response.headers.has("x-request-id");
      if (isOurs && answer.status >= 500 && answer.status !== 503)
        this.#market.history.violations.push(`${path} answered ${answer.status} ${text.slice(0, 200)}`);
      return isOurs ? answer : null;
    } catch {
      // Refused, cut, late, or not JSON: something else answers for a runtime that is gone.
      return null;
    }
  }
}

function isJob(value: unknown): value is { status: string } {
  return typeof value === "object" && value !== null && "status" in value;
}

/** Notes an end; false when it is none. */
function show(history: History, id: string, status: string, json: string): boolean {
  if (status !== "completed" && status !== "failed") return false;
  history.saw(id, json);
  return true;
}
