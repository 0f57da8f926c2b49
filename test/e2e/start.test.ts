import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { startChild } from "../../scripts/child.ts";
import { freePort, ROOT } from "../../scripts/coordinator-process.ts";
import { lookForLlm, readyLlm } from "../../scripts/local-llm.ts";

import { temporaryFolder } from "../support/coordinator.ts";
import { finallyDo } from "../support/finally.ts";
import { descendants, stillRunning } from "../support/process-tree.ts";
import { commit, get } from "../support/rest.ts";
import { copySources } from "../support/source-copy.ts";
import { TalkingLlm } from "../support/talking-llm.ts";
import { until } from "../support/until.ts";

const stateDir = temporaryFolder("start");

/** A machine without an LLM, whatever the present one has: the server that is chosen is the only one that is asked, and this one is not there. */
const NO_LLM = { LLM_BASE_URL: "http://127.0.0.1:9", OPENAI_BASE_URL: "", OLLAMA_HOST: "" };

async function start(args: string[], { env = NO_LLM, root = ROOT, state = stateDir }: { env?: Record<string, string>; root?: string; state?: string } = {}) {
  const [evm, svm] = [await freePort(), await freePort()];
  const child = startChild([join(root, "scripts", "start.ts"), "--evm-port", String(evm), "--svm-port", String(svm), "--state", state, ...args], {
    cwd: root,
    env,
  });
  finallyDo(() => child.stop());
  return { child, evm, svm, text: () => child.lines.join("\n") };
}

/** The lines that a printed job of this kind begins with. */
function jobs(lines: readonly string[], kind: string): string[] {
  return lines.map((line) => line.trim()).filter((line) => line.startsWith(`${kind} `));
}

/** An output without what differs from run to run: times, keys, ports, and what there is to do on this machine to get an LLM. */
function lasting(lines: readonly string[], { evm, svm }: { evm: number; svm: number } = { evm: 4010, svm: 4020 }): { steps: string[]; rest: string } {
  const same = lines.map((line) =>
    line
      .replaceAll(String(evm), "4010")
      .replaceAll(String(svm), "4020")
      .replaceAll(/[0-9a-f]{8}…/g, "key…")
      .replaceAll(/ *[0-9]+\.[0-9] s/g, " time")
      .replace(/no LLM .*: the toy/, "no LLM: the toy")
      .replace(/For real ones: .*, then/, "For real ones: do this, then"),
  );
  const isStep = (line: string) => line.startsWith(" time  ");
  return {
    // Both instances start at once, in any order.
    steps: same.filter(isStep).toSorted(),
    rest: same
      .filter((line) => !isStep(line))
      .join("\n")
      .trim(),
  };
}

