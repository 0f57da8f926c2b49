// `compute-router pair create|claim|list` and `compute-router user`: pair users with workers for PRIVATE jobs.
import { stripVTControlCharacters } from "node:util";
import { defineCommand } from "citty";
import { encode } from "uqr";
import { LIMITS } from "../../protocol/limits.ts";
import { PAIRING_CODE, untrusted } from "../../protocol/text.ts";
import { pairText } from "../../protocol/worker-messages.ts";
import { fingerprintOf, type KeyPair, shortKey, signText } from "../../receipt/ed25519.ts";
import { BadRequestError, type ComputeRouter, ComputeRouterError, type PairedWorker, type PairingOffer, RateLimitedError } from "../../sdk/index.ts";
import { countdown, isLocalAddress } from "../../sdk/trust.ts";
import { ownCommand } from "../../worker/node/program.ts";
import { coordinatorName } from "../../worker/node/desktop-worker.ts";
import { readKeyFile } from "../../worker/node/key-file.ts";
import { configFolder } from "../../worker/node/worker-config.ts";
import { CliError, command, EXIT, print, printError, printJson, printUntrusted } from "../command.ts";
import { onCtrlC } from "../input.ts";
import { ask, coordinatorUrls, givenToken, keptUserId, nextTryText, sameUser, SEEKER_ARGS, shown, urlHint, userIdFile, withClient } from "../seeker.ts";
import { WORKER_PLACE_ARGS, workerPlan } from "../worker-plan.ts";

/** A new pairing. `pairedAt` is ISO 8601. */
type Claimed = { coordinator: string; pairedAt: string };

/**
 * Claims a pairing code for a worker's key at the first of these coordinators that knows the code.
 * @throws {CliError} if the text is not a code, or if none of them accepts it
 */
export async function claimPairing(urls: readonly (string | undefined)[], key: KeyPair, text: string): Promise<Claimed> {
  const code = readPairingCode(text);
  let unreachable: CliError | undefined;
  const withoutCode: string[] = [];
  for (const url of urls) {
    try {
      const { paired_at } = await claimAt(url, key, code);
      return { coordinator: coordinatorName(coordinatorUrls(url).socket), pairedAt: paired_at };
    } catch (error) {
      if (!(error instanceof CliError)) throw error;
      const reason = error.cause instanceof ComputeRouterError ? error.cause.reason : null;
      // Another coordinator may know the code, perhaps one that could not be reached.
      if (reason === "invalid_code") withoutCode.push(coordinatorName(coordinatorUrls(url).socket));
      else if (error.exit === EXIT.unreachable) unreachable ??= error;
      else throw error;
    }
  }
  const unknown = `${withoutCode.join(" and ")} ${withoutCode.length > 1 ? "do" : "does"} not know the code`;
  if (unreachable === undefined)
    throw new CliError(EXIT.refused, `invalid_code: ${unknown}; check the code, or use --url with the address of the coordinator that created it`);
  throw withoutCode.length === 0 ? unreachable : new CliError(unreachable.exit, `${unreachable.message}; ${unknown}`, { cause: unreachable });
}

/** A pairing code as the wire has it. @throws {CliError} if the text cannot be one, before anybody is asked */
export function readPairingCode(text: string): string {
  const code = text.trim().toUpperCase();
  if (!PAIRING_CODE.test(code)) throw new CliError(EXIT.usage, "a pairing code has six characters, 0 to 9 and A to F");
  return code;
}

/** The text for the worker's owner. The user id is a secret of the other side, so it is not shown. */
export function pairedText(paired: string, publicKey: string): string {
  return `${untrusted(paired)}: worker ${fingerprintOf(publicKey)} (key ${shortKey(publicKey)}) may now run that user's PRIVATE jobs\nThe user must see the same words; otherwise it is another worker.`;
}

function claimAt(url: string | undefined, { publicKey, secret }: KeyPair, code: string): Promise<{ paired_at: string }> {
  return ask({ url, user: "claim" }, async (client) => {
    // The network is signed too: the same code may exist on the other instance [TR4].
    const { network } = await client.health();
    const signature = signText(pairText({ network, code, pubkey: publicKey }), secret);
    return client.trust.claim({ pairing_code: code, provider_pubkey: publicKey, signature });
  });
}

