import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";

/** The contracts, by the name of their file and of themselves. */
export const CONTRACTS = ["TestUSDC", "Multicall", "Stake"];

/** What the compiler is given. */
export const INPUT = {
  language: "Solidity",
  sources: Object.fromEntries(CONTRACTS.map((name) => [`${name}.sol`, { content: readFileSync(join(import.meta.dirname, `${name}.sol`), "utf8") }])),
  settings: {
    optimizer: { enabled: true, runs: 200 },
    viaIR: true,
    evmVersion: "cancun",
    // Without the hash of the sources at the end, a changed comment changes no bytecode.
    metadata: { bytecodeHash: "none", appendCBOR: false },
    outputSelection: { "*": { "*": ["evm.bytecode.object", "evm.deployedBytecode.object"] } },
  },
};

/** SHA-256 of all that: the artifacts name what they were made from, so that this can be seen without a compiler. */
export const INPUT_HASH = createHash("sha256").update(JSON.stringify(INPUT)).digest("hex");
