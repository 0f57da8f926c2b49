// The systems that npm run bench compares: what each one needs, and how it is started on an empty state.
import { spawnSync } from "node:child_process";
import { chownSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { freePort, ROOT } from "../../scripts/coordinator-process.ts";
import { ALONE, SYNCED } from "./figures.ts";
import { has, type Server, startServer } from "./processes.ts";

/** A system that is up. `pids` are all of its servers. */
export type Running = { port: number; natsPort: number | null; pids: readonly number[]; stop(): Promise<void> };

/** How to start a system, with its state in `folder` and all of its servers on `core`. */
export type System = {
  name: string;
  label: string;
  waits: boolean;
  missing: () => string | null;
  start(folder: string, core: number | null): Promise<Running>;
};

const PEERS = join(import.meta.dirname, "peers");
const NODE = [process.execPath, "--no-warnings"];
const MANY = "1000000000";

/** Everything that a real instance checks is on; only the counts per client are too high to be reached. */
const SETTINGS = {
  ...{ TESTNET_MODE: "true", WORKER_AUTH: "required", RECEIPT_POLICY: "strict", RATE_LIMITS: "on", TRUSTED_IP_HEADER: "x-client-ip" },
  ...{ COMMITS_PER_MINUTE: MANY, POLLS_PER_TEN_SECONDS: MANY, MESSAGES_PER_SECOND: MANY, MESSAGE_BURST: MANY },
  ...{ BYTES_PER_SECOND: MANY, BYTE_BURST: MANY, CLIENT_STORED_BYTES: MANY, PAYER_STORED_BYTES: MANY },
};

async function startServe(folder: string, core: number | null, args: readonly string[]): Promise<Running> {
  const port = await freePort();
  const command = [...NODE, join(ROOT, "scripts", "serve.ts"), "evm", "--port", String(port), "--state", folder, ...args];
  return together(port, null, [await startServer(command, SETTINGS, /^ready evm /, core, ROOT)]);
}

/** The coordinator that counts what its hub does, for the curves; `settings` override those of every system. */
export function startCounted(folder: string, core: number | null, settings: Record<string, string>): Promise<Running> {
  return startInWorkerd("counted", folder, core, { ...SETTINGS, ...settings });
}

/**
 * A program of workerd/, with the settings of a coordinator.
 * @public The payment lab, which is a package of its own, starts one too.
 */
export async function startInWorkerd(name: string, folder: string, core: number | null, settings: Record<string, string>): Promise<Running> {
  const port = await freePort();
  const command = [...NODE, "--import", join(ROOT, "scripts", "orphan.mjs"), join(import.meta.dirname, "workerd-server.ts"), name, String(port), folder];
  return together(port, null, [await startServer(command, settings, /^ready$/, core, ROOT)]);
}

const startOurs: System["start"] = (folder, core) => startServe(folder, core, []);
const startAlone: System["start"] = (folder, core) => startServe(folder, core, ["--no-front"]);

/** The same coordinator: its seekers poll, or their commits wait, with the front of `npm run serve` and without. */
const OURS: System[] = [
  { name: "ours", label: "this coordinator, commit + GET", waits: false, missing: () => null, start: startOurs },
  { name: "ours-wait", label: "this coordinator, Prefer: wait", waits: true, missing: () => null, start: startOurs },
  { name: ALONE, label: "this coordinator without its front, commit + GET", waits: false, missing: () => null, start: startAlone },
  { name: `${ALONE}-wait`, label: "this coordinator without its front, Prefer: wait", waits: true, missing: () => null, start: startAlone },
];

/** The platform alone. */
export const startBare: System["start"] = (folder, core) => startInWorkerd("bare", folder, core, {});

/** What the platform takes for the same requests, RPCs, frames and statements, without the coordinator's own work. */
const BARE: System[] = [
  { name: "bare", label: "bare workerd with the same events, commit + GET", waits: false, missing: () => null, start: startBare },
  { name: "bare-wait", label: "bare workerd with the same events, Prefer: wait", waits: true, missing: () => null, start: startBare },
];

const installed = (): string | null => (readdirSync(PEERS).includes("node_modules") ? null : "the packages of test/bench/peers");
const needs = (program: string) => (): string | null => installed() ?? (has(program) ? null : program);

/** A peer whose state is in a server of its own; `start` starts that server on a port. `program` is its file in peers/, if it is not the name. */
function onServer(
  { program, ...system }: Pick<System, "name" | "label" | "missing"> & { program?: string },
  start: (folder: string, core: number | null, port: number) => Promise<{ server: Server; settings: Record<string, string>; natsPort?: number }>,
): System {
  return {
    ...system,
    waits: false,
    async start(folder, core) {
      const [port, serverPort] = [await freePort(), await freePort()];
      const { server, settings, natsPort = null } = await start(folder, core, serverPort);
      return together(port, natsPort, [await peer(program ?? system.name, port, settings, core), server]);
    },
  };
}

/** BullMQ, whose Redis syncs what it appends to its file as often as `appendfsync` says. */
function bullmq(name: string, label: string, appendfsync: "everysec" | "always"): System {
  return onServer({ name, label, program: "bullmq", missing: needs("redis-server") }, async (folder, core, port) => {
    const options = { port, bind: "127.0.0.1", dir: folder, appendonly: "yes", appendfsync, save: "", "maxmemory-policy": "noeviction" };
    const flags = Object.entries(options).flatMap(([option, value]) => [`--${option}`, String(value)]);
    return { server: await startServer(["redis-server", ...flags], {}, /Ready to accept connections/, core), settings: { REDIS_PORT: String(port) } };
  });
}

/** The peer of the targets, and the same as durable as ours: each write is on the disk before it is answered. */
const BULLMQ: System[] = [
  bullmq("bullmq", "Hono + ws + BullMQ on Redis, AOF everysec", "everysec"),
  bullmq(SYNCED, "Hono + ws + BullMQ on Redis, AOF always", "always"),
];

const NATS = onServer({ name: "nats", label: "NATS JetStream, workers on NATS", missing: needs("nats-server") }, async (folder, core, port) => {
  const command = ["nats-server", "-a", "127.0.0.1", "-p", String(port), "-js", "-sd", folder];
  return { server: await startServer(command, {}, /Server is ready/, core), settings: { NATS_PORT: String(port) }, natsPort: port };
});

/** Debian keeps the programs of PostgreSQL out of the PATH. */
function postgresFolder(): string | null {
  if (has("postgres")) return "";
  const base = "/usr/lib/postgresql";
  try {
    const [version] = readdirSync(base).toSorted((a, b) => Number(b) - Number(a));
    return version === undefined ? null : join(base, version, "bin/");
  } catch {
    return null;
  }
}

const POSTGRES = onServer(
  {
    name: "graphile",
    label: "Hono + ws + graphile-worker on PostgreSQL",
    missing: () => installed() ?? (postgresFolder() === null ? "postgresql" : null),
  },
  async (folder, core, port) => {
    const [bin, data] = [postgresFolder() ?? "", join(folder, "data")];
    // It refuses to run as root.
    const as = process.getuid?.() === 0 ? ["runuser", "-u", "postgres", "--"] : [];
    if (as.length > 0) chownSync(folder, ...idsOf("postgres"));
    const [program, ...args] = [...as, `${bin}initdb`, "-D", data, "-U", "bench", "-A", "trust", "--no-sync"];
    const made = spawnSync(program, args, { encoding: "utf8", cwd: folder });
    if (made.status !== 0) throw new Error(`initdb: ${made.stderr}`);
    const options = ["-p", String(port), "-k", folder, "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=50"];
    const server = await startServer([...as, `${bin}postgres`, "-D", data, ...options], {}, /ready to accept connections/, core, folder);
    return { server, settings: { POSTGRES: `postgres://bench@127.0.0.1:${port}/postgres` } };
  },
);

const PLAIN: System = {
  name: "plain",
  label: "plain node:http + ws + node:sqlite, group commit",
  waits: false,
  missing: installed,
  async start(folder, core) {
    const port = await freePort();
    return together(port, null, [await peer("plain", port, { STATE: folder }, core)]);
  },
};

/** All systems, ours first. */
export const SYSTEMS: readonly System[] = [...OURS, ...BARE, ...BULLMQ, NATS, POSTGRES, PLAIN];

function peer(name: string, port: number, env: Record<string, string>, core: number | null): Promise<Server> {
  return startServer([...NODE, join(PEERS, `${name}.ts`)], { PORT: String(port), ...env }, /^ready$/, core);
}

function together(port: number, natsPort: number | null, servers: readonly Server[]): Running {
  return {
    ...{ port, natsPort, pids: servers.map(({ pid }) => pid) },
    async stop() {
      // The last is the store of the others.
      for (const server of servers) await server.stop();
    },
  };
}

function idsOf(user: string): [number, number] {
  const [, , uid, gid] =
    readFileSync("/etc/passwd", "utf8")
      .split("\n")
      .find((line) => line.startsWith(`${user}:`))
      ?.split(":") ?? [];
  return [Number(uid), Number(gid)];
}

/** The programs of Debian that a run uses, each with its package. */
const PROGRAMS: Readonly<Record<string, string>> = { "redis-server": "redis-server", "nats-server": "nats-server", perf: "linux-perf" };

/**
 * Installs what is missing: the packages of the peers, and where it may, their servers and perf. What cannot be installed is
 * skipped later, by name.
 */
export function install(say: (line: string) => void): void {
  if (!readdirSync(PEERS).includes("node_modules")) {
    say("installing the packages of the peers");
    // Not "npm ci": it refuses a lockfile without the optional packages of every other platform, which a registry need not have.
    spawnSync("npm", ["install", "--no-save", "--prefix", PEERS], { stdio: ["ignore", "ignore", "inherit"] });
  }
  const packages = Object.entries(PROGRAMS).flatMap(([program, name]) => (has(program) ? [] : [name]));
  if (postgresFolder() === null) packages.push("postgresql");
  if (packages.length === 0 || process.getuid?.() !== 0 || !has("apt-get")) return;
  say(`installing ${packages.join(", ")}`);
  for (const name of packages) {
    spawnSync("apt-get", ["install", "-y", "-qq", "--no-install-recommends", name], {
      stdio: "ignore",
      env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
    });
  }
}
