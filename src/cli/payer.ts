import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { type ClientOptions, InvalidOptionError } from "../sdk/index.ts";
import { CliError } from "./cli-error.ts";
import { EXIT } from "./exit-code.ts";

/** The options of every command that may pay. */
export const PAYER_ARGS = {
  payer: { type: "string", valueHint: "file.mjs", description: "Pay with the payment hook that is this module's default export (docs/sdk.md, Paying)" },
  "max-price": { type: "string", valueHint: "dollars", description: "The most that the job may cost, as 0.01; with --payer the default is 0.01" },
} as const;

/** The most a job may cost with a payer unless the user says otherwise, in US dollars: the dearest endpoint. */
const DEFAULT_MAX_PRICE = "0.01";

/** The SDK's options for paying. The program itself has no wallet and reads no keys: the module does. */
export async function payerOptions(args: { payer?: string | undefined; "max-price"?: string | undefined }): Promise<ClientOptions> {
  const maxPrice = args["max-price"] ?? (args.payer === undefined ? undefined : DEFAULT_MAX_PRICE);
  const payment = args.payer === undefined ? undefined : await loadHook(args.payer);
  return { ...(maxPrice !== undefined && { maxPrice }), ...(payment !== undefined && { payment }) };
}

async function loadHook(file: string): Promise<NonNullable<ClientOptions["payment"]>> {
  let module: { default?: ClientOptions["payment"] };
  try {
    module = await import(pathToFileURL(resolve(file)).href);
  } catch (error) {
    if (error instanceof InvalidOptionError) throw error;
    throw new CliError(EXIT.usage, `--payer: cannot load ${file}: ${error instanceof Error ? error.message : "unknown error"}`, { cause: error });
  }
  if (typeof module.default === "function") return module.default;
  throw new CliError(EXIT.usage, `--payer: the default export of ${file} is not a payment hook, as payWithEvm(account) is`);
}
