import { shellWord } from "../worker/node/command-name.ts";
import { CliError } from "./cli-error.ts";
import { EXIT } from "./exit-code.ts";

/** The EVM coordinator of this machine [SPEC]. */
const DEFAULT_URL = "ws://127.0.0.1:4010/";

/** `--url` as every command takes it. */
export const URL_ARG = {
  type: "string",
  valueHint: "url",
  description: "Coordinator: ws:, wss:, http: or https:; default $ROUTER_BASE_URL, else ws://127.0.0.1:4010/",
} as const;

/** ` --url …` for the command in a hint, where it is needed there: the environment of this command may not be that of the next one. */
export function urlHint(text: string | undefined): string {
  const { base } = coordinatorUrls(text);
  return base === coordinatorUrls(DEFAULT_URL).base ? "" : ` --url ${shellWord(base)}`;
}

/** The coordinator's socket URL and REST base of what a person wrote. */
export function coordinatorUrls(text: string | undefined): { socket: string; base: string } {
  const wanted = text ?? (process.env["ROUTER_BASE_URL"] || DEFAULT_URL);
  const whole = /^[a-z]+:\/\//i.test(wanted) ? wanted : `ws://${wanted}`;
  const url = URL.canParse(whole) ? new URL(whole) : null;
  const secure = url?.protocol === "wss:" || url?.protocol === "https:";
  const plain = url?.protocol === "ws:" || url?.protocol === "http:";
  if (url === null || (!secure && !plain)) throw new CliError(EXIT.usage, `--url: "${wanted}" is not a ws:, wss:, http: or https: URL`);
  if (url.username !== "" || url.password !== "") throw new CliError(EXIT.usage, "--url must not hold a user name or password");
  url.hash = "";
  const rest = url.href.slice(url.protocol.length);
  const { host, pathname } = url;
  return { socket: `${secure ? "wss" : "ws"}:${rest}`, base: `${secure ? "https" : "http"}://${host}${pathname.replace(/\/+$/, "")}` };
}
