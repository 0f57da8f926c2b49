import { beforeAll, describe, expect, test } from "vitest";
import { newUser, task } from "../support/api.ts";
import { start, type Subject } from "../support/coordinator.ts";
import { newIdentity } from "../support/identity.ts";
import { head, rawRequest } from "../support/raw-http.ts";
import { fullWorker } from "../support/worker.ts";

/** As `npm run dev` starts it: nothing says that it is public. */
let local: Subject;
/** The same, as behind a proxy. */
let behindProxy: Subject;

beforeAll(async () => {
  [local, behindProxy] = await Promise.all([start("evm"), start("svm", { TESTNET_MODE: "true", PUBLIC_HOST: "router.example" })]);
});

const UPGRADE = ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="];

/** Status of a worker's upgrade and of a commit, with these header lines. The commit is one that a page may send without asking: plain text. */
async function knock(subject: Subject, ...lines: string[]): Promise<{ upgrade: number; commit: number }> {
  const body = JSON.stringify(task(newUser()));
  const length = `Content-Length: ${Buffer.byteLength(body)}`;
  const commit = await status(subject, head("POST /v1/jobs/commit/cheap HTTP/1.1", ...lines, "Content-Type: text/plain", length) + body);
  return { upgrade: await status(subject, head("GET / HTTP/1.1", ...lines, ...UPGRADE)), commit };
}

const status = async (subject: Subject, bytes: string): Promise<number> => (await rawRequest(subject.port, bytes)).status;

describe("a web page that somebody visits, and a coordinator on the same machine", () => {
  test.each(["https://evil.example", "http://evil.example:4010", "http://127.0.0.1.evil.example", "http://localhost.evil.example", "null", "x"])(
    "[API7] a page of %s can neither register a worker nor commit a job; it may read",
    async (origin) => {
      expect(await knock(local, `Host: ${local.host}`, `Origin: ${origin}`)).toEqual({ upgrade: 403, commit: 403 });
      for (const method of ["GET", "HEAD"]) {
        expect(await status(local, head(`${method} /v1/health HTTP/1.1`, `Host: ${local.host}`, `Origin: ${origin}`))).toBe(200);
      }
    },
  );

  test.each(["evil.example", "evil.example:4010", "127.0.0.1.evil.example", "0.0.0.0"])(
    "[API7] nor can a page whose own name %s leads to this machine",
    async (name) => {
      expect(await knock(local, `Host: ${name}`)).toEqual({ upgrade: 403, commit: 403 });
      expect(await knock(local, `Host: ${name}`, `Origin: http://${name}`)).toEqual({ upgrade: 403, commit: 403 });
    },
  );

  test("[API7] programs without an Origin and pages of this machine, on any port, can do both", async () => {
    for (const name of [local.host, `localhost:${local.port}`]) {
      expect(await knock(local, `Host: ${name}`)).toEqual({ upgrade: 101, commit: 201 });
      for (const origin of [`http://${name}`, "http://localhost:5173", "http://127.0.0.1:4020", "http://[::1]:8080"]) {
        expect(await knock(local, `Host: ${name}`, `Origin: ${origin}`)).toEqual({ upgrade: 101, commit: 201 });
      }
    }
  });

  test("[WS2, WS3] a worker signs the name of the machine that it dialled", async () => {
    for (const name of ["127.0.0.1", "localhost"]) {
      const worker = await fullWorker(`ws://${name}:${local.port}/`, {}, newIdentity());
      expect((await worker.challenge()).host).toBe(`${name}:${local.port}`);
    }
  });

  test("[API7] a coordinator with a public host answers to every page", async () => {
    expect(await knock(behindProxy, `Host: ${behindProxy.host}`, "Origin: https://seeker.example")).toEqual({ upgrade: 101, commit: 201 });
  });
});