/** The size of a terminal that does not state it. */
const UNKNOWN = { columns: 80, rows: 24 };
const SECOND_MS = 1_000;

/** What a user must know about a new pairing. The protocol has no way to end one. */
const OTHER_WORKER = `Its owner must see the same words. If they differ, another worker has claimed the code, and a pairing cannot be undone:
use a new user id (--user ID), and send nothing PRIVATE with the old one.`;

/** `compute-router pair create`. */
const pairCreate = command({
  name: "pair create",
  description: "Create a code that a worker's owner can claim, so that the worker may run your PRIVATE jobs; on a terminal, wait for the worker",
  args: { ...SEEKER_ARGS, wait: { type: "boolean", description: "Wait for the worker (--no-wait: do not wait). Default: wait on a terminal without --json" } },
  run: async (args) => {
    const json = args.json === true;
    const { isTTY, columns, rows } = process.stdout;
    const waits = args.wait ?? (isTTY && !json);
    await withClient(args, async (client) => {
      const offer = await shown(args, client.trust.create().catch(withOpenCodes));
      const { pairing_code, expires_at, workerUrl } = offer;
      const color = isTTY && (process.env["NO_COLOR"] ?? "") === "";
      if (json) printJson({ pairing_code, expires_at, worker_url: workerUrl });
      else print(offerLines({ ...offer, place: urlHint(args.url) }, { color, columns: columns || UNKNOWN.columns, rows: rows || UNKNOWN.rows }).join("\n"));
      if (givenToken(args) !== undefined) await warnIfUnbound(client);
      if (!waits) return;
      const worker = await waited(client, offer, { isLive: color && !json });
      if (worker === undefined) {
        if (!json) print(`the code stays valid until ${untrusted(expires_at)}; to see who claimed it: ${untrusted(sameUser("pair list", args))}`);
        process.exitCode = EXIT.interrupted;
      } else if (json) printJson({ provider_pubkey: worker.publicKey, fingerprint: worker.fingerprint, paired_at: worker.pairedAt });
      else print(`paired with worker ${worker.fingerprint} (key ${untrusted(shortKey(worker.publicKey))})\n${OTHER_WORKER}`);
    });
  },
});

/** Rates are per minute: the coordinator asks for a longer wait only if the user has too many open codes, of which the oldest must expire [TR3]. */
const LONGEST_RATE_MS = 75_000;

function withOpenCodes(error: unknown): never {
  if (error instanceof RateLimitedError && (error.retryAfter ?? 0) > LONGEST_RATE_MS) {
    const open = `this user has ${LIMITS.openPairingCodes} open codes, and more are not possible`;
    throw new CliError(EXIT.refused, `rate limited: ${open}; ${nextTryText(error)}, when the oldest one expires, or when a worker claims one`, {
      cause: error,
    });
  }
  throw error;
}

/** How long `pair create` may take to learn if its token has an effect. */
const TOKEN_CHECK_MS = 5_000;

/** Warns if the token of a new code has no effect: only the first code of a user binds a token [TR2]. If the check fails, nothing is said. */
async function warnIfUnbound(client: ComputeRouter): Promise<void> {
  const error: unknown = await client.jobs({ limit: 1, signal: AbortSignal.timeout(TOKEN_CHECK_MS) }).catch((thrown: unknown) => thrown);
  if (error instanceof BadRequestError && error.reason === "user_token_required")
    printError("WARNING: the token has no effect, because the first code of this user was created without one. A new user id can have a token: --user ID");
}

