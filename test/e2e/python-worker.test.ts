import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { type WebSocket, WebSocketServer } from "ws";
import { ROOT } from "../../scripts/coordinator-process.ts";

import { verifyReceipt } from "../../src/receipt/index.ts";
import type { CoordinatorHere } from "../support/coordinator-here.ts";
import { launchCoordinator, temporaryFolder } from "../support/coordinator.ts";
import { finallyDo } from "../support/finally.ts";
import { commit, ended, get, task } from "../support/rest.ts";
import { until } from "../support/until.ts";

const PYTHON = process.env["PYTHON"] ?? "/usr/bin/python3";
const HAS_LIBRARIES = spawnSync(PYTHON, ["-c", "import websockets, nacl.signing"]).status === 0;
const WITHOUT = HAS_LIBRARIES ? "" : " (skipped: apt-get install python3-websockets python3-nacl, or PYTHON=path of one that has both)";

type Frame = Record<string, unknown>;

/** Runs examples/worker.py with a key of its own; ended after the tests of this file. */
function launchExample(socketUrl: string): { lines: string[]; exited: Promise<unknown> } {
  const child = spawn(PYTHON, [join(ROOT, "examples", "worker.py"), socketUrl, join(temporaryFolder("python"), "worker.key")]);
  const lines: string[] = [];
  for (const out of [child.stdout, child.stderr]) out.on("data", (data: Buffer) => lines.push(data.toString()));
  const exited = once(child, "close");
  finallyDo(async () => {
    child.kill();
    await exited;
  });
  return { lines, exited };
}

/** A coordinator's side of the socket, told by the test what to say; `host` is what its challenge names instead of its own. */
async function launchServer(host?: string): Promise<{ port: number; sockets: WebSocket[]; got: Frame[][] }> {
  const server = new WebSocketServer({ port: 0, host: "127.0.0.1" });
  finallyDo(() => {
    for (const client of server.clients) client.terminate();
    server.close();
  });
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  const sockets: WebSocket[] = [];
  const got: Frame[][] = [];
  server.on("connection", (socket) => {
    const frames: Frame[] = [];
    got.push(frames);
    sockets.push(socket);
    socket.on("message", (data: Buffer) => frames.push(JSON.parse(data.toString())));
    socket.send(JSON.stringify({ type: "challenge", nonce: "00".repeat(32), network: "test:1", host: host ?? `127.0.0.1:${port}` }));
  });
  return { port, sockets, got };
}

