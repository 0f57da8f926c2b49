import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import { afterJobs, type LocalLlm, lookForLlm, readyLlm, startDemoWorker } from "../../scripts/bring-up.ts";
import { type Child, startChild } from "../../scripts/child.ts";
import { freePort, ROOT } from "../../scripts/coordinator-process.ts";
import { FIRST_JOBS, runFirstJob } from "../../scripts/first-jobs.ts";
import { readStartOptions, runSession } from "../../scripts/session.ts";
import { ComputeRouter } from "../../src/sdk/index.ts";
import { shareCoordinator, temporaryFolder } from "../support/coordinator.ts";
import { finallyDo } from "../support/finally.ts";
import { descendants, stillRunning } from "../support/process-tree.ts";
import { commit, ended, get } from "../support/rest.ts";
import { TalkingLlm } from "../support/talking-llm.ts";
import { until } from "../support/until.ts";

/** A machine without an LLM, whatever the present one has: the server that is chosen is the only one that is asked, and this one is not there. */
// Nothing listens there; the ports 1 and 9 are blocked by fetch, which the worker would say.
const NO_LLM = { LLM_BASE_URL: "http://127.0.0.1:2", OPENAI_BASE_URL: "", OLLAMA_HOST: "" };

async function start(state: string) {
  const [evm, svm] = [await freePort(), await freePort()];
  const args = ["--evm-port", String(evm), "--svm-port", String(svm), "--state", state];
  const child = startChild([join(ROOT, "scripts", "start.ts"), ...args], { cwd: ROOT, env: NO_LLM });
  finallyDo(() => child.stop());
  return { child, evm, svm, text: () => child.lines.join("\n") };
}

/** The LLM that `npm start` chooses with the present environment, and what it says meanwhile. */
async function chosenLlm(): Promise<{ llm: LocalLlm; steps: string[] }> {
  const steps: string[] = [];
  const { signal } = new AbortController();
  const llm = await readyLlm(await lookForLlm(signal), { signal, say: (_, line) => void steps.push(line) });
  return { llm, steps };
}

/** The lines that a printed job of this kind begins with. */
function jobs(lines: readonly string[], kind: string): string[] {
  return lines.map((line) => line.trim()).filter((line) => line.startsWith(`${kind} `));
}

