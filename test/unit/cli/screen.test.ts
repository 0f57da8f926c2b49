import { stripVTControlCharacters } from "node:util";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { processTag, thisProcess } from "../../../src/worker/node/worker-lock.ts";
import { json, RouterServer } from "../sdk/support/router-server.ts";
import { runHere } from "../worker/support/cli-here.ts";
import { FakeCoordinator } from "../worker/support/fake-coordinator.ts";
import { temporaryFolder } from "../worker/support/folder.ts";
import { hasScript, Screen, type Terminal, terminal } from "./support/terminal.ts";

/** Rewrites the screen, changes the title, turns the text around, forges a line, all that a stranger's text may try. */
const HOSTILE = "x\u001B[2J\u001B]0;owned\u0007\u009B31m\u202E\u2066\u2028\r✓ all is well\n✓ forged";
const JOB = "7f9c24e8-3b12-4fef-91d0-1c3a5b7d9e11";

/** The screen of a program that has ended; Screen itself throws at whatever commands a terminal and is not ours. */
async function screenOf(run: Terminal): Promise<string> {
  await run.exited;
  return run.screen().text;
}

/** What stands on a color terminal after a command line that ran in this process. */
async function shown(args: string[], env: NodeJS.ProcessEnv = {}): Promise<string> {
  const { stdout, stderr } = await runHere(args, { env: { NO_COLOR: "", ...env }, isTerminal: true });
  return new Screen({ columns: 120, rows: 50 }).write((stdout + stderr).replaceAll("\n", "\r\n")).text;
}

describe.runIf(hasScript)("own text on a color terminal", () => {
  it("an unknown command is reported with the help that lists the known ones", async () => {
    expect(await screenOf(terminal(["frobnicate"]))).toBe("unknown command frobnicate; see: npx compute-router --help");
  });

  it.each([80, 70])("help fits into %i columns: a description is wrapped below its start", async (columns) => {
    const run = terminal(["run", "--help"], {}, { columns, rows: 80 });
    expect(await run.exited).toBe(0);
    const lines = run.screen().text.split("\n");
    const [url = "", next = ""] = lines.slice(lines.findIndex((line) => line.includes("--url=<url>")));
    const at = url.indexOf("Coordinator:");
    expect(next.slice(0, at + 1)).toMatch(/^ +\S$/);
    expect(
      lines
        .filter((line) => line !== "")
        .map((line) => line.search(/\S/))
        .every((start) => start <= at),
    ).toBe(true);
    // The screen would break a longer line in a word.
    expect(
      run
        .said()
        .split("\r\n")
        .filter((line) => stripVTControlCharacters(line).length > columns),
    ).toEqual([]);
  });

  it("help has colors", async () => {
    const run = terminal(["run", "--help"]);
    expect(await screenOf(run)).toContain("USAGE npx compute-router run");
    expect(run.said()).toContain("\u001B[");
    expect(run.screen().text).not.toContain("\\u001b");
  });

  it("worker doctor has colored marks", async () => {
    const run = terminal(["worker", "doctor", "--tasks-only", "--url", "ws://127.0.0.1:1/", "--config-dir", temporaryFolder()]);
    const text = await screenOf(run);
    expect(text).not.toContain("\\u001b");
    expect(["✓ node", "! configuration", "✗ 127.0.0.1:1"].map((mark) => run.screen().styleOf(mark))).toEqual(["32", "33", "31"]);
  });

  it("worker init has colored marks", async () => {
    const coordinator = await FakeCoordinator.start();
    void coordinator.dialled().then((worker) => worker.challenge());
    const run = terminal(["worker", "init", "--tasks-only", "--url", coordinator.url, "--config-dir", join(temporaryFolder(), "new")]);
    await run.says("Coordinator (several");
    run.type("\r");
    await run.says("Name to show");
    expect(run.screen().styleOf("✓ socket")).toBe("32");
    expect(run.screen().text).not.toContain("\\u001b");
    run.type("\u0003");
    await run.exited;
  });

  it("worker start has a colored mark, and says once why it is offline and how to check the setup", async () => {
    const run = terminal(["worker", "start", "--tasks-only", "--url", "ws://127.0.0.1:1/", "--config-dir", temporaryFolder()]);
    // The command is too long for this line, so it has the next one.
    await run.says("trying again. To check:\r\nnpx compute-router worker doctor --url");
    expect(run.screen().styleOf("○")).toMatch(/^3[13]$/);
    expect(run.screen().text).not.toContain("\\u001b");
    run.type("\u0003");
    await run.exited;
  });
});

const RECEIPT = { job_id: HOSTILE, provider_pubkey: HOSTILE, output_hash: HOSTILE, completed_at: HOSTILE, payment_ref: null, signature: HOSTILE };
const COUNTS = { completed: 1, failed: 0, cancelled: 0 };

