import { spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { keptJobs } from "../../../src/cli/kept-jobs.ts";
import { cancellationText } from "../../../src/cli/waiting.ts";
import type { JobList } from "../../../src/sdk/index.ts";
import { reply } from "../sdk/support/faults.ts";
import { MODEL, RouterServer, tokenOf } from "../sdk/support/router-server.ts";
import { runHere } from "../worker/support/cli-here.ts";
import { temporaryFolder } from "../worker/support/folder.ts";

const SLOW = { statuses: Array.from({ length: 1_000 }, () => "pending" as const) };
/** The first poll sees the end: a command polls every half second. */
const AT_ONCE = { statuses: [] };
const onlyJob = (router: RouterServer): string => [...router.jobs.keys()][0] ?? "";

describe("job cancel", () => {
  it("[JB13] cancels a job that a command of this machine committed; its token is in a file that only its owner can read", async () => {
    const router = await RouterServer.start(SLOW);
    const place = ["--url", router.url, "--config-dir", temporaryFolder()];
    const folder = place[3] ?? "";
    expect(await runHere(["run", "hi", "--timeout", "1", ...place])).toMatchObject({ code: 7 });
    const id = onlyJob(router);
    const file = join(folder, "jobs.jsonl");
    expect(JSON.parse(readFileSync(file, "utf8"))).toMatchObject({ jobId: id, cancelToken: tokenOf(id), jobType: "LLM_INFER", baseUrl: router.url });
    if (process.platform !== "win32") expect(statSync(file).mode & 0o077).toBe(0);
    expect(await runHere(["job", "cancel", id, ...place])).toEqual({ code: 0, stdout: `job ${id} is cancelled\n`, stderr: "" });
    const { stdout } = await runHere(["job", "cancel", id, "--json", ...place]);
    expect(JSON.parse(stdout)).toMatchObject({ cancelled: true, charged: null, credit: null, job: { id, status: "failed" } });
  });

  it("says that the job had ended, that the job is not known here, and what is wrong with the words", async () => {
    const router = await RouterServer.start(AT_ONCE);
    const place = ["--url", router.url, "--config-dir", temporaryFolder()];
    await runHere(["run", "hi", ...place]);
    const id = onlyJob(router);
    expect(await runHere(["job", "cancel", id, ...place])).toMatchObject({ code: 0, stdout: `job ${id} had already ended: completed\n` });
    const elsewhere = ["--url", router.url, "--config-dir", temporaryFolder()];
    expect(await runHere(["job", "cancel", id, ...elsewhere])).toMatchObject({
      code: 2,
      stderr:
        "there is no token here that cancels this job; use the --url and --config-dir with which the job was sent, or give its token: --cancel-token TOKEN\n",
    });
    expect(await runHere(["job", "cancel", id, "--cancel-token", tokenOf(id), ...elsewhere])).toMatchObject({ code: 0 });
    expect(await runHere(["job", "cancel", id, "--cancel-token", "0".repeat(32), ...elsewhere])).toMatchObject({ code: 5 });
    expect(await runHere(["job", "cancel", "x"])).toMatchObject({ code: 2, stderr: expect.stringContaining("job cancel --help") });
    expect(await runHere(["job", "cancel"])).toMatchObject({ code: 2, stderr: "ID is missing; see: npx compute-router job cancel --help\n" });
    expect((await runHere(["job", "cancel", "--help"])).stdout).toContain("compute-router job cancel [OPTIONS] <ID>");
  });
});

describe("job", () => {
  it("does not call a receipt invalid whose result is no longer stored", async () => {
    const router = await RouterServer.start(AT_ONCE);
    await runHere(["run", "hi", "--url", router.url, "--config-dir", temporaryFolder()]);
    const id = onlyJob(router);
    expect((await runHere(["job", id, "--url", router.url])).stdout).toMatch(/^receipt {4}valid, worker /m);
    Object.assign(router.jobs.get(id)?.end ?? {}, { result: null });
    const { code, stdout } = await runHere(["job", id, "--url", router.url]);
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(/^receipt {4}not checked, because the result is no longer stored, worker /m) });
  });
});

