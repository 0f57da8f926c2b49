// What the commands for users share: the options that name coordinator, user and payer, the SDK client, and advice for its errors.
import { randomBytes } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Policy } from "../protocol/job.ts";
import { KiB, LIMITS } from "../protocol/limits.ts";
import { untrusted } from "../protocol/text.ts";
import { mayBeAccepted } from "../sdk/commit.ts";
import {
  type ClientOptions,
  ComputeRouter,
  ComputeRouterError,
  InvalidOptionError,
  JobFailedError,
  JobTimeoutError,
  NoEligibleWorkerError,
  NoSuchModelError,
  NotFoundError,
  NoTrustedWorkerError,
  PaymentLimitError,
  PaymentRequiredError,
  ProtocolError,
  RateLimitedError,
  ReceiptError,
  RouterConnectionError,
  type RunOptions,
  UnavailableError,
} from "../sdk/index.ts";
import { inDollars } from "../sdk/payment.ts";
import { makeFolder, placeOnce } from "../worker/node/atomic-files.ts";
import { codeOf } from "../worker/node/error-code.ts";
import { needsNewerNode, ownCommand, shellWord } from "../worker/node/program.ts";
import { reasonOf } from "../worker/runtimes/reason.ts";
import { configFolder } from "../worker/node/worker-config.ts";
import { CliError, duration, EXIT } from "./command.ts";
import { keptJobs } from "./kept-jobs.ts";
import { lostText, maxPriceOf, PAYER_ARGS, payerOptions } from "./paying.ts";

/** The EVM coordinator of this machine [SPEC]. */
const DEFAULT_URL = "ws://127.0.0.1:4010/";

/** `--url` as every command takes it. */
const URL_ARG = {
  type: "string",
  valueHint: "url",
  description: `Coordinator: ws:, wss:, http: or https:; default $ROUTER_BASE_URL, else ${DEFAULT_URL}`,
} as const;

/** ` --url …` for the command in a hint, if it is not the default. The next command may run without the environment variables of this one. */
export function urlHint(text: string | undefined): string {
  const { base } = coordinatorUrls(text);
  return base === coordinatorUrls(DEFAULT_URL).base ? "" : ` --url ${shellWord(base)}`;
}

