// Recognizes short requests: commits and polls in their plainest form, which the front hands to the hub on the socket that all share. Every other request goes
// to workerd as bytes. Pure: front-opening.ts moves the bytes.
import { isUtf8 } from "node:buffer";

/** A request that can go with others, and how many bytes of the connection it was. The names of its headers are in lower case. */
export type ShortRequest = { method: "GET" | "POST"; url: string; headers: [name: string, value: string][]; body: string | null; bytes: number };

/** Longer ones are passed on as bytes. */
const LONGEST_HEAD = 8 * 1024;
const LONGEST_BODY = 64 * 1024;

const POLL = "GET /v1/jobs/";
const COMMIT = "POST /v1/jobs/commit/";
const SOCKET = "GET / ";
const REQUEST_LINE =
  /^(?:GET (?=\/v1\/jobs\/[\da-f])|POST (?=\/v1\/jobs\/commit))(\/v1\/jobs\/(?:[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}(?:\?wait=\d{1,9})?|commit\/(?:fast|cheap))) HTTP\/1\.1$/;
/** A header: a name that is a token, and a value of printable ASCII without blanks around it (RFC 9112, 5). The pattern matches blanks in only one way. */
const HEADER = /^([!#$%&'*+.^_`|~\w-]+):[ \t]*(?![ \t])((?:[!-~](?:[ -~]*[!-~])?)?)[ \t]*$/;
/** A worker dials the address of its coordinator, without a path. */
const SOCKET_LINE = /^GET (\/) HTTP\/1\.1$/;
/** Base64 of 16 bytes (RFC 6455, 4.1). */
const SOCKET_KEY = /^[A-Za-z\d+/]{22}==$/;
const HOST = /^(?:[\w.-]{1,253}|\[[\da-f:.]{2,45}\])(?::\d{1,5})?$/i;
const LENGTH = /^\d{1,6}$/;
const HEAD_END = "\r\n\r\n";
/** As the router reads bodies: it skips a byte order mark. */
const TEXT = new TextDecoder();
/** Headers that change how a request is read or answered. Such a request is passed on. */
const SPECIAL = new Set(["transfer-encoding", "upgrade", "expect", "te", "trailer", "http2-settings", "proxy-connection", "sec-websocket-protocol"]);
/** The values of `Connection` that a short request, and an upgrade, may have. */
const KEEPS = /^keep-alive$/i;
const UPGRADES = /^(?:keep-alive, ?)?upgrade$/i;
/** Headers of the connection itself: they are not sent to the hub. */
const HOP = new Set(["connection", "keep-alive"]);
/** Headers that a short request may have only once. */
const SINGLE = new Set(["host", "content-length", "upgrade", "sec-websocket-key", "sec-websocket-version"]);

/**
 * The short request that these bytes begin with; `"incomplete"` if they can be the beginning of one; null if another request begins here. With `commits` false
 * only polls are short.
 */
export function shortRequestOf(bytes: Buffer, commits: boolean): ShortRequest | "incomplete" | null {
  const isPoll = begins(bytes, POLL);
  if (!isPoll && !(commits && begins(bytes, COMMIT))) return null;
  const end = bytes.subarray(0, LONGEST_HEAD).indexOf(HEAD_END);
  if (end < 0) return bytes.length < LONGEST_HEAD && !hasBareLine(bytes) ? "incomplete" : null;
  const head = readHead(bytes.toString("latin1", 0, end), REQUEST_LINE);
  if (head === null) return null;
  const { target, host, headers, length } = head;
  const from = end + HEAD_END.length;
  if (isPoll ? length > 0 : length > LONGEST_BODY) return null;
  if (bytes.length < from + length) return "incomplete";
  const body = bytes.subarray(from, from + length);
  // As text it must be the same bytes for the hub.
  if (!isUtf8(body)) return null;
  const url = `http://${host}${target}`;
  if (!URL.canParse(url)) return null;
  return { method: isPoll ? "GET" : "POST", url, headers, body: isPoll ? null : TEXT.decode(body), bytes: from + length };
}

/**
 * The upgrade to a worker's socket that these bytes begin with; null if another request begins here, or an upgrade that is written in an unusual way. Its
 * extensions are refused by not being mentioned.
 */
export function socketRequestOf(bytes: Buffer): ShortRequest | null {
  if (!begins(bytes, SOCKET)) return null;
  const end = bytes.subarray(0, LONGEST_HEAD).indexOf(HEAD_END);
  const head = end < 0 ? null : readHead(bytes.toString("latin1", 0, end), SOCKET_LINE);
  if (head === null || head.length > 0) return null;
  const value = (wanted: string): string | null => head.headers.find(([name]) => name === wanted)?.[1] ?? null;
  const isPlain =
    value("upgrade")?.toLowerCase() === "websocket" && value("sec-websocket-version") === "13" && SOCKET_KEY.test(value("sec-websocket-key") ?? "");
  const url = `http://${head.host}/`;
  return isPlain && URL.canParse(url) ? { method: "GET", url, headers: head.headers, body: null, bytes: end + HEAD_END.length } : null;
}

/** True if a line ends in LF alone: the empty line after the head may do so too. */
function hasBareLine(bytes: Buffer): boolean {
  return /(?<!\r)\n/.test(bytes.toString("latin1"));
}

/** True if the bytes begin with this text, or can still do so. */
function begins(bytes: Buffer, text: string): boolean {
  return bytes.toString("latin1", 0, text.length) === text.slice(0, bytes.length);
}

/** Reads a head without its empty line; null if it is not of the plainest form. */
function readHead(head: string, requestLine: RegExp): { target: string; host: string; headers: [string, string][]; length: number } | null {
  const [first = "", ...lines] = head.split("\r\n");
  const target = requestLine.exec(first)?.[1];
  if (target === undefined) return null;
  const isUpgrade = requestLine === SOCKET_LINE;
  const single = new Map<string, string>();
  const headers: [string, string][] = [];
  for (const line of lines) {
    const [, written, value = ""] = HEADER.exec(line) ?? [];
    if (written === undefined) return null;
    const name = written.toLowerCase();
    if ((SPECIAL.has(name) && !(isUpgrade && name === "upgrade")) || single.has(name)) return null;
    if (name === "connection" && !(isUpgrade ? UPGRADES : KEEPS).test(value)) return null;
    if (SINGLE.has(name)) single.set(name, value);
    if (!HOP.has(name)) headers.push([name, value]);
  }
  const host = single.get("host");
  // A commit tells how long its body is.
  const length = single.get("content-length") ?? (first.startsWith(COMMIT) ? "" : "0");
  return host !== undefined && HOST.test(host) && LENGTH.test(length) ? { target, host, headers, length: Number(length) } : null;
}
