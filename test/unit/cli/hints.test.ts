import { mkdirSync, realpathSync, symlinkSync, writeFileSync } from "node:fs";
import { delimiter, join, resolve } from "node:path";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { clientConfiguration } from "../../../src/cli/commands/mcp.ts";
import { coordinatorUrls, withClient } from "../../../src/cli/seeker.ts";
import { printFacts } from "../../../src/cli/waiting.ts";
import { ComputeRouter, JobFailedError } from "../../../src/sdk/index.ts";
import { programName, shellWord } from "../../../src/worker/node/program.ts";
import { reply } from "../sdk/support/faults.ts";
import { RouterServer } from "../sdk/support/router-server.ts";
import { runHere } from "../worker/support/cli-here.ts";
import { temporaryFolder } from "../worker/support/folder.ts";

/** A folder with this program in `root`, built, and an empty folder beside it. */
function installed(root: string): { folder: string; root: string; main: string } {
  const folder = temporaryFolder();
  const whole = join(folder, root);
  mkdirSync(join(whole, "dist", "cli"), { recursive: true });
  writeFileSync(join(whole, "package.json"), '{"name":"compute-router"}');
  const main = join(whole, "dist", "cli", "main.js");
  writeFileSync(main, "");
  mkdirSync(join(folder, "elsewhere"));
  return { folder, root: whole, main };
}

/** Puts a link to the program into a folder of programs. */
function linked(folder: string, main: string): string {
  mkdirSync(folder, { recursive: true });
  symlinkSync(main, join(folder, "compute-router"));
  return folder;
}

describe("a hint names the program as its reader can call it", () => {
  it("in a clone: npx compute-router, in its subfolders too", () => {
    const { root, main } = installed("clone");
    mkdirSync(join(root, "docs"));
    expect(programName({ cwd: root, path: "/usr/bin", root, main })).toBe("npx compute-router");
    expect(programName({ cwd: join(root, "docs"), path: "/usr/bin", root, main })).toBe("npx compute-router");
  });

  it("in a project that has it: npx compute-router, whatever npm puts on the PATH", () => {
    const { folder, root, main } = installed(join("project", "node_modules", "compute-router"));
    const project = join(folder, "project");
    writeFileSync(join(project, "package.json"), "{}");
    const path = linked(join(project, "node_modules", ".bin"), main);
    expect(programName({ cwd: project, path: `${path}${delimiter}/usr/bin`, root, main })).toBe("npx compute-router");
  });

  it("installed globally: compute-router", () => {
    const { folder, root, main } = installed(join("lib", "node_modules", "compute-router"));
    const path = linked(join(folder, "bin"), main);
    expect(programName({ cwd: join(folder, "elsewhere"), path, root, main })).toBe("compute-router");
  });

  it("elsewhere: node and its file, never an npx that would fetch a stranger's package; nor another program of that name", () => {
    const { folder, root, main } = installed("clone");
    const other = installed("other");
    const path = linked(join(folder, "bin"), other.main);
    expect(programName({ cwd: join(folder, "elsewhere"), path, root, main })).toBe(`node ${main}`);
  });

  it("a clone that is not built: node and the source", () => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, "package.json"), '{"name":"compute-router"}');
    expect(programName({ cwd: folder, path: "", root: folder, main: join(folder, "src", "cli", "main.ts") })).toBe(`node ${join("src", "cli", "main.ts")}`);
  });

  it("quotes what a shell would split", () => {
    expect([shellWord("http://127.0.0.1:4010"), shellWord("a b"), shellWord("it's")]).toEqual(["http://127.0.0.1:4010", "'a b'", "'it'\\''s'"]);
    expect(shellWord("a\\b", "linux")).toBe("'a\\b'");
    // To cmd.exe a single quote is a letter.
    const words = ["C:\\Users\\anna", "C:\\Users\\Anna Meier", "it's"].map((word) => shellWord(word, "win32"));
    expect(words).toEqual(["C:\\Users\\anna", '"C:\\Users\\Anna Meier"', `"it's"`]);
  });
});

