// Starts anvil, the local EVM chain of the payment lab.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const READY_TIMEOUT_MS = 20_000;
const STOP_TIMEOUT_MS = 3_000;
const KEPT_LINES = 30;

/** How Foundry's npm packages spell what Node calls x64. */
const ARCHITECTURE: Partial<Record<NodeJS.Architecture, string>> = { x64: "amd64", arm64: "arm64" };

/** A running anvil. */
export type Anvil = {
  readonly url: string;
  stop(): Promise<void>;
};

/** What anvil runs with. */
export type AnvilOptions = {
  /** 0 takes a free one. */
  port: number;
  chainId: number;
  /** Seconds between blocks; null mines each transaction at once. */
  blockTime: number | null;
};

/** Starts anvil on the loopback interface; resolves when it listens. @throws with its last words when it does not start */
export async function startAnvil({ port, chainId, blockTime }: AnvilOptions): Promise<Anvil> {
  const args = ["--host", "127.0.0.1", "--port", String(port), "--chain-id", String(chainId), "--accounts", "1", "--no-cors", "--threads", "1"];
  // Then a block is finalized two blocks later, not 64.
  args.push("--slots-in-an-epoch", "1");
  if (blockTime !== null) args.push("--block-time", String(blockTime));
  const child = spawn(anvilBinary(), args, { stdio: ["ignore", "pipe", "pipe"] });
  // It must not outlive this process, however that ends; a SIGKILL is what remains uncovered.
  const onExit = (): void => void child.kill("SIGKILL");
  process.once("exit", onExit);
  const ended = new Promise<void>((resolve) => {
    child.once("error", () => resolve());
    child.once("close", () => resolve());
  });
  void ended.then(() => process.off("exit", onExit));

  const lines: string[] = [];
  const url = await new Promise<string>((resolve, reject) => {
    const fail = (why: string): void => reject(new Error(`anvil ${why}\n${lines.join("\n")}`));
    const timer = setTimeout(() => {
      child.kill("SIGKILL");
      fail("did not start in time");
    }, READY_TIMEOUT_MS);
    const read = (line: string): void => {
      lines.push(line);
      if (lines.length > KEPT_LINES) lines.shift();
      const [, address] = /^Listening on (\S+:\d+)/.exec(line) ?? [];
      if (address === undefined) return;
      clearTimeout(timer);
      resolve(`http://${address}`);
    };
    createInterface({ input: child.stdout }).on("line", read);
    createInterface({ input: child.stderr }).on("line", read);
    child.once("error", (error) => fail(`cannot be run: ${error.message}`));
    child.once("close", (code) => fail(`ended with ${code ?? "a signal"}`));
  });
  return {
    url,
    async stop() {
      child.kill("SIGTERM");
      const force = setTimeout(() => child.kill("SIGKILL"), STOP_TIMEOUT_MS);
      await ended;
      clearTimeout(force);
    },
  };
}

/** `ANVIL` when set, else the binary of this platform's npm package, else whatever `anvil` is on the path. */
function anvilBinary(): string {
  if (process.env.ANVIL !== undefined) return process.env.ANVIL;
  const name = `@foundry-rs/anvil-${process.platform}-${ARCHITECTURE[process.arch] ?? process.arch}`;
  const program = process.platform === "win32" ? "anvil.exe" : "anvil";
  try {
    return createRequire(import.meta.url).resolve(`${name}/bin/${program}`);
  } catch {
    return program;
  }
}
