// Every snippet of docs/quickstart.md, run as a reader would run it, against real coordinators. Only addresses and the place of this package are replaced.
import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { ROOT } from "../../../scripts/coordinator-process.ts";
import { CLI } from "../../support/cli.ts";
import { shareCoordinator } from "../../support/coordinator.ts";
import type { CoordinatorHere } from "../../support/coordinator-here.ts";
import { PlainWorker } from "../../support/plain-worker.ts";
import type { FullLab } from "../start-lab.ts";
import { type Bench, PRICE } from "../support/bench.ts";
import { FRAMEWORKS } from "../support/frameworks.ts";
import { giveBack, sharedBench, sharedLab } from "../support/shared.ts";

const run = promisify(execFile);
const PYTHON = process.env["PYTHON"] ?? "python3";

/** The snippets in their order, with the heading that they stand below. */
const SNIPPETS = (() => {
  let heading = "";
  return [...readFileSync(join(ROOT, "docs", "quickstart.md"), "utf8").matchAll(/^## (.+)$|^```(\w+)\n([^]*?)^```$/gm)].flatMap(([, title, language, code]) => {
    heading = title ?? heading;
    return language === undefined || code === undefined ? [] : [{ heading, language, code }];
  });
})();

function snippet(heading: string, language: string, index = 0): string {
  const found = SNIPPETS.filter((one) => one.heading === heading && one.language === language)[index];
  if (found === undefined) throw new Error(`docs/quickstart.md has no such snippet below ${heading}`);
  return found.code;
}

let lab: FullLab;
let paid: Bench;
let folder: string;

beforeAll(async () => {
  lab = await sharedLab();
  paid = await sharedBench("evm");
  await paid.join();
  // Below this folder, so that Node finds the packages of the lab.
  folder = mkdtempSync(join(import.meta.dirname, "..", ".snippets-"));
});
afterAll(async () => {
  await giveBack(paid);
  rmSync(folder, { recursive: true, force: true });
});

let written = 0;

/** Runs a snippet of TypeScript; resolves to what it prints. */
async function typescript(code: string, url: string, env: Record<string, string> = {}): Promise<string> {
  const place = (path: string): string => JSON.stringify(pathToFileURL(join(ROOT, "src", "sdk", path)).href);
  const here = code
    .replaceAll("http://127.0.0.1:4010", url)
    .replaceAll('"compute-router"', place("index.ts"))
    .replaceAll('"compute-router/x402"', place("pay/x402.ts"));
  const file = join(folder, `snippet-${String(++written)}.ts`);
  writeFileSync(file, here);
  return (await run(process.execPath, [file], { env: { ...process.env, ...env } })).stdout;
}

async function python(code: string, url: string): Promise<string> {
  return (await run(PYTHON, ["-c", code.replaceAll("http://127.0.0.1:4010", url)])).stdout;
}

describe("docs/quickstart.md", () => {
  it("has these snippets, and each is run below", () => {
    expect(SNIPPETS.map(({ heading, language }) => `${heading}: ${language}`)).toEqual([
      "An OpenAI client: ts",
      "An OpenAI client: ts",
      "An OpenAI client: ts",
      "An agent: json",
      "curl: sh",
      "TypeScript: ts",
      "Python: python",
      "Python: python",
      "Paying: ts",
    ]);
  });

  it("[PY1] [API9] paying: exactly the price moves", async () => {
    const secret = lab.description.payers.evm?.[paid.payer()]?.secret ?? "";
    const asset = JSON.stringify(lab.evm.token);
    // The wallet of the snippet may spend USDC of the testnet; the lab has a token of its own.
    const code = snippet("Paying", "ts");
    const limits = "{ maxPrice: 0.02 }";
    expect(code).toContain(limits);
    const gained = await paid.earning(async () => {
      const printed = await typescript(code.replace(limits, `{ maxPrice: 0.02, asset: ${asset} }`), paid.url, { EVM_PRIVATE_KEY: secret });
      expect(printed.trim()).toBe("an answer");
    });
    expect(gained).toBe(PRICE.fast);
  });
});

