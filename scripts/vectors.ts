// Writes test/vectors/receipts.json with node:crypto only: an implementation that shares no code with src/receipt. `--check` fails if the committed file
// differs. Signing is deterministic (RFC 8032), so the file is deterministic too.
import { createHash, createPrivateKey, createPublicKey, sign } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";

const FILE = new URL("../test/vectors/receipts.json", import.meta.url);
const ORDER = 2n ** 252n + 27742317777372353535851937790883648493n;

/** Output texts as a worker may send them. They test member order, escapes and number forms. */
const OUTPUTS: [name: string, json: string][] = [
  ["string", '"The capital of France is Paris."'],
  ["empty string", '""'],
  ["task object", '{"sentiment":"positive","confidence":0.9}'],
  ["member order is kept", '{"b":1,"a":2}'],
  ["integer-like members come first, ascending", '{"b":1,"10":"ten","2":"two","a":0,"-1":"minus","01":"text"}'],
  ["numbers lose their spelling", '{"n":[1.0,1e2,0.10,-0,1E-7,123456789012345680000,1e21,5e-324,1.7976931348623157e308]}'],
  ["escapes", String.raw`{"s":"\"\\\/\b\f\n\r\t\u0000\u001f\u007f\u2028\u2029"}`],
  ["escaped and raw are one", String.raw`{"\u0061":"\u00e9"}`],
  ["non-ASCII stays raw", '{"s":"é ß 你好 مرحبا"}'],
  ["no normalisation", String.raw`["\u00e9","e\u0301"]`.replace(/^(.*)$/, '{"s":$1}')],
  ["planes 1 to 16", JSON.stringify({ s: Array.from({ length: 16 }, (_, plane) => String.fromCodePoint((plane + 1) * 0x10000 + 0x41)).join("") })],
  ["plane 0 edges", JSON.stringify({ s: "\u0001\u007f\u0080\u07ff\u0800\ud7ff\ue000\ufffd\uffff" })],
  ["duplicate members: the last counts", '{"a":1,"a":2}'],
  ["a member called __proto__", '{"__proto__":{"x":1},"a":1}'],
  ["white space goes", '{ "a" : [ 1 , 2 ] ,\n "b" : null }'],
  ["one member output", '{"output":"text"}'],
  ["llm object", '{"model":"tiny-chat","output":"3 plus 4 is 7.","usage":{"completion_tokens":8,"prompt_tokens":9}}'],
  ["nesting", '{"a":{"b":{"c":[{},[],[[]],true,false,null]}}}'],
];

function seedOf(n: number): Buffer {
  return createHash("sha256").update(`compute-router vector key ${n}`).digest();
}

function keyOf(seed: Buffer) {
  const privateKey = createPrivateKey({ key: Buffer.concat([Buffer.from("302e020100300506032b657004220420", "hex"), seed]), format: "der", type: "pkcs8" });
  const publicKey = createPublicKey(privateKey).export({ format: "der", type: "spki" }).subarray(-32).toString("hex");
  return { privateKey, publicKey };
}

function le(bytes: Buffer): bigint {
  return BigInt(`0x${Buffer.from(bytes).reverse().toString("hex")}`);
}

/** The same signature with S + L: another encoding that a tolerant verifier accepts. */
function malleable(signature: Buffer): Buffer {
  const s = (le(signature.subarray(32)) + ORDER).toString(16).padStart(64, "0");
  return Buffer.concat([signature.subarray(0, 32), Buffer.from(s, "hex").reverse()]);
}

const receipts = OUTPUTS.map(([name, output_json], n) => {
  const seed = seedOf(n % 3);
  const { privateKey, publicKey } = keyOf(seed);
  const output: unknown = JSON.parse(output_json);
  const hashed_text = JSON.stringify(output);
  const fields = {
    job_id: `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`,
    provider_pubkey: publicKey,
    output_hash: `sha256:${createHash("sha256").update(hashed_text, "utf8").digest("hex")}`,
    completed_at: `2026-01-01T00:00:00.${String(n).padStart(3, "0")}Z`,
    payment_ref: null,
  };
  const signed_text = `{"job_id":"${fields.job_id}","provider_pubkey":"${publicKey}","output_hash":"${fields.output_hash}","completed_at":"${fields.completed_at}","payment_ref":null}`;
  const signature = sign(null, Buffer.from(signed_text, "utf8"), privateKey);
  return {
    name,
    seed: seed.toString("hex"),
    output_json,
    hashed_text,
    signed_text,
    receipt: { ...fields, signature: signature.toString("base64") },
    malleable_signature: malleable(signature).toString("base64"),
  };
});

const network = "eip155:10143";
const texts = (["register", "pair"] as const).map((kind) => {
  const seed = seedOf(7);
  const { privateKey, publicKey } = keyOf(seed);
  const fields = { network, host: "127.0.0.1:4010", nonce: createHash("sha256").update("nonce").digest("hex"), code: "A1B2C3", pubkey: publicKey };
  const lines = kind === "register" ? [network, fields.host, fields.nonce, publicKey] : [network, fields.code, publicKey];
  const text = [`compute-router/${kind}/v1`, ...lines].join("\n");
  return { kind, seed: seed.toString("hex"), fields, text, signature: sign(null, Buffer.from(text, "utf8"), privateKey).toString("base64") };
});

/** Keys that no worker may have. The order-8 points are those of Curve25519's torsion group, in all encodings that decode. */
const refused_keys = [
  ["identity", "0100000000000000000000000000000000000000000000000000000000000000"],
  ["order 2", "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"],
  ["order 4", "0000000000000000000000000000000000000000000000000000000000000000"],
  ["order 4, sign set", "0000000000000000000000000000000000000000000000000000000000000080"],
  ["order 8", "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"],
  ["order 8, sign set", "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85"],
  ["order 8, other", "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"],
  ["order 8, other, sign set", "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa"],
  ["not canonical: p", "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"],
  ["not canonical: p + 1", "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"],
  ["not on the curve", "0200000000000000000000000000000000000000000000000000000000000000"],
  ["31 bytes", "01".repeat(31)],
  ["33 bytes", "01".repeat(33)],
].map(([name, key]) => ({ name, key }));

const text = `${JSON.stringify({ receipts, texts, refused_keys }, null, 2)}\n`;
if (process.argv.includes("--check")) {
  if (readFileSync(FILE, "utf8") !== text) {
    console.error("test/vectors/receipts.json differs from what scripts/vectors.ts makes; run: node scripts/vectors.ts");
    process.exit(1);
  }
} else writeFileSync(FILE, text);
