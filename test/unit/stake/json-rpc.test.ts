import { afterEach, describe, expect, test } from "vitest";
import { errorFacts } from "../../../src/coordinator/log.ts";
import { askRpc, RpcFailure } from "../../../src/coordinator/chain/json-rpc.ts";
import { type Answering, answering, type Reply } from "../payment/answering.ts";

const CALLS = [
  { method: "a", params: [1] },
  { method: "b", params: [] },
  { method: "c", params: [] },
];
const [ONE] = CALLS.map((call) => [call]);
const ok = (id: unknown, result: unknown) => ({ jsonrpc: "2.0", id, result });

let node: Answering | null = null;
afterEach(async () => {
  await node?.[Symbol.asyncDispose]();
  node = null;
});

/** Asks a node that answers like this, under a path that nobody may see. */
async function ask(reply: Reply, calls = CALLS, deadline = 2_000) {
  node = await answering({ "/v2/api-key": reply, "/elsewhere": { body: ok(0, "stolen") } });
  return askRpc({ url: `${node.url}/v2/api-key`, deadline }, calls);
}

async function failure(reply: Reply, calls = CALLS, deadline = 2_000): Promise<string> {
  const error: unknown = await ask(reply, calls, deadline).catch((thrown: unknown) => thrown);
  if (!(error instanceof RpcFailure)) throw new Error("it did not fail", { cause: error });
  expect(JSON.stringify(errorFacts(error))).not.toContain("api-key");
  expect(errorFacts(error)).toMatchObject({ error: "RpcFailure", reason: error.reason });
  return error.reason;
}

describe("askRpc", () => {
  test("[ST1] several questions are one batch, answered in their order whatever the order of the answers", async () => {
    const answers = await ask({ body: [ok(2, "C"), ok(0, "A"), { id: 1, error: { code: -32_000, message: "api-key", data: "0x" } }] });
    expect(answers).toEqual([
      { ok: true, value: "A" },
      { ok: false, reason: "rpc_error_-32000" },
      { ok: true, value: "C" },
    ]);
    expect(node?.asked).toEqual([{ path: "/v2/api-key", method: "POST", body: CALLS.map((call, id) => ({ jsonrpc: "2.0", id, ...call })) }]);
  });

  test("[ST1] a single question is no batch: nodes without batches understand it", async () => {
    expect(await ask({ body: ok(0, null) }, ONE)).toEqual([{ ok: true, value: null }]);
    expect(node?.asked).toMatchObject([{ body: { id: 0, method: "a" } }]);
  });

  test("[ST2] what is missing, without a result, or answered twice is an invalid response; the others are read", async () => {
    const invalid = { ok: false, reason: "invalid_response" };
    expect(await ask({ body: [ok(0, "A"), { id: 1 }, ok(7, "?"), "x", null] })).toEqual([{ ok: true, value: "A" }, invalid, invalid]);
    await node?.[Symbol.asyncDispose]();
    expect(await ask({ body: [ok(0, "A"), ok(1, "B"), ok(0, "C")] })).toEqual([invalid, { ok: true, value: "B" }, invalid]);
  });

  test.each([
    ["no JSON", { body: "<html>" }, "invalid_response"],
    ["null", { body: "null" }, "invalid_response"],
    ["an empty batch", { body: [] }, "invalid_response"],
    ["too deep", { body: `{"id":0,"result":${"[".repeat(100)}${"]".repeat(100)}}` }, "invalid_response"],
    ["an error about the request as a whole", { body: { id: null, error: { code: -32_600, message: "no batches" } } }, "rpc_error_-32600"],
    ["a status", { status: 429, body: ok(0, "A") }, "http_429"],
    ["a status of the server's", { status: 503, body: "down" }, "http_503"],
    ["a redirect", { status: 307, headers: { location: "/elsewhere" } }, "redirected"],
    ["an answer without end", { body: ok(0, "x".repeat(1024 * 1024)) }, "too_large"],
    ["a connection that breaks", (_, response) => response.destroy(), "unreachable"],
    [
      "a body that breaks off",
      (_, response) => {
        response.writeHead(200, { "content-length": "100" });
        response.write("{");
        setTimeout(() => response.destroy(), 20);
      },
      "unreachable",
    ],
  ] satisfies [string, Reply, string][])("[ST2] %s is no answer", async (_, reply, reason) => {
    expect(await failure(reply, ONE)).toBe(reason);
    expect(node?.asked.map(({ path }) => path)).toEqual(["/v2/api-key"]);
  });

  test.each([
    ["says nothing", () => {}],
    ["stops in the middle", (_, response) => response.writeHead(200).write('{"id":0,')],
  ] satisfies [string, Reply][])("[ST2] a node that %s has until the deadline", async (_, reply) => {
    expect(await failure(reply, ONE, 50)).toBe("timeout");
  });

  test("[ST2] a node that is not there is unreachable", async () => {
    await expect(askRpc({ url: "http://127.0.0.1:9/api-key" }, CALLS)).rejects.toMatchObject({ reason: "unreachable" });
  });
});
