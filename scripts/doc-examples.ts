// Checks the examples in the doc comments of the package: every exported class and function has an `@example`, and the TypeScript compiler accepts each one. It
// prints what is wrong and exits non-zero.
import { spawnSync } from "node:child_process";
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const ROOT = resolve(import.meta.dirname, "..");
/** The folders that have the public exports. */
const SOURCES = ["src/sdk/**/*.ts", "src/receipt/*.ts", "src/protocol/*.ts"];
const ENTRIES = ["sdk/index", "receipt/index", "protocol/index", "sdk/pay/x402", "sdk/pay/evm", "sdk/pay/svm"].map((name) => join(ROOT, "src", `${name}.ts`));

/** The types that the examples use, by the file that exports them. A schema's type comes with the schema. */
const TYPES = {
  "sdk/index.ts": "ChatMessage, ClientOptions, FallbackProvider, JobInput, JobList, LocalJob, PairingOffer, PaymentHook, PaymentOption, RunResult",
  "receipt/index.ts": "KeyPair",
  "sdk/pay/x402.ts": "Payment",
  "sdk/pay/evm.ts": "EvmAccount",
  "sdk/pay/svm.ts": "SvmSigner",
};

/** Names that the examples use and do not declare. */
const GIVEN = `
declare const router: ComputeRouter, job: JobInput, jobId: string, userId: string, text: string, texts: string[], article: string, prompt: string;
declare const network: string, host: string, nonce: string, code: string, pubkey: string, signature: string, url: string, body: string, apiKey: string;
declare const frame: unknown, error: unknown, response: Response, key: KeyPair, fields: ReceiptFields, account: EvmAccount, signer: SvmSigner;
declare const receipt: Receipt, output: Record<string, unknown>, payment: Payment, privateKey: \`0x\${string}\`, secret: Uint8Array;
declare let result: RunResult, offer: PairingOffer;
declare const wallet: { sign(option: PaymentOption | undefined): Promise<string> };
declare class x402Client {
  setSpendControls(controls: object): this;
}
declare function privateKeyToAccount(key: \`0x\${string}\`): EvmAccount;
declare function createKeyPairSignerFromBytes(secret: Uint8Array): Promise<SvmSigner>;
`;

type Example = { where: string; code: string };

/** The `@example` of each doc comment of a file. */
function examplesOf(path: string): Example[] {
  const source = readFileSync(join(ROOT, path), "utf8");
  return [...source.matchAll(/\/\*\*((?:(?!\*\/)[^])*?)\* @example\n([^]*?)\*\//g)].map((match) => {
    const line = source.slice(0, match.index).split("\n").length + (match[1] ?? "").split("\n").length;
    const lines = (match[2] ?? "").split("\n").map((text) => text.replace(/^\s*\* ?/, ""));
    const end = lines.findIndex((text) => text.startsWith("@"));
    return { where: `${path}:${line}`, code: (end < 0 ? lines : lines.slice(0, end)).join("\n").trim() };
  });
}

/** The exported classes and functions without an example. */
async function withoutExample(sources: string): Promise<string[]> {
  const modules: Record<string, unknown>[] = await Promise.all(ENTRIES.map((entry) => import(entry)));
  const names = new Set(modules.flatMap((module) => Object.keys(module).filter((name) => typeof module[name] === "function")));
  return [...names].filter((name) => !new RegExp(`@example(?:(?!\\*/)[^])*\\*/\\nexport (?:class|(?:async )?function) ${name}\\b`).test(sources));
}

/** The complaints of the compiler about the examples, each of them in a file and a function of its own. */
async function complaints(examples: readonly Example[]): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "doc-examples-"));
  try {
    // Two entries may export the same name, so each name is imported once.
    const imported = new Set<string>();
    const imports = await Promise.all(
      ENTRIES.map(async (entry) => {
        const names = Object.keys(await import(entry)).filter((name) => !imported.has(name));
        for (const name of names) imported.add(name);
        return `import { ${names.join(", ")} } from ${JSON.stringify(entry)};`;
      }),
    );
    const types = Object.entries(TYPES).map(([entry, names]) => `import type { ${names} } from ${JSON.stringify(join(ROOT, "src", entry))};`);
    for (const [i, { code }] of examples.entries())
      writeFileSync(join(folder, `example${i}.ts`), `${[...imports, ...types].join("\n")}${GIVEN}\nexport async function example() {\n${code}\n}\n`);
    const compilerOptions = { lib: ["ES2024", "DOM", "DOM.Iterable"], noEmit: true, composite: false, noUnusedLocals: false, noUnusedParameters: false };
    const nodeTypes = { types: ["node"], typeRoots: [join(ROOT, "node_modules/@types")] };
    const config = {
      extends: join(ROOT, "tsconfig.base.json"),
      compilerOptions: { ...compilerOptions, ...nodeTypes, rewriteRelativeImportExtensions: false },
      include: ["*.ts"],
    };
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(config));
    const { stdout, status } = spawnSync(process.execPath, [join(ROOT, "node_modules/typescript/bin/tsc"), "-p", folder, "--pretty", "false"], {
      encoding: "utf8",
    });
    return status === 0 ? "" : stdout.replaceAll(/^\S*example(\d+)\.ts/gm, (_, i: string) => examples[Number(i)]?.where ?? "");
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const paths = globSync(SOURCES, { cwd: ROOT }).toSorted();
const examples = paths.flatMap(examplesOf);
const missing = await withoutExample(paths.map((path) => readFileSync(join(ROOT, path), "utf8")).join("\n"));
const wrong = [...missing.map((name) => `${name} is exported and has no @example`), await complaints(examples)].filter((text) => text !== "");
for (const text of wrong) console.error(text);
if (wrong.length > 0) process.exit(1);
console.log(`${examples.length} examples in doc comments compile`);