describe("a job without a receipt", () => {
  const shown = async (id: string, router: RouterServer, ...more: string[]) => (await runHere(["job", id, "--url", router.url, ...more])).stdout;

  it("[RC1] that is completed: job, run --require-verified and verify say that nobody has signed it", async () => {
    const router = await RouterServer.start({ ...AT_ONCE, receipt: () => null });
    const run = await runHere(["run", "hi", "--require-verified", "--url", router.url, "--config-dir", temporaryFolder()]);
    const id = onlyJob(router);
    expect(run).toMatchObject({ code: 8, stderr: `job ${id} has no receipt\n` });
    expect(await shown(id, router)).toMatch(/^receipt {4}none: NOT verified$/m);
    const input = await shown(id, router, "--json");
    const unsigned = { code: 8, stdout: "", stderr: "no worker has signed this result: it has no receipt\n" };
    expect(await runHere(["verify", "--job", "-"], { input })).toEqual(unsigned);
    const ofOpenAi = JSON.stringify({ choices: [{ text: "hi" }], compute_router: { job_id: id, receipt: null } });
    expect(await runHere(["verify", "--job", "-"], { input: ofOpenAi })).toEqual(unsigned);
    const asJson = { ...unsigned, stdout: '{"valid":false,"reason":"no_receipt"}\n' };
    for (const form of [input, ofOpenAi]) expect(await runHere(["verify", "--job", "-", "--json"], { input: form })).toEqual(asJson);
  });

  it("that failed: verify says why it failed, and job has no line about a receipt", async () => {
    const router = await RouterServer.start({ ...AT_ONCE, work: () => ({ error: "content_refused" }) });
    await runHere(["run", "hi", "--url", router.url, "--config-dir", temporaryFolder()]);
    const id = onlyJob(router);
    expect(await shown(id, router)).not.toContain("receipt");
    const input = await shown(id, router, "--json");
    const failed = { code: 8, stdout: "", stderr: "the job failed (content_refused): it has no receipt\n" };
    expect(await runHere(["verify", "--job", "-"], { input })).toEqual(failed);
  });

  it("verify of an error says which error it is (2)", async () => {
    for (const error of ["Job not found", { message: "Job not found", code: "not_found" }]) {
      const verified = await runHere(["verify", "--job", "-"], { input: JSON.stringify({ error }) });
      expect(verified).toEqual({ code: 2, stdout: "", stderr: "standard input is not a job, but an error: Job not found\n" });
    }
  });
});

