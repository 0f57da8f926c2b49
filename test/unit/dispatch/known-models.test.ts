import { expect, test } from "vitest";
import { KnownModels } from "../../../src/coordinator/dispatch/known-models.ts";
import { LIMITS, TIMING } from "../../../src/protocol/limits.ts";

const NOW = 1_000_000;

test("[JB10] a model is known while a worker offers it, and for five minutes after its last worker has left", () => {
  const models = new KnownModels();
  models.enter("a", ["ant", "bee"]);
  models.enter("b", ["ant"]);
  expect(models.isKnown("cat", NOW)).toBe(false);
  expect(models.leave("a", ["ant", "bee"], NOW)).toEqual(["bee"]);
  expect(models.isKnown("ant", NOW + 10 * TIMING.modelRemembered)).toBe(true);
  expect(models.leave("b", ["ant"], NOW)).toEqual(["ant"]);
  for (const name of ["ant", "bee"]) {
    expect(models.isKnown(name, NOW + TIMING.modelRemembered - 1)).toBe(true);
    expect(models.isKnown(name, NOW + TIMING.modelRemembered)).toBe(false);
  }
});

test("[JB10] a clock that was set back makes no model known for longer", () => {
  const models = new KnownModels();
  models.restore([
    { name: "", leftAt: 0 },
    { name: "ant", leftAt: NOW + 3_600_000 },
  ]);
  expect(models.isKnown("ant", NOW)).toBe(true);
  expect(models.isKnown("bee", NOW)).toBe(false);
});

test("[JB10] for a minute after the first start every model is known, after a sleep only those that were", () => {
  const first = new KnownModels();
  const stored = first.socketsRestored(NOW);
  expect(stored).toEqual([{ name: "", leftAt: NOW }]);
  expect(first.isKnown("cat", NOW + TIMING.modelsReturn - 1)).toBe(true);
  expect(first.isKnown("cat", NOW + TIMING.modelsReturn)).toBe(false);
  const woken = new KnownModels();
  woken.restore(stored);
  expect(woken.socketsRestored(NOW + TIMING.modelsReturn)).toEqual([]);
  expect(woken.isKnown("cat", NOW + TIMING.modelsReturn)).toBe(false);
});

test("[JB10] a model whose workers were lost with the hub is known for five minutes more, and every other for one", () => {
  const models = new KnownModels();
  models.restore([
    { name: "", leftAt: 0 },
    { name: "ant", leftAt: null },
    { name: "bee", leftAt: null },
  ]);
  models.enter("a", ["bee"]);
  expect(models.socketsRestored(NOW)).toEqual([
    { name: "", leftAt: NOW },
    { name: "ant", leftAt: NOW },
  ]);
  expect(models.isKnown("cat", NOW + TIMING.modelsReturn - 1)).toBe(true);
  expect(models.isKnown("cat", NOW + TIMING.modelsReturn)).toBe(false);
  expect(models.isKnown("ant", NOW + TIMING.modelRemembered - 1)).toBe(true);
  expect(models.isKnown("bee", NOW + TIMING.modelRemembered)).toBe(true);
});

test("[JB10] of the models that have left only the last 1,000 are remembered", () => {
  const models = new KnownModels();
  models.restore([{ name: "", leftAt: 0 }, ...Array.from({ length: LIMITS.modelsRemembered + 1 }, (_, n) => ({ name: `m${n}`, leftAt: NOW + n }))]);
  expect(models.isKnown("m0", NOW)).toBe(false);
  expect(models.isKnown("m1", NOW)).toBe(true);
});

test("[JB10] one network has places for a thousand names, however many keys it uses; the others have theirs", () => {
  const models = new KnownModels();
  const names = Array.from({ length: 100 }, (_, n) => `m${n}`);
  const kept = Array.from({ length: 20 }, () => models.enter("a", names).kept.length);
  expect(kept.reduce((sum, count) => sum + count, 0)).toBe(LIMITS.modelPlacesPerNetwork);
  expect(models.enter("b", names).kept).toEqual(names);
  expect(models.enter(null, names).kept).toEqual(names);
  models.leave("a", names, NOW);
  expect(models.enter("a", names).kept).toHaveLength(100);
});
