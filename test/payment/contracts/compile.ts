// npm run contracts: compiles the contracts into artifacts.json. `--check` compares instead, and fails on a difference.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { CONTRACTS, INPUT, INPUT_HASH } from "./source.ts";

const FOLDER = import.meta.dirname;
const OUTPUT = join(FOLDER, "artifacts.json");

type Compiled = { evm: { bytecode: { object: string }; deployedBytecode: { object: string } } };
type Output = {
  errors?: { formattedMessage: string }[];
  contracts?: Record<string, Record<string, Compiled>>;
};

function compile(): string {
  // solc is CommonJS and ships no types.
  const solc = createRequire(import.meta.url)("solc") as { version(): string; compile(input: string): string };
  const output = JSON.parse(solc.compile(JSON.stringify(INPUT))) as Output;
  const problems = output.errors ?? [];
  if (problems.length > 0) throw new Error(problems.map((problem) => problem.formattedMessage).join("\n"));
  const artifacts: Record<string, unknown> = { solc: solc.version(), input: INPUT_HASH };
  for (const name of CONTRACTS) {
    const compiled = output.contracts?.[`${name}.sol`]?.[name];
    if (compiled === undefined) throw new Error(`solc returned no ${name}`);
    const { bytecode, deployedBytecode } = compiled.evm;
    artifacts[name] = { bytecode: `0x${bytecode.object}`, deployedBytecode: `0x${deployedBytecode.object}` };
  }
  return `${JSON.stringify(artifacts, null, 2)}\n`;
}

const fresh = compile();
if (!process.argv.includes("--check")) writeFileSync(OUTPUT, fresh);
else if (readFileSync(OUTPUT, "utf8") !== fresh) {
  console.error("contracts/artifacts.json is not what the contracts compile to: npm run contracts");
  process.exitCode = 1;
}
