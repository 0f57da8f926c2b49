import { expect, test } from "vitest";
import { KnownModels } from "../../../src/coordinator/dispatch/known-models.ts";
import { LIMITS } from "../../../src/protocol/limits.ts";
import { TIMING } from "../../../src/protocol/times.ts";
import { Desk, words } from "./desk.ts";

const NOW = 1_000_000;

test("[JB10] a model is known while a worker offers it, and for five minutes after its last worker has left", () => {
  const models = new KnownModels();
  models.change("a", [], ["ant", "bee"], NOW);
  models.change("b", [], ["ant"], NOW);
  expect(models.isKnown("cat", NOW)).toBe(false);
  expect(models.change("a", ["ant", "bee"], [], NOW).gone).toEqual(["bee"]);
  expect(models.isKnown("ant", NOW + 10 * TIMING.modelRemembered)).toBe(true);
  expect(models.change("b", ["ant"], [], NOW).gone).toEqual(["ant"]);
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
  models.change("a", [], ["bee"], NOW);
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

test("[JB10] of one network only the last hundred are remembered, so that it has no other one's names forgotten", () => {
  const models = new KnownModels();
  models.change("a", [], ["ant"], NOW);
  models.change("a", ["ant"], [], NOW);
  for (let n = 0; n < 3 * LIMITS.modelsRemembered; n++) {
    models.change("b", [], [`m${n}`], NOW);
    models.change("b", [`m${n}`], [], NOW);
  }
  const newest = 3 * LIMITS.modelsRemembered - 1;
  const known = ["ant", `m${newest}`, `m${newest - LIMITS.modelsRememberedPerNetwork + 1}`, `m${newest - LIMITS.modelsRememberedPerNetwork}`];
  expect(known.map((name) => models.isKnown(name, NOW))).toEqual([true, true, true, false]);
});

test("[JB10] what was on offer when the hub lost its memory, and is again, is not new", () => {
  const models = new KnownModels();
  models.restore([
    { name: "", leftAt: 0 },
    { name: "ant", leftAt: null },
    { name: "bee", leftAt: NOW - 1 },
  ]);
  expect(models.change("a", [], ["ant", "bee", "cat"], NOW).fresh).toEqual(["bee", "cat"]);
  expect(models.socketsRestored(NOW)).toEqual([]);
  models.change("a", ["ant", "bee", "cat"], [], NOW);
  expect(models.change("a", [], ["ant"], NOW).fresh).toEqual(["ant"]);
});

test("[JB10] one network has places for a thousand names, however many keys it uses; the others have theirs", () => {
  const models = new KnownModels();
  const names = Array.from({ length: 100 }, (_, n) => `m${n}`);
  const kept = Array.from({ length: 20 }, () => models.change("a", [], names, NOW).kept.length);
  expect(kept.reduce((sum, count) => sum + count, 0)).toBe(LIMITS.modelPlacesPerNetwork);
  expect(models.change("b", [], names, NOW).kept).toEqual(names);
  expect(models.change(null, [], names, NOW).kept).toEqual(names);
  models.change("a", names, [], NOW);
  expect(models.change("a", [], names, NOW).kept).toHaveLength(100);
});

test("[JB10] a change says only what is new and what is gone, and of too many names the first ones are kept", () => {
  const models = new KnownModels();
  const names = Array.from({ length: LIMITS.modelPlacesPerNetwork }, (_, n) => `m${n}`);
  expect(models.change("a", [], names, NOW).fresh).toEqual(names);
  expect(models.change("a", names, names, NOW)).toEqual({ kept: names, fresh: [], gone: [] });
  const more = ["new", ...names];
  expect(models.change("a", names, more, NOW)).toEqual({ kept: more.slice(0, -1), fresh: ["new"], gone: names.slice(-1) });
  expect(models.change("b", [], ["new"], NOW).fresh).toEqual([]);
  expect(models.change("a", more.slice(0, -1), [], NOW).gone).toEqual(names.slice(0, -1));
});

/** Workers of one network that have all its places, 25 for each. */
function fullNetwork(): Desk {
  const desk = new Desk();
  for (let n = 0; n < LIMITS.modelPlacesPerNetwork / 25; n++) desk.register(`w${n}`, { network: "full", models: MODELS });
  return desk;
}

const MODELS = Array.from({ length: 25 }, (_, n) => `m${n}`);

test("[JB10] a worker that found no places gets those that another one of its network gives back, and with them the job that waits", () => {
  const desk = fullNetwork();
  desk.register("late", { network: "full", models: MODELS });
  expect(desk.state.workers.get("late")?.models).toEqual([]);
  for (let n = 0; n < LIMITS.modelPlacesPerNetwork / 25; n++) desk.submit(`busy${n}`, { jobType: "LLM_INFER", model: "m0" });
  expect(words(desk.submit("j", { jobType: "LLM_INFER", model: "m3" }))).toBe("");
  expect(words(desk.tell({ type: "disconnect", connId: "w7#1" }))).toContain("assign j 1 to late#1");
  expect([desk.state.workers.get("late")?.models, desk.state.unplaced.size]).toEqual([MODELS, 0]);
});

test("[JB10] it also gets those that an update gives back; what it announced before it left or changed is forgotten", () => {
  const desk = fullNetwork();
  for (const key of ["changes", "leaves", "waits"]) desk.register(key, { network: "full", models: [key] });
  const update = (key: string, models: string[]) => desk.tell({ type: "update", connId: `${key}#1`, capabilities: new Set(["LLM_INFER"]), acks: true, models });
  update("changes", []);
  desk.tell({ type: "disconnect", connId: "leaves#1" });
  expect([...desk.state.unplaced].map(({ key }) => key)).toEqual(["waits"]);
  update("w3", ["m0", "m1"]);
  expect([desk.state.workers.get("waits")?.models, desk.state.workers.get("changes")?.models, desk.state.unplaced.size]).toEqual([["waits"], [], 0]);
});

test("[JB10] places are offered to twenty workers at once, and to the others when more are given back or with the next sweep", () => {
  const desk = fullNetwork();
  const late = Array.from({ length: 25 }, (_, n) => `late${n}`);
  for (const key of late) desk.register(key, { network: "full", models: [key] });
  const placed = () => late.filter((key) => desk.state.workers.get(key)?.models.length === 1).length;
  desk.tell({ type: "disconnect", connId: "w0#1" });
  expect(placed()).toBe(20);
  desk.pass(TIMING.sweep);
  expect(placed()).toBe(25);
});
