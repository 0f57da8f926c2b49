import { expect, test } from "vitest";
import { LIMITS } from "../../../src/protocol/limits.ts";
import { keptModels, modelList } from "../../../src/protocol/models.ts";

const names = (count: number, prefix: string) => Array.from({ length: count }, (_, n) => `${prefix}${n}`);

test("[JB10] of more models than it lists, those of many networks come first, then those of one, from each network in turn", () => {
  const flood = (network: string) => ({ models: names(LIMITS.modelsListed, `+${network}`), network, connectedAt: 0 });
  const fleet = ["x", "y"].map((network) => ({ models: names(30, "ours"), network, connectedAt: 0 }));
  const alone = { models: ["llama3.2", "Zephyr"], network: "home", connectedAt: 1_000 };
  const { data, workers_online } = modelList([flood("a"), flood("a"), flood("b"), ...fleet, alone]);
  expect([data.length, workers_online]).toEqual([LIMITS.modelsListed, 6]);
  expect(data.map(({ id }) => id)).toEqual(expect.arrayContaining([...names(30, "ours"), "llama3.2", "Zephyr"]));
  // Those with the most workers stand first, whatever their names are.
  expect(data.map(({ workers }) => workers)).toEqual(data.map(({ workers }) => workers).toSorted((a, b) => b - a));
});

test("[JB10] a worker's models are kept once each, without malformed names and without auto, which means any", () => {
  expect(keptModels(["auto", "Qwen3-8B", "AUTO", "qwen3-8b", "two words", "auto:latest"])).toEqual(["Qwen3-8B", "auto:latest"]);
});