describe("an error in a command line names the help of that command", () => {
  it.each([
    [["run"], "PROMPT is missing; see: npx compute-router run --help"],
    [["task"], "TYPE is missing; see: npx compute-router task --help"],
    [["job", "--json"], "ID is missing; see: npx compute-router job --help"],
    [["worker", "pair"], "CODE is missing; see: npx compute-router worker pair --help"],
    [["pair"], "a command is missing; see: npx compute-router pair --help"],
    [["pair", "crate"], "unknown command crate; see: npx compute-router pair --help"],
    [["worker", "key", "shwo"], "unknown command shwo; see: npx compute-router worker key --help"],
    [["stake", "set"], "see: npx compute-router stake set --help"],
    [["run", "hi", "--tomeout", "3"], "unknown option --tomeout; see: npx compute-router run --help"],
    [["verify"], "see: npx compute-router verify --help"],
    [["task", "translate"], "see: npx compute-router task --help"],
    [["run", "hello", "there"], `unexpected "there": the prompt must be in quotes: npx compute-router run 'hello there'; see: npx compute-router run --help`],
    [["run", "--tell me a joke"], "PROMPT is missing; see: npx compute-router run [options] -- '--tell me a joke'"],
    [["run", "--model=a b"], "PROMPT is missing; see: npx compute-router run --help"],
    [["run", "-5 + 3"], "PROMPT is missing; see: npx compute-router run [options] -- '-5 + 3'"],
    [
      ["task", "classify", "some text"],
      'unexpected "some text": the text comes on standard input: echo "…" | npx compute-router task classify; see: npx compute-router task --help',
    ],
    [
      ["task", "some", "text"],
      'unexpected "text": the text comes on standard input: echo "…" | npx compute-router task TYPE; see: npx compute-router task --help',
    ],
    [["jbos", "--help"], "unknown command jbos; see: npx compute-router --help"],
    [["help", "pair", "crate"], "unknown command crate; see: npx compute-router pair --help"],
    [["--url", "http://127.0.0.1:4020", "run", "hi"], "put options after the command: npx compute-router run …"],
    [["--url", "http://127.0.0.1:4020"], "put options after the command; see: npx compute-router --help"],
  ])("%j", async (args, message) => {
    const { code, stderr } = await runHere(args);
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(message) });
    expect(stderr.trimEnd()).not.toContain("\n");
  });
});

describe("the configuration of an MCP client", () => {
  const argsFor = (main: string, ...args: string[]): unknown => Object.values(Reflect.get(clientConfiguration(["node", main, ...args]), "mcpServers"))[0];

  it("has absolute paths, because the client starts the server in another folder", () => {
    const { main } = installed("clone");
    const given = ["mcp", "--payer", "./wallet.mjs", "--config-dir=cfg", "--url", "./x", "--payer=./w.mjs", "--config-dir", "/etc/c"];
    const whole = ["mcp", "--payer", resolve("wallet.mjs"), `--config-dir=${resolve("cfg")}`, "--url", "./x", `--payer=${resolve("w.mjs")}`];
    expect(argsFor(main, ...given)).toEqual({ command: "node", args: [realpathSync(main), ...whole, "--config-dir", "/etc/c"] });
  });

  it("has the program itself, not the link by which npx starts it", () => {
    const { folder, main } = installed("clone");
    const link = join(linked(join(folder, "cache"), main), "compute-router");
    expect(argsFor(link, "mcp")).toEqual({ command: "node", args: [realpathSync(main), "mcp"] });
  });
});

describe("a hint repeats the options that were given", () => {
  it("pair list without a worker: the coordinator and the user, for the code", async () => {
    const router = await RouterServer.start();
    const { code, stdout } = await runHere(["pair", "list", "--url", router.url, "--user", "ann"]);
    expect({ code, stdout }).toEqual({ code: 0, stdout: `no paired workers; to pair one: npx compute-router pair create --url ${router.url} --user ann\n` });
    const folder = join(temporaryFolder(), "a b");
    const spaced = await runHere(["pair", "list", "--url", router.url, "--config-dir", folder]);
    expect(spaced.stdout).toContain(`pair create --url ${router.url} --config-dir '${folder}'\n`);
  });
});

