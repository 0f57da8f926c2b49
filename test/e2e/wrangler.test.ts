// The plain commands of the README and docs/operations.md, on a copy of the sources as a fresh clone has them: no state, no pages, no migrate step.
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { beforeAll, describe, expect, it } from "vitest";
import type { Child } from "../../scripts/child.ts";
import { DEFAULT_PORT, freePort, INSTANCES, ROOT, startWrangler } from "../../scripts/coordinator-process.ts";

import { MIGRATIONS } from "../../src/coordinator/store/migrations.ts";
import { finallyDo } from "../support/finally.ts";
import { PlainWorker } from "../support/plain-worker.ts";
import { get, post } from "../support/rest.ts";
import { copySources } from "../support/source-copy.ts";
import { until } from "../support/until.ts";

// On one instance: the wrangler files differ in names, ids and port only, as the last test says.
describe("wrangler dev -c wrangler.evm.toml", () => {
  let url = "";
  let folder = "";
  let child: Child;
  const config = ["-c", "wrangler.evm.toml"];

  beforeAll(async () => {
    const copy = copySources("plain");
    folder = copy.folder;
    const port = await freePort();
    url = `http://127.0.0.1:${port}`;
    child = startWrangler(["dev", ...config, "--port", String(port), "--var", "TESTNET_MODE:true"], join(folder, ".state"), undefined, folder);
    finallyDo(copy.remove);
    finallyDo(() => child.stop());
    // Its own word, not an answer at this port: that could be another program's.
    await until(
      "ready line",
      () => child.lines.find((line) => line.endsWith(`Ready on ${url}`)),
      () => child.lines.join("\n"),
    );
    expect((await get(`${url}/v1/health`)).status).toBe(200);
  });

  it("[API10] answers pairings at once, twenty at the same time", async () => {
    const create = (n: number) => post(`${url}/v1/trust/create`, { user_id: `user ${n}` });
    const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => create(n)));
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 201));
  });

  it("[API10] writes jobs to D1 and reads them there", async () => {
    const worker = new PlainWorker(`${url.replace("http", "ws")}/`);
    await worker.connect();
    worker.serve();
    finallyDo(() => worker.close());
    const task = { job_type: "TASK", user_id: "u", payload: { task_type: "classify", input: "good" } };
    const commit = await post(`${url}/v1/jobs/commit/cheap`, task);
    expect(commit.status, JSON.stringify(commit.body)).toBe(201);
    const job = `${url}/v1/jobs/${String(commit.body["job_id"])}`;
    const ended = (await get(`${job}?wait=20`)).body;
    expect(ended).toMatchObject({ status: "completed" });
    await until("row in D1", () => (rows("SELECT id FROM jobs WHERE status = 'completed'").length === 1 ? true : undefined));
    // The hub forgets what D1 has.
    expect((await fetch(`${url}/cdn-cgi/local/scheduled`)).status).toBe(200);
    expect((await get(job)).body).toEqual(ended);
  });

  it("serves the pages, made by the build command", async () => {
    expect((await fetch(`${url}/worker`)).status).toBe(200);
  });

  it("[API10] notes each migration where wrangler does, which then has none left to apply", async () => {
    expect(rows("SELECT name FROM d1_migrations ORDER BY id")).toEqual(MIGRATIONS.map(({ name }) => ({ name })));
    await child.stop();
    const apply = startWrangler(["d1", "migrations", "apply", "DB", ...config, "--local"], join(folder, ".state"), undefined, folder);
    expect(await apply.exited).toBe(0);
    expect(apply.lines.join("\n")).toContain("No migrations to apply");
  });

  /** What a statement finds in the file of D1. */
  function rows(sql: string): Record<string, unknown>[] {
    const d1 = join(folder, ".wrangler", "state", "v3", "d1", "miniflare-D1DatabaseObject");
    const file = readdirSync(d1).find((name) => name.endsWith(".sqlite") && name !== "metadata.sqlite");
    const database = new DatabaseSync(join(d1, file ?? ""), { readOnly: true });
    try {
      return database
        .prepare(sql)
        .all()
        .map((row) => ({ ...row }));
    } finally {
      database.close();
    }
  }
});

describe("the build command of the wrangler files", () => {
  it("makes the pages again when a source or a page has changed, and otherwise leaves them alone", () => {
    const { folder, remove } = copySources("pages");
    finallyDo(remove);
    const style = join(folder, "src", "pages", "home", "style.css");
    const home = join(folder, "dist", "pages", "home");
    const build = () => {
      execFileSync(process.execPath, ["scripts/build-pages.ts"], { cwd: folder });
      return readdirSync(home).map((name) => `${name} ${statSync(join(home, name)).mtimeMs}`);
    };
    const stamp = () => statSync(join(folder, "dist", "pages.json")).mtimeMs;

    const first = build();
    const noted = stamp();
    expect(build()).toEqual(first);
    // It was not even built.
    expect(stamp()).toBe(noted);

    const before = readFileSync(style, "utf8");
    writeFileSync(style, `${before}\nmain { color: red; }\n`);
    const edited = build();
    expect(edited.filter((file) => file.startsWith("style-"))).toHaveLength(1);
    expect(edited).not.toEqual(first);
    writeFileSync(style, before);
    const back = build();
    expect(back.map((file) => file.split(" ")[0])).toEqual(first.map((file) => file.split(" ")[0]));

    writeFileSync(join(home, "stray.js"), "");
    expect(build()).toEqual(back);
    rmSync(join(home, "index.html"));
    expect(build().map((file) => file.split(" ")[0])).toEqual(first.map((file) => file.split(" ")[0]));
  });
});

it.each(INSTANCES)("wrangler.%s.toml listens where the README says, without a free gate", (instance) => {
  const text = readFileSync(join(ROOT, `wrangler.${instance}.toml`), "utf8");
  expect(/^\[dev\]\nip = "127\.0\.0\.1"\nport = (\d+)$/m.exec(text)?.[1]).toBe(String(DEFAULT_PORT[instance]));
  expect(text).toContain('\nTESTNET_MODE = "false"\n');
});

it("the wrangler files differ in names, ids and port only", () => {
  const [evm, svm] = INSTANCES.map((instance) => readFileSync(join(ROOT, `wrangler.${instance}.toml`), "utf8"));
  expect(
    svm
      ?.replaceAll(/\bsvm\b/g, "evm")
      .replaceAll("SVM_", "EVM_")
      .replace("port = 4020", "port = 4010")
      .replaceAll('"402', '"401'),
  ).toBe(evm);
});
