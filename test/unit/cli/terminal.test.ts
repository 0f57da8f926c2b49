import { readFileSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { describe, expect, it } from "vitest";
import { fingerprintOf } from "../../../src/receipt/ed25519.ts";
import { usedState } from "../../support/pretended-wrangler.ts";
import { RouterServer } from "../sdk/support/router-server.ts";
import { FakeCoordinator } from "../worker/support/fake-coordinator.ts";
import { SlowLlm } from "../worker/support/slow-llm.ts";
import { temporaryFolder } from "../worker/support/folder.ts";
import { hasScript, terminal } from "./support/terminal.ts";

describe.runIf(hasScript)("on a terminal", () => {
  it("worker init asks, checks what is answered, and writes it down", async () => {
    const coordinator = await FakeCoordinator.start();
    void coordinator.dialled().then((worker) => worker.challenge());
    const folder = join(temporaryFolder(), "new");
    const { says, type, said, exited } = terminal(["worker", "init", "--tasks-only", "--config-dir", folder], { NO_COLOR: "1" });
    await says("Coordinator (several");
    type("127.0.0.1:1\r");
    await says(`✗ 127.0.0.1:1     cannot be reached`);
    await says("Use it anyway?");
    // Typed ahead of the question.
    type(`n\r${coordinator.host}\r`);
    await says("✓ socket");
    await says("Name to show");
    type("den\r");
    await says("keep this? [Y/n]");
    type("\r");
    await says("Pairing code");
    type("12345\r");
    await says("a pairing code has six characters");
    type("\r");
    expect(await exited).toBe(0);
    expect(said()).toContain("compute-router worker start");
    expect(JSON.parse(readFileSync(join(folder, "worker.json"), "utf8"))).toEqual({
      version: 1,
      coordinators: [{ url: coordinator.url }],
      name: "den",
      llm: { kind: "none" },
    });
  });

  it("worker init without an LLM accepts only the words that it names, and asks again for any other", async () => {
    const coordinator = await FakeCoordinator.start();
    void coordinator.dialled().then((worker) => worker.challenge());
    const folder = join(temporaryFolder(), "new");
    const { says, type, exited } = terminal(["worker", "init", "--url", coordinator.url, "--llm-url", "http://127.0.0.1:1/v1", "--config-dir", folder]);
    await says("Coordinator (several");
    type("\r\r");
    await says("found none");
    type("my llama\r");
    await says("one of: find, embedded, none");
    type("None\r\r");
    expect(await exited).toBe(0);
    expect(JSON.parse(readFileSync(join(folder, "worker.json"), "utf8"))).toMatchObject({ llm: { kind: "none" } });
  });

  it("worker init shows the LLM that it finds, and accepts only one of its models", async () => {
    const coordinator = await FakeCoordinator.start();
    void coordinator.dialled().then((worker) => worker.challenge());
    const llm = await SlowLlm.start();
    llm.models = ["small", "large"];
    const folder = join(temporaryFolder(), "new");
    const { says, type, exited } = terminal(["worker", "init", "--url", coordinator.url, "--llm-url", llm.baseUrl, "--config-dir", folder]);
    await says("Coordinator (several");
    type("\r\r");
    await says("with small, large");
    type("yes\rhuge\r");
    await says("there is no such model");
    type("large\r\r");
    expect(await exited).toBe(0);
    const { llm: kept } = JSON.parse(readFileSync(join(folder, "worker.json"), "utf8"));
    expect(kept).toEqual({ kind: "find", url: llm.baseUrl, model: "large" });
  });

  it("worker init left by Ctrl-C changes nothing", async () => {
    const folder = join(temporaryFolder(), "new");
    const { says, type, exited } = terminal(["worker", "init", "--config-dir", folder]);
    await says("Coordinator (several");
    type("\u0003");
    expect(await exited).toBe(130);
    await says("nothing was changed");
    expect(() => readFileSync(join(folder, "worker.key"))).toThrow("ENOENT");
  });

  it("mcp, started by hand, says in two lines what it is and how a client starts it", async () => {
    const { says, type, said, exited } = terminal(["mcp", "--url", "http://127.0.0.1:9"]);
    await says("}}}");
    type("\u0004");
    expect(await exited).toBe(0);
    const [about, configuration = "", ...more] = said().trim().split("\r\n");
    expect(about).toContain("MCP server on standard input and output");
    const { mcpServers } = JSON.parse(configuration.slice(configuration.indexOf("{")));
    expect(mcpServers["compute-router"].args.slice(-3)).toEqual(["mcp", "--url", "http://127.0.0.1:9"]);
    expect(more).toEqual([]);
  });

  it("stake list says what it waits for while wrangler runs, and the line disappears", async () => {
    const folder = usedState();
    writeFileSync(join(folder, "npx"), `#!/bin/sh\necho '[{"results":[]}]'\n`, { mode: 0o755 });
    const env = { PATH: [folder, process.env["PATH"]].join(delimiter) };
    const { said, screen, exited } = terminal(["stake", "list", "--config", "wrangler.evm.toml", "--state", folder], env);
    expect(await exited).toBe(0);
    expect(said()).toContain("waiting for wrangler");
    expect(screen().text).toBe("no stakes: every worker is Open");
  });

  it("a command says that it waits for a coordinator that is slow, and the line disappears", async () => {
    const router = await RouterServer.start();
    let answers = () => {};
    router.fail("GET /v1/models", (response, _request, proceed) => {
      answers = () => proceed(response);
    });
    const { says, screen, exited } = terminal(["models", "--url", router.url]);
    await says(`waiting for ${router.url} …`);
    answers();
    expect(await exited).toBe(0);
    expect(screen().text).toBe("Tiny:1b  2 workers");
  });

  it("[WS11] worker start draws its status in place; Ctrl-C lets it leave in order", async () => {
    const coordinator = await FakeCoordinator.start();
    const folder = temporaryFolder();
    const { says, type, said, exited } = terminal(["worker", "start", "--tasks-only", "--url", coordinator.url, "--config-dir", folder]);
    const { worker, register } = await coordinator.registered();
    await says("online");
    const words = fingerprintOf(String(register["provider_pubkey"]));
    expect(said().split("\r\n").slice(0, 2)).toEqual([
      `created a new key for this worker: ${join(folder, "worker.key")}`,
      `this worker is ${words} (its key in words)`,
    ]);
    const { job_id } = worker.assign();
    await worker.receive("job_complete", "job_ack");
    worker.send({ type: "job_complete_ack", job_id, status: "accepted" });
    await says("jobs 1  ok 100%");
    type("\u0003");
    await worker.receive("drain");
    await says("no more jobs");
    worker.send({ type: "drained" });
    worker.close(1000);
    expect(await exited).toBe(0);
    expect(said()).toContain("\u001B[32m●");
  });

  it("NO_COLOR turns colors off", async () => {
    const coordinator = await FakeCoordinator.start();
    const { says, said } = terminal(["worker", "start", "--tasks-only", "--url", coordinator.url, "--config-dir", temporaryFolder()], { NO_COLOR: "1" });
    await coordinator.registered();
    await says("● online");
    // Only the cursor is moved.
    expect(
      said()
        .split("\u001B")
        .filter((sequence) => /^\[\d+m/.test(sequence)),
    ).toEqual([]);
  });
});