describe("advice for a job that did not succeed", () => {
  it("names the price, and how to pay it (5)", async () => {
    const router = await RouterServer.start({ gated: true });
    const { code, stderr } = await runHere(["run", "hi", "--url", router.url, "--user", "u"]);
    expect({ code, stderr }).toEqual({ code: 5, stderr: expect.stringMatching(/^this coordinator asks for \$0\.010; to pay, use --payer [^\n]*\n$/) });
  });

  it("quotes the worker, without what could command a terminal (7)", async () => {
    const router = await RouterServer.start({ statuses: [], work: () => ({ error: "content_refused", message: "no\u001B[2J" }) });
    const { code, stderr } = await runHere(["run", "hi", "--url", router.url, "--user", "u"]);
    expect({ code, stderr }).toEqual({ code: 7, stderr: expect.stringMatching(/content_refused; message of the worker: no\\u001b\[2J\n$/) });
  });

  it("doubts the address if the job is not known (5)", async () => {
    const router = await RouterServer.start();
    const { code, stderr } = await runHere(["job", crypto.randomUUID(), "--url", router.url]);
    expect({ code, stderr }).toEqual({ code: 5, stderr: expect.stringContaining(`; is it the right coordinator? (${router.url})\n`) });
  });
});

describe("advice for a refusal", () => {
  const limited = (headers: Record<string, string>) => reply(429, { error: "rate_limited" }, headers);

  it.each(["--user-token", "ROUTER_USER_TOKEN"])("[TR2] a token that is not the user's is refused, and a missing one is asked for: %s", async (source) => {
    const router = await RouterServer.start();
    const jobs = (token: string) =>
      source === "--user-token"
        ? runHere(["jobs", "--user", "ann", "--url", router.url, source, token])
        : runHere(["jobs", "--user", "ann", "--url", router.url], { env: { [source]: token } });
    const refused = "user_token_required: the coordinator does not take this token for this user: another one is bound, or none\n";
    expect(await jobs("tok")).toMatchObject({ code: 5, stderr: refused });
    await router.client({ userId: "ann", userToken: "mine" }).trust.create();
    expect(await jobs("tok")).toMatchObject({ code: 5, stderr: refused });
    expect(await jobs("mine")).toMatchObject({ code: 0 });
    const without = await runHere(["pair", "list", "--user", "ann", "--url", router.url]);
    expect(without).toMatchObject({ code: 5, stderr: expect.stringContaining("bound to a token by its first pair create; to give it: --user-token") });
  });

  it.each([
    [{ "retry-after": "70" }, "the next try is possible in 1 min 10 s"],
    [{}, "try again later"],
  ])("[API1] a 429 says when the next try is possible: %j", async (headers, when) => {
    const router = await RouterServer.start();
    router.fail("POST /v1/trust/create", limited(headers));
    const { code, stderr } = await runHere(["pair", "create", "--user", "ann", "--url", router.url]);
    expect({ code, stderr }).toEqual({ code: 5, stderr: `rate limited: too many requests of this kind; ${when}\n` });
  });

  it("[TR3] a user with five open codes learns that, and how long it can take", async () => {
    const router = await RouterServer.start();
    router.fail("POST /v1/trust/create", limited({ "retry-after": "3552" }));
    const { code, stderr } = await runHere(["pair", "create", "--user", "ann", "--url", router.url]);
    expect({ code, stderr }).toEqual({
      code: 5,
      stderr:
        "rate limited: this user has 5 open codes, and more are not possible; the next try is possible in 59 min 12 s, when the oldest one expires, or when a worker claims one\n",
    });
  });

  it.each([
    [409, "idempotency_key_reused", "idempotency_key_reused: this key was used for another request; use another one\n"],
    [413, "payload_too_large", "payload_too_large: a prompt or an input may have 256 KiB of UTF-8, and the JSON of a request 512 KiB\n"],
  ])("%i %s", async (status, error, stderr) => {
    const router = await RouterServer.start();
    router.fail("POST /v1/jobs/commit", reply(status, { error }));
    expect(await runHere(["run", "hi", "--user", "ann", "--url", router.url])).toMatchObject({ code: 5, stderr });
  });
});

describe("an error has the words of the command line", () => {
  it.each([
    [["run", "hi", "--model", "a b"], "--model must be "],
    [["run", "hi", "--idempotency-key", "ä"], "--idempotency-key must have 1 to 255 characters"],
    [["jobs", "--user-token", "ä"], "the token of the user must have 1 to 1024 characters"],
    [["jobs", "--before", "yesterday"], '--before must be the position that the previous list printed, or an ISO 8601 time in UTC, got "yesterday"'],
  ])("%j", async ([name = "", ...args], message) => {
    const { code, stderr } = await runHere([name, ...args, "--user", "ann", "--url", "http://127.0.0.1:1"]);
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(message) });
    expect(stderr).not.toMatch(/job\.|idempotencyKey|userToken|`next`/);
  });

  it("a text that is too long, and a user id that cannot be one", async () => {
    const place = ["--url", "http://127.0.0.1:1"];
    const long = await runHere(["task", "classify", "--user", "ann", ...place], { input: "x".repeat(262_145) });
    expect(long).toMatchObject({ code: 2, stderr: "the text on standard input must be at most 262144 bytes of UTF-8\n" });
    const prompt = await runHere(["run", "x".repeat(262_145), "--user", "ann", ...place]);
    expect(prompt).toMatchObject({ code: 2, stderr: "PROMPT must be at most 262144 bytes of UTF-8\n" });
    const user = await runHere(["run", "hi", "--user", "x".repeat(129), ...place]);
    expect(user).toMatchObject({ code: 2, stderr: expect.stringMatching(/^the user id must have 1 to 128 characters/) });
  });

  it("a price over the limit names --max-price", async () => {
    const router = await RouterServer.start();
    const { code, stderr } = await runHere(["run", "hi", "--max-price", "0.001", "--user", "ann", "--url", router.url]);
    expect({ code, stderr }).toEqual({ code: 5, stderr: "the coordinator asks for $0.010, which is not within --max-price ($0.001)\n" });
  });
});