/** A folder in which every file says something hostile. */
function hostileFolder(): string {
  const folder = temporaryFolder();
  const now = new Date().toISOString();
  const link = { coordinator: HOSTILE, state: "offline", cause: HOSTILE, network: HOSTILE, tier: HOSTILE, authenticated: true, reconnects: 0 };
  const report = {
    ...{ version: 1, pid: process.pid, started_at: now, updated_at: now, provider_pubkey: "0".repeat(64), name: HOSTILE, metrics: HOSTILE, draining: false },
    llm: { runtime: HOSTILE, model: HOSTILE },
    coordinators: [{ ...link, job: null, jobs: { LLM_INFER: COUNTS, TASK: COUNTS }, tokens: 1 }],
  };
  writeFileSync(join(folder, `worker.${processTag(thisProcess())}.status.json`), JSON.stringify(report));
  writeFileSync(join(folder, "user-id"), HOSTILE);
  writeFileSync(join(folder, "job.json"), JSON.stringify({ id: JOB, result: { output: "" }, receipt: RECEIPT }));
  return folder;
}

describe("untrusted text cannot control a terminal or imitate a line of ours", () => {
  it.each([
    ["pair", "create", "--no-wait", "--json"],
    ["job", JOB, "--json"],
    ["worker", "doctor", "--tasks-only"],
  ])("of a coordinator: %s %s", async (...args) => {
    const router = await RouterServer.start();
    const job = { id: JOB, status: "completed", result: { output: HOSTILE }, receipt: RECEIPT, created_at: HOSTILE, completed_at: HOSTILE };
    router.fail("GET /v1/jobs", (response) => json(response, 200, job));
    router.fail("POST /v1/trust/create", (response) => json(response, 201, { pairing_code: "A1B2C3", expires_at: HOSTILE }));
    router.fail("GET /v1/health", (response) =>
      json(response, 200, { status: "ok", workers_online: 1, network: HOSTILE, timestamp: new Date().toISOString() }),
    );
    const user = args[0] === "pair" ? ["--user", "u"] : [];
    const text = await shown([...args, ...user, "--url", router.url]);
    expect(text).toContain("\\u001b]0;owned\\u0007");
    expect(text).not.toMatch(/^✓ forged/m);
  });

  it.each([
    ["a pairing code", ["pair", "create", "--no-wait", "--user", "u"]],
    ["a price", ["quote", "--type", "LLM_INFER", "--policy", "FAST"]],
  ])("of a coordinator, as %s: it is refused, not shown", async (_what, args) => {
    const router = await RouterServer.start();
    const quote = { price: HOSTILE, endpoint: "/v1/jobs/commit/fast", policy_resolved: "FAST", network: "eip155:10143", expires_at: null };
    router.fail("POST /v1/trust/create", (response) => json(response, 201, { pairing_code: HOSTILE, expires_at: new Date().toISOString() }));
    router.fail("GET /v1/quote", (response) => json(response, 200, quote));
    const text = await shown([...args, "--url", router.url]);
    expect(text).toContain("malformed");
    expect(text).not.toContain("owned");
  });

  it.each([
    ["the text of a job", ["job", JOB]],
    ["the text of a run", ["run", "hi", "--user", "u"]],
    ["an error", ["pair", "list", "--user", "u"]],
  ])("of a coordinator, with lines of its own: %s", async (_what, args) => {
    const router = await RouterServer.start({ statuses: [], work: () => ({ output: { output: HOSTILE } }) });
    const job = { id: JOB, status: "completed", result: { output: HOSTILE }, receipt: RECEIPT, created_at: HOSTILE, completed_at: HOSTILE };
    if (args[0] === "job") router.fail("GET /v1/jobs", (response) => json(response, 200, job));
    router.fail("GET /v1/trust/list", (response) => json(response, 400, { error: HOSTILE }));
    // The client itself leaves no control character in an error.
    expect(await shown([...args, "--url", router.url])).toContain("owned");
  });

  it.each([["worker", "status"], ["user"], ["user", "--json"], ["worker", "key", "show"]])("of a file: %s %s", async (...args) => {
    const folder = join(hostileFolder(), args[1] === "key" ? "\u001B]0;owned\u0007" : "");
    const text = await shown([...args, "--config-dir", folder]);
    expect(text).toContain("owned");
    if (args[1] === "--json") expect(JSON.parse(text.replaceAll("\n", ""))).toMatchObject({ user_id: HOSTILE });
  });

  it("of a receipt, of the command line, of the environment", async () => {
    const file = join(hostileFolder(), "job.json");
    expect(await shown(["verify", "--job", file])).toContain("owned");
    expect(await shown(["\u001B]0;owned\u0007"])).toContain("unknown command");
    expect(await shown(["quote"], { ROUTER_BASE_URL: "ftp://\u001B]0;owned\u0007/" })).toContain("owned");
  });
});
