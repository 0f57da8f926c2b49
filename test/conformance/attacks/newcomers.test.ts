// One abuser with any number of keys beside honest workers: what is left of the market, as seekers and workers see it [JB11].
import { setTimeout as delay } from "node:timers/promises";
import { beforeAll, describe, expect, test } from "vitest";
import { type Job, newUser, task } from "../support/api.ts";
import { start, type Subject } from "../support/coordinator.ts";
import { type Frame, fullWorker, keepSocketsOpen, type WorkerSocket } from "../support/worker.ts";

const OUTPUT = { sentiment: "positive", confidence: 0.9 };
const HONEST = 20;
/** Of the abuser. */
const KEYS = 20;
/** How long an honest worker takes for a job, ms. */
const WORK_MS = 20;
/** Jobs that are committed and have not ended: fewer than there are honest workers, so that one of them is always idle. */
const IN_FLIGHT = 10;
const JOBS = 100;

async function completes(worker: WorkerSocket, assign: Frame): Promise<void> {
  worker.ack(assign);
  await delay(WORK_MS);
  worker.send(worker.completion(String(assign.job_id), OUTPUT));
}

/** A market of its own: a coordinator, its workers, and how many claims each side got. */
class Market {
  readonly #subject: Subject;
  readonly #workers: WorkerSocket[] = [];
  #clients = 0;
  /** The attempt that completed each job. */
  readonly attempts = new Map<string, number>();
  readonly claims = { honest: 0, abuser: 0 };

  constructor(subject: Subject) {
    this.#subject = subject;
  }

  /** The header of one client: a documentation address, since loopback addresses are exempt. */
  #from(third: number, fourth: number): Record<string, string> {
    return { "x-test-ip": `198.51.${third}.${fourth}` };
  }

  /** An honest worker with an address of its own. */
  async join(): Promise<void> {
    const worker = await this.#worker(this.#from(100, ++this.#clients));
    worker.onAssign = (assign) => {
      this.claims.honest++;
      this.attempts.set(String(assign.job_id), Number(assign.attempt));
      void completes(worker, assign);
    };
  }

  /** One key of the abuser, whose keys all have one address. It rejects every job. */
  async abuse(): Promise<void> {
    const worker = await this.#worker(this.#from(200, 1));
    worker.onAssign = (assign) => {
      this.claims.abuser++;
      worker.send({ type: "job_reject", job_id: assign.job_id, reason: "busy" });
    };
  }

  /** Closes every socket of this market. */
  async end(): Promise<void> {
    for (const worker of this.#workers) worker.close();
    for (const worker of this.#workers) await worker.ended();
  }

  async #worker(headers: Record<string, string>): Promise<WorkerSocket> {
    const worker = await fullWorker(this.#subject.socketUrl, { capabilities: ["TASK"] }, undefined, headers);
    this.#workers.push(worker);
    return worker;
  }

  /** Commits jobs of many users, a few at a time, and returns how they ended. */
  async run(count: number): Promise<Job[]> {
    const ended: Job[] = [];
    let left = count;
    const seek = async () => {
      while (left-- > 0) {
        const id = await this.#subject.api.commit(task(newUser()), "cheap", this.#from(50, 1));
        ended.push(await this.#subject.api.ended(id, 120_000));
      }
    };
    await Promise.all(Array.from({ length: IN_FLIGHT }, seek));
    return ended;
  }
}

describe("one abuser with many keys and one address beside 20 proven workers", { timeout: 120_000 }, () => {
  let subject: Subject;

  beforeAll(async () => {
    keepSocketsOpen();
    subject = await start("evm", { TESTNET_MODE: "true", RECEIPT_POLICY: "strict", TRUSTED_IP_HEADER: "x-test-ip" });
  });

  // The simulation has this habit and ten more. Here it shows that the keys of one address count as one: if each counted alone, they would get more than a
  // third.
  test("[JB11] 20 that reject everything: 95 % of the jobs complete at their first or second attempt, honest workers get 80 % of the claims", async () => {
    const market = new Market(subject);
    for (let n = 0; n < HONEST; n++) await market.join();
    // Three jobs of different users prove a key. The first ones that are proven get four jobs in five, so the last ones need a few more.
    await market.run(12 * HONEST);
    market.claims.honest = 0;
    for (let n = 0; n < KEYS; n++) await market.abuse();
    const jobs = await market.run(JOBS);
    await market.end();
    const done = jobs.filter(({ id, status }) => status === "completed" && (market.attempts.get(id) ?? 9) <= 2);
    expect(done.length).toBeGreaterThanOrEqual(0.95 * JOBS);
    const { honest, abuser } = market.claims;
    expect(abuser).toBeGreaterThan(0);
    expect(honest / (honest + abuser)).toBeGreaterThanOrEqual(0.8);
  });
});
