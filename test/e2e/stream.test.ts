import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { type Coordinator, freePort, ROOT } from "../../scripts/coordinator-process.ts";
import { ComputeRouter, type JobEvent } from "../../src/sdk/index.ts";
import { startBundled } from "../support/bundle.ts";
import { temporaryFolder } from "../support/coordinator.ts";
import { launchDesktopWorker } from "../support/desktop-worker.ts";
import { finallyDo } from "../support/finally.ts";
import { killRuntime } from "../support/kill-runtime.ts";
import { TalkingLlm } from "../support/talking-llm.ts";
import { until } from "../support/until.ts";

const PROMPT = { job_type: "LLM_INFER", prompt: "Talk." } as const;

describe("the text of a real worker's LLM", () => {
  let coordinator: Coordinator;
  let llm: TalkingLlm;
  beforeAll(async () => {
    llm = await TalkingLlm.start();
    coordinator = await startBundled({ instance: "evm", port: await freePort(), stateDir: temporaryFolder("stream"), settings: { TESTNET_MODE: "true" } });
    finallyDo(() => coordinator.stop());
    const worker = launchDesktopWorker(coordinator.socketUrl, { llm: llm.url });
    await worker.note("online");
  });

  /** Reads a stream as a page would: what it shows now, and everything it was told. */
  function follow(): { told: JobEvent[]; shown: () => string; end: Promise<void> } {
    const told: JobEvent[] = [];
    let text = "";
    const read = async (): Promise<void> => {
      for await (const event of new ComputeRouter({ baseUrl: coordinator.url }).stream(PROMPT)) {
        told.push(event);
        if (event.type === "delta") text += event.delta;
        if (event.type === "reset") text = "";
      }
    };
    return { told, shown: () => text, end: read() };
  }

  async function shows(page: { shown: () => string }, text: string): Promise<void> {
    await until(`"${text}"`, () => (page.shown() === text ? true : undefined), page.shown);
  }

  it("[API6, WS9] is there while it is being written", async () => {
    const page = follow();
    await llm.asked();
    llm.say("One ");
    await shows(page, "One ");
    llm.say("two ");
    llm.say("three.");
    await shows(page, "One two three.");
    llm.finish();
    await page.end;
    expect(page.told.map(({ type }) => type)).not.toContain("reset");
    expect(page.told.at(-1)).toMatchObject({ type: "done", result: { output: "One two three.", verified: true } });
  });

  it("[API6, JB9] survives a coordinator that is killed in the middle of it", async () => {
    const page = follow();
    await llm.asked();
    llm.say("Before, ");
    await shows(page, "Before, ");
    await killRuntime(coordinator);
    llm.say("between, ");
    await shows(page, "Before, between, ");
    llm.say("after.");
    await shows(page, "Before, between, after.");
    llm.finish();
    await page.end;
    expect(page.told.map(({ type }) => type)).toContain("reset");
    expect(page.told.at(-1)).toMatchObject({ type: "done", result: { output: page.shown(), verified: true } });
  });

  it("`run --stream` prints it as it comes; `--json` prints the result and nothing before", async () => {
    for (const option of ["--stream", "--json"]) {
      const cli = [join(ROOT, "src", "cli", "main.ts"), "run", PROMPT.prompt, "--url", coordinator.url, "--config-dir", temporaryFolder("cli"), option];
      const child = spawn(process.execPath, cli, { stdio: ["ignore", "pipe", "pipe"] });
      let out = "";
      child.stdout.on("data", (data: Buffer) => (out += data.toString()));
      await llm.asked();
      llm.say("Hello ");
      if (option === "--stream")
        await until(
          "the first word",
          () => (out === "Hello " ? true : undefined),
          () => out,
        );
      llm.say("there.");
      llm.finish();
      const [code] = await once(child, "close");
      expect(code).toBe(0);
      if (option === "--stream") expect(out).toBe("Hello there.\n");
      else expect(JSON.parse(out)).toMatchObject({ verified: true, result: { output: "Hello there." } });
    }
  });
});