describe("what a command sends and prints", () => {
  const start = async (): Promise<{ router: RouterServer; place: string[] }> => {
    const router = await RouterServer.start(AT_ONCE);
    return { router, place: ["--url", router.url, "--config-dir", temporaryFolder()] };
  };

  it("job: its times and its text, with --json what the coordinator answers, with --wait not before the end; a receipt of another job is not valid", async () => {
    const { router, place } = await start();
    await runHere(["run", "hi", ...place]);
    const id = onlyJob(router);
    const { end } = router.jobs.get(id) ?? expect.unreachable();
    const show = async (...more: string[]) => (await runHere(["job", id, "--url", router.url, ...more])).stdout;
    expect(await show("--wait", "9")).toMatch(
      new RegExp(`^job {8}${id}\nstatus {5}completed\ncreated {4}20\\S+\ncompleted {2}${end.completed_at}\nreceipt {4}valid.*\n\nEcho: hi\n$`),
    );
    expect(router.to(`/v1/jobs/${id}`).at(-1)?.query.get("wait")).toBe("9");
    expect(JSON.parse(await show("--json"))).toEqual(end);
    router.jobs.set(id, { seen: [], end: { ...end, receipt: { ...(end.receipt ?? expect.unreachable()), job_id: id.replace(/^./, "x") } } });
    expect(await show()).toMatch(/^receipt {4}NOT valid: it belongs to another job, worker /m);
  });

  it("run: the limit of tokens and the policy; with --json one object and no text of a stream", async () => {
    const { router, place } = await start();
    const { stdout } = await runHere(["run", "hi", "--max-tokens", "7", "--policy", "cheap", "--json", "--stream", ...place]);
    const [{ path, body } = expect.unreachable()] = router.to("/v1/jobs/commit");
    expect([path, JSON.parse(body).payload]).toEqual(["/v1/jobs/commit/cheap", { job_type: "LLM_INFER", prompt: "hi", max_tokens: 7 }]);
    expect(JSON.parse(stdout)).toMatchObject({
      job_id: onlyJob(router),
      source: "router",
      price: "$0.005",
      credit: null,
      verified: true,
      result: { output: "Echo: hi" },
    });
  });

  it("[RC1] run --require-verified: no result that nobody signed (8); with --json what a program can read of that", async () => {
    const { router, place } = await start();
    router.rules.receipt = () => null;
    const failed = await runHere(["run", "hi", "--require-verified", "--json", ...place]);
    expect(failed).toMatchObject({ code: 8, stderr: expect.stringContaining("has no receipt") });
    expect(JSON.parse(failed.stdout)).toMatchObject({ job_id: onlyJob(router), error: "receipt_invalid", reason: "no_receipt" });
    expect(await runHere(["run", "hi", "--require-verified", ...place])).toMatchObject({ code: 8, stdout: "" });
    expect(await runHere(["run", "hi", ...place])).toMatchObject({ code: 0, stderr: expect.stringContaining("NOT verified: no_receipt") });
  });

  it("task: an object that a person can read", async () => {
    const { place } = await start();
    const { stdout } = await runHere(["task", "classify", ...place], { input: "good" });
    expect(stdout).toBe('{\n  "confidence": 0.75,\n  "sentiment": "positive"\n}\n');
  });

  it("quote: every price; with --json one list that names the type of each", async () => {
    const { router } = await start();
    expect((await runHere(["quote", "--url", router.url])).stdout).toBe(
      "LLM_INFER  FAST   $0.010  /v1/jobs/commit/fast\nLLM_INFER  CHEAP  $0.005  /v1/jobs/commit/cheap\nTASK       FAST   $0.003  /v1/jobs/commit/fast\nTASK       CHEAP  $0.001  /v1/jobs/commit/cheap\n",
    );
    const { stdout } = await runHere(["quote", "--type", "task", "--policy", "fast", "--json", "--url", router.url]);
    expect(JSON.parse(stdout)).toMatchObject([{ job_type: "TASK", policy_resolved: "FAST", price: "$0.003" }]);
  });

  it("models and jobs: that there are none", async () => {
    const { router, place } = await start();
    router.fail("GET /v1/models", reply(200, { object: "list", data: [], workers_online: 0 }));
    expect(await runHere(["models", "--url", router.url])).toEqual({ code: 0, stdout: "", stderr: "no worker takes LLM jobs now\n" });
    await router.client({ userId: "u", userToken: "secret" }).trust.create();
    expect(await runHere(["jobs", "--user", "u", "--user-token", "secret", "--limit", "100", ...place])).toEqual({ code: 0, stdout: "", stderr: "no jobs\n" });
  });

  it("[PY9] a cancelled job: what became of its money", () => {
    const job = { id: "j", status: "failed", result: null, receipt: null, created_at: "", completed_at: null } as const;
    expect(cancellationText({ job, cancelled: true, charged: false, credit: null })).toBe("job j is cancelled; nothing was charged");
    expect(cancellationText({ job, cancelled: true, charged: true, credit: null })).toBe("job j is cancelled; it was charged");
  });
});

