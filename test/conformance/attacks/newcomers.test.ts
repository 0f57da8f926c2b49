// One abuser with any number of keys beside honest workers: what is left of the market, as seekers and workers see it [JB11].
import { setTimeout as delay } from "node:timers/promises";
import { beforeAll, describe, expect, test } from "vitest";
import { type Job, newUser, task } from "../support/api.ts";
import { start, type Subject } from "../support/coordinator.ts";
import { type Frame, fullWorker, keepSocketsOpen, type WorkerSocket } from "../support/worker.ts";

const OUTPUT = { sentiment: "positive", confidence: 0.9 };
const HONEST = 20;
/** How long an honest worker takes for a job, ms. */
const WORK_MS = 20;
/** Jobs that are committed and have not ended: fewer than there are honest workers, so that one of them is always idle. */
const IN_FLIGHT = 10;
const JOBS = 100;

/** What a worker does with a job. */
type Habit = (worker: WorkerSocket, assign: Frame) => Promise<void> | void;

const completes: Habit = async (worker, assign) => {
  worker.ack(assign);
  await delay(WORK_MS);
  worker.send(worker.completion(String(assign.job_id), OUTPUT));
};

/** A market of its own: a coordinator, its workers, and how many claims each side got. */
class Market {
  readonly #subject: Subject;
  readonly #workers: WorkerSocket[] = [];
  readonly #renewed: Promise<void>[] = [];
  /** The abuser's address ends in it: what an earlier abuser did is not forgotten. */
  readonly #number: number;
  #clients = 0;
  #over = false;
  /** The attempt that completed each job. */
  readonly attempts = new Map<string, number>();
  readonly claims = { honest: 0, abuser: 0 };

  constructor(subject: Subject, number: number) {
    this.#subject = subject;
    this.#number = number;
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

  /** One key of the abuser, whose keys all have one address. With `renews` it comes back with a fresh key after each job. */
  async abuse(habit: Habit, renews: boolean): Promise<void> {
    const worker = await this.#worker(this.#from(200, this.#number));
    worker.onAssign = (assign) => {
      this.claims.abuser++;
      void habit(worker, assign);
      if (renews) this.#renewed.push(this.#renew(worker, habit));
    };
  }

  async #renew(worker: WorkerSocket, habit: Habit): Promise<void> {
    await worker.settled();
    worker.close();
    if (!this.#over) await this.abuse(habit, true);
  }

  /** Closes every socket of this market. */
  async end(): Promise<void> {
    this.#over = true;
    await Promise.all(this.#renewed);
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

const HABITS: readonly [string, number, boolean, Habit][] = [
  ["20 ever-fresh keys that end each job with retryable: false", 20, true, (worker, assign) => worker.fail(assign, false)],
  [
    "20 ever-fresh keys that answer each job with an error",
    20,
    true,
    (worker, assign) => worker.send(worker.completion(String(assign.job_id), { error: "no" })),
  ],
  ["60 that take a job and never acknowledge it", 60, false, () => {}],
  ["20 that reject everything", 20, false, (worker, assign) => worker.send({ type: "job_reject", job_id: assign.job_id, reason: "busy" })],
];

describe("one abuser with many keys and one address beside 20 proven workers", { timeout: 120_000 }, () => {
  let subject: Subject;

  beforeAll(async () => {
    keepSocketsOpen();
    subject = await start("evm", { TESTNET_MODE: "true", RECEIPT_POLICY: "strict", TRUSTED_IP_HEADER: "x-test-ip" });
  });

  for (const [index, [title, keys, renews, habit]] of HABITS.entries()) {
    test(`[JB11] ${title}: 95 % of the jobs complete at their first or second attempt, honest workers get 80 % of the claims`, async () => {
      const market = new Market(subject, index + 1);
      for (let n = 0; n < HONEST; n++) await market.join();
      // Three jobs of different users prove a key. The first ones that are proven get four jobs in five, so the last ones need a few more.
      await market.run(12 * HONEST);
      market.claims.honest = 0;
      for (let n = 0; n < keys; n++) await market.abuse(habit, renews);
      const jobs = await market.run(JOBS);
      await market.end();
      const done = jobs.filter(({ id, status }) => status === "completed" && (market.attempts.get(id) ?? 9) <= 2);
      expect(done.length).toBeGreaterThanOrEqual(0.95 * JOBS);
      const { honest, abuser } = market.claims;
      expect(abuser).toBeGreaterThan(0);
      expect(honest / (honest + abuser)).toBeGreaterThanOrEqual(0.8);
    });
  }
});
