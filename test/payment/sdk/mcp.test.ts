// `compute-router mcp` pays for its jobs, and stops at its limit.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { type CallToolResult, Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { CLI } from "../../support/cli.ts";
import type { FullLab } from "../start-lab.ts";
import { type Bench, PRICE } from "../support/bench.ts";
import { giveBack, sharedBench, sharedLab } from "../support/shared.ts";

let lab: FullLab;
let folder: string;
beforeAll(async () => {
  lab = await sharedLab();
  folder = mkdtempSync(join(tmpdir(), "compute-router-mcp-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const textOf = ({ content }: CallToolResult): string => content.map((block) => (block.type === "text" ? block.text : "")).join("\n");

describe.each(["evm", "svm"] as const)("MCP on %s", (side) => {
  let bench: Bench;
  const open: Client[] = [];
  beforeAll(async () => {
    bench = await sharedBench(side);
    return async () => {
      await Promise.all(open.map((client) => client.close()));
      await giveBack(bench);
    };
  });
  beforeEach(async () => {
    await bench.leave();
    await bench.join();
  });

  /** The command line and the environment of a server that pays. */
  function server(...more: string[]): { args: string[]; env: Record<string, string> } {
    const secret = lab.description.payers[side]?.[bench.payer()]?.secret ?? "";
    const wallet: Record<string, string> =
      side === "evm" ? { EVM_PRIVATE_KEY: secret, EVM_USDC: lab.evm.token } : { SVM_PRIVATE_KEY: secret, SVM_RPC_URL: lab.svm.rpcUrl };
    const payer = ["--payer", join(import.meta.dirname, `${side}-payer.ts`)];
    return {
      args: [CLI, "mcp", "--url", bench.url, "--config-dir", folder, ...payer, ...more],
      env: { PATH: process.env["PATH"] ?? "", HOME: process.env["HOME"] ?? "", ...wallet },
    };
  }

  async function connected(transport: StdioClientTransport | StreamableHTTPClientTransport): Promise<Client> {
    const client = new Client({ name: "test", version: "1" });
    await client.connect(transport);
    open.push(client);
    return client;
  }

  const overStdio = (...more: string[]): Promise<Client> => connected(new StdioClientTransport({ command: process.execPath, ...server(...more) }));

  it("[PY1] a call pays exactly its price; the call that does not fit any more is refused before anything is paid, a cheaper one still fits", async () => {
    const client = await overStdio("--max-spend", "0.015");
    const gained = await bench.earning(async () => {
      const first = await client.callTool({ name: "infer", arguments: { prompt: "Hello." } });
      expect(first.structuredContent).toMatchObject({ verified: true, charged: "$0.010", spent: "$0.010", spending_limit: "$0.015" });
      expect(first.structuredContent).toMatchObject({ receipt: { payment_ref: expect.stringMatching(/./) } });
    });
    expect(gained).toBe(PRICE.fast);
    const more = await bench.earning(async () => {
      const refused = await client.callTool({ name: "infer", arguments: { prompt: "Again." } });
      expect(refused.isError).toBe(true);
      expect(textOf(refused)).toContain(
        "the spending limit is reached: this call would cost $0.010, and $0.010 of the $0.015 that this server may spend are used",
      );
      const cheap = await client.callTool({ name: "classify", arguments: { text: "good" } });
      expect(cheap.structuredContent).toMatchObject({ charged: "$0.001", spent: "$0.011" });
    });
    expect(more).toBe(PRICE.cheap);
  });

  // The limit has nothing to do with the chain.
  if (side === "svm") return;
  it("[PY1] calls at the same moment share the limit: one of two is paid", async () => {
    const client = await overStdio("--max-spend", "0.01");
    const gained = await bench.earning(async () => {
      const calls = await Promise.all(["one", "two"].map((prompt) => client.callTool({ name: "infer", arguments: { prompt } })));
      expect(calls.map(({ isError = false }) => isError).toSorted()).toEqual([false, true]);
    });
    expect(gained).toBe(PRICE.fast);
  });

  it("[PY1] over HTTP all clients share the limit, because a client could open as many sessions as it likes", async () => {
    const { args, env } = server("--port", "0", "--max-spend", "0.01");
    const child = spawn(process.execPath, args, { env, stdio: ["ignore", "pipe", "inherit"] });
    try {
      let url = "";
      for await (const line of createInterface(child.stdout)) {
        url = /^MCP at (\S+)$/.exec(line)?.[1] ?? "";
        if (url !== "") break;
      }
      const [one, two] = [await connected(new StreamableHTTPClientTransport(new URL(url))), await connected(new StreamableHTTPClientTransport(new URL(url)))];
      const gained = await bench.earning(async () => {
        expect((await one.callTool({ name: "infer", arguments: { prompt: "Hello." } })).isError).not.toBe(true);
        expect((await two.callTool({ name: "infer", arguments: { prompt: "Hello." } })).isError).toBe(true);
      });
      expect(gained).toBe(PRICE.fast);
    } finally {
      child.kill();
    }
  });

  it("[JB13] [PY9] a failed job counts only if it was charged", { timeout: 90_000 }, async () => {
    const client = await overStdio("--max-spend", "0.01");
    await bench.leave();
    const worker = await bench.join(1, false);
    const gained = await bench.earning(async () => {
      const call = client.callTool({ name: "infer", arguments: { prompt: "Fails." } });
      const { job_id, attempt } = await worker.frame("job_assign");
      worker.send({ type: "job_failed", job_id, attempt, error: "worker_error", retryable: false });
      const failed = await call;
      expect(textOf(failed)).toBe("The job failed: worker_error. Its $0.010 are the user's credit for the next jobs.");
      // It was paid, so it counts.
      const quoted = await client.callTool({ name: "quote", arguments: { job_type: "TASK" } });
      expect(quoted.structuredContent).toMatchObject({ spent: "$0.010" });
    });
    expect(gained).toBe(PRICE.fast);
  });
});
