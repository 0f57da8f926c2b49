// What the front counts for each client: its connections, how fast it opens them, and the frames that its sockets share. Pure: front.ts moves the bytes.
import { isIP } from "node:net";
import { readSettings } from "../src/coordinator/config.ts";
import { networkOf, shareOwner } from "../src/coordinator/rates/network.ts";
import { type Rate, TokenBucket } from "../src/coordinator/rates/token-bucket.ts";
import { isLoopback } from "../src/protocol/text.ts";
import { SECOND } from "../src/protocol/times.ts";
import { ClientFrames } from "./frame-guard.ts";

/** Connections of one client: its sockets, as many that linger, and its requests. */
export const CONNECTIONS_PER_CLIENT = 1_024;
/** New connections of one client. */
export const NEW_CONNECTIONS: Rate = { perSecond: 100, burst: CONNECTIONS_PER_CLIENT };
/** A client without a connection is remembered for so many ms. Then all its budgets are full again, so a new one would be the same. */
export const REMEMBERED_MS = 30 * SECOND;
/** Clients without a connection that are remembered. The one that left first is forgotten for one more. */
export const MOST_REMEMBERED = 10_000;

/** One client, which has `connections` now. `frames` is what all its sockets share. */
export type Client = { name: string; connections: number; opened: TokenBucket; frames: ClientFrames };

/** How clients are told apart and limited. */
export type ClientOptions = {
  /** Whether one client is limited, and not only one connection. */
  limitsClients: boolean;
  /** The header that a proxy sets to the client's address; null if clients connect by themselves. */
  trustedIpHeader: string | null;
  /** The frames that the hub reads of one socket. */
  messages: Rate;
};

/** Reads these options from the variables of a coordinator. @throws {SettingsError} */
export function clientOptionsOf(variables: Record<string, string>): ClientOptions {
  const { rateLimits, trustedIpHeader, rates } = readSettings(variables);
  return { limitsClients: rateLimits, trustedIpHeader, messages: { perSecond: rates.messagesPerSecond, burst: rates.messageBurst } };
}

/** True for an address of this machine, which a proxy may have. */
export function isOfThisMachine(address: string): boolean {
  return address === "::1" || isLoopback(networkOf(address));
}

/** All clients. A client is an IPv4 address or an IPv6 /48, as in the hub. Times are ms of a monotonic clock. */
export class Clients {
  readonly #options: ClientOptions;
  readonly #known = new Map<string, Client>();
  /** Those without a connection, and since when; the one that left first comes first. */
  readonly #away = new Map<Client, number>();

  constructor(options: ClientOptions) {
    this.#options = options;
  }

  /** How many clients are known. */
  get size(): number {
    return this.#known.size;
  }

  /** The client that connects by itself; null if it is a proxy, or may be one of this machine. */
  ofPeer(address: string, now: number): Client | null {
    return this.#options.trustedIpHeader !== null || isOfThisMachine(address) ? null : this.#of(address, now);
  }

  /** The client that a proxy names in the head of a request, in the last entry of its header; null if it names none. */
  ofHead(head: string, now: number): Client | null {
    const name = this.#options.trustedIpHeader?.toLowerCase();
    if (name === undefined) return null;
    const line = head.split(/\r?\n/).findLast((text) => text.slice(0, text.indexOf(":")).toLowerCase() === name);
    const address =
      line
        ?.slice(name.length + 1)
        .split(",")
        .at(-1)
        ?.trim() ?? "";
    const network = networkOf(address);
    return isIP(network) === 4 || network.endsWith("::/64") ? this.#of(address, now) : null;
  }

  /** Counts one more connection of a client. False if it has too many, or opened too many lately: then it is not counted. */
  open(client: Client, now: number): boolean {
    if (client.connections >= CONNECTIONS_PER_CLIENT || client.opened.take(now).kind !== "pass") return false;
    client.connections++;
    this.#away.delete(client);
    return true;
  }

  /** One connection of a client has ended. */
  close(client: Client, now: number): void {
    client.connections--;
    if (client.connections === 0) this.#leave(client, now);
  }

  /** Forgets those who left long ago. */
  forget(now: number): void {
    for (const [client, since] of this.#away) {
      if (now - since < REMEMBERED_MS && this.#away.size <= MOST_REMEMBERED) return;
      this.#away.delete(client);
      this.#known.delete(client.name);
    }
  }

  #of(address: string, now: number): Client | null {
    const name = shareOwner(networkOf(address), this.#options.limitsClients);
    if (name === null) return null;
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    const client = { name, connections: 0, opened: new TokenBucket(NEW_CONNECTIONS, now), frames: new ClientFrames(this.#options.messages, now) };
    this.#known.set(name, client);
    // It has no connection until one is counted, which may be refused.
    this.#leave(client, now);
    return client;
  }

  #leave(client: Client, now: number): void {
    this.#away.set(client, now);
    this.forget(now);
  }
}
