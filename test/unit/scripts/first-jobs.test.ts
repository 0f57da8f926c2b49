import { expect, test } from "vitest";
import { TOY } from "../../../scripts/bring-up.ts";
import { banner, FIRST_JOBS, paidBanner, runFirstJob } from "../../../scripts/first-jobs.ts";
import { ComputeRouter } from "../../../src/sdk/index.ts";
import { RouterServer } from "../sdk/support/router-server.ts";

const COORDINATOR = { instance: "evm", url: "http://127.0.0.1:4010", socketUrl: "ws://127.0.0.1:4010/" } as const;

test("the worker that npm start suggests keeps its state where that of the coordinators is", () => {
  const llm = { kind: "real", model: "tiny", runtime: "ollama" } as const;
  const suggested = (state: string) => /npm run worker -- (.*)/.exec(banner([COORDINATOR], llm, state, 80))?.[1];
  expect(suggested(".state")).toBe("--url ws://127.0.0.1:4010/ --config-dir .state/my-worker");
  expect(suggested("/tmp/my state")).toBe("--url ws://127.0.0.1:4010/ --config-dir '/tmp/my state/my-worker'");
});

test("the sentences of a banner fit in the terminal, and its commands are not broken", () => {
  const toy = { kind: "toy", cure: "install Ollama (https://ollama.com) and run: ollama pull llama3.2" } as const;
  const lab = { facilitator: "f", control: "c", evmRpc: "e", svmRpc: "s" };
  const [wide, narrow, paid] = [
    banner([COORDINATOR], toy, ".state", Infinity),
    banner([COORDINATOR], toy, ".state", 80),
    paidBanner([COORDINATOR], toy, lab, 80),
  ];
  expect(narrow).toContain(`
  LLM answers are by a toy model (0.56 M parameters: it answers "hi" with "The
  opposite of rich is poor."). For real ones: install Ollama
  (https://ollama.com) and run: ollama pull llama3.2, then start again.

  One more worker, with the LLM server of this machine if there is one (the toy
  then leaves LLM jobs to it):
    npm run worker`);
  expect(wide).toContain(`\n  LLM answers are ${TOY.about}. For real ones: ${toy.cure}, then start again.\n`);
  expect(paid).toContain("(https://ollama.com) and run: ollama pull llama3.2, then start again.\n");
  const commands = (text: string): string[] => text.split("\n").filter((line) => /^ {4}(npm|curl|http)/.test(line));
  expect(commands(narrow)).toEqual(commands(wide));
});

test("the lines of a first job fit in the terminal; without one a result may have 138 columns", async () => {
  const [llm = expect.unreachable()] = FIRST_JOBS;
  const router = await RouterServer.start({ statuses: [], work: () => ({ output: "word ".repeat(60) }) });
  const linesIn = async (columns: number): Promise<string[]> => {
    const client = new ComputeRouter({ baseUrl: router.url, pollInterval: 100 });
    return (await runFirstJob(client, llm, columns, new AbortController().signal)).lines;
  };
  const narrow = await linesIn(50);
  expect(narrow).toEqual([
    expect.stringMatching(/^LLM_INFER {4}verified, signed by [0-9a-f]{8}…$/),
    expect.stringMatching(/^ {13}\$0\.010 {3}\d+\.\d s$/),
    expect.stringMatching(/^ {13}word word .{26}…$/),
  ]);
  const wide = await linesIn(Infinity);
  expect(wide.map((line) => line.length)).toEqual([expect.any(Number), 138]);
});