describe("compute-router user", () => {
  it("says where no id can be stored, or why one that is there cannot be used", async () => {
    expect(await runHere(["user", "--config-dir", "/dev/null/x"])).toMatchObject({
      code: 1,
      stdout: "",
      stderr: expect.stringContaining("in /dev/null/x/user-id ("),
    });
    const folder = temporaryFolder();
    writeFileSync(join(folder, "user-id"), "\n");
    const empty = `${join(folder, "user-id")} is empty; delete it, or use --user ID\n`;
    expect(await runHere(["user", "--config-dir", folder])).toEqual({ code: 1, stdout: "", stderr: empty });
  });

  it("prints the id alone on standard output, and with --json where it is kept", async () => {
    const folder = join(temporaryFolder(), "new");
    const first = await runHere(["user", "--config-dir", folder]);
    expect(first).toMatchObject({ code: 0, stdout: expect.stringMatching(/^[0-9a-f]{32}\n$/), stderr: expect.stringContaining("a secret") });
    const { stdout } = await runHere(["user", "--config-dir", folder, "--json"]);
    expect(JSON.parse(stdout)).toEqual({ user_id: first.stdout.trim(), file: join(folder, "user-id") });
  });
});

it("a PRIVATE job that no paired worker can take: none may be online, or those that are do not take such jobs [JB8]", async () => {
  const router = await RouterServer.start({ trusted: false });
  const { code, stderr } = await runHere(["run", "hi", "--private", "--url", router.url, "--user", "ann"]);
  const place = `--url ${router.url} --user ann`;
  expect({ code, stderr }).toEqual({
    code: 7,
    stderr: `no_trusted_worker: no paired worker that can do this job is online; to see your workers: npx compute-router pair list ${place}; to pair one: npx compute-router pair create ${place}\n`,
  });
});

it.each([
  [[], "no other worker took it; send the job again\n"],
  [["--idempotency-key", "k"], "no other worker took it; send the job again with another --idempotency-key\n"],
  [["--private"], "no other paired worker took it; is one online? To see: npx compute-router pair list PLACE; then send the job again\n"],
])("a job whose worker left says what to do: run %j", async (options, advice) => {
  const router = await RouterServer.start({ statuses: [], work: () => ({ error: "worker_lost" }) });
  const place = ["--url", router.url, "--user", "ann"];
  const { code, stderr } = await runHere(["run", "hi", ...options, ...place]);
  const [id = ""] = router.jobs.keys();
  expect({ code, stderr }).toEqual({ code: 7, stderr: `job ${id} failed: worker_lost: its worker left, and ${advice.replace("PLACE", place.join(" "))}` });
});

