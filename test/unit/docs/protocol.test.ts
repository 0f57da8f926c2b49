import { createHash, createPublicKey, verify } from "node:crypto";
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { COORDINATOR_FRAMES, parseWorkerFrame } from "../../../src/protocol/worker-messages.ts";

const DOC = readFileSync("docs/protocol.md", "utf8");

function region(name: string): string[] {
  const inside = new RegExp(`<!-- ${name} -->\\n([^]*?)<!-- /${name} -->`).exec(DOC)?.[1] ?? "";
  return inside.split("\n").filter((line) => line !== "");
}

/** Verifies with node:crypto alone, as an outsider would. */
function isSigned(text: string, signature: string, publicKey: string): boolean {
  const key = createPublicKey({
    format: "der",
    type: "spki",
    key: Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), Buffer.from(publicKey, "hex")]),
  });
  return verify(null, Buffer.from(text), key, Buffer.from(signature, "base64"));
}

test("[RC2] docs/protocol.md: what is hashed of what was sent is what ECMAScript writes", () => {
  const rows = region("hashed")
    .slice(2)
    .map((line) => /^\| `(.*?)` \| `(.*?)` \|/.exec(line));
  expect(rows.length).toBeGreaterThan(10);
  for (const row of rows) expect(JSON.stringify(JSON.parse(row?.[1] ?? ""))).toBe(row?.[2]);
});

test("[WS2, WS3, WS8, WS10, RC1, RC2] docs/protocol.md: the conversation is one that a coordinator understands, with signatures that verify", () => {
  const lines = region("conversation").slice(1, -1);
  const said = (mark: string): string[] => lines.filter((line) => line.startsWith(`${mark} `)).map((line) => line.slice(2));
  const frame = (mark: string, type: string): Record<string, string> =>
    said(mark)
      .map((text) => JSON.parse(text))
      .find((one) => one.type === type);
  for (const text of said("▶")) expect(parseWorkerFrame(text)).toMatchObject({ ok: true });
  for (const text of said("◀")) {
    const { type } = JSON.parse(text);
    expect(
      Object.values(COORDINATOR_FRAMES).some((schema) => schema.safeParse(JSON.parse(text)).success),
      type,
    ).toBe(true);
  }

  const [challenge, register] = [frame("◀", "challenge"), frame("▶", "register")];
  const [toRegister = "", hashed = "", toSign = ""] = said("=").map((text) => text.replace(/^(?:signed|hashed): /, ""));
  const lineFeeds = ["compute-router/register/v1", challenge.network, challenge.host, challenge.nonce, register.provider_pubkey].join("\n");
  expect(JSON.parse(toRegister)).toBe(lineFeeds);
  expect(isSigned(lineFeeds, register.signature ?? "", register.provider_pubkey ?? "")).toBe(true);

  const complete: Record<string, unknown> = frame("▶", "job_complete");
  expect(JSON.stringify(complete.output)).toBe(hashed);
  expect(JSON.stringify(complete.receipt)).toBe(toSign);
  expect(complete.receipt).toMatchObject({
    job_id: frame("◀", "job_assign").job_id,
    provider_pubkey: register.provider_pubkey,
    output_hash: `sha256:${createHash("sha256").update(hashed).digest("hex")}`,
    payment_ref: null,
  });
  expect(isSigned(toSign, String(complete.receipt_signature), register.provider_pubkey ?? "")).toBe(true);
});