// Each start is several builds and a dozen processes. `npm start -- --once`, which ends by itself with 0, is a step of CI.
describe("npm start", { timeout: 120_000 }, () => {
  it("beside a local LLM it uses that one, does not even install the runtime of the toy, and says once that it is gone, and once that it is back", async () => {
    const ollama = await TalkingLlm.start();
    ollama.says = "Paris, of course.";
    const { folder, remove } = copySources("compute-router-start", [
      "runtimes/llama/package.json",
      "runtimes/llama/package-lock.json",
      "runtimes/llama/server.mjs",
    ]);
    finallyDo(remove);
    const { child, svm, text } = await start([], { env: { LLM_BASE_URL: "", OPENAI_BASE_URL: "", OLLAMA_HOST: new URL(ollama.url).host }, root: folder });
    await until("banner", () => (text().includes("up until Ctrl-C") ? true : undefined), text, 100_000);
    expect(text()).toContain("8 of 8 jobs done and verified");
    expect(jobs(child.lines, "LLM_INFER")).toEqual([expect.stringMatching(/ by talker$/), expect.stringMatching(/ by talker$/)]);
    expect(child.lines.filter((line) => line.trim() === ollama.says)).toHaveLength(2);
    expect(ollama.prompts).toBe(2);
    expect(text()).not.toContain("toy");
    expect(existsSync(join(folder, "runtimes", "llama", "node_modules"))).toBe(false);

    ollama.gone = true;
    // A job is the quickest way for a worker to notice.
    const url = `http://127.0.0.1:${svm}`;
    await commit(url, "fast", { job_type: "LLM_INFER", payload: { prompt: "hi" } });
    const said = (what: string) => child.lines.filter((line) => line.trimEnd().endsWith(what)).map((line) => line.slice(line.indexOf("s ") + 3));
    const isGone = "talker is no longer available: no LLM jobs until it is back";
    await until("gone", () => (said(isGone).includes(`svm  ${isGone}`) ? true : undefined), text);
    ollama.gone = false;
    await until("back", () => (said("talker is back").includes("svm  talker is back") ? true : undefined), text);
    expect(said(isGone).filter((line) => line.startsWith("svm"))).toHaveLength(1);
    expect(said("talker is back").filter((line) => line.startsWith("svm"))).toHaveLength(1);
  });

  it("says why not the LLM that was chosen, and answers with the toy", async () => {
    const broken = await TalkingLlm.start();
    broken.fails = true;
    vi.stubEnv("LLM_BASE_URL", broken.url);
    const said: string[] = [];
    const { signal } = new AbortController();
    const session = { signal, say: (_: string, line: string) => void said.push(line), keep: () => {}, isUp: () => {}, elapsed: () => 0 };
    const llm = await readyLlm(await lookForLlm(signal), session).finally(() => vi.unstubAllEnvs());
    expect(llm).toMatchObject({ kind: "toy" });
    expect(said.at(-1)).toMatch(/^talker by ollama gave no first answer \(.*out of memory.*\): the toy model answers$/);
  });

  it("brings up both instances with a worker each, runs a verified job of every kind on both, stays up with a banner until Ctrl-C, and then leaves no child behind", async () => {
    const { child, evm, svm, text } = await start([], { state: temporaryFolder("start-fresh") });
    await until("banner", () => (text().includes("up until Ctrl-C") && text().includes("curl") ? true : undefined), text, 100_000);
    for (const kind of ["LLM_INFER", "summarize", "classify", "extract_json"]) {
      expect(
        jobs(child.lines, kind).filter((line) => / verified, signed by [0-9a-f]{8}…/.test(line)),
        text(),
      ).toHaveLength(2);
    }
    expect(text()).toContain("8 of 8 jobs done and verified");
    // Whoever reads a toy's answer is told that it is one.
    for (const line of jobs(child.lines, "LLM_INFER")) expect(line).toMatch(/ by tiny-chat-q8_0, a toy$/);
    expect(text()).toContain("no LLM at http://127.0.0.1:9/v1 (not running): the toy model answers");
    expect(text()).toContain(`npm run worker -- --url ws://127.0.0.1:${evm}/`);
    expect(
      child.lines.filter((line) => line.includes("are a toy's") && line.includes(`For real ones: start the runtime at http://127.0.0.1:9/v1, then`)),
    ).toHaveLength(1);
    // The README shows what is printed here, word for word.
    const [, shown = ""] = /^This is what it prints.*?^```$(.*?)^```$/ms.exec(readFileSync(join(ROOT, "README.md"), "utf8")) ?? [];
    const [here, there] = [lasting(child.lines, { evm, svm }), lasting(shown.split("\n"))];
    expect(here.rest).toBe(there.rest);
    expect(here.steps).toEqual(there.steps);
    for (const port of [evm, svm]) expect((await get(`http://127.0.0.1:${port}/v1/health`)).body).toMatchObject({ status: "ok", workers_online: 1 });
    const children = descendants(child.pid).map(({ pid }) => pid);
    process.kill(child.pid, "SIGINT");
    expect(await child.exited, text()).toBe(0);
    expect(stillRunning(children)).toEqual([]);
    // What the children say while they are being ended is no news.
    expect(child.lines.at(-1)).toBe("stopping");
  });

  it.runIf(existsSync("/proc/self"))("a state folder that cannot be made ends it at once, and says so", async () => {
    const [evm, svm] = [await freePort(), await freePort()];
    const args = ["--evm-port", String(evm), "--svm-port", String(svm), "--state", "/proc/nope"];
    const child = startChild([join(ROOT, "scripts", "start.ts"), ...args], { cwd: ROOT });
    expect(await child.exited).toBe(1);
    expect(child.lines.filter((line) => line.startsWith("cannot write to /proc/nope"))).toHaveLength(1);
  });

  it("says which port is taken, and starts nothing", async () => {
    const [evm, svm] = [await freePort(), await freePort()];
    const { createServer } = await import("node:http");
    const server = createServer().listen(svm, "127.0.0.1");
    const child = startChild([join(ROOT, "scripts", "start.ts"), "--evm-port", String(evm), "--svm-port", String(svm), "--state", stateDir], {
      cwd: ROOT,
      env: NO_LLM,
    });
    expect(await child.exited).toBe(1);
    expect(child.lines).toEqual([`port ${svm} of 127.0.0.1 is taken: stop the program that listens there, or choose another: npm start -- --svm-port N`]);
    server.close();
  });
});
