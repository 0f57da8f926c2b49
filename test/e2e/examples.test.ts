// Each example runs as its first lines say, against a real coordinator. Those that need a wallet or the AI SDK run in test/payment/sdk/examples.test.ts.
import { execFile, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { connect } from "node:net";
import { delimiter, dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { beforeAll, describe, expect, it } from "vitest";
import { ROOT } from "../../scripts/coordinator-process.ts";
import { ComputeRouter } from "../../src/sdk/index.ts";
import { CHROMIUM, launchChromium, WITHOUT } from "../browser/chromium.ts";
import type { CoordinatorHere } from "../support/coordinator-here.ts";
import { shareCoordinator } from "../support/coordinator.ts";
import { bundleExample } from "../support/example.ts";
import { finallyDo } from "../support/finally.ts";
import { PlainWorker } from "../support/plain-worker.ts";

const run = promisify(execFile);
const RUNTIMES = join(ROOT, "test", "runtimes", "node_modules", ".bin");
const PYTHON = process.env["PYTHON"] ?? "/usr/bin/python3";
const HAS_CRYPTOGRAPHY = spawnSync(PYTHON, ["-c", "import cryptography"]).status === 0;

let coordinator: CoordinatorHere;
let worker: PlainWorker;

beforeAll(async () => {
  coordinator = await shareCoordinator("evm");
  worker = new PlainWorker(coordinator.socketUrl, { acks: true });
  await worker.connect();
  worker.serve();
  return () => worker.close();
});

/** The oldest Node that the SDK is for; empty where there is none. */
const NODE_20 =
  (process.env["PATH"] ?? "")
    .split(delimiter)
    .map((folder) => join(folder, "node"))
    .find((path) => existsSync(path) && spawnSync(path, ["--version"], { encoding: "utf8" }).stdout.startsWith("v20.")) ?? "";

/** How each runtime runs a file, and what is missing if it cannot. */
const HOW: [runtime: string, command: string, args: string[]][] = [
  ["Node", process.execPath, []],
  ["Node 20", NODE_20, []],
  ["Deno", join(RUNTIMES, "deno"), ["run", "--allow-net=127.0.0.1", "--allow-env"]],
  ["Bun", join(RUNTIMES, "bun"), ["run"]],
];

describe.each(HOW)("examples/node.mjs in %s", (runtime, command, args) => {
  const isHere = existsSync(command);
  it.skipIf(!isHere)(
    `asks, verifies and streams${isHere ? "" : ` (skipped: no ${runtime}${runtime.startsWith("Node") ? " on the PATH" : "; npm install --prefix test/runtimes"})`}`,
    async () => {
      const bundle = await bundleExample("node.mjs");
      const env = { ...process.env, ROUTER_BASE_URL: coordinator.url, NO_COLOR: "1" };
      const { stdout } = await run(command, [...args, bundle, "Hello?"], { env });
      expect(stdout).toMatch(/^models: .+\nan answer\n\(verified, worker [0-9a-f]{8}, \$0\.010\)\nan answer\n\(verified\)\n/);
      expect(stdout).toContain("completed: 2");
    },
  );
});

it("[JB13] Ctrl-C in examples/node.mjs cancels its job, and it ends quietly", async () => {
  const bundle = await bundleExample("node.mjs");
  worker.close();
  // It does nothing by itself now.
  await worker.connect();
  const seen = worker.frames.length;
  const child = spawn(process.execPath, [bundle, "Hello?"], { env: { ...process.env, ROUTER_BASE_URL: coordinator.url } });
  finallyDo(() => void child.kill("SIGKILL"));
  const said = Promise.all([text(child.stdout), text(child.stderr), once(child, "close")]);
  const chat = await worker.frame("job_assign", (_, at) => at >= seen);
  worker.complete(String(chat.job_id), "an answer");
  const streamed = await worker.frame("job_assign", (frame, at) => at >= seen && frame !== chat);
  child.kill("SIGINT");
  const [stdout, stderr, end] = await said;
  expect({ stderr, end }).toEqual({ stderr: "cancelled\n", end: [130, null] });
  expect(stdout).toMatch(/\nan answer\n\(verified, .*\)\n$/);
  const { status, result } = await new ComputeRouter({ baseUrl: coordinator.url }).get(String(streamed.job_id));
  expect({ status, result }).toEqual({ status: "failed", result: { error: "cancelled" } });
  worker.serve();
});

it("[JB13] examples/cloudflare-worker.mjs summarizes what is posted to it, and cancels the job of a visitor who leaves", async () => {
  const bundle = await bundleExample("cloudflare-worker.mjs", "browser");
  // The runtime of `wrangler dev`, which wrangler.test.ts starts: wrangler itself would cost 6 s of CPU more. The date is before Workers had any of Node's
  // globals by themselves.
  const settings = { compatibilityDate: "2024-09-01", bindings: { ROUTER_BASE_URL: coordinator.url }, cf: false, telemetry: { enabled: false } } as const;
  const modules = [{ type: "ESModule" as const, path: "worker.mjs", contents: readFileSync(bundle, "utf8") }];
  const listen = { host: "127.0.0.1", port: 0 };
  const [, flag] = /--compatibility-flags (\w+)/.exec(readFileSync(join(ROOT, "examples", "cloudflare-worker.mjs"), "utf8")) ?? [];
  // The visitors do not come through Miniflare's own entry, which hides that one has left.
  const direct = { compatibilityFlags: flag === undefined ? [] : [flag], unsafeDirectSockets: [listen] };
  const runtime = new Miniflare(convertV4MiniflareOptions({ ...settings, ...direct, modules, ...listen }));
  finallyDo(() => runtime.dispose());
  const address = await runtime.unsafeGetDirectURL();
  expect((await fetch(address)).status).toBe(405);
  const answer = await fetch(address, { method: "POST", body: "A long text. And more." });
  expect([answer.status, await answer.json()]).toEqual([200, { summary: "short", word_count: 1, verified: true }]);

  worker.close();
  // It does nothing by itself now.
  await worker.connect();
  const seen = worker.frames.length;
  const visitor = connect(Number(address.port), listen.host);
  visitor.write(`POST / HTTP/1.1\r\nHost: ${address.host}\r\nContent-Length: 1\r\n\r\nx`);
  const { job_id } = await worker.frame("job_assign", (_, at) => at >= seen);
  visitor.resetAndDestroy();
  await worker.frame("job_cancel", (frame) => frame.job_id === job_id);
  const { status, result } = await new ComputeRouter({ baseUrl: coordinator.url }).get(String(job_id));
  expect({ status, result }).toEqual({ status: "failed", result: { error: "cancelled" } });
  worker.serve();
});

describe.skipIf(CHROMIUM === undefined)(`examples/browser${WITHOUT}`, () => {
  it("shows the answer, and its second button cancels the job [JB13]", async () => {
    const bundle = await bundleExample("browser/page.mjs", "browser");
    const files: Record<string, [string, string]> = {
      "/": ["text/html", join(ROOT, "examples", "browser", "index.html")],
      "/bundle.js": ["text/javascript", bundle],
    };
    const server = createServer(({ url = "/" }, response) => {
      const [type, file] = files[new URL(url, "http://a").pathname] ?? [];
      if (type === undefined || file === undefined) return void response.writeHead(404).end();
      response.setHeader("content-type", type).end(readFileSync(file));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    finallyDo(() => void server.close());
    const address = server.address();
    const page = await (await launchChromium()).newPage();
    await page.goto(`http://127.0.0.1:${typeof address === "object" ? address?.port : 0}/?router=${encodeURIComponent(coordinator.url)}`);
    await page.getByRole("button", { name: "Ask" }).click();
    await page.getByText("an answer (verified)").waitFor();

    worker.close();
    // Both are awaited from here on: an answer may come before the click has returned.
    const cancelled = page.waitForResponse((response) => response.request().method() === "DELETE");
    const followed = page.waitForResponse((response) => response.url().endsWith("/events"));
    await page.getByRole("button", { name: "Ask" }).click();
    await followed;
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.getByText("cancelled", { exact: true }).waitFor();
    // The page has shown the body; Chromium need not keep it.
    expect((await cancelled).status()).toBe(200);
    await worker.connect();
    worker.serve();
  });
});

describe.skipIf(!HAS_CRYPTOGRAPHY)(
  `examples/verify_receipt.py${HAS_CRYPTOGRAPHY ? "" : " (skipped: apt-get install python3-cryptography, or PYTHON=path of one that has it)"}`,
  () => {
    const PROGRAM = join(ROOT, "examples", "verify_receipt.py");
    type Said = { code: number | null; said: string };

    async function python(args: string[], input: unknown): Promise<Said> {
      const child = spawn(PYTHON, ["-B", ...args]);
      child.stdin.end(JSON.stringify(input));
      const [out, errors, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "close")]);
      return { code, said: out + errors };
    }

    const verify = (job: unknown, ...words: string[]) => python([PROGRAM, ...words], job);

    /** What the program says to each of these jobs and words. It runs again and again in one process, because the start of Python costs more. */
    async function verifyEach(cases: [job: unknown, ...words: string[]][]): Promise<Said[]> {
      const again = [
        "import contextlib, io, json, runpy, sys",
        "def run(job, words):",
        "    sys.argv, sys.stdin, said, code = [sys.argv[0], *words], io.StringIO(json.dumps(job)), io.StringIO(), 0",
        "    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):",
        "        try: runpy.run_path(program, run_name='__main__')",
        "        except SystemExit as end:",
        "            # As Python itself does at the end.",
        "            if isinstance(end.code, str): print(end.code, file=sys.stderr)",
        "            code = 1 if isinstance(end.code, str) else end.code",
        "    return {'code': code, 'said': said.getvalue()}",
        "program = sys.argv[1]; print(json.dumps([run(job, words) for job, *words in json.load(sys.stdin)]))",
      ].join("\n");
      const { code, said } = await python(["-c", again, PROGRAM], cases);
      expect(code, said).toBe(0);
      return JSON.parse(said);
    }

    it("[RC1, RC2] finds the receipt of a job valid, and that of another job, worker or result not", async () => {
      const client = new ComputeRouter({ baseUrl: coordinator.url });
      const { jobId } = await client.chat("Hello?");
      const job = await client.get(jobId ?? "");
      const id = job.id;
      expect(await verify(job, id)).toEqual({ code: 0, said: "valid\n" });
      expect(await verify(job, id, "00".repeat(32))).toEqual({ code: 1, said: "NOT valid: another worker has signed the receipt\n" });
      const valid = { code: 0, said: "valid\n" };
      const notValid = (why: string) => ({ code: 1, said: expect.stringContaining(why) });
      // Another text was signed, but the key itself is read.
      const upper = { ...job, receipt: { ...job.receipt, provider_pubkey: worker.publicKey.toUpperCase() } };
      const later = { ...job, receipt: { ...job.receipt, completed_at: "2026-01-01T00:00:00.000Z" } };
      const paid = { ...job, receipt: { ...job.receipt, payment_ref: "0x1" } };
      const cases: [said: unknown, job: unknown, ...words: string[]][] = [
        [valid, { job_id: id, job }, id],
        [valid, job, id, worker.publicKey],
        [valid, job, id, worker.publicKey.toUpperCase()],
        [notValid("not that of the worker's key"), upper, id],
        [notValid("another job"), job, "11111111-2222-4333-8444-555555555555"],
        [notValid("another result"), { ...job, result: { output: "another answer" } }, id],
        [notValid("not that of the worker's key"), later, id],
        [notValid("no receipt"), { ...job, receipt: null }, id],
        [valid, paid, id],
      ];
      expect(await verifyEach(cases.map(([, ...given]) => given))).toEqual(cases.map(([said]) => said));
    });

    it("says how to call it if there is no job or no id, and never that a receipt is not valid", async () => {
      const how = { code: 2, said: expect.stringMatching(/^Checks the receipt of a job: curl /) };
      expect(await verify({})).toEqual(how);
      expect(await verifyEach([[{}, "an-id", "a-key", "a word too many"]])).toEqual([how]);
    });

    it("[RC1, RC2] agrees with the vectors: every output, the malleable signature, and the keys that must be refused", async () => {
      const vectors: {
        receipts: { name: string; output_json: string; hashed_text: string; receipt: Record<string, string>; malleable_signature?: string }[];
        refused_keys: { name: string; key: string }[];
      } = JSON.parse(readFileSync(join(ROOT, "test", "vectors", "receipts.json"), "utf8"));
      const program = [
        "import json, sys; sys.path.insert(0, sys.argv[1]); import verify_receipt as v",
        "def tried(receipt, text):",
        "    try: return v.verify({'receipt': receipt, 'result': json.loads(text)}, receipt['job_id'])",
        "    except (ValueError, KeyError) as error: return str(error)",
        "given = json.load(sys.stdin); first = given['receipts'][0]",
        "said = [[tried(one['receipt'], one['output_json']), tried({**one['receipt'], 'signature': one.get('malleable_signature') or ''}, one['output_json'])] for one in given['receipts']]",
        "keys = [tried({**first['receipt'], 'provider_pubkey': one['key']}, first['output_json']) for one in given['refused_keys']]",
        "print(json.dumps({'said': said, 'keys': keys}))",
      ].join("\n");
      const ran = await python(["-c", program, dirname(PROGRAM)], vectors);
      expect(ran.code, ran.said).toBe(0);
      const { said, keys }: { said: [unknown, unknown][]; keys: unknown[] } = JSON.parse(ran.said);
      expect(said.map(([valid]) => valid)).toEqual(vectors.receipts.map(() => null));
      expect(said.filter(([, malleable]) => malleable === null)).toEqual([]);
      expect(keys).toHaveLength(vectors.refused_keys.length);
      for (const key of keys) expect(key).toEqual(expect.any(String));
    });
  },
);
