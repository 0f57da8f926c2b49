// What the front counts for each client, and for how long it remembers it.
import { describe, expect, test } from "vitest";
import { Clients, CONNECTIONS_PER_CLIENT, MOST_REMEMBERED, NEW_CONNECTIONS, REMEMBERED_MS } from "../../../scripts/front-clients.ts";
import { RATES } from "../../../src/protocol/limits.ts";

const OPTIONS = { limitsClients: true, trustedIpHeader: null, messages: { perSecond: RATES.messagesPerSecond, burst: RATES.messageBurst } };
const BEHIND_PROXY = { ...OPTIONS, trustedIpHeader: "X-Forwarded-For" };
const ADDRESS = "203.0.113.7";

function peer(clients: Clients, address: string, now = 0) {
  const client = clients.ofPeer(address, now);
  if (client === null) throw new Error(`${address} is not counted`);
  return client;
}

/** How many connections are accepted, one after the other, all of them at `now`. */
function opened(clients: Clients, tries: number, now = 0): number {
  let accepted = 0;
  for (let n = 0; n < tries; n++) if (clients.open(peer(clients, ADDRESS, now), now)) accepted++;
  return accepted;
}

describe("who is a client", () => {
  test("[LM1] an IPv4 address is one, and an IPv6 /48 is one", () => {
    const clients = new Clients(OPTIONS);
    expect(peer(clients, ADDRESS)).toBe(peer(clients, "::ffff:203.0.113.7"));
    expect(peer(clients, ADDRESS)).not.toBe(peer(clients, "203.0.113.8"));
    expect(peer(clients, "2001:db8:1:2::5")).toBe(peer(clients, "2001:db8:1:ffff::9"));
    expect(peer(clients, "2001:db8:1:2::5")).not.toBe(peer(clients, "2001:db8:2:2::5"));
  });

  test("an address of this machine is not counted, because a proxy may have it; nor is any where clients are not limited", () => {
    const clients = new Clients(OPTIONS);
    for (const address of ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", ""]) expect(clients.ofPeer(address, 0)).toBeNull();
    expect(new Clients({ ...OPTIONS, limitsClients: false }).ofPeer(ADDRESS, 0)).toBeNull();
  });

  test("behind a proxy the last entry of the last such header is the client, in whatever case the header is written; the proxy itself is not counted", () => {
    const clients = new Clients(BEHIND_PROXY);
    expect(clients.ofPeer(ADDRESS, 0)).toBeNull();
    const head = (...lines: string[]): string => ["GET / HTTP/1.1", ...lines].join("\r\n");
    const named = (...lines: string[]) => clients.ofHead(head(...lines), 0)?.name ?? null;
    expect(named("x-forwarded-for: 198.51.100.1, 203.0.113.7 ")).toBe(ADDRESS);
    expect(named("X-FORWARDED-FOR: 198.51.100.1", "X-Forwarded-For: 203.0.113.7")).toBe(ADDRESS);
    expect(named("X-Forwarded-For: 203.0.113.7", "X-Forwarded-For-Not: 198.51.100.1")).toBe(ADDRESS);
    expect(named("X-Forwarded-For: 2001:db8:1:2::5")).toBe("2001:db8:1::/48");
    for (const address of ["203.0.113.7:51234", "::ffff:203.0.113.7"]) expect(named(`X-Forwarded-For: ${address}`)).toBe(ADDRESS);
    for (const address of ["[2001:db8:1:2::5]", "[2001:db8:1:2::5]:443"]) expect(named(`X-Forwarded-For: ${address}`)).toBe("2001:db8:1::/48");
    for (const lines of [
      [],
      ["X-Forwarded-For: unknown"],
      ["X-Forwarded-For:"],

      ["X-Forwarded-For: 999.1.1.1"],
      ["X-Forwarded-For-Not: 203.0.113.7"],
    ])
      expect(named(...lines)).toBeNull();
    expect(new Clients(OPTIONS).ofHead(head("X-Forwarded-For: 203.0.113.7"), 0)).toBeNull();
  });
});

describe("the limits of a client", () => {
  test("[LM1] it has so many connections at once, and one that ends makes room for another", () => {
    const clients = new Clients(OPTIONS);
    expect(opened(clients, CONNECTIONS_PER_CLIENT + 5)).toBe(CONNECTIONS_PER_CLIENT);
    expect(opened(clients, 1, 10_000)).toBe(0);
    clients.close(peer(clients, ADDRESS), 10_000);
    expect(opened(clients, 2, 10_000)).toBe(1);
    expect(clients.open(peer(clients, "203.0.113.8"), 0)).toBe(true);
  });

  test("[LM2] it opens so many a second, also if it closes each at once", () => {
    const clients = new Clients(OPTIONS);
    let accepted = 0;
    for (let n = 0; n < 20_000; n++) {
      const now = n / 2;
      const client = peer(clients, ADDRESS, now);
      if (!clients.open(client, now)) continue;
      accepted++;
      clients.close(client, now);
    }
    const allowed = NEW_CONNECTIONS.burst + 10 * NEW_CONNECTIONS.perSecond;
    expect(accepted).toBeGreaterThanOrEqual(allowed - 1);
    expect(accepted).toBeLessThanOrEqual(allowed);
  });

  test("[LM2] what it has used up is not forgotten with its last connection, but once it would be full again", () => {
    const clients = new Clients(OPTIONS);
    const client = peer(clients, ADDRESS);
    clients.open(client, 0);
    while (client.frames.buckets.take(true, 0));
    clients.close(client, 0);
    clients.forget(REMEMBERED_MS - 1);
    expect(clients.ofPeer(ADDRESS, 0)).toBe(client);
    expect(client.frames.buckets.take(true, 0)).toBe(false);
    clients.forget(REMEMBERED_MS);
    expect(clients.size).toBe(0);
    expect(clients.ofPeer(ADDRESS, REMEMBERED_MS)).not.toBe(client);
  });

  test("one that has a connection is never forgotten, and it counts from when the last one ends", () => {
    const clients = new Clients(OPTIONS);
    const client = peer(clients, ADDRESS);
    for (const now of [0, 1]) clients.open(client, now);
    clients.close(client, 2);
    clients.forget(10 * REMEMBERED_MS);
    expect(clients.ofPeer(ADDRESS, 0)).toBe(client);
    clients.close(client, 10 * REMEMBERED_MS);
    clients.forget(11 * REMEMBERED_MS - 1);
    expect(clients.size).toBe(1);
    clients.forget(11 * REMEMBERED_MS);
    expect(clients.size).toBe(0);
  });

  test("[LM1] of clients without a connection only so many are remembered, those who left last", () => {
    const clients = new Clients(OPTIONS);
    const connected = peer(clients, ADDRESS);
    clients.open(connected, 0);
    const address = (n: number): string => `10.${(n >> 16) & 255}.${(n >> 8) & 255}.${n & 255}`;
    for (let n = 0; n < MOST_REMEMBERED + 50; n++) {
      const client = peer(clients, address(n), n / 1_000);
      clients.open(client, n / 1_000);
      clients.close(client, n / 1_000);
    }
    expect(clients.size).toBe(MOST_REMEMBERED + 1);
    expect(clients.ofPeer(ADDRESS, 20)).toBe(connected);
  });
});
