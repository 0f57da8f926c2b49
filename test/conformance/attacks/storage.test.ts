// One client that fills the disk by bytes: with jobs that nobody runs, and with jobs that are run [LM3].
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { beforeAll, expect, test } from "vitest";
import { llm, newUser, task } from "../support/api.ts";
import { start, type Subject } from "../support/coordinator.ts";
import { fullWorker, keepSocketsOpen, type WorkerSocket } from "../support/worker.ts";

const MiB = 1024 * 1024;
const PER_CLIENT = 2 * MiB;
/** The bytes of one prompt of the attacker, and a text that all of them contain. */
const PROMPT = 250_000;
const MARK = "a prompt of the attacker";
const OUTPUT = { sentiment: "positive", confidence: 0.9 };
const attacker = { "x-test-ip": "198.51.100.66" };
const honest = { "x-test-ip": "203.0.113.7" };

let evm: Subject;
let worker: WorkerSocket;

beforeAll(async () => {
  keepSocketsOpen();
  const limits = { RATE_LIMITS: "on", TRUSTED_IP_HEADER: "x-test-ip", POLLS_PER_TEN_SECONDS: "100000", CLIENT_STORED_BYTES: String(PER_CLIENT) };
  evm = await start("evm", { TESTNET_MODE: "true", ...limits });
  worker = await fullWorker(evm.socketUrl, { capabilities: ["TASK"] });
});

const prompt = () => MARK.padEnd(PROMPT, "x");

/** What the databases in the state folder hold of jobs, hub and D1 together. */
function stored(stateDir: string): { payloads: number; marked: number; usedBytes: number } {
  const found = { payloads: 0, marked: 0, usedBytes: 0 };
  for (const file of readdirSync(stateDir, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".sqlite"))) {
    const db = new DatabaseSync(join(stateDir, file));
    const one = (query: string) => Object.values(db.prepare(query).get() ?? {}).map(Number)[0] ?? 0;
    if (one("SELECT count(*) FROM sqlite_master WHERE name = 'jobs'") > 0) {
      found.payloads += one("SELECT coalesce(sum(octet_length(payload)), 0) FROM jobs");
      found.marked += one(`SELECT count(*) FROM jobs WHERE payload LIKE '%${MARK}%'`);
    }
    found.usedBytes += (one("PRAGMA page_count") - one("PRAGMA freelist_count")) * one("PRAGMA page_size");
    db.close();
  }
  return found;
}

/** An honest job, from commit to result. */
async function served(): Promise<void> {
  const id = await evm.api.commit(task(newUser()), "cheap", honest);
  await worker.assigned(id);
  expect((await worker.complete(id, OUTPUT)).status).toBe("accepted");
}

test(
  "[LM3] a client that fills by bytes: of jobs that nobody ran no payload is left, of others only its share, and others are served",
  { timeout: 180_000 },
  async () => {
    // No worker takes LLM jobs.
    const unrun: string[] = [];
    for (let n = 0; n < 24; n++) {
      const answer = await evm.api.tryCommit(llm(newUser(), prompt()), "cheap", attacker);
      expect([201, 503]).toContain(answer.status);
      if (answer.status === 201) unrun.push(String(answer.body.job_id));
    }
    expect(unrun.length * PROMPT).toBeGreaterThan(2 * PER_CLIENT);
    await served();

    // The attacker has these run, by a worker of its own or by an honest one.
    let run = 0;
    let refused = await evm.api.tryCommit(task(newUser(), prompt()), "cheap", attacker);
    for (; refused.status === 201 && run < 30; run++) {
      const id = String(refused.body.job_id);
      worker.ack(await worker.assigned(id));
      await worker.complete(id, OUTPUT);
      refused = await evm.api.tryCommit(task(newUser(), prompt()), "cheap", attacker);
    }
    expect([refused.status, refused.body.error]).toEqual([429, "rate_limited"]);
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(12 * 3_600);
    expect(run * PROMPT).toBeLessThan(PER_CLIENT + PROMPT);
    await served();

    for (const id of unrun) expect(await evm.api.ended(id, 60_000)).toMatchObject({ status: "failed", result: { error: "no_eligible_worker" } });
    await served();
    await evm.stop();
    const left = stored(evm.stateDir);
    expect(left.marked).toBe(run);
    expect(left.payloads).toBeLessThan(PER_CLIENT + PROMPT + 10_000);
    expect(left.usedBytes).toBeLessThan(2 * PER_CLIENT);
  },
);
