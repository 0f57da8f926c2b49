import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { promisify } from "node:util";
import { beforeAll, describe, expect, it } from "vitest";

import { OPENAPI_JSON } from "../../src/coordinator/openapi/generated.ts";
import type { CoordinatorHere } from "../support/coordinator-here.ts";
import { shareCoordinator } from "../support/coordinator.ts";
import { PlainWorker } from "../support/plain-worker.ts";

const ROOT = new URL("../../", import.meta.url);
const README = readFileSync(new URL("README.md", ROOT), "utf8");
const run = promisify(execFile);

/** The curl commands of the README, each as one line of shell. */
const CURLS = [...README.matchAll(/^curl (?:.*\\\n)*.*$/gm)].map(([command]) => command);

/** What each answers, by a word of its address; in the README's order, since later ones use what earlier ones made. */
const ANSWERS: [address: string, answer: Record<string, unknown> | string][] = [
  ["/v1/health", { status: "ok", workers_online: 1 }],
  ["/v1/quote", { price: "$0.010", policy_resolved: "FAST", expires_at: null }],
  ["/v1/models", { object: "list", workers_online: 1 }],
  ["/v1/models/llama3.2", { error: expect.anything() }],
  ["/v1/trust/create", { pairing_code: expect.stringMatching(/^[0-9A-F]{6}$/) }],
  ["/v1/jobs/commit/fast", { job: expect.objectContaining({ status: "completed" }) }],
  ["/v1/jobs/commit/cheap", { job_id: expect.stringMatching(/^[0-9a-f-]{36}$/) }],
  ["/v1/chat/completions", { object: "chat.completion", choices: [expect.objectContaining({ finish_reason: "stop" })] }],
  ["/v1/completions", { object: "text_completion" }],
  ["/v1/jobs/$JOB_ID", { status: "completed", receipt: expect.objectContaining({ payment_ref: null }) }],
  ["/v1/jobs/$JOB_ID/events", 'event: done\ndata: {"id":"'],
  ["/v1/jobs/$JOB_ID", { status: "completed" }],
  ["/v1/trust/claim", { user_id: "me-5f0c6e" }],
  ["/v1/trust/list", { providers: [expect.objectContaining({ paired_at: expect.any(String) })] }],
  ["/v1/jobs/commit/cheap", { job_id: expect.stringMatching(/^[0-9a-f-]{36}$/) }],
  ["/v1/jobs?user_id=", { jobs: expect.arrayContaining([expect.objectContaining({ status: "completed" })]), next: null }],
  ["/llms.txt", "# Compute Router"],
  ["/.well-known/x402", { version: 1, resources: [] }],
  ["/openapi.json", { openapi: expect.stringMatching(/^3\.1/) }],
  ["/docs/api.md", "## "],
];

describe("the README's curl commands", () => {
  let coordinator: CoordinatorHere;
  const environment: Record<string, string> = { USER_TOKEN: "a-secret" };

  beforeAll(async () => {
    coordinator = await shareCoordinator("evm");
    const worker = new PlainWorker(coordinator.socketUrl, { acks: true });
    await worker.connect();
    worker.serve();
    environment.PROVIDER_PUBKEY = worker.publicKey;
    return () => worker.close();
  });

  async function shell(command: string): Promise<string> {
    const here = command.replaceAll("http://127.0.0.1:4010", coordinator.url);
    const { stdout } = await run("bash", ["-c", here], { env: { ...process.env, ...environment } });
    // With -i the headers come first.
    const [, head = "", body = stdout] = /^(HTTP\/.*?)\r\n\r\n(.*)$/s.exec(stdout) ?? [];
    const [, token] = /^x-cancel-token: (\w+)/im.exec(head) ?? [];
    if (token !== undefined) environment.CANCEL_TOKEN = token;
    return body;
  }

  it("the secret of the user is made by a command of its own", async () => {
    const [how = ""] = /^USER_TOKEN=\$\(.*\)$/m.exec(README) ?? [];
    const { stdout } = await run("bash", ["-c", `${how}; echo "$USER_TOKEN"`]);
    expect(stdout).toMatch(/^[0-9a-f-]{36}\n$/);
  });

  it("there is one for every endpoint", () => {
    expect(CURLS).toHaveLength(ANSWERS.length + 1);
    for (const [index, [address]] of ANSWERS.entries()) expect(CURLS[index]).toContain(address);
    const { paths }: { paths: Record<string, object> } = JSON.parse(OPENAPI_JSON);
    const addresses = CURLS.map((curl) => /http:\/\/127\.0\.0\.1:4010([^\s"'?]*)/.exec(curl)?.[1] ?? "");
    // Browsers load the pages.
    const isPage = (path: string): boolean => /^\/(?:home|worker|pair|favicon\.ico)?(?:\/|$)/.test(path);
    const lacking = Object.keys(paths).filter(
      (path) => !isPage(path) && !addresses.some((address) => new RegExp(`^${path.replaceAll(/\{\w+\}/g, "[^/]+")}$`).test(address)),
    );
    expect(lacking).toEqual([]);
  });

  it("each answers as it says, run in order", async () => {
    for (const [index, [, answer]] of ANSWERS.entries()) {
      const text = await shell(CURLS[index] ?? "");
      if (typeof answer === "string") {
        expect(text, CURLS[index]).toContain(answer);
        continue;
      }
      const body: Record<string, unknown> = JSON.parse(text);
      expect(body, CURLS[index]).toMatchObject(answer);
      if (typeof body.job_id === "string") environment.JOB_ID = body.job_id;
      if (typeof body.pairing_code === "string") environment.PAIRING_CODE = body.pairing_code;
    }
    expect(await shell(CURLS.at(-1) ?? "")).toContain("<h1");
  });
});

it("every file that README and docs link to is there", () => {
  const pages = [
    "README.md",
    "SECURITY.md",
    "CONTRIBUTING.md",
    ...[
      "agents",
      "architecture",
      "operations",
      "payments",
      "protocol",
      "quickstart",
      "receipts",
      "rules",
      "sdk",
      "supported",
      "tasks",
      "threats",
      "worker",
    ].map((name) => `docs/${name}.md`),
  ];
  for (const page of pages) {
    const at = new URL(page, ROOT);
    const links = [...readFileSync(at, "utf8").matchAll(/\]\((?!https?:)([^)#]+)[^)]*\)/g)].map(([, link]) => link ?? "");
    for (const link of links) expect(existsSync(new URL(link, at)), `${page} links to ${link}`).toBe(true);
  }
});
