import { spawn } from "node:child_process";
import { once } from "node:events";
import { beforeAll, describe, expect, it } from "vitest";
import { CLI } from "../support/cli.ts";
import type { CoordinatorHere } from "../support/coordinator-here.ts";
import { shareCoordinator, temporaryFolder } from "../support/coordinator.ts";
import { launchDesktopWorker } from "../support/desktop-worker.ts";
import { follow, shows } from "../support/followed.ts";
import { TalkingLlm } from "../support/talking-llm.ts";
import { until } from "../support/until.ts";

const PROMPT = "Talk.";

// That it survives a coordinator that is killed is in crash.test.ts.
describe("the text of a real worker's LLM", () => {
  let coordinator: CoordinatorHere;
  let llm: TalkingLlm;
  beforeAll(async () => {
    llm = await TalkingLlm.start();
    coordinator = await shareCoordinator("evm");
    const worker = launchDesktopWorker(coordinator.socketUrl, { llm: llm.url });
    await worker.note("online");
  });

  it("[API6, WS9] is there while it is being written", async () => {
    const page = follow(coordinator.url, PROMPT);
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

  it("`run --stream` prints it as it comes; `--json` prints the result and nothing before", async () => {
    for (const option of ["--stream", "--json"]) {
      const cli = [CLI, "run", PROMPT, "--url", coordinator.url, "--config-dir", temporaryFolder("cli"), option];
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
