// The two commands that run one coordinator without a worker until Ctrl-C: `npm run dev` for work on the code, `npm run serve` for real use.
import { isIP } from "node:net";
import { relative } from "node:path";
import { parseArgs } from "node:util";
import { SETTING_NAMES } from "../src/coordinator/config.ts";
import { printable } from "../src/protocol/text.ts";
import { readMetricsAddress } from "../src/worker/node/metrics-page.ts";
import { stopSignal } from "./child.ts";
import { DEFAULT_PORT, INSTANCES, isInstance, ROOT, startCoordinator, StartFailure } from "./coordinator-process.ts";
import { mistypedSettings, unknownSetting } from "./ignored-settings.ts";
import { dated } from "./log-time.ts";
import { wrongVariables } from "./wrong-variables.ts";

type Mode = "dev" | "serve";

const OPTIONS = "[--port N] [--state DIR] [--var NAME=VALUE ...]";
const USAGE: Record<Mode, string> = {
  dev: `npm run dev -- ${INSTANCES.join("|")} ${OPTIONS}`,
  serve: `npm run serve -- ${INSTANCES.join("|")} [--host ADDRESS] [--metrics [HOST:]PORT] [--no-front] ${OPTIONS}`,
};

/** The exit code for what only a person can correct: a supervisor need not try again. */
const WRONG_INPUT = 2;

type Parsed = { ok: true; options: Parameters<typeof startCoordinator>[0] } | { ok: false; problem: string };

function parse(args: string[], mode: Mode): Parsed {
  let parsed;
  try {
    parsed = parseArgs({
      args,
      allowPositionals: true,
      options: {
        ...(mode === "serve" && { host: { type: "string" } as const, metrics: { type: "string" } as const, "no-front": { type: "boolean" } as const }),
        port: { type: "string" },
        state: { type: "string" },
        var: { type: "string", multiple: true },
        help: { type: "boolean", short: "h" },
      },
    });
  } catch (error) {
    return { ok: false, problem: error instanceof Error ? error.message : String(error) };
  }
  const { values, positionals } = parsed;
  if (values.help) return { ok: false, problem: "" };
  const [instance, ...others] = positionals;
  if (!isInstance(instance)) return { ok: false, problem: instance === undefined ? "which instance?" : `unknown instance ${instance}` };
  if (others.length > 0) return { ok: false, problem: `unknown argument ${others[0]}` };
  const port = values.port === undefined ? DEFAULT_PORT[instance] : Number(values.port);
  if (!Number.isInteger(port) || port < 1 || port > 65_535) return { ok: false, problem: `--port must be 1 to 65535, not ${values.port}` };
  const host = typeof values.host === "string" ? values.host : undefined;
  // A URL has no zone.
  if (host !== undefined && (isIP(host) === 0 || host.includes("%")))
    return { ok: false, problem: `--host must be an IP address, such as 0.0.0.0, not ${host}` };
  const metrics = typeof values.metrics === "string" ? readMetricsAddress(values.metrics) : undefined;
  if (metrics === null) return { ok: false, problem: `--metrics must be PORT or HOST:PORT, not ${values.metrics}` };
  if (metrics?.port === port) return { ok: false, problem: `--metrics must be another port than that of the coordinator, ${port}` };
  // An empty variable of a shell would make the clone itself the folder.
  if (values.state === "") return { ok: false, problem: "--state must be a folder" };
  const settings: Record<string, string> = mode === "serve" ? environmentSettings() : {};
  for (const text of values.var ?? []) {
    const [, name, value] = /^([A-Z][A-Z0-9_]*)=(.*)$/s.exec(text) ?? [];
    if (name === undefined || value === undefined) return { ok: false, problem: `--var must be NAME=VALUE, not ${text.split("=")[0]}` };
    if (name === "INSTANCE") return { ok: false, problem: "--var INSTANCE: the instance is the first argument" };
    settings[name] = value;
  }
  return {
    ok: true,
    options: {
      ...{ instance, port, settings },
      ...(host !== undefined && { host }),
      ...(values.state !== undefined && { stateDir: values.state }),
      ...(values["no-front"] === true && { guardsFrames: false }),
      ...(metrics !== undefined && { metrics }),
    },
  };
}

/** The settings among the environment variables, as a service manager or a container sets them. The instance is the first argument. */
function environmentSettings(): Record<string, string> {
  const names = SETTING_NAMES.filter((name) => name !== "INSTANCE");
  return Object.fromEntries(names.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])));
}

/** The coordinator's warning about a placeholder, with advice for this command. */
function unpayable(instance: string): string {
  const setting = `${instance.toUpperCase()}_PAY_TO`;
  return `jobs must be paid, but ${setting} is a placeholder: nobody can pay. For jobs without payment: --var TESTNET_MODE=true; to be paid: --var ${setting}=ADDRESS`;
}

/** Prints for a person, or into the log of a service: only there each line has its time, because a supervisor may keep the lines in a plain file. */
function say(text: string, mode: Mode): void {
  const lines = printable(text).split("\n");
  console.error(mode === "serve" ? lines.map((line) => dated(line)).join("\n") : lines.join("\n"));
}

async function run(args: string[], mode: Mode): Promise<number> {
  const parsed = parse(args, mode);
  if (!parsed.ok) {
    console.error(parsed.problem === "" ? USAGE[mode] : `${parsed.problem}\n${USAGE[mode]}`);
    return parsed.problem === "" ? 0 : WRONG_INPUT;
  }
  for (const warning of mode === "serve" ? mistypedSettings() : []) say(warning, mode);
  for (const name of Object.keys(parsed.options.settings ?? {})) {
    const warning = unknownSetting(`--var ${name}`, name);
    if (warning !== null) say(warning, mode);
  }
  const { instance, settings = {} } = parsed.options;
  const wrong = wrongVariables({ instance, settings });
  if (wrong !== null) {
    say(`${instance} did not start: ${wrong}`, mode);
    return WRONG_INPUT;
  }
  const stopped = stopSignal();
  const starting = startCoordinator({
    ...parsed.options,
    onLine: (line) => say(line.includes('"event":"placeholder_pay_to"') ? unpayable(instance) : line, mode),
    ...(mode === "dev" ? { watches: true, guardsFrames: true } : { serves: true }),
    onStarting: () => say(`starting ${instance}`, mode),
  });
  const coordinator = await Promise.race([starting, stopped.then(() => null)]);
  if (coordinator === null) {
    await starting.then(
      (late) => late.stop(),
      () => {},
    );
    return 0;
  }
  const folder = relative(ROOT, coordinator.stateDir);
  console.log(`ready ${coordinator.instance} ${coordinator.url} ${coordinator.socketUrl} state ${folder.startsWith("..") ? coordinator.stateDir : folder}`);
  const failure = await Promise.race([coordinator.failed, stopped.then(() => null)]);
  await coordinator.stop();
  if (failure === null) return 0;
  say(failure, mode);
  return 1;
}

/**
 * Runs the command and resolves to its exit code: 0 after Ctrl-C or SIGTERM, 1 if the coordinator did not start or ended by itself, 2 if an argument or a
 * setting is wrong.
 */
export async function runCommand(args: string[], mode: Mode): Promise<number> {
  try {
    return await run(args, mode);
  } catch (error) {
    if (!(error instanceof StartFailure)) throw error;
    say(error.message, mode);
    return 1;
  }
}