/** The socket URL and the REST base of a coordinator, from the text of a person. */
export function coordinatorUrls(text: string | undefined): { socket: string; base: string } {
  const wanted = text ?? (process.env["ROUTER_BASE_URL"] || DEFAULT_URL);
  const source = text === undefined ? "ROUTER_BASE_URL" : "--url";
  const whole = /^[a-z]+:\/\//i.test(wanted) ? wanted : `ws://${wanted}`;
  const url = URL.canParse(whole) ? new URL(whole) : null;
  const secure = url?.protocol === "wss:" || url?.protocol === "https:";
  const plain = url?.protocol === "ws:" || url?.protocol === "http:";
  // A text with @ may have a password, which an error does not repeat.
  const named = wanted.includes("@") ? "it" : `"${wanted}"`;
  if (url === null || (!secure && !plain)) throw new CliError(EXIT.usage, `${source}: ${named} is not a ws:, wss:, http: or https: URL`);
  if (url.username !== "" || url.password !== "") throw new CliError(EXIT.usage, `${source} must not contain a user name or password`);
  url.hash = "";
  // OpenAI's clients have the same address with the version in it.
  url.pathname = url.pathname.replace(/\/v1\/*$/, "/");
  const rest = url.href.slice(url.protocol.length);
  const { host, pathname } = url;
  return { socket: `${secure ? "wss" : "ws"}:${rest}`, base: `${secure ? "https" : "http"}://${host}${pathname.replace(/\/+$/, "")}` };
}

/** The file with the user id. */
export function userIdFile(folder: string): string {
  return join(folder, "user-id");
}

/**
 * The user id of the commands without `--user`: 128 random bits, created once and stored, because pairings belong to it. Everyone who knows it can use them
 * [TR1], so only the owner can read the file.
 */
export function keptUserId(folder: string): string {
  const file = userIdFile(folder);
  // An id that is there needs no write: the disk may be full, or the folder read-only.
  const isStored = existsSync(file);
  try {
    if (!isStored) {
      makeFolder(folder);
      placeOnce(file, `${randomBytes(16).toString("hex")}\n`);
    }
    const id = readFileSync(file, "utf8").trim();
    if (id !== "") return id;
  } catch (error) {
    const failed = isStored ? "read the user id" : "store a user id";
    throw new CliError(EXIT.error, `cannot ${failed} in ${file} (${codeOf(error)}); use --user ID or --config-dir DIR`);
  }
  throw new CliError(EXIT.error, `${file} is empty; delete it, or use --user ID`);
}

/** The options of every command that asks a coordinator something. */
export const SEEKER_ARGS = {
  url: URL_ARG,
  user: {
    type: "string",
    valueHint: "id",
    description: "User id that owns the jobs and pairings; default: a random one, stored in the configuration folder. Keep it secret",
  },
  "user-token": {
    type: "string",
    valueHint: "secret",
    description: "Token that protects the user id since its first `pair create`; default $ROUTER_USER_TOKEN, which other users of this machine cannot see",
  },
  "config-dir": { type: "string", valueHint: "dir", description: "Configuration folder; default $XDG_CONFIG_HOME/compute-router or the system's own" },
  json: { type: "boolean", description: "Print JSON" },
} as const;

/** The values of these options. */
export type SeekerOptions = {
  url?: string | undefined;
  user?: string | undefined;
  "user-token"?: string | undefined;
  "config-dir"?: string | undefined;
  payer?: string | undefined;
  "max-price"?: string | undefined;
  model?: string | undefined;
  private?: boolean | undefined;
  "idempotency-key"?: string | undefined;
};

/** The SDK's options for the coordinator, the user and the payer that the options of a command name. */
export async function clientOptions(args: SeekerOptions): Promise<ClientOptions> {
  const { base } = coordinatorUrls(args.url);
  const folder = configFolder({ configDir: args["config-dir"] });
  const userToken = givenToken(args);
  return {
    baseUrl: base,
    userId: args.user ?? keptUserId(folder),
    jobList: keptJobs(folder),
    // Ctrl-C asks first.
    cancelOnAbort: false,
    ...(userToken !== undefined && { userToken }),
    ...(await payerOptions(args)),
  };
}

/** The token of the user, if one was given. */
export function givenToken(args: SeekerOptions): string | undefined {
  return args["user-token"] ?? (process.env["ROUTER_USER_TOKEN"] || undefined);
}

/** Calls the SDK and turns every expected failure into a CliError with advice. */
export async function withClient<T>(args: SeekerOptions, task: (client: ComputeRouter) => Promise<T>): Promise<T> {
  try {
    return await task(new ComputeRouter(await clientOptions(args)));
  } catch (error) {
    throw error instanceof ComputeRouterError ? advice(error, args) : error;
  }
}

/** As {@link withClient}, for a command that prints nothing before the answer. */
export async function ask<T>(args: SeekerOptions, task: (client: ComputeRouter) => Promise<T>): Promise<T> {
  return await withClient(args, (client) => shown(args, task(client)));
}

/** A coordinator that does not answer is asked for up to 45 s. So long a command must not be silent on a terminal. */
const SILENT_MS = 2_000;

/** Says on a terminal that the command waits for the coordinator, until the answer is there. */
export async function shown<T>({ url }: Pick<SeekerOptions, "url">, answer: Promise<T>): Promise<T> {
  let isShown = false;
  const waiting = setTimeout(() => {
    isShown = process.stderr.isTTY;
    if (isShown) process.stderr.write(untrusted(`waiting for ${coordinatorUrls(url).base} …`));
  }, SILENT_MS);
  try {
    return await answer;
  } finally {
    clearTimeout(waiting);
    if (isShown) process.stderr.write("\r\u001B[K");
  }
}

/** A command for a hint, with the options for the same coordinator and the same user. */
export function sameUser(words: string, args: SeekerOptions): string {
  const user = args.user === undefined ? "" : ` --user ${shellWord(args.user)}`;
  const folder = args["config-dir"] === undefined ? "" : ` --config-dir ${shellWord(args["config-dir"])}`;
  return ownCommand(`${words}${urlHint(args.url)}${user}${folder}`);
}

/** Advice for a refusal, by the reason of the coordinator [API1, API4]. */
const REFUSAL_ADVICE: ReadonlyMap<string | null, string> = new Map([
  [
    "already_claimed",
    // The answer to a claim can be lost, and a code works once.
    "already_claimed: the code was used; its owner can create a new one: pair create; if an earlier try of this worker got no answer, it may be paired already: then the user's pair list shows its words",
  ],
  ["expired", "expired: a code is valid for one hour; its owner can create a new one: pair create"],
  ["user_token_required", "user_token_required: this user was bound to a token by its first pair create; to give it: --user-token or $ROUTER_USER_TOKEN"],
  ["idempotency_key_reused", "idempotency_key_reused: this key was used for another request; use another one"],
  [
    "payload_too_large",
    `payload_too_large: a prompt or an input may have ${LIMITS.textBytes / KiB} KiB of UTF-8, and the JSON of a request ${LIMITS.bodyBytes / KiB} KiB`,
  ],
]);

const TOKEN_REFUSED = "user_token_required: the coordinator does not take this token for this user: another one is bound, or none";

/** What the SDK calls an option or a field, and what the person has given. */
const OPTION_WORDS: readonly (readonly [RegExp, string])[] = [
  [/^job\.prompt /, "PROMPT "],
  [/^job\.input /, "the text on standard input "],
  [/^job\.model /, "--model "],
  [/^idempotencyKey /, "--idempotency-key "],
  [/^userId /, "the user id "],
  [/^userToken /, "the token of the user "],
  [/^before must be the `next` of a page/, "--before must be the position that the previous list printed"],
];

/** The message about a wrong option, in the words of the command line. */
function optionText({ message }: InvalidOptionError): string {
  return OPTION_WORDS.reduce((text, [name, words]) => text.replace(name, words), message);
}

/** When the next try is possible after a 429, as far as that is known. */
export function nextTryText({ retryAfter }: RateLimitedError): string {
  return retryAfter === null ? "try again later" : `the next try is possible in ${duration(Math.ceil(retryAfter / 1_000) * 1_000)}`;
}

function advice(error: ComputeRouterError, args: SeekerOptions): CliError {
  const { base } = coordinatorUrls(args.url);
  const because = (exit: CliError["exit"], message: string) => {
    const money = error instanceof JobFailedError && !mayBeAccepted(error) ? moneyText(error, args) : "";
    return new CliError(exit, `${message}${money}${lostText(error, args.payer !== undefined)}`, { cause: error });
  };
  if (error instanceof InvalidOptionError && error.option === "cancelToken")
    return because(
      EXIT.usage,
      "there is no token here that cancels this job; use the --url and --config-dir with which the job was sent, or give its token: --cancel-token TOKEN",
    );
  if (error instanceof InvalidOptionError) return because(EXIT.usage, optionText(error));
  // A coordinator whose answer was lost is there.
  if (error instanceof RouterConnectionError && (error.reason === "timeout" || error.idempotencyKey !== null))
    return because(EXIT.unreachable, `${error.message} (${base})`);
  if (error instanceof RouterConnectionError)
    return because(EXIT.unreachable, `no coordinator at ${base}: ${reasonOf(error.cause) ?? error.message}; start one (in a clone: npm start), or use --url`);
  if (error instanceof NoTrustedWorkerError)
    return because(
      EXIT.job,
      `no_trusted_worker: no paired worker that can do this job is online; to see your workers: ${sameUser("pair list", args)}; to pair one: ${sameUser("pair create", args)}`,
    );
  if (error instanceof NoEligibleWorkerError && args.model !== undefined && args.model !== "auto")
    return because(
      EXIT.job,
      `no_eligible_worker: no worker with the model ${args.model} could take the job; to see the models: ${ownCommand(`models${urlHint(args.url)}`)}`,
    );
  if (error instanceof NoEligibleWorkerError)
    return because(
      EXIT.job,
      `no_eligible_worker: no worker could take the job; to start one${needsNewerNode()}: ${ownCommand(`worker start${urlHint(args.url)}`)}`,
    );
  if (error instanceof JobTimeoutError) return because(EXIT.job, `${error.message}; it continues: ${ownCommand(`job ${error.jobId}${urlHint(args.url)}`)}`);
  if (error instanceof JobFailedError) {
    const next = error.cause === "worker_lost" ? lostWorkerText(args) : "";
    return because(EXIT.job, `${error.message}${next}${error.workerMessage === null ? "" : `; message of the worker: ${untrusted(error.workerMessage)}`}`);
  }
  if (error instanceof ReceiptError) return because(EXIT.receipt, error.message);
  if (error instanceof PaymentRequiredError) return because(EXIT.refused, paymentAdvice(error));
  if (error instanceof PaymentLimitError && error.reason === "token_not_allowed")
    return because(EXIT.refused, `${error.message}; to allow it, give the hook of --payer the option \`tokens\` (docs/sdk.md, Paying)`);
  if (error instanceof PaymentLimitError && error.maxPrice === maxPriceOf(args))
    return because(EXIT.refused, `the coordinator asks for ${error.price}, which is not within --max-price ($${error.maxPrice})`);
  if (error instanceof RateLimitedError) return because(EXIT.refused, `rate limited: too many requests of this kind; ${nextTryText(error)}`);
  if (error instanceof NoSuchModelError) return because(EXIT.refused, `no_such_model: ${error.message}; see: ${ownCommand(`models${urlHint(args.url)}`)}`);
  if (error instanceof NotFoundError) return because(EXIT.refused, `${error.message}; is it the right coordinator? (${base})`);
  if (error instanceof UnavailableError) return because(EXIT.unreachable, error.message);
  if (error.reason === "user_token_required" && givenToken(args) !== undefined) return because(EXIT.refused, TOKEN_REFUSED);
  const known = REFUSAL_ADVICE.get(error.reason);
  if (known !== undefined) return because(EXIT.refused, known);
  return because(error instanceof ProtocolError ? EXIT.error : EXIT.refused, error.message);
}

/** What to do about a job whose worker left, when no other one took the job. */
function lostWorkerText(args: SeekerOptions): string {
  // The same key would get the failed job again.
  const again = `send the job again${args["idempotency-key"] === undefined ? "" : " with another --idempotency-key"}`;
  if (args.private !== true) return `: its worker left, and no other worker took it; ${again}`;
  return `: its worker left, and no other paired worker took it; is one online? To see: ${sameUser("pair list", args)}; then ${again}`;
}

/** What became of the money of a failed job, for a person who pays; it is said by the job's `PAYMENT-RESPONSE` and by nothing else [PY9]. */
export function moneyText({ charged, credit }: Pick<JobFailedError, "charged" | "credit">, { payer }: SeekerOptions): string {
  if (credit !== null) return `; its ${inDollars(credit.amount)} are your credit: ${inDollars(credit.balance)} in all, for your next jobs with this wallet`;
  if (payer === undefined) return "";
  if (charged === null) return "; it is not known yet whether it was charged";
  return charged ? "; it was charged" : "; nothing was charged";
}

/** Advice for a 402. If the payer was called, the error has the idempotency key of the commit. */
function paymentAdvice(error: PaymentRequiredError): string {
  if (mayBeAccepted(error)) return `the answer to the payment was lost, and now the coordinator refuses it: ${error.reason ?? error.message}`;
  if (error.idempotencyKey !== null) return `the coordinator refused the payment: ${error.reason ?? error.message}`;
  return `this coordinator asks for ${error.accepts[0]?.price ?? "a payment"}; to pay, use --payer with a module that has your wallet (docs/sdk.md, Paying)`;
}

/** `--policy` of every command that has a price. */
export const POLICY_ARG = {
  type: "string",
  valueHint: Policy.options.join("|"),
  description: "Tier; default AUTO (FAST for text generation, CHEAP for tasks)",
} as const;

/** `--model` of the commands about an LLM_INFER. */
export const MODEL_ARG = { type: "string", valueHint: "name", description: "The model that must answer, as `models` lists it; default auto: any" } as const;

/** The options of every command that runs a job. */
export const RUN_ARGS = {
  ...SEEKER_ARGS,
  policy: POLICY_ARG,
  private: { type: "boolean", description: "Run the job only on workers that you have paired with" },
  timeout: { type: "string", valueHint: "seconds", description: "How long to wait, 1 to 3600; default 60 for text generation, 30 for tasks" },
  ...PAYER_ARGS,
  "idempotency-key": {
    type: "string",
    valueHint: "key",
    description: "Name of the job: within 24 hours, the same command with the same key gets the same job and does not pay again; default: a random one",
  },
  "require-verified": { type: "boolean", description: "Fail (exit code 8) unless the receipt is valid" },
} as const;

/** Parses `--policy`, in upper or lower case. */
export function readPolicy(text: string | undefined): Policy | undefined {
  const policy = Policy.options.find((known) => known === text?.toUpperCase());
  if (text !== undefined && policy === undefined) throw new CliError(EXIT.usage, `--policy must be one of ${Policy.options.join(", ")}`);
  return policy;
}

/** Parses a whole number. */
export function readCount(option: string, text: string | undefined, min: number, max: number): number | undefined {
  if (text === undefined) return undefined;
  const count = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (count >= min && count <= max) return count;
  throw new CliError(EXIT.usage, `--${option} must be a whole number from ${min} to ${max}`);
}

/** The SDK's options for a run. */
export function readRunOptions(args: {
  policy?: string | undefined;
  private?: boolean | undefined;
  timeout?: string | undefined;
  "idempotency-key"?: string | undefined;
  "require-verified"?: boolean | undefined;
}): RunOptions & { idempotencyKey: string } {
  const policy = readPolicy(args.policy);
  const seconds = readCount("timeout", args.timeout, 1, 3600);
  return {
    // Made here and not by the SDK, so that Ctrl-C can tell it.
    idempotencyKey: args["idempotency-key"] ?? randomBytes(16).toString("hex"),
    privacy: args.private === true ? "PRIVATE" : "PUBLIC",
    requireVerified: args["require-verified"] === true,
    ...(policy !== undefined && { policy }),
    ...(seconds !== undefined && { timeout: seconds * 1000 }),
  };
}
