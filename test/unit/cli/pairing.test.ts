import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import jsQR from "jsqr";
import { describe, expect, it } from "vitest";
import { bigText, offerLines, qrLines } from "../../../src/cli/commands/pair.ts";

import { toHex } from "../../../src/receipt/bytes.ts";
import { fingerprintOf } from "../../../src/receipt/ed25519.ts";
import { countdown, isLocalAddress } from "../../../src/sdk/trust.ts";

import { lockWorker, workerId } from "../../../src/worker/node/worker-lock.ts";
import { firstStatus, StatusFile, statusReport } from "../../../src/worker/node/worker-status.ts";
import { reply } from "../sdk/support/faults.ts";
import { type Fault, RouterServer, WORKER } from "../sdk/support/router-server.ts";
import { until } from "../../support/until.ts";
import { runHere } from "../worker/support/cli-here.ts";
import { temporaryFolder } from "../worker/support/folder.ts";
import { hasScript, Screen, terminal } from "./support/terminal.ts";

const WORDS = fingerprintOf(WORKER.publicKey);
const ESCAPE = "\u001B";

/** A folder with the key of the worker behind the router. */
function withKey(): string {
  const folder = temporaryFolder();
  writeFileSync(join(folder, "worker.key"), `${toHex(WORKER.secret)}\n`, { mode: 0o600 });
  return folder;
}

/** The user's first look finds that the worker has just claimed the code. */
function claimedAtOnce(router: RouterServer): Fault {
  return (response, _request, proceed) => {
    const claim = router.client().trust.claim({ pairing_code: "A00000", provider_pubkey: WORKER.publicKey });
    void claim.then(() => proceed(response));
  };
}

/** Reads a QR code off a screen, as a camera would, with a reader that has nothing to do with the writer. */
function scan({ pixels: rows }: Screen): string | undefined {
  const scale = 4;
  const [width, height] = [(rows[0]?.length ?? 0) * scale, rows.length * scale];
  const pixels = new Uint8ClampedArray(width * height * 4).fill(255);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++)
      if (rows[Math.floor(y / scale)]?.[Math.floor(x / scale)] === true) pixels.fill(0, 4 * (y * width + x), 4 * (y * width + x) + 3);
  }
  return jsQR(pixels, width, height)?.data;
}

describe("how a code is shown", () => {
  it("the big letters of all hex digits are clearly different", () => {
    const glyphs = [..."0123456789ABCDEF"].map((digit) =>
      bigText(digit)
        .map((line) => line.padEnd(8))
        .join(""),
    );
    for (const [i, one] of glyphs.entries()) {
      expect(one).toHaveLength(40);
      for (const other of glyphs.slice(i + 1)) expect([...one].filter((cell, at) => cell !== other[at]).length / 2).toBeGreaterThanOrEqual(2);
    }
    expect(Math.max(...bigText("88888D").map((line) => line.length))).toBeLessThanOrEqual(78);
  });

  it.each(["http://127.0.0.1:4010/worker?code=A1B2C3", `https://${"compute-router.".repeat(4)}example/worker?code=000000`])(
    "a QR code of %s that a reader reads",
    (url) => {
      expect(scan(new Screen({ columns: 80, rows: 50 }).write(qrLines(url).join("\r\n")))).toBe(url);
    },
  );

  it.each([
    [80, true, true],
    [65, true, true],
    [64, false, true],
    [20, false, false],
  ])("on a terminal of %i columns nothing is broken into two lines: letters %s, QR code %s", (columns, hasLetters, hasQr) => {
    const lines = offerLines(
      { code: "A1B2C3", expiresAt: new Date(0), workerUrl: "https://r.example/worker?code=A1B2C3", place: "" },
      { color: true, columns, rows: 60 },
    );
    const drawn = lines.filter((line) => /[█▀▄]/.test(line)).map((line) => stripVTControlCharacters(line));
    for (const line of drawn) expect(line.length).toBeLessThanOrEqual(columns);
    expect([lines.join("\n").includes("████████"), lines.join("\n").includes("48;5;231m")]).toEqual([hasLetters, hasQr]);
    expect(lines.join("\n")).toContain(hasLetters ? "██" : "A 1 B 2 C 3");
  });

  it.each([
    [3_600_000, "60:00"],
    [3_598_001, "59:59"],
    [59_000, "00:59"],
    [1, "00:01"],
    [-5, "00:00"],
  ])("%i ms are %s", (ms, text) => {
    expect(countdown(ms)).toBe(text);
  });

  it.each([
    ["http://127.0.0.1:4010/", true],
    ["http://127.9.9.9/", true],
    ["http://localhost:1/", true],
    ["http://[::1]:4010/", true],
    ["https://router.example/", false],
    ["http://192.168.1.7:4010/", false],
    ["https://127.example/", false],
  ])("%s is this machine only: %s", (url, isLocal) => {
    expect(isLocalAddress(url)).toBe(isLocal);
  });
});

