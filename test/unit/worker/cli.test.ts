import { createServer } from "node:http";
import { mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { fingerprintOf, keyPair } from "../../../src/receipt/ed25519.ts";

import { signReceipt } from "../../../src/receipt/receipt.ts";
import { temporaryFolder } from "./support/folder.ts";
import { RouterServer } from "../sdk/support/router-server.ts";
import { runHere } from "./support/cli-here.ts";
import { runCli } from "./support/cli-process.ts";

const KEY = keyPair(new Uint8Array(32).fill(9));
const JOB_ID = "7f9c24e8-3b12-4fef-91d0-1c3a5b7d9e11";

function jobFiles(): { folder: string; receipt: string; result: string; job: string } {
  const folder = temporaryFolder();
  const output = { summary: "é 😀", word_count: 2 };
  const receipt = signReceipt(KEY, JOB_ID, output, "2026-11-21T00:00:00.000Z");
  const write = (name: string, value: unknown) => {
    const file = join(folder, name);
    writeFileSync(file, JSON.stringify(value, null, 2));
    return file;
  };
  const job = {
    id: JOB_ID,
    status: "completed",
    result: output,
    receipt: { ...receipt, payment_ref: "0xabc" },
    created_at: "2026-11-21T00:00:00.000Z",
    completed_at: "2026-11-21T00:00:00.000Z",
  };
  return { folder, receipt: write("receipt.json", receipt), result: write("result.json", output), job: write("job.json", job) };
}

describe("compute-router", () => {
  it("prints its version, and its help if there is no command", async () => {
    const { version } = JSON.parse(readFileSync(join(import.meta.dirname, "../../../package.json"), "utf8"));
    expect((await runHere(["--version"])).stdout.trim()).toBe(version);
    expect((await runHere(["-v"])).stdout.trim()).toBe(version);
    const help = await runCli([]);
    expect(help.code).toBe(0);
    for (const name of ["worker", "verify", "run", "task", "quote", "job", "pair", "Exit codes"]) expect(help.stdout).toContain(name);
    expect(help.stdout).not.toContain("job-cancel");
    // In a pipe there are no colors.
    expect(help.stdout).not.toContain("\u001B");
  });

  it("help [command] prints the same as [command] --help", async () => {
    const [all, one] = [await runHere(["help"]), await runHere(["help", "pair", "create"])];
    expect(all).toEqual(await runHere(["--help"]));
    expect(all.stdout).toContain("Use npx compute-router <command> --help");
    expect(one).toEqual(await runHere(["pair", "create", "--help"]));
    expect(one).toEqual(await runHere(["pair", "create", "-h"]));
    // After `--` it is a word of the prompt.
    expect((await runHere(["run", "--url", "ftp://x/", "--", "--help"])).stderr).toContain("--url");
    expect((await runHere(["run", "--url", "ftp://x/", "--", "--url"])).stderr).not.toContain("more than once");
  });

  it("has help for every command, with its full name", async () => {
    const names = [
      "worker",
      "worker key",
      "worker key path",
      "worker key show",
      "worker key export",
      "worker key rotate",
      "worker init",
      "worker start",
      "worker pair",
      "worker doctor",
      "worker status",
      "verify",
      "run",
      "task",
      "quote",
      "job",
      "pair",
      "pair create",
      "pair claim",
      "pair list",
      "stake",
      "stake set",
      "stake list",
      "stake show",
      "payments",
      "payments list",
      "payments show",
      "payments credit",
      "payments void",
      "user",
    ];
    const helps = await Promise.all(names.map(async (name) => ({ name, ...(await runHere([...name.split(" "), "--help"])) })));
    for (const { name, code, stdout } of helps) {
      expect(code).toBe(0);
      expect(stdout).toContain(`USAGE npx compute-router ${name} `);
    }
  });

  it.each([
    [["frobnicate"], "unknown command frobnicate"],
    [["quote", "--tpye", "TASK"], "unknown option --tpye"],
    [["quote", "--no-type"], "unknown option --no-type"],
    [["worker", "key", "path", "--no-key"], "unknown option --no-key"],
    [["worker", "--no-metrics"], "unknown option --no-metrics"],
    [["quote", "--type", "DANCE"], "--type must be one of LLM_INFER, TASK"],
    [["quote", "--policy", "SLOW"], "--policy must be one of FAST, CHEAP, AUTO"],
    [["quote", "--url"], "--url needs a value"],
    [["quote", "--url", "ftp://x/"], "--url"],
    [["quote", "--url", "ws://me:secret@x/"], "must not contain a user name or password"],
    [["quote", "extra"], 'unexpected "extra"'],
    [["run"], "PROMPT"],
    [["run", "-5 + 3"], "PROMPT is missing; see: npx compute-router run [options] -- '-5 + 3'"],
    [["run", ""], "PROMPT must not be empty"],
    [["run", "hi", "--max-tokens", "0"], "--max-tokens must be a whole number from 1 to 32768"],
    [["worker", "start", "--max-tokens", "lots"], "--max-tokens must be a whole number from 1 to 32768"],
    [["task", "translate"], 'there is no task "translate"'],
    [["pair"], "a command is missing"],
    [["stake", "set", "abc", "1", "--config", "x.toml", "--state", "x"], "64 hex digits"],
    [["stake", "set", "0".repeat(64), "1", "--config", "x.toml", "--state", "x"], "64 hex digits of an ed25519 public key"],
    [["stake", "set", KEY.publicKey, "-1", "--config", "x.toml", "--state", "x"], "AMOUNT"],
    [["stake", "set", KEY.publicKey, "1e3", "--config", "x.toml", "--state", "x"], "a number of token units"],
    [["stake", "set", KEY.publicKey, "99.9999999", "--config", "x.toml", "--state", "x"], "a number of token units"],
    [["stake", "set", KEY.publicKey, "1", "--state", "x"], "--config"],
    [["stake", "list", "--config", "x.toml"], "select the database"],
    [["stake", "show", KEY.publicKey, "--config", "x.toml", "--remote", "--state", "x"], "select the database"],
    [["payments", "credit", "k", "--reason", "x", "--config", "x.toml", "--state", "x"], "the payment must be its key or the id of its job"],
    [["payments", "void", JOB_ID, "--config", "x.toml", "--state", "x"], "--reason"],
    [["payments", "void", JOB_ID, "--reason", " ", "--config", "x.toml", "--state", "x"], "--reason must be 1 to 200 printable characters"],
    [["payments", "void", JOB_ID, "--reason", "x".repeat(201), "--config", "x.toml", "--state", "x"], "--reason must be 1 to 200 printable characters"],
    [["payments", "void", JOB_ID, "--reason", "a\u001B[2J", "--config", "x.toml", "--state", "x"], "--reason must be 1 to 200 printable characters"],
    [["payments", "list", "--phase", "lost", "--config", "x.toml", "--state", "x"], "--phase"],
    [["payments", "show", JOB_ID, "--config", "x.toml"], "select the database"],
    [["payments", "list", "--config", "x.toml", "--remote"], "there is no file x.toml; --config must be the wrangler file of the instance"],
    [["verify", "r.json"], "--result RESULT.json or --job JOB.json"],
    [["worker", "--state", "/proc/nope"], "unknown option --state; see: npx compute-router worker --help"],
    [["worker", "--bogus", "v"], "unknown option --bogus"],
    [["job", "nope"], 'ID must be a UUID, got "nope"; see: npx compute-router job --help'],
    [["task", "classify"], "nothing to read: npx compute-router task classify < FILE"],
    [["worker", "--tasks-only", "--model", "x"], "--tasks-only cannot be combined"],
    [["worker", "--runtime", "cloud"], "--llm-url"],
    [["worker", "--model-file", "x.gguf"], "--runtime embedded"],
    [["worker", "--runtime", "embedded", "--model-file", "/nowhere.gguf"], "there is no file /nowhere.gguf"],
  ])("%o is a usage error (2) that says what is wrong", async (args, message) => {
    const { code, stderr } = await runHere(args);
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(message) });
    expect(stderr).not.toMatch(/\n\s+at |secret@/);
  });

  it("says that no coordinator is at the address (6)", async () => {
    const { code, stderr } = await runHere(["quote", "--url", "ws://127.0.0.1:1/"]);
    expect({ code, stderr }).toEqual({ code: 6, stderr: expect.stringMatching(/^no coordinator at http:\/\/127\.0\.0\.1:1: fetch blocks this port/) });
    expect(stderr.split("127.0.0.1:1").length).toBe(2);
  });
});

