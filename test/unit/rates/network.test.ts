import * as fc from "fast-check";
import { expect, test } from "vitest";
import { blockOf, networkOf, shareOwner, UNKNOWN_CLIENT } from "../../../src/coordinator/rates/network.ts";

test.each([
  ["192.0.2.7", "192.0.2.7"],
  [" 192.0.2.7 ", "192.0.2.7"],
  ["192.0.2.7:51234", "192.0.2.7"],
  ["::ffff:192.0.2.7", "192.0.2.7"],
  ["[::FFFF:192.0.2.7]:443", "192.0.2.7"],
  ["::ffff:c000:207", "192.0.2.7"],
  ["0:0:0:0:0:ffff:192.0.2.7", "192.0.2.7"],
  ["0000:0000:0000:0000:0000:ffff:c000:0207", "192.0.2.7"],
  ["::fffe:c000:207", "0:0:0:0::/64"],
  ["0:0:0:1:0:ffff:c000:207", "0:0:0:1::/64"],
  ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
  ["2001:0DB8:0001:0002::1", "2001:db8:1:2::/64"],
  ["[2001:db8:1:2::1]:443", "2001:db8:1:2::/64"],
  ["fe80::1%eth0", "fe80:0:0:0::/64"],
  ["2001:db8::", "2001:db8:0:0::/64"],
  ["::1", "0:0:0:0::/64"],
  ["64:ff9b::192.0.2.7", "64:ff9b:0:0::/64"],
  ["", ""],
  ["unknown", "unknown"],
  ["a::b::c", "a::b::c"],
  ["x".repeat(100), "x".repeat(64)],
])("[LM2] %j is counted as %j", (address, network) => {
  expect(networkOf(address)).toBe(network);
});

test.each([
  ["192.0.2.7", "192.0.2.0/24"],
  ["2001:db8:1:2::/64", "2001:db8:1::/48"],
  [UNKNOWN_CLIENT, UNKNOWN_CLIENT],
])("[TR3] guesses of the client %j count for the block %j", (client, block) => {
  expect(blockOf(client)).toBe(block);
});

test.each([
  ["192.0.2.7", true, "192.0.2.7"],
  ["2001:db8:1:2::/64", true, "2001:db8:1::/48"],
  ["192.0.2.7", false, null],
  [UNKNOWN_CLIENT, true, null],
  ["", true, null],
])("[LM1] the client %j, with limits %j, uses the share of %j: clients without an address have none together", (client, rateLimits, owner) => {
  expect(shareOwner(client, rateLimits)).toBe(owner);
});

test("[LM2] all addresses of one /64 are one client, however they are written; another /64 is another client", () => {
  const group = fc.integer({ min: 0, max: 0xffff });
  const groups = fc.array(group, { minLength: 8, maxLength: 8 });
  fc.assert(
    fc.property(groups, groups, fc.boolean(), (one, two, padded) => {
      const written = (all: number[]) => all.map((value) => value.toString(16).padStart(padded ? 4 : 1, "0")).join(":");
      const short = (all: number[]) => new URL(`http://[${written(all)}]`).hostname.slice(1, -1);
      const neighbour = [...one.slice(0, 4), ...two.slice(4)];
      expect(networkOf(short(neighbour))).toBe(networkOf(written(one)));
      const same = one.slice(0, 4).join() === two.slice(0, 4).join();
      if (!same) expect(networkOf(written(two))).not.toBe(networkOf(written(one)));
    }),
    { numRuns: 500 },
  );
});
