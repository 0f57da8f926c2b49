import { expect, it } from "vitest";
import { fitted, terminalColumns } from "../../../src/worker/node/fitted.ts";

it("breaks a line at words, below the beginning of its text", () => {
  const text = "LLM answers are by a toy model, which knows almost nothing.";
  expect(fitted(text, 59)).toEqual([text]);
  expect(fitted(text, 58)).toEqual(["LLM answers are by a toy model, which knows almost", "nothing."]);
  expect(fitted(`  ${text}`, 33, 2)).toEqual(["  LLM answers are by a toy model,", "  which knows almost nothing."]);
  expect(fitted("  --url=<url>    The coordinator to ask, with its port", 45)).toEqual([
    "  --url=<url>    The coordinator to ask, with",
    "                 its port",
  ]);
  // The terminal breaks it where there is no room for words.
  expect(fitted(text, 23)).toEqual([text]);
  expect(fitted(text, Infinity)).toEqual([text]);
});

it("never breaks a command, because its reader copies it", () => {
  const cure = "install Ollama (https://ollama.com) and run: ollama pull llama3.2";
  expect(fitted(`${cure} — or use --llm-url <url>`, 60)).toEqual([
    "install Ollama (https://ollama.com) and run:",
    "ollama pull llama3.2 — or use --llm-url <url>",
  ]);
  expect(fitted(`${cure}, then start again.`, 60)).toEqual(["install Ollama (https://ollama.com) and run:", "ollama pull llama3.2, then start again."]);
  const check = "npx compute-router worker doctor --url ws://127.0.0.1:4010/";
  expect(fitted(`offline: no connection; trying again. To check: ${check}`, 50)).toEqual(["offline: no connection; trying again. To check:", check]);
});

it("colors take no columns", () => {
  const color = (text: string): string => `\u001B[36m${text}\u001B[39m`;
  expect(fitted(`${color("one two three")} ${color("four five six")}`, 27)).toHaveLength(1);
});

it("without a terminal there is no width", () => {
  expect(terminalColumns({ isTTY: true, columns: 80 })).toBe(80);
  for (const out of [{}, { columns: 80 }, { isTTY: true }, { isTTY: true, columns: 0 }]) expect(terminalColumns(out)).toBe(Infinity);
});
