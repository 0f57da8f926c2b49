// A coordinator like that of `npm run dev`, in a runtime that this process starts by itself.
import { stripVTControlCharacters } from "node:util";
import { Miniflare } from "miniflare";
import { type Coordinator, type CoordinatorOptions, CRON_MS, urlOf } from "../../scripts/coordinator-process.ts";
import { configuration, v8Flags } from "../../scripts/workerd-config.ts";
import { bundleOfRun } from "./bundle.ts";
import { get } from "./rest.ts";
import { until } from "./until.ts";

const HOST = "127.0.0.1";

/** What a test can do with it. It ends by SIGKILL, also when it is stopped, and with this process. */
export type CoordinatorHere = Omit<Coordinator, "pid" | "failed">;

type Options = Required<Pick<CoordinatorOptions, "instance" | "port" | "stateDir" | "settings">> & Pick<CoordinatorOptions, "onLine" | "cronMs">;

/**
 * Starts a coordinator with the bundle and the pages of this run and resolves when it answers. `startBundled` starts the same one in a child process, as
 * `npm run dev` does. A test that looks at the process needs that. It costs twice as much CPU, because the child loads Miniflare once more.
 */
export async function startHere({ instance, port, stateDir, settings, onLine, cronMs = CRON_MS }: Options): Promise<CoordinatorHere> {
  process.env["MINIFLARE_WORKERD_V8_FLAGS"] ??= v8Flags();
  const said: string[] = [];
  const say = (text: string): void => {
    const lines = stripVTControlCharacters(text).split("\n");
    said.push(...lines);
    for (const line of lines) onLine?.(line);
  };
  const options = {
    instance,
    host: HOST,
    port,
    stateDir,
    settings,
    cronMs,
    watches: false,
    serves: false,
    guardsFrames: false,
    bundle: bundleOfRun(),
    metrics: null,
  };
  const miniflare = new Miniflare(await configuration(options, { host: HOST, port }, say));
  await miniflare.ready;
  const fire = async (): Promise<void> => {
    const worker = await miniflare.getWorker();
    await worker.scheduled();
  };
  const cron = setInterval(() => void fire().catch((error: unknown) => say(`the cron did not run: ${String(error)}`)), cronMs);
  const url = urlOf(HOST, port);
  const stop = async (): Promise<void> => {
    clearInterval(cron);
    await miniflare.dispose();
  };
  const isWell = async (): Promise<true | undefined> => ((await get(`${url}/v1/health`)).status === 200 ? true : undefined);
  try {
    await until("healthy coordinator", isWell, () => said.join("\n"));
  } catch (error) {
    await stop();
    throw error;
  }
  return { instance, url, socketUrl: `${url.replace("http", "ws")}/`, stateDir, stop, kill: stop };
}
