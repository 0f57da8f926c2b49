import { expect, test } from "vitest";
import { banner } from "../../../scripts/first-jobs.ts";

test("the worker that npm start suggests keeps its state where that of the coordinators is", () => {
  const coordinator = { instance: "evm", url: "http://127.0.0.1:4010", socketUrl: "ws://127.0.0.1:4010/" } as const;
  const llm = { kind: "real", model: "tiny", runtime: "ollama" } as const;
  const suggested = (state: string) => /npm run worker -- (.*)/.exec(banner([coordinator], llm, state))?.[1];
  expect(suggested(".state")).toBe("--url ws://127.0.0.1:4010/ --config-dir .state/my-worker");
  expect(suggested("/tmp/my state")).toBe("--url ws://127.0.0.1:4010/ --config-dir '/tmp/my state/my-worker'");
});
