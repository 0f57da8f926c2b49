import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { payWithEvm } from "../../../src/sdk/pay/evm.ts";
import { payWithSvm } from "../../../src/sdk/pay/svm.ts";
import { spendControlsFor } from "../../../src/sdk/pay/x402.ts";
import { ComputeRouter, openaiCompatible } from "../../../src/sdk/index.ts";

const TEXT = readFileSync("docs/sdk.md", "utf8");
const router = new ComputeRouter();
const JOB = { job_type: "TASK", task_type: "classify", input: "x" } as const;
const ID = "00000000-0000-4000-8000-000000000000";
const NOPE = { nope: 1 } as never;

/** Each call with an option that does not exist: what it answers lists those that do, and the compiler holds that list to the type. */
const CALLS: Record<string, () => unknown> = {
  ComputeRouter: () => new ComputeRouter(NOPE),
  run: () => router.run(JOB, NOPE),
  llm: () => router.llm("x", NOPE),
  chat: () => router.chat("x", NOPE),
  jobs: () => router.jobs(NOPE),
  models: () => router.models(NOPE),
  cancel: () => router.cancel(ID, NOPE),
  map: () => router.map([JOB], NOPE),
  stream: () => router.stream(JOB, NOPE),
  submit: () => router.submit(JOB, NOPE),
  waitFor: () => router.waitFor(ID, NOPE),
  get: () => router.get(ID, NOPE),
  quote: () => router.quote("TASK", "AUTO", NOPE),
  health: () => router.health(NOPE),
  "trust.create": () => router.trust.create(NOPE),
  "trust.claim": () => router.trust.claim({ pairing_code: "A1B2C3", provider_pubkey: "0" }, NOPE),
  "trust.list": () => router.trust.list(NOPE),
  "trust.waitForWorker": () => router.trust.waitForWorker({ expires_at: "", expiresAt: new Date() }, NOPE),
  payWithEvm: () => payWithEvm(NOPE, NOPE),
  payWithSvm: () => payWithSvm(NOPE, NOPE),
  spendControlsFor: () => spendControlsFor("evm", NOPE),
  openaiCompatible: () => openaiCompatible(NOPE),
};

/** The options that a call says it knows. */
async function optionsOf(call: () => unknown): Promise<string[]> {
  const message = await Promise.resolve()
    .then(call)
    .then(String, (error: Error) => error.message);
  const [, names] = /^nope is not one of the options of \S+ \((.+)\)$/.exec(message) ?? [];
  return names?.split(", ") ?? expect.unreachable(`no list of options: ${message}`);
}

/** Every row of the option tables: the option, and the calls that take it. The table of the client has no column for these. */
function documented(): { option: string; calls: string[] }[] {
  return [...TEXT.matchAll(/^\| Option \| (.*)\n\| ---.*\n((?:\|.*\n)+)/gm)].flatMap(([, header = "", rows = ""]) =>
    rows
      .trim()
      .split("\n")
      .map((row) => {
        const cells = row.split(" | ");
        const names = (cell = ""): string[] => [...cell.matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name);
        const [option = ""] = names(cells[0]);
        const client = Object.keys(CALLS).filter((call) => /^[a-z]/.test(call) && !/^pay|^spend|^openai/.test(call));
        return { option, calls: !header.startsWith("Calls") ? ["ComputeRouter"] : cells[1] === "every call" ? client : names(cells[1]) };
      }),
  );
}

describe("docs/sdk.md", () => {
  test.each(Object.entries(CALLS))("lists every option of %s, and none that it does not know", async (call, ask) => {
    const listed = documented().filter(({ calls }) => calls.includes(call));
    expect(listed.map(({ option }) => option).toSorted()).toEqual((await optionsOf(ask)).toSorted());
  });

  test("speaks of no call that is not checked here", () => {
    for (const { calls } of documented()) expect(Object.keys(CALLS)).toEqual(expect.arrayContaining(calls));
  });

  test("names every method of the client and every error of the package", async () => {
    const methods = [ComputeRouter.prototype, Object.getPrototypeOf(router.trust)].flatMap((type) => Object.getOwnPropertyNames(type));
    for (const method of methods) if (method !== "constructor") expect(TEXT).toContain(`${method}(`);
    const errors = Object.keys(await import("../../../src/sdk/index.ts")).filter((name) => name.endsWith("Error"));
    for (const error of errors) expect(TEXT).toContain(`\`${error}\``);
  });
});