describe("the list of jobs on disk", () => {
  const job = (n: number) => {
    const jobId = `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`;
    return { jobId, jobType: "TASK" as const, createdAt: new Date(n).toISOString(), cancelToken: "t".repeat(32), baseUrl: "http://a.example", userId: "u" };
  };

  const lines = (from: number, to: number) => Array.from({ length: to - from }, (_, n) => `${JSON.stringify(job(from + n))}\n`).join("");
  const numbers = async (list: JobList) => (await list.all()).map(({ createdAt }) => Date.parse(createdAt));

  it("leaves out what it cannot read, and a line that was cut on a full disk takes no other with it", async () => {
    const folder = temporaryFolder();
    const list = keptJobs(folder);
    expect(await list.all()).toEqual([]);
    await list.add(job(1));
    appendFileSync(join(folder, "jobs.jsonl"), '{"jobId":"x"}\n{"cut');
    expect(await list.all()).toEqual([job(1)]);
    await list.add(job(2));
    expect(await list.all()).toEqual([job(1), job(2)]);
  });

  it("keeps at least the newest 1,000 jobs, in two files that only their owner can read", async () => {
    const folder = temporaryFolder();
    const list = keptJobs(folder);
    for (let first = 0; first < 9_000; first += 1_500) {
      await list.add(job(first));
      appendFileSync(join(folder, "jobs.jsonl"), lines(first + 1, first + 1_500), { mode: 0o600 });
    }
    for (const n of [9_000, 9_001]) await list.add(job(n));
    const kept = (await numbers(list)).toSorted((one, other) => one - other);
    expect(kept.length).toBeGreaterThan(1_000);
    expect(kept.length).toBeLessThan(5_000);
    expect(kept).toEqual(Array.from(kept, (_, n) => 9_002 - kept.length + n));
    expect(readdirSync(folder).toSorted()).toEqual(["jobs.jsonl", "jobs.old.jsonl"]);
    if (process.platform !== "win32") for (const file of readdirSync(folder)) expect(statSync(join(folder, file)).mode & 0o077).toBe(0);
  });

  it("keeps a job that is added while another process makes room, however long that takes", async () => {
    const folder = temporaryFolder();
    const list = keptJobs(folder);
    writeFileSync(join(folder, "jobs.jsonl"), lines(0, 3_000));
    // A process that stops before it renames a file, until it is told to go on.
    const script = `
      import fs from "node:fs";
      import { syncBuiltinESMExports } from "node:module";
      const rename = fs.renameSync;
      fs.renameSync = (...files) => (fs.writeSync(1, "stopped"), fs.readSync(0, Buffer.alloc(1)), rename(...files));
      syncBuiltinESMExports();
      const { keptJobs } = await import(${JSON.stringify(join(import.meta.dirname, "../../../src/cli/kept-jobs.ts"))});
      await keptJobs(${JSON.stringify(folder)}).add(${JSON.stringify(job(3_000))});`;
    const other = spawn(process.execPath, ["--input-type=module", "-e", script], { stdio: ["pipe", "pipe", "inherit"] });
    onTestFinished(() => void other.kill("SIGKILL"));
    const exited = once(other, "exit");
    await once(other.stdout, "data");
    await list.add(job(3_001));
    other.stdin.end("go");
    await exited;
    expect(await numbers(list)).toContain(3_001);
    expect(new Set(await numbers(list))).toEqual(new Set(Array.from({ length: 3_002 }, (_, n) => n)));
  });

  it("that cannot be read is told in one line, and a job whose token is given is cancelled all the same", async () => {
    const router = await RouterServer.start(SLOW);
    const folder = temporaryFolder();
    const place = ["--url", router.url, "--config-dir", folder];
    mkdirSync(join(folder, "jobs.jsonl"));
    const { stderr: said } = await runHere(["run", "hi", "--timeout", "3", ...place]);
    expect(said).toContain(`cannot store the job in ${join(folder, "jobs.jsonl")} (EISDIR)`);
    const unread = { code: 1, stderr: `cannot read the list of jobs ${join(folder, "jobs.jsonl")} (EISDIR)\n` };
    expect(await runHere(["jobs", ...place])).toMatchObject(unread);
    const id = onlyJob(router);
    expect(await runHere(["job", "cancel", id, ...place])).toMatchObject(unread);
    expect(await runHere(["job", "cancel", id, "--cancel-token", tokenOf(id), ...place])).toMatchObject({ code: 0 });
  });

  it("that cannot be written does not stop a job", async () => {
    const router = await RouterServer.start(AT_ONCE);
    const { code, stderr } = await runHere(["run", "hi", "--user", "u", "--url", router.url, "--config-dir", "/dev/null/x"]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: expect.stringContaining("cannot store the job in /dev/null/x/jobs.jsonl") });
  });
});

describe("models", () => {
  it("[JB10] lists them with their workers; run --model chooses one, and quote --model counts its workers", async () => {
    const router = await RouterServer.start(AT_ONCE);
    const place = ["--url", router.url, "--config-dir", temporaryFolder()];
    expect(await runHere(["models", "--url", router.url])).toEqual({ code: 0, stdout: "Tiny:1b  2 workers\n", stderr: "" });
    expect(JSON.parse((await runHere(["models", "--json", "--url", router.url])).stdout)).toEqual({ object: "list", data: [MODEL], workers_online: 1 });
    expect(await runHere(["run", "hi", "--model", "tiny:1b", ...place])).toMatchObject({ code: 0, stdout: "Echo: hi\n" });
    expect(JSON.parse(router.to("/v1/jobs/commit")[0]?.body ?? "").payload).toEqual({ job_type: "LLM_INFER", prompt: "hi", model: "tiny:1b" });
    const { stdout } = await runHere(["quote", "--model", "tiny:1b", "--policy", "fast", "--url", router.url]);
    expect(stdout).toBe("LLM_INFER  FAST   $0.010  /v1/jobs/commit/fast  workers with tiny:1b: 2\n");
    expect(await runHere(["quote", "--model", "tiny:1b", "--type", "TASK"])).toMatchObject({ code: 2 });
    expect(await runHere(["run", "hi", "--model", "a b", ...place])).toMatchObject({ code: 2, stderr: expect.stringContaining("--model must be") });
  });

  it("[JB10] a model of nobody ends with those that are online (5); no models, and no workers, are said", async () => {
    const router = await RouterServer.start(AT_ONCE);
    const place = ["--url", router.url, "--config-dir", temporaryFolder()];
    const { code, stderr } = await runHere(["run", "hi", "--model", "huge", ...place]);
    expect({ code, stderr }).toEqual({
      code: 5,
      stderr: `no_such_model: no worker offers this model; online: Tiny:1b; see: npx compute-router models --url ${router.url}\n`,
    });
    const empty = await RouterServer.start({ models: [] });
    expect(await runHere(["models", "--url", empty.url])).toMatchObject({ stdout: "", stderr: "1 worker for LLM jobs, without the name of a model\n" });
  });
});