/** Waits for the worker, with a countdown on a terminal. Undefined if the person ends the wait. */
async function waited({ trust }: ComputeRouter, offer: PairingOffer, { isLive }: { isLive: boolean }): Promise<PairedWorker | undefined> {
  const ending = new AbortController();
  const endCtrlC = onCtrlC(() => ending.abort());
  const draw = () => process.stdout.write(`\r\u001B[K  waiting for a worker; expires in ${countdown(offer.expiresAt.getTime() - Date.now())}`);
  if (isLive) draw();
  const ticking = isLive ? setInterval(draw, SECOND_MS) : undefined;
  try {
    return await trust.waitForWorker(offer, { signal: ending.signal });
  } catch (error) {
    if (ending.signal.aborted) return undefined;
    throw error;
  } finally {
    clearInterval(ticking);
    endCtrlC();
    if (isLive) process.stdout.write("\r\u001B[K");
  }
}

/** `compute-router user`. */
export const user = command({
  name: "user",
  description: "Print the user id that the commands use without --user (created on first use); it is a secret",
  args: { "config-dir": SEEKER_ARGS["config-dir"], json: SEEKER_ARGS.json },
  run: (args) => {
    const folder = configFolder({ configDir: args["config-dir"] });
    const id = keptUserId(folder);
    if (args.json === true) return printJson({ user_id: id, file: userIdFile(folder) });
    // The only text on standard output, so that a script can use it.
    printUntrusted(`${id}\n`);
    print(`from ${untrusted(userIdFile(folder))}; a secret: everyone who has it can use your pairings`, process.stderr);
  },
});

const claim = command({
  name: "pair claim",
  description: "Let this machine's worker run the PRIVATE jobs of the user who created the code",
  args: {
    code: { type: "positional", required: true, description: "Six characters, from `pair create`" },
    ...WORKER_PLACE_ARGS,
    json: SEEKER_ARGS.json,
  },
  many: ["url"],
  run: async (args, all) => {
    // The key that the worker uses: a code is used up, whichever key claims it.
    const plan = workerPlan(args, all("url"));
    const result = readKeyFile(plan.keyFile);
    if (!result.ok) throw new CliError(EXIT.key, result.message);
    const { publicKey } = result.key;
    const urls = plan.coordinators.map(({ url }) => url);
    const paired = await claimPairing(urls, result.key, args.code);
    if (args.json === true) return printJson({ provider_pubkey: publicKey, fingerprint: fingerprintOf(publicKey), paired_at: paired.pairedAt });
    print(pairedText("paired", publicKey));
  },
});

const list = command({
  name: "pair list",
  description: "List your paired workers: their keys in words, as their owners see them, and the time of the pairing",
  args: SEEKER_ARGS,
  run: async (args) => {
    const { providers } = await ask(args, (client) => client.trust.list());
    if (args.json === true) return printJson(providers.map((provider) => ({ ...provider, fingerprint: fingerprintOf(provider.provider_pubkey) })));
    if (providers.length === 0) return print(`no paired workers; to pair one: ${untrusted(sameUser("pair create", args))}`);
    for (const { provider_pubkey, paired_at } of providers)
      print(`${fingerprintOf(provider_pubkey)}\n  paired ${untrusted(paired_at)}  key ${untrusted(provider_pubkey)}`);
  },
});

/** `compute-router pair create|claim|list`. */
export const pair = defineCommand({
  meta: { name: "compute-router pair", description: "Pair users with workers, for PRIVATE jobs" },
  subCommands: { create: pairCreate, claim, list },
});

const INDENT = "  ";
const ONLY_HERE = "(for this machine only; a phone needs --url with an address it can reach)";

/** The screen on which the code is shown. Without color it is plain text, also for pipes and screen readers. */
export type Screen = { color: boolean; columns: number; rows: number };

/** The shown parts of an offer. `place` is the option that names its coordinator, ` --url …`, or empty for the default one. */
type ShownOffer = Pick<PairingOffer, "code" | "expiresAt" | "workerUrl"> & { place: string };