describe("a result says what it has cost", () => {
  it.each([
    ["run", "hi"],
    ["run", "hi", "--stream"],
    ["task", "classify"],
  ])("without a payer nothing: the price is only a quote: %j", async (...words) => {
    const router = await RouterServer.start({ statuses: [] });
    const { code, stderr } = await runHere([...words, "--url", router.url, "--user", "ann"], { input: "a text" });
    expect({ code, stderr }).toEqual({ code: 0, stderr: expect.stringMatching(/ {2}free \(quoted \$0\.0\d+\) {2}job /) });
  });

  it.each([
    ["its price", true, ["--stream"], / {2}\$0\.010 {2}job /],
    ["its price", true, ["--no-stream"], / {2}\$0\.010 {2}job /],
    ["nothing at a coordinator that asks for no payment", false, ["--stream"], / {2}free \(quoted \$0\.0\d+\) {2}job /],
    ["nothing at a coordinator that asks for no payment", false, ["--no-stream"], / {2}free \(quoted \$0\.0\d+\) {2}job /],
  ])("with a payer %s (%s: %j)", async (_, gated, more, cost) => {
    const router = await RouterServer.start({ statuses: [], gated });
    const payer = join(temporaryFolder(), "payer.mjs");
    writeFileSync(payer, 'export default async () => ({ "X-PAYMENT": "paid" });');
    const { code, stderr } = await runHere(["run", "hi", ...more, "--payer", payer, "--url", router.url, "--user", "ann"]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: expect.stringMatching(cost) });
  });
});

describe("a failed job says what became of its money", () => {
  /** The message for a job that failed in this way, to a person with a payer or without one. */
  async function said(money: Partial<Pick<JobFailedError, "charged" | "credit">>, pays: boolean): Promise<string> {
    const payer = join(temporaryFolder(), "payer.mjs");
    writeFileSync(payer, "export default async () => ({});");
    const error = Object.assign(new JobFailedError("j", "worker_unavailable"), money);
    return withClient({ user: "u", ...(pays && { payer }) }, () => Promise.reject(error)).then(String, (told: Error) => told.message);
  }

  const credit = { amount: "1000", asset: "eip155:10143/0x01", balance: "9000" };

  it.each([
    [{ charged: true, credit }, false, "job j failed: worker_unavailable; its $0.001 are your credit: $0.009 in all, for your next jobs with this wallet"],
    [{ charged: true }, true, "job j failed: worker_unavailable; it was charged"],
    [{ charged: false }, true, "job j failed: worker_unavailable; nothing was charged"],
    [{ charged: null }, true, "job j failed: worker_unavailable; it is not known yet whether it was charged"],
    [{ charged: false }, false, "job j failed: worker_unavailable"],
  ] as const)("[PY9] %j", async (money, pays, message) => {
    expect(await said(money, pays)).toBe(message);
  });

  it("[PY9] a result that was paid from the balance says what is left", () => {
    const stderr = vi.spyOn(process.stderr, "write").mockReturnValue(true);
    const result = { output: "x", source: "router", result: null, receipt: null, verified: false, jobId: "j", status: "completed" } as const;
    printFacts({ ...result, verification: { ok: false, reason: "no_receipt" }, price: "$0.001", credit }, new ComputeRouter());
    expect(stderr.mock.calls.join("")).toContain("$0.001 from your credit, $0.009 left");
    stderr.mockRestore();
  });
});

describe("the address of a coordinator", () => {
  it.each([
    ["router.example:4010", { socket: "ws://router.example:4010/", base: "http://router.example:4010" }],
    ["https://router.example/v1", { socket: "wss://router.example/", base: "https://router.example" }],
    ["http://router.example/svm/v1/", { socket: "ws://router.example/svm/", base: "http://router.example/svm" }],
    ["https://router.example/#top", { socket: "wss://router.example/", base: "https://router.example" }],
    ["wss://router.example/v12", { socket: "wss://router.example/v12", base: "https://router.example/v12" }],
  ])("%s: with any scheme or none, and with the /v1 of OpenAI's clients", (text, urls) => {
    expect(coordinatorUrls(text)).toEqual(urls);
  });

  it.each(["ws://me@x/", "ws://:secret@x/"])("%s is refused", (text) => {
    expect(() => coordinatorUrls(text)).toThrow("--url must not contain a user name or password");
  });

  it.each(["ws://me:secret@x:99999/", "ftp://me:secret@x/"])("%s is refused, and the error does not repeat the password", (text) => {
    expect(() => coordinatorUrls(text)).toThrow(/^--url: it is not a ws:, wss:, http: or https: URL$/);
  });

  it("of the environment is named as that", () => {
    vi.stubEnv("ROUTER_BASE_URL", "ftp://x/");
    onTestFinished(() => void vi.unstubAllEnvs());
    expect(() => coordinatorUrls(undefined)).toThrow('ROUTER_BASE_URL: "ftp://x/" is not a ws:, wss:, http: or https: URL');
  });
});