describe("jobs", () => {
  it("[JB14] lists the jobs of this machine, and says how to see older ones", async () => {
    const router = await RouterServer.start(AT_ONCE);
    const place = ["--url", router.url, "--config-dir", temporaryFolder()];
    expect(await runHere(["jobs", ...place])).toEqual({ code: 0, stdout: "", stderr: "no jobs of this machine\n" });
    await runHere(["run", "one", ...place]);
    await runHere(["task", "classify", ...place], { input: "two" });
    const [first = "", second = ""] = router.jobs.keys();
    const { stdout, stderr } = await runHere(["jobs", "--limit", "1", ...place]);
    expect(stdout).toBe(`${second}  TASK       completed  2026-11-21T00:00:00.000Z\n`);
    const [, cursor = ""] = /^to see older jobs: npx compute-router jobs --limit 1 --before (\S+) --url \S+ --config-dir \S+\n$/.exec(stderr) ?? [];
    const older = await runHere(["jobs", "--before", cursor, "--json", ...place]);
    expect(JSON.parse(older.stdout)).toMatchObject({ source: "local", next: null, jobs: [{ id: first, job_type: "LLM_INFER" }] });
  });

  it("[JB14] of a user with a token come from the router; with a wrong one it says what is missing (5)", async () => {
    const router = await RouterServer.start(AT_ONCE);
    const place = ["--url", router.url, "--config-dir", temporaryFolder()];
    await router.client({ userId: "u", userToken: "secret" }).trust.create();
    await router.client({ userId: "u" }).submit({ job_type: "TASK", task_type: "classify", input: "x" });
    const args = ["jobs", "--user", "u", ...place];
    expect(await runHere([...args, "--user-token", "secret"])).toMatchObject({ code: 0, stdout: expect.stringContaining(onlyJob(router)) });
    expect(await runHere(args, { env: { ROUTER_USER_TOKEN: "wrong" } })).toMatchObject({ code: 5, stderr: expect.stringContaining("user_token_required") });
  });
});

describe("the text of a job on standard input", () => {
  it.each([
    ["Latin-1", [0x67, 0xfc, 0x74]],
    ["UTF-16, as Windows writes it", [0xff, 0xfe, 0x68, 0x00, 0x69, 0x00]],
  ])("in %s is refused: the worker would get, and the seeker pay for, another text", async (_title, bytes) => {
    const router = await RouterServer.start(AT_ONCE);
    const place = ["--url", router.url, "--config-dir", temporaryFolder()];
    for (const command of [
      ["task", "classify"],
      ["run", "-"],
    ]) {
      const { code, stderr } = await runHere([...command, ...place], { input: Uint8Array.from(bytes) });
      expect({ code, stderr }).toEqual({ code: 2, stderr: "standard input is not UTF-8: save the text as UTF-8 first\n" });
    }
    expect(router.received).toEqual([]);
  });

  it("may begin with a byte order mark, which is no part of it", async () => {
    const router = await RouterServer.start(AT_ONCE);
    const place = ["--url", router.url, "--config-dir", temporaryFolder()];
    await runHere(["task", "classify", ...place], { input: "\uFEFFgood" });
    expect(JSON.parse(router.to("/v1/jobs/commit")[0]?.body ?? "{}")).toMatchObject({ payload: { input: "good" } });
  });
});