/** An output without what differs from run to run: times, keys, ports, and what there is to do on this machine to get an LLM. */
function lasting(
  lines: readonly string[],
  { evm, svm, state }: { evm: number; svm: number; state: string } = { evm: 4010, svm: 4020, state: ".state" },
): { steps: string[]; rest: string } {
  const same = lines.map((line) =>
    line
      .replaceAll(String(evm), "4010")
      .replaceAll(String(svm), "4020")
      .replace(`--config-dir ${state}/my-worker`, "--config-dir .state/my-worker")
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

// Each start is several builds and a dozen processes, so what `--once` changes is tested without one.
describe("npm start", () => {
  afterEach(() => vi.unstubAllEnvs());

  it("a local LLM is used, and the toy is not even installed; that the LLM is gone is said once, and that it is back too", async () => {
    const ollama = await TalkingLlm.start();
    ollama.says = "Paris, of course.";
    for (const [name, value] of Object.entries({ ...NO_LLM, LLM_BASE_URL: "", OLLAMA_HOST: new URL(ollama.url).host })) vi.stubEnv(name, value);
    const { llm, steps } = await chosenLlm();
    expect(llm).toMatchObject({ kind: "real", model: "talker" });
    // An installation would be a step.
    expect(steps).toEqual(["found talker by ollama, waiting for its first answer"]);

    const coordinator = await shareCoordinator("evm");
    const said: string[] = [];
    const onStart = (child: Child) => finallyDo(() => child.stop());
    const worker = await startDemoWorker({ coordinator, folder: temporaryFolder("demo"), llm, onStart, onLine: (line) => void said.push(line) });
    expect(worker.model).toBe("talker");
    const [job = expect.unreachable()] = FIRST_JOBS;
    expect(await runFirstJob(new ComputeRouter({ baseUrl: coordinator.url }), job, 140, new AbortController().signal)).toEqual({
      ok: true,
      lines: [expect.stringMatching(/^LLM_INFER .* verified, .* by talker$/), expect.stringMatching(/^ +Paris, of course\.$/)],
    });
    expect(ollama.prompts).toBe(1);

    ollama.gone = true;
    // A job is the quickest way for a worker to notice.
    const id = await commit(coordinator.url, "fast", { job_type: "LLM_INFER", payload: { prompt: "hi" } });
    const isGone = "talker is no longer available: no LLM jobs until it is back";
    await until("gone", () => (said.includes(isGone) ? true : undefined));
    ollama.gone = false;
    await until("back", () => (said.includes("talker is back") ? true : undefined));
    expect(said).toEqual([isGone, "talker is back"]);
    // The coordinator is shared: no job is left behind.
    expect(await ended(coordinator.url, id)).toMatchObject({ status: "completed" });
  });

  it("an LLM that was chosen and gives no answer is named with the reason, and the toy answers", async () => {
    const broken = await TalkingLlm.start();
    broken.fails = true;
    vi.stubEnv("LLM_BASE_URL", broken.url);
    const { llm, steps } = await chosenLlm();
    expect(llm).toMatchObject({ kind: "toy" });
    expect(steps.at(-1)).toMatch(/^talker by ollama gave no first answer \(.*out of memory.*\): the toy model answers$/);
  });

  it("brings up both instances with a worker each, runs a verified job of every kind on both, stays up with a banner until Ctrl-C, and then leaves no child behind", async () => {
    const state = temporaryFolder("start");
    const { child, evm, svm, text } = await start(state);
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
    expect(text()).toContain("no LLM at http://127.0.0.1:2/v1 (not running): the toy model answers");
    expect(text()).toContain(`npm run worker -- --url ws://127.0.0.1:${evm}/`);
    expect(
      child.lines.filter((line) => line.includes("are by a toy model") && line.includes(`For real ones: start the runtime at http://127.0.0.1:2/v1, then`)),
    ).toHaveLength(1);
    // The README shows what is printed here, word for word.
    const [, shown = ""] = /^This is what it prints.*?^```$(.*?)^```$/ms.exec(readFileSync(join(ROOT, "README.md"), "utf8")) ?? [];
    const [here, there] = [lasting(child.lines, { evm, svm, state }), lasting(shown.split("\n"))];
    expect(here.rest).toBe(there.rest);
    expect(here.steps).toEqual(there.steps);
    for (const port of [evm, svm]) expect((await get(`http://127.0.0.1:${port}/v1/health`)).body).toMatchObject({ status: "ok", workers_online: 1 });
    const children = descendants(child.pid).map(({ pid }) => pid);
    const worker = descendants(child.pid).find(({ command }) => command.includes(`ws://127.0.0.1:${svm}/`)) ?? expect.unreachable();
    process.kill(worker.pid, "SIGKILL");
    await until(
      "word of it",
      () => child.lines.find((line) => line.endsWith("svm  its worker has ended (SIGKILL): jobs wait for another worker, or start again")),
      text,
    );
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

  it("--once ends after the jobs, with 0 only if all of them are good", async () => {
    expect(readStartOptions(["--once"], "npm start -- [--once]")).toMatchObject({ once: true, ports: { evm: 4010, svm: 4020 } });
    const { signal } = new AbortController();
    const session = { signal, elapsed: () => 0, say() {}, keep() {}, markUp: () => expect.unreachable() };
    for (const good of [true, false]) expect(await afterJobs(session, { once: true, good, banner: "", failures: [] })).toBe(good ? 0 : 1);
    const { scripts }: { scripts: Record<string, string> } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
    expect(scripts["start"]).toBe("node --import ./scripts/orphan.mjs scripts/start.ts");
  });

  it("says nothing of its children while it stops them, with --once too", async () => {
    const lines = vi.spyOn(console, "log").mockImplementation(() => {});
    const code = await runSession(async ({ say, keep }) => {
      keep({ stop: async () => say("evm", "its worker has ended") });
      say("evm", "a worker");
      return 0;
    });
    expect(code).toBe(0);
    expect(lines.mock.calls.map(([line]) => String(line).slice(-8))).toEqual(["a worker"]);
  });

  it("one port for both instances is refused, also if it is the other one's default", () => {
    const usage = "npm start -- [--evm-port N]";
    for (const args of [["--evm-port", "4020"], ["--svm-port=4010"], ["--evm-port", "5000", "--svm-port", "5000"]])
      expect(readStartOptions(args, usage)).toMatch(/^both instances would listen on port \d+: choose another with --evm-port or --svm-port\n/);
    expect(readStartOptions(["--evm-port", "4020", "--svm-port", "4010"], usage)).toMatchObject({ ports: { evm: 4020, svm: 4010 } });
  });

  it("says which port is taken, and starts nothing", async () => {
    const [evm, svm] = [await freePort(), await freePort()];
    const { createServer } = await import("node:http");
    const server = createServer().listen(svm, "127.0.0.1");
    const child = startChild([join(ROOT, "scripts", "start.ts"), "--evm-port", String(evm), "--svm-port", String(svm), "--state", temporaryFolder("start")], {
      cwd: ROOT,
      env: NO_LLM,
    });
    expect(await child.exited).toBe(1);
    expect(child.lines).toEqual([`port ${svm} of 127.0.0.1 is taken: stop the program that listens there, or choose another: npm start -- --svm-port N`]);
    server.close();
  });
});
