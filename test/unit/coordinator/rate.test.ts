import { readFileSync } from "node:fs";
import { describe, expect, test, vi } from "vitest";
import { takesTooMuchAtPlatform } from "../../../src/coordinator/http/middleware.ts";
import { RATES } from "../../../src/protocol/limits.ts";

describe("the platform's counter", () => {
  test("[LM2] gets the name of the client, and a client that it refuses is refused", async () => {
    const asked: string[] = [];
    const counter = (success: boolean) => ({
      limit: ({ key }: { key: string }) => {
        asked.push(key);
        return Promise.resolve({ success });
      },
    });
    expect(await takesTooMuchAtPlatform(counter(true), "192.0.2.1")).toBe(false);
    expect(await takesTooMuchAtPlatform(counter(false), "192.0.2.2")).toBe(true);
    expect(asked).toEqual(["192.0.2.1", "192.0.2.2"]);
  });

  test("[LM2] allows the request if it is not bound or fails", async () => {
    const logged = vi.spyOn(console, "error").mockImplementation(() => undefined);
    expect(await takesTooMuchAtPlatform(undefined, "192.0.2.1")).toBe(false);
    expect(await takesTooMuchAtPlatform({ limit: () => Promise.reject(new Error("down")) }, "192.0.2.1")).toBe(false);
    expect(logged.mock.calls.flat().join("")).toContain("rate_unreadable");
    logged.mockRestore();
  });

  test.each(["evm", "svm"])("[LM2] of %s counts what limits.ts says, and its request log has no URLs", (instance) => {
    const toml = readFileSync(new URL(`../../../wrangler.${instance}.toml`, import.meta.url), "utf8");
    const simple = (name: string) => new RegExp(`name = "${name}"\\nnamespace_id = "\\d+"\\nsimple = (.*)`).exec(toml)?.[1];
    expect(simple("COMMIT_RATE")).toBe(`{ limit = ${RATES.commitsPerMinute}, period = 60 }`);
    expect(simple("PAID_COMMIT_RATE")).toBe(`{ limit = ${RATES.paidCommitsPerMinute}, period = 60 }`);
    expect(simple("POLL_RATE")).toBe(`{ limit = ${RATES.pollsPerTenSeconds}, period = 10 }`);
    expect(simple("TRUST_RATE")).toBe(`{ limit = ${RATES.trustPerMinute}, period = 60 }`);
    expect(simple("CONNECT_RATE")).toBe(`{ limit = ${RATES.connectsPerMinute}, period = 60 }`);
    expect(toml).toMatch(/\[observability\.logs\]\nenabled = true\ninvocation_logs = false\n/);
  });

  test.each(["evm", "svm"])("[LM1] of %s accepts no compressed sockets", (instance) => {
    const toml = readFileSync(new URL(`../../../wrangler.${instance}.toml`, import.meta.url), "utf8");
    expect(toml).toMatch(/^compatibility_flags = \[.*"no_web_socket_compression"/m);
  });
});