// Each with servers of its own: they wait for the pauses of the example, and those can pass at once.
describe.skipIf(!HAS_LIBRARIES).concurrent(`examples/worker.py, as docs/protocol.md describes a worker${WITHOUT}`, () => {
  let coordinator: CoordinatorHere;
  beforeAll(async () => {
    coordinator = await launchCoordinator("evm", { WORKER_AUTH: "required", RECEIPT_POLICY: "strict" });
  });

  it("[WS3, WS6, RC1, RC2, RC6] serves every TASK of a coordinator that insists on signatures and valid receipts", async () => {
    const { lines } = launchExample(coordinator.socketUrl);
    const said = (): string => lines.join("");
    await until("worker", async () => ((await get(`${coordinator.url}/v1/health`)).body.workers_online === 1 ? true : undefined), said);
    const inputs: [string, string, Frame][] = [
      ["classify", "Great, I love it!", { sentiment: "positive", confidence: 1 }],
      ["classify", "Good, great, bad: \u2028 „ok“", { sentiment: "positive", confidence: 0.33 }],
      ["summarize", "Grüße aus Köln 😀. And more.", { summary: "Grüße aus Köln 😀.", word_count: 6 }],
      [
        "extract_json",
        "Write to ada@example.org\tor to bob@example.org.",
        {
          extracted: [
            { type: "email", value: "ada@example.org" },
            { type: "email", value: "bob@example.org" },
          ],
          count: 2,
        },
      ],
    ];
    for (const [task_type, input, output] of inputs) {
      const id = await commit(coordinator.url, "cheap", { ...task(input), payload: { job_type: "TASK", task_type, input } });
      const job = await ended(coordinator.url, id);
      expect(job, said()).toMatchObject({ status: "completed", result: output });
      expect(job.receipt && verifyReceipt(job.receipt, job.result)).toEqual({ ok: true });
    }
    // [WS6]
    await until("heartbeat_ack", () => (said().includes('"heartbeat_ack"') ? true : undefined), said);
    expect(said()).toContain('"authenticated":true');
    expect(said()).not.toContain('"status":"rejected"');
  });

  it("[WS3, WS10] keeps a result until it is acknowledged, sends the same again after a reconnect, and then no more", async () => {
    const { port, sockets, got } = await launchServer();
    const { lines, exited } = launchExample(`ws://127.0.0.1:${port}/`);
    const frame = (connection: number, type: string): Promise<Frame> =>
      until(
        `${type} on connection ${connection}`,
        () => got[connection]?.find((one) => one.type === type),
        () => lines.join("") + JSON.stringify(got),
      );
    const tell = (connection: number, message: Frame): void => sockets[connection]?.send(JSON.stringify(message));

    expect(await frame(0, "register")).toMatchObject({ features: ["ack"], resume: [] });
    tell(0, { type: "register_ack", status: "ok", time: new Date().toISOString() });
    tell(0, { type: "job_assign", job_id: "j", attempt: 1, job_type: "TASK", payload: { task_type: "classify", input: "good" } });
    await frame(0, "job_ack");
    const result = await frame(0, "job_complete");
    sockets[0]?.terminate();

    expect(await frame(1, "register")).toMatchObject({ resume: [{ job_id: "j", attempt: 1 }] });
    // It has no lease of the job any more; the result may count all the same [WS11, WS12].
    tell(1, { type: "job_cancel", job_id: "j", attempt: 1, reason: "not_assigned" });
    tell(1, { type: "register_ack", status: "ok", time: new Date(Date.now() - 90_000).toISOString() });
    expect(await frame(1, "job_complete")).toEqual(result);
    tell(1, { type: "job_complete_ack", job_id: "j", status: "accepted" });
    await until(
      "loud warning",
      () => (lines.join("").includes("THIS CLOCK IS -90 s OFF") ? true : undefined),
      () => lines.join(""),
    );
    sockets[1]?.close(4008);

    expect(await frame(2, "register")).toMatchObject({ resume: [] });
    expect(got[2]).toHaveLength(1);
    // Another process uses this key: it does not come back [WS4].
    sockets[2]?.close(4001);
    expect(await exited).toEqual([1, null]);
    expect(got).toHaveLength(3);
  });

  it("[WS8] goes on after a number of 5,000 digits, a job that it cannot do, and frames that it cannot read", async () => {
    const { port, sockets, got } = await launchServer();
    const { lines } = launchExample(`ws://127.0.0.1:${port}/`);
    const said = (): string => lines.join("") + JSON.stringify(got);
    const frame = (type: string, job_id?: string): Promise<Frame> =>
      until(`${type} ${job_id}`, () => got[0]?.find((one) => one.type === type && one.job_id === job_id), said);
    await frame("register");
    const assign = (job_id: string, payload: string): void =>
      sockets[0]?.send(`{"type":"job_assign","job_id":"${job_id}","attempt":2,"job_type":"TASK","payload":${payload}}`);

    sockets[0]?.send("[".repeat(100_000));
    sockets[0]?.send("[]");
    sockets[0]?.send('{"type":"register_ack","status":"ok","time":"soon"}');
    assign("wrong", '{"task_type":"classify","input":5}');
    expect(await frame("job_failed", "wrong")).toEqual({
      ...{ type: "job_failed", job_id: "wrong", attempt: 2, error: "worker_error" },
      ...{ message: "AttributeError", retryable: true },
    });
    assign("long", `{"task_type":"classify","input":"good","more":${"1".repeat(5_000)}}`);
    expect(await frame("job_complete", "long")).toMatchObject({ attempt: 2, output: { sentiment: "positive" } });
    expect(got).toHaveLength(1);
  });

  it("[WS3] signs no challenge that names another host than it dialled", async () => {
    const { port, got } = await launchServer("router.example");
    const { lines, exited } = launchExample(`ws://127.0.0.1:${port}/`);
    expect(await exited).toEqual([1, null]);
    expect(lines.join("")).toContain("the challenge is for router.example, which is not the host of the URL: it was not signed");
    expect(got).toEqual([[]]);
  });
});

const HAS_PYTHON = spawnSync(PYTHON, ["-c", "import resource"]).status === 0;

it.skipIf(!HAS_PYTHON)("examples/worker.py finds each address, in time that grows with the text and not with its square", () => {
  // It takes the function alone, which needs no library. The limit of CPU time ends a search that takes the square of the longest text.
  const program = [
    "import ast, itertools, json, re, resource, sys",
    "tree = ast.parse(open(sys.argv[1], encoding='utf-8').read())",
    "names = {'re': re}",
    "exec(compile(ast.Module([part for part in tree.body if getattr(part, 'name', '') == 'work'], []), 'worker.py', 'exec'), names)",
    "found = lambda text: [one['value'] for one in names['work']('extract_json', text)['extracted']]",
    "resource.setrlimit(resource.RLIMIT_CPU, (20, 20))",
    String.raw`plain = re.compile(r'[\w.+-]+@[\w-]+(?:\.[\w-]+)+')`,
    "for text in map(''.join, itertools.product('a.@+', repeat=8)): assert found(text) == plain.findall(text), text",
    "print(json.dumps([found(text) for text in json.load(sys.stdin)]))",
  ].join("\n");
  const texts = ["to a@b.c+d@e.f, x", "x".repeat(262_144), "a@".repeat(131_072), `${"a.".repeat(131_000)}@`, "a@b.c ".repeat(2)];
  const { status, signal, stdout, stderr } = spawnSync(PYTHON, ["-c", program, join(ROOT, "examples", "worker.py")], {
    encoding: "utf8",
    input: JSON.stringify(texts),
  });
  expect({ status, signal, stderr }).toEqual({ status: 0, signal: null, stderr: "" });
  expect(JSON.parse(stdout)).toEqual([["a@b.c", "+d@e.f"], [], [], [], ["a@b.c", "a@b.c"]]);
});