// Where jobs are free a client sees nothing of the instance but its network, so one instance is enough.
describe("the quick starts where jobs are free", () => {
  let free: CoordinatorHere;
  let worker: PlainWorker;

  beforeAll(async () => {
    free = await shareCoordinator("evm");
    worker = new PlainWorker(free.socketUrl, { acks: true });
    await worker.connect();
    worker.serve();
    return () => worker.close();
  });

  it.each([
    ["OpenAI's package", 0],
    ["the AI SDK", 1],
    ["LangChain", 2],
  ])("[API9] the snippet of %s", async (_, index) => {
    expect((await typescript(snippet("An OpenAI client", "ts", index), free.url)).trim()).toBe("an answer");
  });

  it.each([
    ["OpenAI's package", 0],
    ["the AI SDK", 1],
    ["LangChain", 2],
  ])("[API5] [API9] the snippet of %s gets the answer of one job, however often its client tries again", async (_, index) => {
    const jobs: (string | null)[] = [];
    // The first answer is lost on its way.
    const proxy = createServer(async (request, response) => {
      const body = await text(request);
      const key = request.headers["idempotency-key"];
      const headers = { "Content-Type": "application/json", ...(typeof key === "string" && { "Idempotency-Key": key }) };
      const answer = await fetch(`${free.url}${request.url ?? ""}`, { method: "POST", headers, body });
      jobs.push(answer.headers.get("x-job-id"));
      const said = await answer.text();
      if (jobs.length === 1) response.writeHead(503).end();
      else response.writeHead(answer.status, { "Content-Type": answer.headers.get("Content-Type") ?? "" }).end(said);
    });
    await once(proxy.listen(0, "127.0.0.1"), "listening");
    onTestFinished(() => void proxy.close());
    const address = proxy.address();
    const port = typeof address === "object" ? address?.port : undefined;
    expect((await typescript(snippet("An OpenAI client", "ts", index), `http://127.0.0.1:${port}`)).trim()).toBe("an answer");
    expect({ requests: jobs.length, jobs: new Set(jobs).size }).toEqual({ requests: 2, jobs: 1 });
  });

  it("[API9] what the snippets do not show: a whole answer of the AI SDK, and a stream of LangChain", async () => {
    expect(await FRAMEWORKS["AI SDK"].whole(`${free.url}/v1`, fetch)).toBe("an answer");
    expect(await FRAMEWORKS.LangChain.streamed(`${free.url}/v1`, fetch)).toBe("an answer");
  });

  it("[JB10] OpenAI's package lists the models", async () => {
    const models = [];
    for await (const model of new OpenAI({ baseURL: `${free.url}/v1`, apiKey: "none" }).models.list()) models.push(model);
    expect(models).toEqual([]);
  });

  it("an agent: the configuration starts a server with our tools", async () => {
    const { mcpServers }: { mcpServers: Record<string, { command: string; args: string[] }> } = JSON.parse(snippet("An agent", "json"));
    const { command, args = [] } = mcpServers["compute-router"] ?? {};
    const { bin }: { bin: Record<string, string> } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
    expect(Object.keys(bin)).toEqual([command]);
    expect(readFileSync(join(ROOT, "docs", "agents.md"), "utf8")).toContain(snippet("An agent", "json"));
    const here = args.map((arg) => arg.replace("http://127.0.0.1:4010", free.url));
    const client = new Client({ name: "test", version: "1" });
    const env = { PATH: process.env["PATH"] ?? "", XDG_CONFIG_HOME: mkdtempSync(join(tmpdir(), "compute-router-quickstart-")) };
    await client.connect(new StdioClientTransport({ command: process.execPath, args: [CLI, ...here], env }));
    try {
      const result = await client.callTool({ name: "classify", arguments: { text: "good" } });
      expect(result.structuredContent).toMatchObject({ verified: true, result: { sentiment: "neutral" } });
    } finally {
      await client.close();
      rmSync(env.XDG_CONFIG_HOME, { recursive: true });
    }
  });

  it("[API6] curl gets the finished job with its receipt", async () => {
    const { stdout } = await run("bash", ["-c", snippet("curl", "sh").replaceAll("http://127.0.0.1:4010", free.url)]);
    expect(JSON.parse(stdout)).toMatchObject({ job: { status: "completed", receipt: { provider_pubkey: worker.publicKey } } });
  });

  it("TypeScript", async () => {
    expect((await typescript(snippet("TypeScript", "ts"), free.url)).trim()).toBe("an answer (receipt checked)");
  });

  it("[API9] Python, whole", async () => {
    expect((await python(snippet("Python", "python"), free.url)).trim()).toBe("an answer");
  });

  it("[API9] Python, as a stream", async () => {
    expect((await python(snippet("Python", "python", 1), free.url)).trim()).toBe("an answer");
  });

  it("[API6] the stream of docs/sdk.md", async () => {
    const [code = ""] = /^const stream = router\.stream\([^]*?(?=^```$)/m.exec(readFileSync(join(ROOT, "docs", "sdk.md"), "utf8")) ?? [];
    const whole = `import { ComputeRouter } from "compute-router";
const router = new ComputeRouter({ baseUrl: "http://127.0.0.1:4010" });
${code}
console.log("", output === "an answer", verified);`;
    expect(await typescript(whole, free.url)).toBe("an answer true true\n");
  });
});
