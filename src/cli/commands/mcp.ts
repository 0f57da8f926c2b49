// `compute-router mcp`: a server of the Model Context Protocol, so that agents can use a coordinator. It speaks over stdio, or over HTTP on this machine.
import { realpathSync } from "node:fs";
import { resolve } from "node:path";
import { readMaxAmount } from "../../sdk/payment.ts";
import { ownCommand } from "../../worker/node/program.ts";
import { untrusted } from "../../protocol/text.ts";
import { CliError, command, EXIT, print, printError } from "../command.ts";
import { onSignals } from "../input.ts";
import { Budget } from "../paying.ts";
import { clientOptions, readCount, readRunOptions, RUN_ARGS } from "../seeker.ts";

/** What all jobs of one server may cost together if the user says nothing, in US dollars: ten jobs on the more expensive tier. */
const DEFAULT_MAX_SPEND = "0.10";

/** The signals that end a server. */
const ENDING = ["SIGINT", "SIGTERM"] as const;

const { json: _, policy: __, "idempotency-key": ___, ...ARGS } = RUN_ARGS;

/** `compute-router mcp`. */
export const mcp = command({
  name: "mcp",
  description: "Serve jobs as tools for agents (Model Context Protocol): over stdio, or with --port over HTTP on this machine",
  args: {
    port: { type: "string", valueHint: "n", description: "Serve streamable HTTP at http://127.0.0.1:<n>/mcp instead of stdio; 0 is any free port" },
    "max-spend": {
      type: "string",
      valueHint: "dollars",
      description: `Maximum that all jobs of this server may cost together, in US dollars; default ${DEFAULT_MAX_SPEND}. Only with --payer can a job cost anything`,
    },
    ...ARGS,
    "require-verified": { type: "boolean", description: "Let a tool call fail unless the receipt of its job is valid" },
    timeout: { ...ARGS.timeout, description: "How long a call waits; default 50 for text generation (most MCP clients end a call after 60), 30 for tasks" },
  },
  run: async (args) => {
    const port = readCount("port", args.port, 0, 65_535);
    const { privacy, timeout, requireVerified } = readRunOptions(args);
    const session = {
      client: await clientOptions(args),
      run: {
        ...(privacy !== undefined && { privacy }),
        ...(timeout !== undefined && { timeout }),
        ...(requireVerified === true && { requireVerified }),
      },
      budget: new Budget(readMaxSpend(args["max-spend"])),
    };
    // Loaded here, because no other command needs the protocol.
    const { mcpServer } = await import("../mcp/tools.ts");
    const build = () => mcpServer(session);
    if (port === undefined) {
      if (process.stdin.isTTY) printError(byHandText());
      const { serveStdio } = await import("@modelcontextprotocol/server/stdio");
      const server = serveStdio(build);
      // As when the client closes standard input: the calls are aborted, and the process ends when their cancels have arrived.
      onSignals(ENDING, () => void server.close());
      return;
    }
    const { serveHttp } = await import("../mcp/http.ts");
    const { url, close } = await serveHttp(build, port).catch((error: unknown) => {
      throw new CliError(EXIT.error, `cannot listen on port ${port}: ${error instanceof Error ? error.message : "unknown error"}`, { cause: error });
    });
    onSignals(ENDING, () => void close());
    print(`MCP at ${untrusted(url)}`);
  },
});

/** For a person who starts the server in a terminal. */
function byHandText(): string {
  return `This is an MCP server on standard input and output, which an MCP client starts and talks to. Ctrl-C ends it.
The configuration of the client: ${JSON.stringify(clientConfiguration(process.argv))}`;
}

/**
 * The configuration with which an MCP client starts the same server. The client starts it in a folder of its own, where `npx` does not find a program that is
 * only installed here, and where a relative path names another file.
 */
export function clientConfiguration([node, main = "", ...given]: readonly string[]): object {
  const args = withWholePaths(given);
  const isGlobal = ownCommand("mcp") === "compute-router mcp";
  // Not the link by which npx starts the program: it may be in a cache.
  const server = isGlobal ? { command: "compute-router", args } : { command: node, args: [realpathSync(main), ...args] };
  return { mcpServers: { "compute-router": server } };
}

/** The options that name a file or a folder. */
const PATH_OPTION = /^--(?:payer|config-dir|configDir)(?:$|=)/;

/** The arguments of a command line with absolute paths. */
function withWholePaths(args: readonly string[]): string[] {
  return args.map((arg, i) => {
    const before = args[i - 1] ?? "";
    if (PATH_OPTION.test(before) && !before.includes("=")) return resolve(arg);
    const [option] = PATH_OPTION.exec(arg) ?? [];
    return option?.endsWith("=") === true ? `${option}${resolve(arg.slice(option.length))}` : arg;
  });
}

function readMaxSpend(text = DEFAULT_MAX_SPEND): bigint {
  try {
    return readMaxAmount(text);
  } catch (error) {
    throw new CliError(EXIT.usage, "--max-spend must be US dollars, such as 0.10", { cause: error });
  }
}
