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
  models.remember("ant", NOW + 3_600_000);
  expect(models.isKnown("ant", NOW)).toBe(true);
});

test("[JB10] for a minute after a restart without sockets every model is known", () => {
  const models = new KnownModels();
  models.startedEmpty(NOW);
  expect(models.isKnown("cat", NOW + TIMING.modelsReturn - 1)).toBe(true);
  expect(models.isKnown("cat", NOW + TIMING.modelsReturn)).toBe(false);
});

test("[JB10] of the models that have left only the last 1,000 are remembered", () => {
  const models = new KnownModels();
  for (let n = 0; n <= LIMITS.modelsRemembered; n++) models.remember(`m${n}`, NOW + n);
  expect(models.isKnown("m0", NOW)).toBe(false);
  expect(models.isKnown("m1", NOW)).toBe(true);
});

test("[JB10] one network has places for a thousand names, however many keys it uses; the others have theirs", () => {
  const models = new KnownModels();
  const names = Array.from({ length: 100 }, (_, n) => `m${n}`);
  const kept = Array.from({ length: 20 }, () => models.enter("a", names).length);
  expect(kept.reduce((sum, count) => sum + count, 0)).toBe(LIMITS.modelPlacesPerNetwork);
  expect(models.enter("b", names)).toEqual(names);
  expect(models.enter(null, names)).toEqual(names);
  models.leave("a", names, NOW);
  expect(models.enter("a", names)).toHaveLength(100);
});
