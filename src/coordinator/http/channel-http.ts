// Requests and responses as plain objects, for what comes on the channel (channel.ts), as far as the routes of commits and polls use them. Those of workerd
// have memory that V8 collects late: to make, read and drop both was a fifth of a job (docs/decisions/0019).
import type { NearEnd } from "../hub/rpc.ts";

/** Headers. Unlike those of the platform they keep names as they were written. */
class PlainHeaders {
  readonly #list: [name: string, value: string][];

  constructor(list: [name: string, value: string][]) {
    this.#list = list;
  }

  /** All values of a name, joined, as those of the platform; null without one. */
  get(name: string): string | null {
    const wanted = name.toLowerCase();
    let found: string | null = null;
    for (const [other, value] of this.#list) if (other.toLowerCase() === wanted) found = found === null ? value : `${found}, ${value}`;
    return found;
  }

  has(name: string): boolean {
    return this.get(name) !== null;
  }

  /** Adds a header, of which there must be none. */
  set(name: string, value: string): void {
    this.#list.push([name, value]);
  }

  [Symbol.iterator](): Iterator<[name: string, value: string]> {
    return this.#list.values();
  }
}

type RequestParts = { method: string; url: string; headers: [name: string, value: string][]; body: string | null };

/** A request whose body is here already, as text. */
export class PlainRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: PlainHeaders;
  readonly text: string;
  /** Nothing is left to be read. */
  readonly body = null;
  readonly bodyUsed = true;
  /** The socket that an upgrade asks for. */
  socket: NearEnd | null = null;

  constructor({ method, url, headers, body }: RequestParts) {
    this.method = method;
    this.url = url;
    this.headers = new PlainHeaders(headers);
    this.text = body ?? "";
  }

  /** For the router, which takes those of the platform. */
  asRequest(): Request;
  asRequest(): Request | PlainRequest {
    return this;
  }
}

type ResponseParts = { status: number; headers: Record<string, string> };

/** The response to it. */
export class PlainResponse {
  readonly status: number;
  readonly headers: PlainHeaders;
  readonly body: string;

  constructor(body: string, { status, headers }: ResponseParts) {
    this.status = status;
    this.headers = new PlainHeaders(Object.entries(headers));
    this.body = body;
  }

  /** One for a route, which gives those of the platform. */
  static of(body: string, parts: ResponseParts): Response;
  static of(body: string, parts: ResponseParts): Response | PlainResponse {
    return new PlainResponse(body, parts);
  }
}