describe("pair create", () => {
  it("in a pipe gives the code, its end and both ways to claim it, in plain text, and does not wait", async () => {
    const router = await RouterServer.start();
    const { code, stdout } = await runHere(["pair", "create", "--user", "u", "--url", router.url]);
    expect(code).toBe(0);
    expect(stdout).toMatch(
      new RegExp(
        `^A00000\nvalid until 20\\S+Z\non the worker's machine: npx compute-router worker pair A00000 --url ${router.url}\nphone or browser: +${router.url}/worker\\?code=A00000\n`,
      ),
    );
    expect(stdout).not.toContain(ESCAPE);
    expect(router.to("/v1/trust/list")).toEqual([]);
  });

  it("--json --wait says the code at once and then the worker, one object a line", async () => {
    const router = await RouterServer.start();
    router.fail("GET /v1/trust/list", claimedAtOnce(router));
    const { code, stdout } = await runHere(["pair", "create", "--user", "u", "--url", router.url, "--json", "--wait"]);
    const [offer, worker] = stdout.trim().split("\n");
    expect(code).toBe(0);
    expect(JSON.parse(offer ?? "")).toEqual({
      pairing_code: "A00000",
      expires_at: expect.stringMatching(/Z$/),
      worker_url: `${router.url}/worker?code=A00000`,
    });
    expect(JSON.parse(worker ?? "")).toEqual({ provider_pubkey: WORKER.publicKey, fingerprint: WORDS, paired_at: expect.stringMatching(/Z$/) });
  });

  it("[TR2] reports a missing token while it waits (5)", async () => {
    const router = await RouterServer.start();
    await router.client({ userId: "u", userToken: "secret" }).trust.create();
    const { code, stderr } = await runHere(["pair", "create", "--user", "u", "--url", router.url, "--wait"]);
    expect({ code, stderr }).toEqual({ code: 5, stderr: expect.stringContaining("--user-token") });
  });

  it("with --json on a terminal does not wait, and reports what goes wrong while it waits (5)", async () => {
    const router = await RouterServer.start();
    const create = (...more: string[]) => runHere(["pair", "create", "--user", "u", "--url", router.url, ...more], { isTerminal: true });
    expect(await create("--json")).toMatchObject({ code: 0, stderr: "" });
    expect(router.to("/v1/trust/list")).toEqual([]);
    router.fail("GET /v1/trust/list", reply(401, { error: "user_token_required" }));
    expect(await create("--json", "--wait")).toMatchObject({ code: 5, stderr: expect.stringContaining("--user-token") });
  });

  it("shows no control character of an address", () => {
    const offer = { code: "A1B2C3", expiresAt: new Date(0), workerUrl: `https://r.example/${ESCAPE}[2J`, place: "" };
    expect(offerLines(offer, { color: false, columns: 80, rows: 60 }).join("\n")).not.toContain(ESCAPE);
  });

  describe.runIf(hasScript)("on a terminal", () => {
    it("shows the code in big letters and as a QR code, counts down, and says in words who claimed it", async () => {
      const router = await RouterServer.start();
      let proceed = () => {};
      router.fail("GET /v1/trust/list", (...fault) => {
        proceed = () => void claimedAtOnce(router)(...fault);
      });
      const { says, said, screen, exited } = terminal(["pair", "create", "--user", "u", "--url", router.url]);
      // How long the first of them takes depends on the machine.
      const times = () => [...said().matchAll(/expires in (\d\d:\d\d)/g)].map(([, time]) => time);
      await says("expires in ");
      for (const line of bigText("A00000")) expect(screen().text).toContain(line.trimEnd());
      expect(screen().lines[0]).toBe("");
      expect(scan(screen())).toBe(`${router.url}/worker?code=A00000`);
      expect(screen().text).toContain("for this machine only");
      await until("a later countdown", () => (new Set(times()).size > 1 ? true : undefined));
      expect(times()).toEqual(times().toSorted().toReversed());
      proceed();
      expect(await exited).toBe(0);
      expect(said()).toContain(`paired with worker ${WORDS} (key ${WORKER.publicKey.slice(0, 4)}…`);
      expect(said()).toMatch(/If they differ, another worker has claimed the code, and a pairing cannot be undone:\s+use a new user id \(--user ID\)/);
    });

    it.each([
      { columns: 80, rows: 24 },
      { columns: 120, rows: 30 },
    ])("$columns × $rows: the code and its QR code are on the screen together, whole", async (size) => {
      const router = await RouterServer.start();
      const { says, screen } = terminal(["pair", "create", "--user", "u", "--url", router.url], {}, size);
      await says("expires in");
      expect(scan(screen())).toBe(`${router.url}/worker?code=A00000`);
      // The terminal may break the line.
      expect(screen().text.replaceAll("\n", "")).toContain(`npx compute-router worker pair A00000 --url ${router.url}`);
      expect(screen().text).toMatch(size.rows === 24 ? /^ {2}A 0 0 0 0 0$/m : /██/);
    });

    it("Ctrl-C leaves the code valid, and says so and how to see who claimed it (130)", async () => {
      const router = await RouterServer.start();
      const { says, said, type, exited } = terminal(["pair", "create", "--user", "u", "--url", router.url]);
      await says("expires in");
      type("\u0003");
      expect(await exited).toBe(130);
      expect(said()).toMatch(/stays valid until \S+; to see who claimed it: /);
      expect(said()).toContain(`pair list --url ${router.url} --user u\r\n`);
    });

    it("NO_COLOR: plain text without escapes, and it waits all the same", async () => {
      const router = await RouterServer.start();
      router.fail("GET /v1/trust/list", claimedAtOnce(router));
      const { said, exited } = terminal(["pair", "create", "--user", "u", "--url", router.url], { NO_COLOR: "1" });
      expect(await exited).toBe(0);
      expect(said()).toMatch(/^A00000\r?\nvalid until/);
      expect(said()).toContain(`paired with worker ${WORDS}`);
      expect(said()).not.toContain(ESCAPE);
    });
  });
});

