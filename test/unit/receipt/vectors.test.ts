import { describe, expect, test } from "vitest";
import { canonicalize, keyPair, outputHash, receiptText, signReceipt, signText, verifyReceipt, verifyText } from "../../../src/receipt/index.ts";
import { fromHex, parseSignature, toHex } from "../../../src/receipt/bytes.ts";
import { isPublicKey } from "../../../src/receipt/ed25519.ts";
import { pairText, registerText } from "../../../src/protocol/worker-messages.ts";
import vectors from "../../vectors/receipts.json" with { type: "json" };

const seed = (hex: string) => fromHex(hex) ?? new Uint8Array();

describe.each(vectors.receipts)("[RC1][RC2] vector: $name", (vector) => {
  const output: unknown = JSON.parse(vector.output_json);
  const key = keyPair(seed(vector.seed));

  test("hash, signed text and signature are those of node:crypto", () => {
    expect(JSON.stringify(output)).toBe(vector.hashed_text);
    expect(outputHash(output)).toBe(vector.receipt.output_hash);
    expect(receiptText(vector.receipt)).toBe(vector.signed_text);
    expect(signReceipt(key, vector.receipt.job_id, output, vector.receipt.completed_at)).toEqual(vector.receipt);
  });

  test("verifies against the result as REST returns it", () => {
    expect(verifyReceipt(vector.receipt, output)).toEqual({ ok: true });
    if (typeof output === "string") expect(verifyReceipt(vector.receipt, { output })).toEqual({ ok: true });
  });

  test("a settlement in payment_ref does not break the signature, because the worker signed null [PY10]", () => {
    expect(verifyReceipt({ ...vector.receipt, payment_ref: "0xabc" }, output)).toEqual({ ok: true });
  });

  test("a job without a receipt has nothing to verify", () => {
    expect(() => Reflect.apply(verifyReceipt, undefined, [null, output])).toThrow("there is no receipt to verify");
  });

  test("every change of a receipt breaks its signature", () => {
    const { receipt } = vector;
    expect(verifyReceipt(receipt, { other: output })).toEqual({ ok: false, reason: "hash_mismatch" });
    expect(verifyReceipt({ ...receipt, job_id: `${receipt.job_id}x` }, output)).toEqual({ ok: false, reason: "bad_signature" });
    expect(verifyReceipt({ ...receipt, completed_at: "2026-01-02T00:00:00.000Z" }, output)).toEqual({ ok: false, reason: "bad_signature" });
    expect(verifyReceipt({ ...receipt, signature: vector.malleable_signature }, output)).toEqual({ ok: false, reason: "bad_signature" });
  });
});

test.each(vectors.texts)("[WS3][TR4] the text and signature of $kind", ({ kind, fields, text, signature, seed: hex }) => {
  expect(kind === "register" ? registerText(fields) : pairText(fields)).toBe(text);
  expect(signText(text, seed(hex))).toBe(signature);
  expect(verifyText(text, signature, fields.pubkey)).toBe(true);
  expect(verifyText(`${text}\n`, signature, fields.pubkey)).toBe(false);
});

test.each(vectors.refused_keys)("[WS4] a worker cannot have the key: $name", ({ key }) => {
  expect(isPublicKey(key)).toBe(false);
});

test("[WS4] a worker cannot have a key of mixed order: this is the first one of RFC 8032 plus a point of order 8", () => {
  expect(isPublicKey("3b5b475c4b82dd1572799fc546f4c6c03e478c6654aa4c7f945b347ea32af60d")).toBe(false);
});

test("[WS4] a small-order key does not verify, although its signature can be made without a secret", () => {
  const identity = "0100000000000000000000000000000000000000000000000000000000000000";
  const signature = `${identity}${"00".repeat(32)}`;
  expect(verifyText("any message", signature, identity)).toBe(false);
});

test("[RC1] a signature of 64 bytes is read from base64 and from hex", () => {
  const { signature } = vectors.receipts[0]?.receipt ?? { signature: "" };
  const bytes = parseSignature(signature) ?? new Uint8Array();
  expect(bytes).toHaveLength(64);
  expect(parseSignature(toHex(bytes))).toEqual(bytes);
  expect(parseSignature(toHex(bytes).toUpperCase())).toEqual(bytes);
  expect(parseSignature(signature.replace(/=+$/, ""))).toEqual(bytes);
  for (const bad of ["", "AAAA", `${signature}AAAA`, `${signature.slice(0, -3)}B==`, toHex(bytes).slice(2), `0x${toHex(bytes)}`])
    expect(parseSignature(bad)).toBeNull();
});

test("[RC2] our workers sort members as RFC 8785 does, at every depth, __proto__ included", () => {
  const output = JSON.parse('{"b":[{"z":1,"a":2,"B":3}],"a":{"\\uFB33":1,"\\ud83d\\ude00":2,"\\r":3,"1":4},"__proto__":{"y":1,"x":2}}');
  expect(JSON.stringify(canonicalize(output))).toBe('{"__proto__":{"x":2,"y":1},"a":{"1":4,"\\r":3,"😀":2,"\uFB33":1},"b":[{"B":3,"a":2,"z":1}]}');
});

test("[RC2] the hash of a text is not that of a result with more members than the text, which nobody signed", () => {
  const receipt = signReceipt(keyPair(new Uint8Array(32).fill(5)), "j", "text", "2026-01-01T00:00:00.000Z");
  expect(verifyReceipt(receipt, { output: "text" })).toEqual({ ok: true });
  for (const result of [{ output: "text", model: "another" }, { text: "text" }, [["output", "text"]]])
    expect(verifyReceipt(receipt, result)).toEqual({ ok: false, reason: "hash_mismatch" });
});

test("[RC1] a worker may write its key in upper case, and signs it so", () => {
  const key = keyPair(new Uint8Array(32).fill(5));
  const { signature: _, ...fields } = signReceipt(key, "j", "text", "2026-01-01T00:00:00.000Z");
  const upper = { ...fields, provider_pubkey: key.publicKey.toUpperCase() };
  expect(verifyReceipt({ ...upper, signature: signText(receiptText(upper), key.secret) }, "text")).toEqual({ ok: true });
});

test("[RC2] a hash without the prefix sha256: is read", () => {
  const key = keyPair(new Uint8Array(32).fill(5));
  const { signature: _, ...fields } = signReceipt(key, "j", "text", "2026-01-01T00:00:00.000Z");
  const bare = { ...fields, output_hash: fields.output_hash.slice("sha256:".length) };
  expect(verifyReceipt({ ...bare, signature: signText(receiptText(bare), key.secret) }, { output: "text" })).toEqual({ ok: true });
  const upper = { ...fields, output_hash: fields.output_hash.toUpperCase() };
  expect(verifyReceipt({ ...upper, signature: signText(receiptText(upper), key.secret) }, { output: "text" }).ok).toBe(false);
});
