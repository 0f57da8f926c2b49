import { hostname } from "node:os";
import type { CoordinatorPlace } from "../worker/node/desktop-worker.ts";
import { untrusted } from "../worker/node/printable.ts";
import { llmFinder, type LlmWish } from "../worker/node/llm-finder.ts";
import { checkLines } from "./check.ts";
import { checkCoordinator } from "./coordinator-check.ts";
import { print } from "./print.ts";
import type { Prompt } from "./prompt.ts";
import { coordinatorUrls } from "./url-option.ts";
import type { WorkerPlan } from "./worker-plan.ts";

/** What the dialogue of `worker init` leads to. */
export type Setup = { coordinators: readonly CoordinatorPlace[]; name: string; wish: LlmWish | null; code: string };

const WIDTH = 14;

/** The first run's questions. What was said as an option, or is configured already, is the answer to an empty line. */
export async function askSetup(plan: WorkerPlan, saidCode: string, prompt: Prompt, color: boolean): Promise<Setup> {
  print("Empty lines take what is in brackets; Ctrl-C leaves everything as it is.\n");
  const coordinators = await askCoordinators(plan, prompt, color);
  const name = await prompt.ask("Name to show for this worker", plan.name ?? hostname());
  const wish = await askLlm(plan.wish, prompt);
  const code = await prompt.ask("Pairing code of a user whose PRIVATE jobs it may run (none: empty)", saidCode);
  return { coordinators, name, wish, code };
}

async function askCoordinators(plan: WorkerPlan, prompt: Prompt, color: boolean): Promise<readonly CoordinatorPlace[]> {
  const usual = plan.coordinators.map(({ url }) => url).join(" ");
  for (;;) {
    const answer = await prompt.ask("Coordinator, or several with spaces between", usual);
    const places = readPlaces(answer, plan.coordinators);
    if (typeof places === "string") {
      print(`  ${untrusted(places)}`);
      continue;
    }
    const checks = (await Promise.all(places.map((place) => checkCoordinator(place)))).flat();
    for (const check of checks) print(`  ${checkLines(check, { color, width: WIDTH }).replaceAll("\n", "\n  ")}`);
    if (checks.every(({ state }) => state !== "fail") || (await prompt.confirm("Take it all the same? The worker tries until it gets through", true)))
      return places;
  }
}

function readPlaces(text: string, known: readonly CoordinatorPlace[]): CoordinatorPlace[] | string {
  try {
    const urls = text
      .split(/[\s,]+/)
      .filter((word) => word !== "")
      .map((word) => coordinatorUrls(word).socket);
    return [...new Set(urls)].map((url) => known.find((place) => place.url === url) ?? { url });
  } catch (error) {
    return error instanceof Error ? error.message : "that is no URL";
  }
}

async function askLlm(said: LlmWish | null, prompt: Prompt): Promise<LlmWish | null> {
  if (said === null || said.kind === "embedded") {
    const what = said === null ? "No LLM jobs, tasks only: keep it so?" : "The embedded LLM (llama.cpp in a child process): keep it?";
    if (await prompt.confirm(what, true)) return said;
  }
  const wish: LlmWish = said?.kind === "found" ? said : { kind: "found" };
  print("  looking for an LLM …");
  const found = await llmFinder(wish, () => {})(AbortSignal.timeout(30_000));
  if (found.ok) {
    const { name, model, models } = found.runtime;
    await found.runtime.close();
    print(`  found ${untrusted(name)} with ${untrusted(models.slice(0, 6).join(", "))}${models.length > 6 ? ` and ${models.length - 6} more` : ""}`);
    if (!(await prompt.confirm("Use it for LLM jobs?", true))) return null;
    const chosen = models.length > 1 ? await askModel(models, model, prompt) : model;
    // The usual one is not written down: another may be the first tomorrow.
    return chosen === model && wish.model === undefined ? wish : { ...wish, model: chosen };
  }
  print(`  found none; to get one, ${untrusted(found.hint)}`);
  const choice = await prompt.ask("LLM: `find` one whenever it is there, `embedded` (a very small model, to try it out), or `none`", "find");
  if (/^e/i.test(choice)) return { kind: "embedded" };
  return /^n/i.test(choice) ? null : wish;
}

async function askModel(models: readonly string[], usual: string, prompt: Prompt): Promise<string> {
  for (;;) {
    const chosen = await prompt.ask("Model", usual);
    if (models.includes(chosen)) return chosen;
    print("  there is no such model; one of those above, please");
  }
}