describe("worker pair without --url", () => {
  it("asks the coordinators of the running worker, and names those that it asked where none knows the code", async () => {
    const [router, other] = [await RouterServer.start(), await RouterServer.start()];
    await router.client({ userId: "u" }).trust.create();
    const folder = withKey();
    const urls = [other, router].map(({ url }) => `${url.replace("http", "ws")}/`);
    const status = firstStatus(urls.map((url) => new URL(url).host));
    const about = { pid: process.pid, startedAt: 0, now: 0, publicKey: WORKER.publicKey, name: null, metrics: null, urls };
    // This process stands for the worker: its report says where it works.
    new StatusFile(folder).write(statusReport(status, about));
    const pair = (code: string) => runHere(["worker", "pair", code, "--config-dir", folder]);
    expect(await pair("A00000")).toMatchObject({ code: 0, stdout: expect.stringContaining(`paired at ${new URL(router.url).host}: worker ${WORDS}`) });
    const { code, stderr } = await pair("BBBBBB");
    const advice = "check the code, or use --url with the address of the coordinator that created it";
    expect({ code, stderr }).toEqual({
      code: 5,
      stderr: `invalid_code: ${new URL(other.url).host} and ${new URL(router.url).host} do not know the code; ${advice}\n`,
    });
    const one = await runHere(["worker", "pair", "BBBBBB", "--url", router.url, "--config-dir", folder]);
    expect(one).toMatchObject({ code: 5, stderr: `invalid_code: ${new URL(router.url).host} does not know the code; ${advice}\n` });
  });
});