describe("verify", () => {
  it("[RC2] a receipt is valid for its result, without a network", async () => {
    const { receipt, result } = jobFiles();
    const { code, stdout } = await runHere(["verify", receipt, "--result", result]);
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringContaining(KEY.publicKey) });
  });

  it("[PY10] the receipt in a job is valid, even with a payment_ref; the job may come from standard input", async () => {
    const { job } = jobFiles();
    expect((await runHere(["verify", "--job", job])).code).toBe(0);
    const { stdout } = await runHere(["verify", "--job", "-", "--json"], { input: readFileSync(job, "utf8") });
    expect(JSON.parse(stdout)).toMatchObject({ valid: true, job_id: JOB_ID, provider_pubkey: KEY.publicKey });
  });

  it("[RC2, API6] it reads the answer of a commit that waited: of a job that has ended, of one that has not, and of another one", async () => {
    const job = JSON.parse(readFileSync(jobFiles().job, "utf8"));
    const verified = (answer: unknown) => runHere(["verify", "--job", "-"], { input: JSON.stringify(answer) });
    expect(await verified({ job_id: JOB_ID, job })).toMatchObject({ code: 0, stdout: expect.stringContaining(JOB_ID) });
    expect(await verified({ job_id: JOB_ID, job: { ...job, result: null, receipt: null } })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("no result"),
    });
    const other = "0c3a5b7d-3b12-4fef-91d0-7f9c24e89e11";
    expect(await verified({ job_id: other, job: { ...job, id: other } })).toMatchObject({ code: 8, stderr: expect.stringContaining("belongs to job") });
  });

  it("[RC2] with another result, job or signature it is not valid (8), and says why", async () => {
    const { folder, receipt, result, job } = jobFiles();
    const changed = (file: string, change: (value: Record<string, unknown>) => unknown) => {
      const name = join(folder, `${Math.random()}.json`);
      writeFileSync(name, JSON.stringify(change(JSON.parse(readFileSync(file, "utf8")))));
      return name;
    };
    const other = changed(result, (value) => ({ ...value, word_count: 3 }));
    const late = changed(receipt, (value) => ({ ...value, completed_at: "2026-11-21T00:00:01.000Z" }));
    const moved = changed(job, (value) => ({ ...value, id: "0c3a5b7d-3b12-4fef-91d0-7f9c24e89e11" }));
    const runs = await Promise.all([
      runHere(["verify", receipt, "--result", other]),
      runHere(["verify", late, "--result", result, "--json"]),
      runHere(["verify", "--job", moved]),
      runHere(["verify", changed(receipt, (value) => ({ ...value, provider_pubkey: "0".repeat(64) })), "--result", result]),
    ]);
    expect(runs.map(({ code }) => code)).toEqual([8, 8, 8, 8]);
    expect(runs[3]?.stderr).toBe("the receipt is NOT valid: its provider_pubkey is not a valid ed25519 key (invalid_key)\n");
    expect(runs[0]?.stderr).toContain("hash_mismatch");
    expect(JSON.parse(runs[1]?.stdout ?? "")).toMatchObject({ valid: false, reason: "bad_signature" });
    expect(runs[2]?.stderr).toContain("belongs to job");
  });

  it("[RC2] the receipt may be in a file beside the job; a file may begin with a byte order mark", async () => {
    const { folder, receipt, job } = jobFiles();
    const { receipt: own, ...rest } = JSON.parse(readFileSync(job, "utf8"));
    expect(own).toBeDefined();
    const bare = join(folder, "bare.json");
    writeFileSync(bare, `\uFEFF${JSON.stringify(rest)}`);
    expect((await runHere(["verify", receipt, "--job", bare])).code).toBe(0);
    expect(await runHere(["verify", "--job", bare])).toMatchObject({ code: 2, stderr: expect.stringContaining("has no receipt") });
    writeFileSync(bare, JSON.stringify({ ...rest, result: null }));
    expect(await runHere(["verify", receipt, "--job", bare])).toMatchObject({ code: 2, stderr: `the job in ${bare} has no result (not yet, or no longer)\n` });
    expect(await runHere(["verify", "--result", bare])).toMatchObject({ code: 2, stderr: expect.stringContaining("the receipt is missing") });
  });

  it("files that are not a receipt, not JSON or missing are usage errors (2)", async () => {
    const { folder, result } = jobFiles();
    writeFileSync(join(folder, "bad.json"), "{");
    const runs = await Promise.all([
      runHere(["verify", result, "--result", result]),
      runHere(["verify", join(folder, "bad.json"), "--result", result]),
      runHere(["verify", join(folder, "none.json"), "--result", result]),
    ]);
    expect(runs.map(({ code }) => code)).toEqual([2, 2, 2]);
  });
});

