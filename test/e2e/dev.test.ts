import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { beforeAll, describe, expect, it } from "vitest";
import { type Child, startChild } from "../../scripts/child.ts";
import { freePort, ROOT, startCoordinator, StartFailure } from "../../scripts/coordinator-process.ts";
import { commandHere } from "../support/command-here.ts";
import { temporaryFolder } from "../support/coordinator.ts";
import { type Started, startWithFewFiles, survivesConnections } from "../support/few-files.ts";
import { finallyDo } from "../support/finally.ts";
import { connectElsewhere } from "../support/other-address.ts";
import { descendants, runtimesOf, stillRunning } from "../support/process-tree.ts";
import { get } from "../support/rest.ts";
import { until } from "../support/until.ts";

const stateDir = temporaryFolder("dev");

function dev(...args: string[]): Child {
  return startChild([join(ROOT, "scripts", "dev.ts"), ...args], { cwd: ROOT });
}

describe("npm run dev", () => {
  // SIGINT takes the same way; start.test.ts sends it.
  it("starts one coordinator with the given settings, says one ready line, and leaves no child behind after SIGTERM", async () => {
    const port = await freePort();
    const child = dev("svm", "--port", String(port), "--state", stateDir, "--var", "TESTNET_MODE=true", "--var", "SVM_NETWORK=solana:test");
    const ready = await until(
      "ready line",
      () => child.lines.find((line) => line.startsWith("ready ")),
      () => child.lines.join("\n"),
    );
    // Where jobs need no payment there is nothing to say about it.
    expect(child.lines.filter((line) => line.includes("TESTNET_MODE"))).toEqual([]);
    expect(ready).toBe(`ready svm http://127.0.0.1:${port} ws://127.0.0.1:${port}/ state ${stateDir}`);
    expect((await get(`http://127.0.0.1:${port}/v1/health`)).body).toMatchObject({ status: "ok", network: "solana:test", workers_online: 0 });
    // A coordinator of one's own is not for the network that the machine is in.
    expect(await connectElsewhere(port)).toBe("ECONNREFUSED");

    const children = descendants(child.pid);
    expect(runtimesOf(child.pid).length).toBeGreaterThan(0);
    process.kill(child.pid, "SIGTERM");
    expect(await child.exited).toBe(0);
    expect(stillRunning(children.map(({ pid }) => pid))).toEqual([]);
  });

  // npm tells its children nothing of a SIGTERM, and the shell of a killed npm lives on.
  it.runIf(existsSync("/proc/self")).each(["SIGTERM", "SIGKILL"] as const)(
    "a program that npm runs as it runs this one ends when npm gets %s",
    async (signal) => {
      const folder = temporaryFolder("npm");
      const { scripts } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { scripts: Record<string, string> };
      expect(scripts["dev"]).toBe("node --import ./scripts/orphan.mjs scripts/dev.ts");
      const idle = `node --import "${pathToFileURL(join(ROOT, "scripts", "orphan.mjs")).href}" idle.cjs`;
      writeFileSync(join(folder, "package.json"), JSON.stringify({ scripts: { idle } }));
      writeFileSync(join(folder, "idle.cjs"), 'require("node:fs").writeFileSync("pid", String(process.pid)); setInterval(() => {}, 1_000);\n');
      const npm = spawn("npm", ["run", "idle"], { cwd: folder, stdio: "ignore" });
      // Its own word, which comes after the preload: before that nothing watches.
      const pid = await until("program", () => {
        const said = existsSync(join(folder, "pid")) ? readFileSync(join(folder, "pid"), "utf8") : "";
        return said === "" ? undefined : Number(said);
      });
      finallyDo(() => stillRunning([pid]).forEach((program) => process.kill(program.pid)));
      npm.kill(signal);
      await until("its end", () => (stillRunning([pid]).length === 0 ? true : undefined));
    },
  );

  // A shell such as bash replaces itself by its only command: then npm is the parent, and who started npm has nothing to do with it.
  it.runIf(existsSync("/proc/self") && existsSync("/bin/bash"))(
    "a program that npm runs goes on when the script that started npm in the background ends",
    async () => {
      const folder = temporaryFolder("bash");
      const idle = `node --import "${pathToFileURL(join(ROOT, "scripts", "orphan.mjs")).href}" idle.cjs`;
      writeFileSync(join(folder, "package.json"), JSON.stringify({ scripts: { idle } }));
      writeFileSync(join(folder, ".npmrc"), "script-shell=/bin/bash\n");
      writeFileSync(join(folder, "idle.cjs"), 'let n = 0; setInterval(() => require("node:fs").writeFileSync("said", `${process.pid} ${++n}`), 50);\n');
      const said = () => (existsSync(join(folder, "said")) ? readFileSync(join(folder, "said"), "utf8").split(" ").map(Number) : []);
      const starter = spawn("sh", ["-c", "npm run idle & while [ ! -s said ]; do sleep 0.05; done"], { cwd: folder, stdio: "ignore" });
      await once(starter, "exit");
      const [pid = 0, before = 0] = await until("program", () => (said().length === 2 ? said() : undefined));
      finallyDo(() => stillRunning([pid]).forEach((program) => process.kill(program.pid)));
      // Looks at its ancestors every 250 ms.
      await until("a second of it", () => ((said()[1] ?? 0) > before + 20 ? true : undefined));
    },
  );

  describe("beside one that runs, whose jobs must be paid, and which may open few files", () => {
    const folder = temporaryFolder("first");
    let port = 0;
    let first: Started;
    beforeAll(async () => {
      port = await freePort();
      first = startWithFewFiles([join(ROOT, "scripts", "dev.ts"), "svm", "--port", String(port), "--state", folder]);
      await until(
        "ready line",
        () => first.lines.find((line) => line.startsWith("ready ")),
        () => first.lines.join("\n"),
      );
    });

    it("the first says in one plain line how to have jobs without payment", async () => {
      // The runtime's log comes by another way than the "ready" line.
      const { lines } = first;
      await until("the line about payments", () => lines.find((line) => line.includes("TESTNET_MODE=true")));
      expect(lines.filter((line) => line.includes("TESTNET_MODE=true"))).toEqual([
        expect.stringMatching(/^jobs must be paid, but SVM_PAY_TO is a placeholder: nobody can pay\. .*--var TESTNET_MODE=true/),
      ]);
      expect(lines.join("\n")).not.toContain("placeholder_pay_to");
    });

    it("more connections than files are allowed do not crash the first: it closes them, and goes on", async () => {
      await survivesConnections(first, port);
    });

    it("says which port is taken and what to do", async () => {
      const { code, lines } = await commandHere(["evm", "--port", String(port), "--state", temporaryFolder("second")], "dev");
      expect(code).toBe(1);
      expect(lines.join("\n")).toMatch(new RegExp(`^port ${port} of 127.0.0.1 is taken: .*another port$`));
    });

    it("a second one on the same state folder says that it waits, does not start, and says why", async () => {
      const { code, lines } = await commandHere(["svm", "--port", String(await freePort()), "--state", folder], "dev");
      expect(code).toBe(1);
      expect(lines).toEqual([
        `another coordinator uses ${folder}: waiting up to 8 s until it has left`,
        `${folder} is in use by another coordinator: stop it, or choose another state folder (--state DIR)`,
      ]);
    });

    it("the first leaves no child process behind when it is killed", async () => {
      const children = descendants(first.pid).map(({ pid }) => pid);
      expect(children.length).toBeGreaterThan(1);
      process.kill(first.pid, "SIGKILL");
      await until("end of all children", () => (stillRunning(children).length === 0 ? true : undefined));
    });
  });

  it.each([
    ["RATE_LIMITS=maybe", 'RATE_LIMITS must be one of on, off, got "maybe"'],
    ["EVM_PAY_TO=nobody", 'EVM_PAY_TO must be an address: 0x and 40 hex digits (capital letters must match the EIP-55 checksum), got "nobody"'],
    ["EVM_RPC_URL=ws://node.example/key", "EVM_RPC_URL must be an http(s) URL"],
    ["EVM_FACILITATOR_AUTHORIZATION=\u00fc", "EVM_FACILITATOR_AUTHORIZATION must be the value of an Authorization header"],
  ])("says in one line what is wrong with --var %s, and shows no secret", async (setting, problem) => {
    expect(await commandHere(["evm", "--var", setting], "dev")).toEqual({ code: 2, lines: [`evm did not start: ${problem}`] });
  });

  const stakes = { STAKE_SOURCE: "evm" };
  const problem = "Invalid setting EVM_RPC_URL: is needed by STAKE_SOURCE=evm; EVM_STAKE_CONTRACT: is needed by STAKE_SOURCE=evm";
  it("names the setting that only the whole set shows wrong, before it starts anything", async () => {
    expect(await commandHere(["evm", "--var", "STAKE_SOURCE=evm"], "dev")).toEqual({ code: 2, lines: [`evm did not start: ${problem}`] });
  });

  it("a wrong setting ends a coordinator that another program starts before workerd starts", async () => {
    const options = { instance: "evm", port: await freePort(), stateDir: temporaryFolder("stakes"), settings: stakes, guardsFrames: true } as const;
    await expect(startCoordinator(options)).rejects.toThrow(`evm did not start: it ended (1)\n${problem}`);
  });

  it("without the front the coordinator names it, once, however often it is asked before it is given up", async () => {
    const lines: string[] = [];
    const options = { instance: "evm", port: await freePort(), stateDir: temporaryFolder("stakes without a front"), settings: stakes } as const;
    await expect(startCoordinator({ ...options, onLine: (line) => lines.push(line) })).rejects.toThrow(
      /^evm did not start: .* answers 500: Invalid setting EVM_RPC_URL: /,
    );
    expect(lines.filter((line) => line.includes("invalid_setting"))).toHaveLength(1);
  });

  it("warns of a setting that no coordinator knows, and names the one that was meant", async () => {
    // A wrong one too, so nothing starts: the warnings come first.
    const { lines } = await commandHere(["evm", ...["TESTNET_MOD=true", "COLOUR=red", "RATE_LIMITS=maybe"].flatMap((text) => ["--var", text])], "dev");
    expect(lines.slice(0, -1)).toEqual([
      "--var TESTNET_MOD: the coordinator does not know this setting; did you mean TESTNET_MODE?",
      "--var COLOUR: the coordinator does not know this setting; docs/operations.md lists the settings",
    ]);
  });

  it.runIf(existsSync("/proc/self"))("a state folder that cannot be made ends it at once with one line", async () => {
    const start = startCoordinator({ instance: "evm", port: await freePort(), stateDir: "/proc/nope" });
    await expect(start).rejects.toThrow(StartFailure);
    await expect(start).rejects.toThrow(/^cannot write to \/proc\/nope: ENOENT[^\n]*; choose another state folder \(--state DIR\)$/);
  });

  it.each([
    [[], "which instance?"],
    [["btc"], "unknown instance btc"],
    [["evm", "--port", "0"], "--port must be 1 to 65535"],
    [["evm", "--var", "SECRET"], "--var must be NAME=VALUE"],
    [["evm", "--var", "INSTANCE=svm"], "the instance is the first argument"],
  ])("the arguments %j are refused: %s", async (args, message) => {
    const { code, lines } = await commandHere(args, "dev");
    expect(code).toBe(2);
    expect(lines.join("\n")).toContain(message);
  });
});
