import { setTimeout as delay } from "node:timers/promises";
import type { Coordinator } from "../../scripts/coordinator-process.ts";
import { runtimesOf } from "./process-tree.ts";
import { get } from "./rest.ts";
import { until } from "./until.ts";

/** Kills the runtime that runs our code; wrangler starts another one on the same state. Resolves when that answers. */
export async function killRuntime(coordinator: Pick<Coordinator, "pid" | "url">): Promise<void> {
  const ours = runtimesOf(coordinator.pid).filter(({ command }) => !command.includes(`entry=127.0.0.1:${new URL(coordinator.url).port} `));
  const [runtime] = ours;
  if (runtime === undefined || ours.length > 1) throw new Error(`${ours.length} runtimes`);
  process.kill(runtime.pid, "SIGKILL");
  await delay(100);
  await until("healthy coordinator", async () => ((await get(`${coordinator.url}/v1/health`).catch(() => null))?.status === 200 ? true : undefined));
}
