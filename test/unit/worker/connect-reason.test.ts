import { createServer, type Server } from "node:http";
import { createServer as createTcpServer } from "node:net";
import { createServer as createTlsServer } from "node:https";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { freePort } from "../../../scripts/coordinator-process.ts";
import { reasonOf } from "../../../src/worker/runtimes/reason.ts";
import { firstStatus } from "../../../src/worker/node/worker-status.ts";
import { lineView } from "../../../src/worker/node/worker-view.ts";
import { runHere } from "./support/cli-here.ts";
import { WorkerProcess } from "./support/cli-process.ts";
import { temporaryFolder } from "./support/folder.ts";

type Listening = { listen(port: number, host: string, then: () => void): unknown; address(): ReturnType<Server["address"]>; close(): unknown };

async function portOf(server: Listening): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const address = server.address();
  return address !== null && typeof address === "object" ? address.port : 0;
}

function selfSigned(): { key: string; cert: string } {
  const folder = temporaryFolder();
  const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
  const subject = ["-subj", "/CN=localhost", "-days", "1", "-nodes", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];
  execFileSync("openssl", ["req", ...subject, "-keyout", key, "-out", cert], { stdio: "ignore" });
  return { key: readFileSync(key, "utf8"), cert: readFileSync(cert, "utf8") };
}

/** Addresses that a worker cannot connect to, and what it says of them. */
async function unreachable(): Promise<[title: string, url: string, cause: RegExp][]> {
  const noTls = await portOf(createServer());
  const untrusted = await portOf(createTlsServer(selfSigned()));
  const notOne = await portOf(createServer((_request, response) => response.writeHead(404).end()));
  const silent = await portOf(createTcpServer((socket) => socket.end()));
  return [
    ["nothing listens", `ws://127.0.0.1:${await freePort()}/`, /^no connection: nothing listens there \(ECONNREFUSED\)$/],
    ["no such host", "ws://no-such-host.invalid/", /^no connection: .+ \((?:ENOTFOUND|EAI_AGAIN)\)$/],
    [
      "the other side does not speak TLS",
      `wss://127.0.0.1:${noTls}/`,
      /^no connection: it does not use TLS: try ws: or http: instead of wss: or https: \(ERR_SSL_WRONG_VERSION_NUMBER\)$/,
    ],
    [
      "a certificate that is not trusted",
      `wss://127.0.0.1:${untrusted}/`,
      /^no connection: its TLS certificate is not signed by .+ \(DEPTH_ZERO_SELF_SIGNED_CERT\)$/,
    ],
    ["a server that is not a coordinator", `ws://127.0.0.1:${notOne}/`, /^no connection: it answers HTTP 404 instead of opening a WebSocket$/],
    ["a connection that ends without an answer", `ws://127.0.0.1:${silent}/`, /^no connection: it closed the connection without an answer \(\w+\)$/],
  ];
}

it("a worker that cannot connect says why, for each of its coordinators", async () => {
  const all = await unreachable();
  const worker = new WorkerProcess(["--tasks-only", ...all.flatMap(([, url]) => ["--url", url]), "--config-dir", temporaryFolder()]);
  const said = new Map<unknown, unknown>();
  while (said.size < all.length) {
    const { coordinator, cause } = await worker.says("offline");
    if (!said.has(coordinator)) said.set(coordinator, cause);
  }
  for (const [title, url, cause] of all) expect(said.get(new URL(url).host), title).toMatch(cause);
});

describe("on the screen", () => {
  it("each reason is shown once, with the command that checks the setup", () => {
    let said = "";
    const status = firstStatus(["h"]);
    const view = lineView({ write: (text) => (said += text) }, status, () => ({ publicKey: "0".repeat(64), color: false, columns: 200, now: 0 }), "the check");
    const offline = (cause: string) => view.note({ type: "offline", coordinator: "h", code: 1006, cause, retry_in_ms: 500 }, status);
    for (const cause of ["a", "a", "a", "b", "b", "a"]) offline(cause);
    view.note({ type: "online", coordinator: "h", worker_id: null, authenticated: true, proof: "signed", tier: null, network: null }, status);
    offline("a");
    const told = [...said.matchAll(/offline: (\w); trying again\. To check: the check/g)].map(([, cause]) => cause);
    expect(told).toEqual(["a", "b", "a", "a"]);
  });
});

describe("commands that ask a coordinator", () => {
  it("say why the coordinator cannot be reached, and so does doctor", async () => {
    const port = await freePort();
    const quote = await runHere(["quote", "--url", `http://127.0.0.1:${port}`]);
    expect(quote).toMatchObject({
      code: 6,
      stderr: expect.stringContaining(`no coordinator at http://127.0.0.1:${port}: nothing listens there (ECONNREFUSED)`),
    });
    const doctor = await runHere(["worker", "doctor", "--tasks-only", "--url", `ws://127.0.0.1:${port}/`, "--config-dir", temporaryFolder()]);
    expect(doctor.stdout).toContain("cannot be reached: nothing listens there (ECONNREFUSED)");
  });

  it("an unknown error code is shown as it is", () => {
    expect(reasonOf(new Error("x", { cause: Object.assign(new Error("y"), { code: "EWHATEVER" }) }))).toBe("the connection failed (EWHATEVER)");
    expect(reasonOf(new Error("x"))).toBeNull();
  });
});