/** The lines about a code that do not change during the wait. The code and its times are escaped, because the coordinator wrote them. */
export function offerLines(offer: ShownOffer, screen: Screen): string[] {
  const code = untrusted(offer.code);
  const workerUrl = untrusted(offer.workerUrl);
  const ways = [
    `on the worker's machine: ${ownCommand(`worker pair ${code}${untrusted(offer.place)}`)}`,
    `phone or browser:        ${workerUrl}`,
    ...(isLocalAddress(offer.workerUrl) ? [ONLY_HERE] : []),
  ];
  if (!screen.color) return [code, `valid until ${offer.expiresAt.toISOString()}`, ...ways];
  const spaced = [[...code].join(" ")];
  const big = fitting(bigText(code), screen.columns) ?? spaced;
  const picture = fitting(qrLines(offer.workerUrl), screen.columns);
  const text = indented(ways);
  // From the largest to the smallest: large letters and QR code, small letters and QR code, only letters.
  const layouts = [
    ["", ...indented(big), "", ...(picture === undefined ? [] : [...indented(picture), ""]), ...text, ""],
    ...(picture === undefined ? [] : [[...indented(spaced), ...indented(picture), ...text]]),
    ["", ...indented(big), "", ...text, ""],
  ];
  const rowsOf = (lines: readonly string[]) => lines.reduce((rows, line) => rows + Math.max(1, Math.ceil(width(line) / screen.columns)), 0);
  // One more line shows the countdown.
  return layouts.find((lines) => rowsOf(lines) + 1 <= screen.rows) ?? layouts.at(-1) ?? text;
}

/** The lines if the terminal does not break them; otherwise undefined. */
function fitting(lines: readonly string[], columns: number): readonly string[] | undefined {
  return lines.every((line) => width(line) + INDENT.length <= columns) ? lines : undefined;
}

/** The columns of a line. Escape sequences take none. */
function width(line: string): number {
  return stripVTControlCharacters(line).length;
}

function indented(lines: readonly string[]): string[] {
  return lines.map((line) => (line === "" ? "" : `${INDENT}${line}`));
}

// Each character has four columns and five rows. With three columns, B and 8 or D and 0 would look the same.
const GLYPHS: Record<string, string> = {
  "0": ".##. #..# #..# #..# .##.",
  "1": "..#. .##. ..#. ..#. .###",
  "2": "###. ...# .##. #... ####",
  "3": "###. ...# .##. ...# ###.",
  "4": "#..# #..# #### ...# ...#",
  "5": "#### #... ###. ...# ###.",
  "6": ".### #... ###. #..# .##.",
  "7": "#### ...# ..#. .#.. .#..",
  "8": ".##. #..# .##. #..# .##.",
  "9": ".##. #..# .### ...# ###.",
  A: ".##. #..# #### #..# #..#",
  B: "###. #..# ###. #..# ###.",
  C: ".### #... #... #... .###",
  D: "###. #..# #..# #..# ###.",
  E: "#### #... ###. #... ####",
  F: "#### #... ###. #... #...",
};

const ROWS = 5;

/** A pairing code in letters of five lines. Each dot has two columns, because a cell of a terminal is twice as high as it is wide. */
export function bigText(code: string): string[] {
  return Array.from({ length: ROWS }, (_, row) =>
    [...code]
      .map((character) => (GLYPHS[character]?.split(" ")[row] ?? "").replaceAll("#", "██").replaceAll(".", "  "))
      .join("   ")
      .trimEnd(),
  );
}

/** Black on white, independent of the terminal's colors, because many readers cannot read an inverted code. */
const INK = "\u001B[38;5;16;48;5;231m";
const PLAIN = "\u001B[0m";
/** Light modules around the code. The standard requires four, but readers accept two, and lines are scarce. */
const BORDER = 2;

/** A QR code as lines for a terminal with colors. Each character shows two modules, one above the other. */
export function qrLines(text: string): string[] {
  const { data, size } = encode(text, { ecc: "M", border: BORDER });
  const isDark = (x: number, y: number) => data[y]?.[x] === true;
  return Array.from({ length: Math.ceil(size / 2) }, (_, line) => {
    const cells = Array.from({ length: size }, (_cell, x) => halves(isDark(x, 2 * line), isDark(x, 2 * line + 1)));
    return `${INK}${cells.join("")}${PLAIN}`;
  });
}

function halves(upper: boolean, lower: boolean): string {
  if (upper) return lower ? "█" : "▀";
  return lower ? "▄" : " ";
}
