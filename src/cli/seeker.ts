import {
  ComputeRouter,
  ComputeRouterError,
  InvalidOptionError,
  JobFailedError,
  JobTimeoutError,
  NoEligibleWorkerError,
  NotFoundError,
  NoTrustedWorkerError,
  PaymentRequiredError,
  ProtocolError,
  ReceiptError,
  RouterConnectionError,
  UnavailableError,
} from "../sdk/index.ts";
import { ownCommand, shellWord } from "../worker/node/command-name.ts";
import { configFolder } from "../worker/node/config-folder.ts";
import { reasonOf } from "../worker/node/connect-reason.ts";
import { untrusted } from "../worker/node/printable.ts";
import { CliError } from "./cli-error.ts";
import { EXIT } from "./exit-code.ts";
import { payerOptions } from "./payer.ts";
import { coordinatorUrls, URL_ARG, urlHint } from "./url-option.ts";
import { keptUserId } from "./user-id.ts";

/** The options of every command that asks a coordinator something. */
export const SEEKER_ARGS = {
  url: URL_ARG,
  user: { type: "string", valueHint: "id", description: "Whose jobs and pairings; default: a random one, kept in the configuration folder. A secret" },
  "user-token": {
    type: "string",
    valueHint: "secret",
    description: "Proof of the user, bound to it by its first `pair create`; default $ROUTER_USER_TOKEN, which other users of this machine cannot see",
  },
  "config-dir": { type: "string", valueHint: "dir", description: "Configuration folder; default $XDG_CONFIG_HOME/compute-router or the system's own" },
  json: { type: "boolean", description: "Print JSON" },
} as const;

/** What those options say. */
export type SeekerOptions = {
  url?: string | undefined;
  user?: string | undefined;
  "user-token"?: string | undefined;
  "config-dir"?: string | undefined;
  payer?: string | undefined;
  "max-price"?: string | undefined;
};

/** A client for the coordinator and the user that the options name. */
async function seeker(args: SeekerOptions): Promise<ComputeRouter> {
  const { base } = coordinatorUrls(args.url);
  const configDir = args["config-dir"];
  const userToken = args["user-token"] ?? (process.env["ROUTER_USER_TOKEN"] || undefined);
  return new ComputeRouter({
    baseUrl: base,
    userId: args.user ?? keptUserId(configFolder(configDir === undefined ? {} : { configDir })),
    ...(userToken !== undefined && { userToken }),
    ...(await payerOptions(args)),
  });
}

/** Asks, and turns every expected failure into what a person can do about it. */
export async function asking<T>(args: SeekerOptions, ask: (client: ComputeRouter) => Promise<T>): Promise<T> {
  try {
    return await ask(await seeker(args));
  } catch (error) {
    throw error instanceof ComputeRouterError ? advice(error, args) : error;
  }
}

/** A command for a hint, with the options that say the same coordinator and the same user. */
export function sameUser(words: string, args: SeekerOptions): string {
  const user = args.user === undefined ? "" : ` --user ${shellWord(args.user)}`;
  const folder = args["config-dir"] === undefined ? "" : ` --config-dir ${shellWord(args["config-dir"])}`;
  return ownCommand(`${words}${urlHint(args.url)}${user}${folder}`);
}

/** What to do about a pairing code that cannot be claimed [API4]. */
const CODE_ADVICE: Record<string, string> = {
  invalid_code: "invalid_code: this coordinator does not know the code; check the code and --url",
  already_claimed: "already_claimed: the code was used; its owner can make a new one: pair create",
  expired: "expired: a code is valid for an hour; its owner can make a new one: pair create",
};

function advice(error: ComputeRouterError, args: SeekerOptions): CliError {
  const { base } = coordinatorUrls(args.url);
  const because = (exit: CliError["exit"], message: string) => new CliError(exit, message, { cause: error });
  if (error instanceof InvalidOptionError) return because(EXIT.usage, error.message);
  if (error instanceof RouterConnectionError && error.reason === "timeout") return because(EXIT.unreachable, `${error.message} (${base})`);
  if (error instanceof RouterConnectionError)
    return because(EXIT.unreachable, `no coordinator at ${base}: ${reasonOf(error.cause) ?? error.message}; start one (in a clone: npm start), or say --url`);
  if (error instanceof NoTrustedWorkerError) {
    return because(EXIT.job, `no_trusted_worker: none of your paired workers is online; to pair one: ${sameUser("pair create", args)}`);
  }
  if (error instanceof NoEligibleWorkerError)
    return because(EXIT.job, `no_eligible_worker: no worker could take the job; to start one: ${ownCommand(`worker start${urlHint(args.url)}`)}`);
  if (error instanceof JobTimeoutError) return because(EXIT.job, `${error.message}; it goes on: ${ownCommand(`job ${error.jobId}${urlHint(args.url)}`)}`);
  if (error instanceof JobFailedError) {
    return because(EXIT.job, error.workerMessage === null ? error.message : `${error.message}; the worker says: ${untrusted(error.workerMessage)}`);
  }
  if (error instanceof ReceiptError) return because(EXIT.receipt, error.message);
  if (error instanceof PaymentRequiredError) return because(EXIT.refused, paymentAdvice(error));
  if (error instanceof NotFoundError) return because(EXIT.refused, `${error.message}; is it the right coordinator? (${base})`);
  if (error instanceof UnavailableError) return because(EXIT.unreachable, error.message);
  if (error.reason === "user_token_required") {
    return because(
      EXIT.refused,
      "user_token_required: this user was bound to a token by its first pair create; to give it: --user-token or $ROUTER_USER_TOKEN",
    );
  }
  const ofCode = CODE_ADVICE[error.reason ?? ""];
  if (ofCode !== undefined) return because(EXIT.refused, ofCode);
  return because(error instanceof ProtocolError ? EXIT.error : EXIT.refused, error.message);
}

/** A payer that was asked leaves the key of the commit in the error; without one nothing was tried. */
function paymentAdvice(error: PaymentRequiredError): string {
  if (error.idempotencyKey !== null) return `the coordinator refused the payment: ${error.reason ?? error.message}`;
  return `this coordinator wants ${error.accepts[0]?.price ?? "a payment"} for the job; to pay, say --payer with a module that has your wallet (docs/sdk.md, Paying)`;
}