describe("worker key", () => {
  it("prints the path of the key, however it was set", async () => {
    const env = { XDG_CONFIG_HOME: "/x" };
    expect((await runHere(["worker", "key", "path"], { env })).stdout).toBe("/x/compute-router/worker.key\n");
    expect((await runHere(["worker", "key", "path", "--config-dir", "/c"], { env })).stdout).toBe("/c/worker.key\n");
    expect((await runHere(["worker", "key", "path", "--key", "/k"], { env })).stdout).toBe("/k\n");
  });

  it("shows the public key, never the seed, and creates no key", async () => {
    const folder = temporaryFolder();
    const missing = await runHere(["worker", "key", "show", "--config-dir", folder]);
    expect({ code: missing.code, stderr: missing.stderr }).toEqual({
      code: 3,
      stderr: expect.stringContaining(`there is no key file ${join(folder, "worker.key")}; if the worker has another folder, use --config-dir DIR; `),
    });
    const seed = Buffer.from(KEY.secret).toString("hex");
    writeFileSync(join(folder, "worker.key"), seed, { mode: 0o600 });
    const { stdout } = await runHere(["worker", "key", "show", "--config-dir", folder, "--json"]);
    expect(JSON.parse(stdout)).toEqual({ provider_pubkey: KEY.publicKey, fingerprint: fingerprintOf(KEY.publicKey), key_file: join(folder, "worker.key") });
    expect(stdout).not.toContain(seed);
  });

  it("refuses a key that others can read (3)", async () => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, "worker.key"), Buffer.from(KEY.secret).toString("hex"), { mode: 0o644 });
    const { code, stderr } = await runHere(["worker", "--config-dir", folder, "--tasks-only", "--url", "ws://127.0.0.1:1/"]);
    expect({ code, stderr }).toEqual({ code: 3, stderr: expect.stringContaining("chmod 600") });
  });
});