describe("worker pair without --url, while the report of the running worker cannot be written", () => {
  it("asks the coordinator of the configuration if the worker works there, and asks for a --url otherwise", async () => {
    const [router, other] = [await RouterServer.start(), await RouterServer.start()];
    await router.client({ userId: "u" }).trust.create();
    const folder = withKey();
    const [url, elsewhere] = [router, other].map((server) => `${server.url.replace("http", "ws")}/`) as [string, string];
    writeFileSync(join(folder, "worker.json"), JSON.stringify({ version: 1, coordinators: [{ url }], llm: { kind: "none" } }));
    const pair = () => runHere(["worker", "pair", "A00000", "--config-dir", folder]);
    const worker = lockWorker(folder, workerId(elsewhere, WORKER.publicKey));
    expect(await pair()).toMatchObject({ code: 2, stderr: expect.stringContaining("so its coordinator is not known; use --url with its address") });
    const also = lockWorker(folder, workerId(url, WORKER.publicKey));
    expect([worker.ok, also.ok]).toEqual([true, true]);
    expect(await pair()).toMatchObject({ code: 0, stdout: expect.stringContaining(`paired at ${new URL(router.url).host}: `) });
  });
});

describe("a code that cannot be claimed", () => {
  it("is asked for at the next coordinator if one cannot be reached; if none knows it, both are told (6)", async () => {
    const router = await RouterServer.start();
    await router.client({ userId: "u" }).trust.create();
    const pair = (code: string, ...more: string[]) =>
      runHere(["worker", "pair", code, "--url", "ws://127.0.0.1:1/", "--url", router.url, "--config-dir", withKey(), ...more]);
    const { stdout } = await pair("A00000", "--json");
    expect(JSON.parse(stdout)).toMatchObject({ coordinator: new URL(router.url).host, provider_pubkey: WORKER.publicKey, fingerprint: WORDS });
    const { code, stderr } = await pair("BBBBBB");
    expect({ code, stderr }).toEqual({
      code: 6,
      stderr: expect.stringMatching(/^no coordinator at http:\/\/127\.0\.0\.1:1: .*; 127\.\S+ does not know the code\n$/),
    });
  });

  it.each([
    [
      "already_claimed",
      /^already_claimed: the code was used; its owner can create a new one: pair create; if an earlier try of this worker got no answer, it may be paired already: then the user's pair list shows its words\n$/,
    ],
    ["expired", /^expired: a code is valid for one hour; its owner can create a new one: pair create\n$/],
    // A name that every object has is no advice.
    ["constructor", /^.*\bconstructor\n$/],
  ])("%s: what to do (5)", async (error, message) => {
    const router = await RouterServer.start();
    router.fail("POST /v1/trust/claim", reply(400, { error }));
    const { code, stderr } = await runHere(["pair", "claim", "A00000", "--url", router.url, "--config-dir", withKey()]);
    expect({ code, stderr }).toEqual({ code: 5, stderr: expect.stringMatching(message) });
  });
});

describe("[TR2] pair create with a token", () => {
  const create = (router: RouterServer, ...more: string[]) => runHere(["pair", "create", "--user", "u", "--url", router.url, ...more]);

  it("warns if it has no effect, because the first code of the user was created without one", async () => {
    const router = await RouterServer.start();
    expect(await create(router, "--user-token", "secret")).toMatchObject({ code: 0, stderr: "" });
    const other = await RouterServer.start();
    expect(await create(other)).toMatchObject({ code: 0, stderr: "" });
    expect(other.to("/v1/jobs")).toEqual([]);
    const late = await create(other, "--user-token", "secret", "--json");
    expect(late).toMatchObject({ code: 0, stderr: expect.stringMatching(/^WARNING: the token has no effect, because the first code .*\n$/) });
    expect(JSON.parse(late.stdout)).toMatchObject({ pairing_code: "A00001" });
  });

  it("says nothing if the coordinator cannot tell", async () => {
    const router = await RouterServer.start();
    router.fail("GET /v1/jobs", reply(404, { error: "not_found" }));
    expect(await create(router, "--user-token", "secret")).toMatchObject({ code: 0, stderr: "" });
  });
});

