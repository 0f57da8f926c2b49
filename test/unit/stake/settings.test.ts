import { describe, expect, test } from "vitest";
import { readSettings, SettingsError } from "../../../src/coordinator/config.ts";

const CONTRACT = "0x534b2f3A21130d7a60830c2Df862319e593943A3";
const MINT = "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU";
const RPC = "https://node.example/v2/api-key";

const read = (variables: Record<string, string>) => readSettings({ INSTANCE: "evm", ...variables }).stake;

function refusal(variables: Record<string, string>): string {
  try {
    read(variables);
  } catch (error) {
    if (error instanceof SettingsError) return error.message;
  }
  throw new Error("accepted");
}

describe("[ST1] STAKE_SOURCE", () => {
  test("is none unless it is set; table needs nothing", () => {
    expect(read({})).toEqual({ source: "none" });
    expect(read({ STAKE_SOURCE: "table" })).toEqual({ source: "table" });
    expect(refusal({ STAKE_SOURCE: "moon" })).toContain("STAKE_SOURCE");
  });

  test("evm needs an RPC and a contract; the token has 18 decimals unless it is said", () => {
    const evm = { STAKE_SOURCE: "evm", EVM_RPC_URL: RPC, EVM_STAKE_CONTRACT: CONTRACT };
    expect(read(evm)).toEqual({ source: "evm", rpcUrl: RPC, contract: CONTRACT, decimals: 18 });
    expect(read({ ...evm, EVM_STAKE_DECIMALS: "0" })).toMatchObject({ decimals: 0 });
    expect(read({ ...evm, EVM_STAKE_DECIMALS: "77" })).toMatchObject({ decimals: 77 });
    // On either instance: a worker's key is the same on both.
    expect(read({ ...evm, INSTANCE: "svm" })).toMatchObject({ source: "evm" });
  });

  test("svm needs an RPC and a mint", () => {
    expect(read({ STAKE_SOURCE: "svm", SVM_RPC_URL: RPC, SVM_STAKE_MINT: MINT })).toEqual({ source: "svm", rpcUrl: RPC, mint: MINT });
  });

  test.each([
    [{ STAKE_SOURCE: "evm" }, "Invalid setting EVM_RPC_URL: is needed by STAKE_SOURCE=evm; EVM_STAKE_CONTRACT: is needed by STAKE_SOURCE=evm"],
    [{ STAKE_SOURCE: "evm", EVM_RPC_URL: RPC }, "Invalid setting EVM_STAKE_CONTRACT: is needed by STAKE_SOURCE=evm"],
    [{ STAKE_SOURCE: "evm", EVM_RPC_URL: "", EVM_STAKE_CONTRACT: CONTRACT }, "Invalid setting EVM_RPC_URL: is needed by STAKE_SOURCE=evm"],
    [{ STAKE_SOURCE: "svm", SVM_STAKE_MINT: MINT }, "Invalid setting SVM_RPC_URL: is needed by STAKE_SOURCE=svm"],
    [{ STAKE_SOURCE: "svm", SVM_RPC_URL: RPC }, "Invalid setting SVM_STAKE_MINT: is needed by STAKE_SOURCE=svm"],
  ])("%j is refused, with the names of what is missing", (variables, message) => {
    expect(refusal(variables)).toBe(message);
  });

  test.each([
    ["EVM_RPC_URL", "ws://node.example/api-key"],
    ["EVM_RPC_URL", "api-key"],
    ["EVM_RPC_URL", "https://user:api-key@node.example"],
    ["SVM_RPC_URL", "file:///api-key"],
    ["EVM_STAKE_CONTRACT", `${CONTRACT}0`],
    ["EVM_STAKE_CONTRACT", "staking.eth"],
    ["EVM_STAKE_CONTRACT", CONTRACT.replace("A3", "a3")],
    ["EVM_STAKE_DECIMALS", "-1"],
    ["EVM_STAKE_DECIMALS", "78"],
    ["EVM_STAKE_DECIMALS", "1e1"],
    ["SVM_STAKE_MINT", CONTRACT],
    ["SVM_STAKE_MINT", "1".repeat(33)],
    ["SVM_STAKE_MINT", "z".repeat(44)],
  ])("%s=%s is refused by its name, without its value", (name, value) => {
    const message = refusal({ [name]: value });
    expect(message).toMatch(new RegExp(`^Invalid setting ${name}: must (be|have)`));
    expect(message).not.toContain(value);
  });
});