it("[TR2] --user-token or $ROUTER_USER_TOKEN is sent with requests about the user; without it a user with a token is told what to do", async () => {
  const seen: (string | undefined)[] = [];
  const server = createServer((request, response) => {
    const token = request.headers["x-user-token"];
    seen.push(Array.isArray(token) ? token.join() : token);
    response.writeHead(token === undefined ? 401 : 200, { "content-type": "application/json" });
    response.end(JSON.stringify(token === undefined ? { error: "user_token_required" } : { providers: [] }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const port = address !== null && typeof address === "object" ? address.port : 0;
  const list = (more: string[], env: Record<string, string> = {}) =>
    runHere(["pair", "list", "--user", "u", "--url", `http://127.0.0.1:${port}`, ...more], { env });
  expect((await list(["--user-token", "of-the-option"])).code).toBe(0);
  expect((await list([], { ROUTER_USER_TOKEN: "of-the-environment" })).code).toBe(0);
  expect((await list(["--user-token", "of-the-option"], { ROUTER_USER_TOKEN: "of-the-environment" })).code).toBe(0);
  const { code, stderr } = await list([]);
  expect({ code, stderr }).toEqual({ code: expect.any(Number), stderr: expect.stringContaining("--user-token") });
  expect(code).not.toBe(0);
  expect(seen).toEqual(["of-the-option", "of-the-environment", "of-the-option", undefined]);
  server.close();
});

it("[TR1] a user id is created once, with 128 random bits, readable by its owner only", async () => {
  const folder = join(temporaryFolder(), "config");
  mkdirSync(folder);
  const { url } = await RouterServer.start();
  const ask = () => runHere(["pair", "list", "--config-dir", folder, "--url", url]);
  expect((await ask()).code).toBe(0);
  const id = readFileSync(join(folder, "user-id"), "utf8");
  expect(id).toMatch(/^[0-9a-f]{32}\n$/);
  expect(statSync(join(folder, "user-id")).mode & 0o777).toBe(0o600);
  await ask();
  expect(readFileSync(join(folder, "user-id"), "utf8")).toBe(id);
});