describe("a text that cannot be a code", () => {
  it.each(["12345", "1234567", "A1B2CG", "", "А1B2C3"])("%j is refused before anybody is asked", async (code) => {
    const router = await RouterServer.start();
    const place = ["--url", router.url, "--config-dir", withKey()];
    const refused = { code: 2, stderr: "a pairing code has six characters, 0 to 9 and A to F\n" };
    expect(await runHere(["worker", "pair", code, ...place])).toMatchObject(refused);
    expect(await runHere(["pair", "claim", code, ...place])).toMatchObject(refused);
    expect([...router.to("/v1/health"), ...router.to("/v1/trust/claim")]).toEqual([]);
  });

  it("worker init with one writes neither key nor configuration", async () => {
    const folder = join(temporaryFolder(), "new");
    const { code, stderr } = await runHere(["worker", "init", "--tasks-only", "--pair", "12345", "--config-dir", folder]);
    expect({ code, stderr }).toEqual({ code: 2, stderr: "a pairing code has six characters, 0 to 9 and A to F\n" });
    expect(existsSync(folder)).toBe(false);
  });
});

describe("the same words on both sides", () => {
  it("worker pair, pair claim, pair list and worker key show", async () => {
    const router = await RouterServer.start();
    const user = router.client({ userId: "u" });
    const place = ["--config-dir", withKey()];
    const url = ["--url", router.url];
    await user.trust.create();
    await user.trust.create();
    const mine = await runHere(["worker", "pair", "a00000", ...url, ...place]);
    expect(mine).toMatchObject({ code: 0, stdout: expect.stringContaining(`worker ${WORDS} (key `) });
    await user.trust.create();
    expect(await runHere(["pair", "claim", "A00002", ...url, ...place])).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(`paired: worker ${WORDS} (key `),
    });
    const claimed = await runHere(["pair", "claim", "A00001", "--json", ...url, ...place]);
    expect(JSON.parse(claimed.stdout)).toMatchObject({ provider_pubkey: WORKER.publicKey, fingerprint: WORDS });

    const list = await runHere(["pair", "list", "--user", "u", ...url]);
    expect(list.stdout).toMatch(new RegExp(`^${WORDS}\n  paired 20\\S+Z  key ${WORKER.publicKey}\n`));
    const json = await runHere(["pair", "list", "--user", "u", "--json", ...url]);
    expect(JSON.parse(json.stdout)).toContainEqual({ provider_pubkey: WORKER.publicKey, paired_at: expect.stringMatching(/Z$/), fingerprint: WORDS });

    expect(await runHere(["worker", "key", "show", ...place])).toEqual({ code: 0, stdout: `${WORKER.publicKey}\n`, stderr: `${WORDS}\n` });
    expect(JSON.parse((await runHere(["worker", "key", "show", "--json", ...place])).stdout)).toMatchObject({ fingerprint: WORDS });
  });

  it("pair claim takes the key and the coordinators of worker.json, as worker pair does", async () => {
    const router = await RouterServer.start();
    await router.client({ userId: "u" }).trust.create();
    const folder = withKey();
    const key = join(withKey(), "worker.key");
    writeFileSync(join(folder, "worker.key"), `${"1".repeat(64)}\n`, { mode: 0o600 });
    const coordinators = [{ url: `${router.url.replace("http", "ws")}/` }];
    writeFileSync(join(folder, "worker.json"), JSON.stringify({ version: 1, coordinators, llm: { kind: "none" }, key }));
    const claimed = await runHere(["pair", "claim", "A00000", "--json", "--config-dir", folder]);
    expect(claimed).toMatchObject({ code: 0, stderr: "" });
    expect(JSON.parse(claimed.stdout)).toMatchObject({ provider_pubkey: WORKER.publicKey });
  });
});
