// Simulates a new release of the pages while browsers are open: the same files under other names.
import { once } from "node:events";
import { createServer, request as ask, type IncomingMessage, type ServerResponse } from "node:http";
import { connect } from "node:net";
import { buffer } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import { finallyDo } from "../support/finally.ts";

/** A coordinator that is updated while browsers are there: the same one behind other names for the files of its pages. */
export type Releases = {
  /** Its address. */
  readonly url: string;
  /**
   * From now on the pages are those of another build. Their old files are gone. With "page" only the HTML of the worker page is, as in the middle of a rollout.
   */
  update(what?: keyof typeof UPDATED): void;
};

/** A content hash: in the names of files, and as the release that a service worker names its cache after. */
const HASH = /\b[0-9a-f]{12}\b/g;
/** The paths of what an update changes. */
const UPDATED = { nothing: /^$/, page: /^\/worker$/, all: /^\/(?:worker|pair|home)(?:$|[/?])/ };
/** The coordinator answers within milliseconds: silence for this long is a fault, which the browser must see as one. */
const SILENCE_MS = 10_000;
const TEXT = /^(?:text\/|application\/(?:javascript|json|manifest\+json))/;

/** The hash that a file has in the other build, and back. */
function other(hash: string): string {
  return [...hash].map((digit) => (15 - Number.parseInt(digit, 16)).toString(16)).join("");
}

/** Puts such updates in front of the coordinator at `target` (an http URL), until the tests of this file are over. */
export async function launchReleases(target: string): Promise<Releases> {
  const { hostname, port } = new URL(target);
  let updated = UPDATED.nothing;
  const inOtherBuild = (text: string) => text.replaceAll(HASH, other);

  async function forward(from: IncomingMessage, to: ServerResponse): Promise<void> {
    const { method, headers, url: path = "/" } = from;
    const changes = updated.test(path);
    // The coordinator would say that the browser has the newest file already.
    const { "if-none-match": etag, "accept-encoding": encoding, ...rest } = headers;
    const asked = changes
      ? rest
      : { ...rest, ...(etag !== undefined && { "if-none-match": etag }), ...(encoding !== undefined && { "accept-encoding": encoding }) };
    // No connection is used twice: the coordinator may be about to close one that is idle.
    const upstream = ask({ hostname, port, method, path: changes ? inOtherBuild(path) : path, headers: asked, agent: false, timeout: SILENCE_MS });
    upstream.on("timeout", () => upstream.destroy(new Error(`no answer to ${method} ${path}`)));
    const [[answer]] = (await Promise.all([once(upstream, "response"), pipeline(from, upstream)])) as [[IncomingMessage], void];
    if (!changes || !TEXT.test(answer.headers["content-type"] ?? "")) {
      to.writeHead(answer.statusCode ?? 502, answer.headers);
      return await pipeline(answer, to);
    }
    const text = inOtherBuild((await buffer(answer)).toString());
    const { etag: _, "content-length": __, "transfer-encoding": ___, ...kept } = answer.headers;
    to.writeHead(answer.statusCode ?? 502, kept).end(text);
  }

  // Whatever breaks on the way ends the browser's request too, so no tab waits for an answer that never comes.
  const server = createServer((from, to) => void forward(from, to).catch(() => to.destroy()));
  server.on("upgrade", (from, near, head) => {
    const far = connect(Number(port), hostname);
    const lines = from.rawHeaders.flatMap((name, i, all) => (i % 2 === 0 ? [`${name}: ${all[i + 1] ?? ""}`] : []));
    far.write(`GET ${from.url ?? "/"} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n`);
    far.write(head);
    near.pipe(far).pipe(near);
    for (const socket of [near, far]) socket.on("error", () => {}).on("close", () => (socket === near ? far : near).destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  finallyDo(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  if (typeof address !== "object" || address === null) throw new Error("no address");
  return {
    url: `http://127.0.0.1:${address.port}`,
    update: (what = "all") => {
      updated = UPDATED[what];
    },
  };
}
